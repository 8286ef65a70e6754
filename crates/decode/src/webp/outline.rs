//! A WebP's chunks, as far as they must be known before it is decoded: its sides, where its first picture is, how it is to be turned. Reads
//! hostile bytes: every access is checked. What is refused is what libwebp's own reader of chunks refuses, and so Pillow.

use crate::memory::area;
use crate::notes::Notes;

/// Said of a file that ends before its picture does.
pub(super) const CUT: &str = "truncated: the WebP's data ends too early";

/// Said of a file whose picture seems to be whole, and which is shorter than it says: bytes may be missing anywhere.
const SHORT: &str = "truncated: the WebP is shorter than it says";
/// Said of a file whose chunks contradict its size.
const UNFILLED: &str = "damaged WebP: its chunks do not end where the file says it ends";

/// What libwebp takes for each pixel of a row, in lossy pictures: what is known of the blocks above, and rows on their way.
const LOSSY_COLUMN: u64 = 128;
/// What libwebp takes whatever the picture is.
const ALWAYS: u64 = 256 << 10;

/// What stands in the chunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outline<'a> {
    /// Width and height of the whole.
    pub(super) sides: (u32, u32),
    /// How it is to be turned.
    pub(super) orientation: u8,
    /// Where the first frame stands on the whole: left and top.
    pub(super) at: (u32, u32),
    /// Its width and height.
    pub(super) frame: (u32, u32),
    /// Its colours.
    pub(super) data: &'a [u8],
    /// Its colours and what stands before them for its alpha, if anything does.
    pub(super) with_alpha: &'a [u8],
    /// Whether it has alpha.
    pub(super) alpha: bool,
    /// Whether its colours are lossless.
    lossless: bool,
    /// What is wrong with the file, also where a decoder does not notice.
    pub(super) wrong: Option<&'static str>,
}

impl Outline<'_> {
    /// Bytes that decoding takes beside the pixels it writes.
    pub(super) fn memory(&self, alpha: bool) -> u64 {
        let (width, _) = self.frame;
        // Four bytes a pixel, some rows more, and up to four small images that say how to read it.
        let lossless =
            5 * area((width.next_multiple_of(4), self.frame.1.next_multiple_of(4))) + 128 * u64::from(width);
        if self.lossless {
            return lossless + ALWAYS;
        }
        // Alpha comes as a lossless image of its own, and once more by itself.
        let alpha = if alpha { lossless + area(self.frame) } else { 0 };
        LOSSY_COLUMN * u64::from(width) + alpha + ALWAYS
    }
}

/// A chunk: its name, what stands in it as far as the file goes, and where that begins in what was read.
struct Chunk<'a> {
    name: [u8; 4],
    body: &'a [u8],
    /// Where its name stands.
    at: usize,
    /// Not all of it is there.
    cut: bool,
}

/// Chunks one after the other, until the bytes end.
struct Chunks<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let at = self.at;
        let (name, rest) = self.all.get(at..)?.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let body = rest.get(..length).unwrap_or(rest);
        self.at = at.saturating_add(8 + length + length % 2);
        Some(Chunk { name: *name, body, at, cut: body.len() < length })
    }
}

/// A picture: a still one, or a frame.
struct Picture<'a> {
    sides: (u32, u32),
    data: &'a [u8],
    with_alpha: &'a [u8],
    alpha: bool,
    lossless: bool,
    /// Not all of its colours are there, also where a decoder does not notice.
    cut: bool,
}

/// Reads the chunks. What stands behind the end that the file gives itself does not count.
pub(super) fn outline(encoded: &[u8]) -> Result<Outline<'_>, &'static str> {
    let length = u32::from_le_bytes(*encoded.get(4..).and_then(<[u8]>::first_chunk).ok_or(CUT)?) as usize;
    let cut = encoded.len() < length.saturating_add(8);
    let encoded = encoded.get(..length.saturating_add(8)).unwrap_or(encoded);
    let first = Chunks { all: encoded, at: 12 }.next().ok_or(CUT)?;
    match &first.name {
        b"VP8 " | b"VP8L" => {
            let picture = picture(encoded, 12)?;
            Ok(whole(picture.sides, 1, ((0, 0), picture), cut.then_some(SHORT)))
        }
        b"VP8X" => extended(encoded, &first, cut),
        _ => Err("broken WebP: it does not begin with an image"),
    }
}

fn extended<'a>(encoded: &'a [u8], first: &Chunk<'a>, cut: bool) -> Result<Outline<'a>, &'static str> {
    let &[flags, _, _, _, w0, w1, w2, h0, h1, h2] = first.body.first_chunk().ok_or(CUT)?;
    let side = |low, middle, high| 1 + u32::from_le_bytes([low, middle, high, 0]);
    let sides = (side(w0, w1, w2), side(h0, h1, h2));
    let (moving, has_exif, has_xmp) = (flags & 0x02 != 0, flags & 0x08 != 0, flags & 0x04 != 0);
    let (mut notes, mut found) = (Notes::default(), None);
    let mut behind = Chunks { all: encoded, at: 12 };
    let _ = behind.next();
    let mut overlong = false;
    for chunk in behind.by_ref() {
        overlong |= chunk.cut;
        match &chunk.name {
            // Only what the flags announce is there for other decoders.
            b"EXIF" if has_exif && notes.exif.is_none() && !chunk.cut => notes.exif = Some(chunk.body.into()),
            b"XMP " if has_xmp && notes.xmp.is_none() && !chunk.cut => notes.xmp = Some(chunk.body.into()),
            b"ALPH" | b"VP8 " | b"VP8L" if !moving && found.is_none() => {
                let picture = picture(encoded, chunk.at)?;
                if picture.sides != sides {
                    return Err("broken WebP: the picture has other sides than the file says");
                }
                found = Some(((0, 0), picture));
            }
            b"ANMF" if moving && found.is_none() => found = Some(frame(chunk.body, sides)?),
            _ => {}
        }
    }
    // Where chunks do not fill the file, bytes were lost or put in, perhaps within the picture. An odd one may lack the byte that fills it up.
    let unfilled = overlong || !(encoded.len()..=encoded.len() + 1).contains(&behind.at);
    let wrong = if cut { Some(SHORT) } else { unfilled.then_some(UNFILLED) };
    let found = found.ok_or(if cut { CUT } else { "the WebP has no image in it" })?;
    Ok(whole(sides, notes.orientation(), found, wrong))
}

fn whole<'a>(
    sides: (u32, u32),
    orientation: u8,
    (at, picture): ((u32, u32), Picture<'a>),
    wrong: Option<&'static str>,
) -> Outline<'a> {
    let Picture { sides: frame, data, with_alpha, alpha, lossless, cut: short } = picture;
    let wrong = if short { Some(CUT) } else { wrong };
    Outline { sides, orientation, at, frame, data, with_alpha, alpha, lossless, wrong }
}

/// The first frame of an animation, and where it stands.
fn frame(body: &[u8], sides: (u32, u32)) -> Result<((u32, u32), Picture<'_>), &'static str> {
    let head = body.first_chunk::<16>().ok_or(CUT)?;
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], 0]);
    let at = (2 * number(0), 2 * number(3));
    let picture = picture(body, 16)?;
    // The sides that stand in the frame's own header are not used by libwebp either: those of its data count.
    let own = picture.sides;
    if at.0 + own.0 > sides.0 || at.1 + own.1 > sides.1 {
        return Err("broken WebP: a frame does not fit into the image");
    }
    Ok((at, picture))
}

/// The picture whose chunks begin at `at`: lossy or lossless colours, and before lossy ones perhaps alpha.
fn picture(all: &[u8], at: usize) -> Result<Picture<'_>, &'static str> {
    let mut has_alpha = false;
    for chunk in (Chunks { all, at }) {
        match &chunk.name {
            b"ALPH" if !has_alpha => has_alpha = true,
            b"VP8 " => {
                let sides = lossy_sides(chunk.body).ok_or(if chunk.cut {
                    CUT
                } else {
                    "broken WebP: no lossy picture"
                })?;
                let end = chunk.at + 8 + chunk.body.len();
                let with_alpha = if has_alpha { &all[at..end] } else { chunk.body };
                return Ok(Picture {
                    sides,
                    data: chunk.body,
                    with_alpha,
                    alpha: has_alpha,
                    lossless: false,
                    cut: chunk.cut,
                });
            }
            b"VP8L" => {
                let Some(&[0x2f, b0, b1, b2, b3]) = chunk.body.first_chunk() else {
                    return Err(if chunk.cut { CUT } else { "broken WebP: no lossless picture" });
                };
                let bits = u32::from_le_bytes([b0, b1, b2, b3]);
                let sides = (1 + (bits & 0x3fff), 1 + (bits >> 14 & 0x3fff));
                let alpha = bits >> 28 & 1 == 1;
                return Ok(Picture {
                    sides,
                    data: chunk.body,
                    with_alpha: chunk.body,
                    alpha,
                    lossless: true,
                    cut: chunk.cut,
                });
            }
            _ => {}
        }
    }
    Err(CUT)
}

/// The sides that lossy data claims; nothing if it is none.
fn lossy_sides(body: &[u8]) -> Option<(u32, u32)> {
    let &[_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1] = body.first_chunk()? else { return None };
    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    Some((side(w0, w1), side(h0, h1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        let filled = if body.len() % 2 == 1 { &[0][..] } else { &[] };
        [name, &length, body, filled].concat()
    }

    fn file(chunks: &[Vec<u8>]) -> Vec<u8> {
        let body = chunks.concat();
        let length = u32::try_from(4 + body.len()).expect("short").to_le_bytes();
        [b"RIFF".as_slice(), &length, b"WEBP", &body].concat()
    }

    /// A canvas of 300 × 200.
    fn canvas(flags: u8) -> Vec<u8> {
        chunk(b"VP8X", &[flags, 0, 0, 0, 43, 1, 0, 199, 0, 0])
    }

    fn lossy_data(width: u16, height: u16) -> Vec<u8> {
        [&[0, 0, 0, 0x9d, 1, 0x2a], width.to_le_bytes().as_slice(), &height.to_le_bytes()].concat()
    }

    /// A frame of 4 × 2 pixels at (2, 6), and what is in it.
    fn frame(chunks: &[Vec<u8>]) -> Vec<u8> {
        let head = [1, 0, 0, 3, 0, 0, 3, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        chunk(b"ANMF", &[head.as_slice(), &chunks.concat()].concat())
    }

    const NOTES: &[u8] = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0";

    #[test]
    fn sides_and_notes_are_found() {
        let lossless = file(&[chunk(b"VP8L", &[0x2f, 0x2b, 0xc1, 0x31, 0])]);
        assert_eq!(outline(&lossless).map(|seen| (seen.sides, seen.lossless)), Ok(((300, 200), true)));
        let lossy = file(&[chunk(b"VP8 ", &lossy_data(300, 200))]);
        assert_eq!(outline(&lossy).map(|seen| (seen.sides, seen.lossless)), Ok(((300, 200), false)));
        let odd = chunk(b"XYZ ", b"odd");
        let notes = file(&[canvas(8), odd, chunk(b"VP8 ", &lossy_data(300, 200)), chunk(b"EXIF", NOTES)]);
        assert_eq!(outline(&notes).map(|seen| (seen.sides, seen.orientation)), Ok(((300, 200), 5)));
    }

    #[test]
    fn colours_are_found_with_their_alpha_and_without() {
        let (alpha, colours) = (chunk(b"ALPH", &[9; 3]), lossy_data(300, 200));
        let file = file(&[canvas(0x10), alpha.clone(), chunk(b"VP8 ", &colours)]);
        let seen = outline(&file).expect("seen");
        assert_eq!((seen.data, seen.alpha), (colours.as_slice(), true));
        assert_eq!(seen.with_alpha, [alpha, chunk(b"VP8 ", &colours)].concat());
    }

    #[test]
    fn the_first_frame_is_found_where_it_stands() {
        let (one, other) = (chunk(b"VP8 ", &lossy_data(4, 2)), chunk(b"VP8 ", &lossy_data(9, 9)));
        let file = file(&[canvas(2), frame(&[one]), frame(&[other])]);
        let seen = outline(&file).expect("seen");
        assert_eq!((seen.sides, seen.at, seen.frame), ((300, 200), (2, 6), (4, 2)));
    }

    #[test]
    fn a_frame_that_does_not_fit_is_refused_before_it_is_decoded() {
        for (chunks, right) in [
            ([canvas(0), chunk(b"VP8 ", &lossy_data(16_383, 16_383))], false),
            ([canvas(0), chunk(b"VP8 ", &lossy_data(300, 199))], false),
            ([canvas(2), frame(&[chunk(b"VP8 ", &lossy_data(300, 2))])], false),
            // What the frame's own header says of its sides does not count.
            ([canvas(2), frame(&[chunk(b"VP8 ", &lossy_data(5, 2))])], true),
            ([canvas(2), frame(&[chunk(b"ALPH", &[0]), chunk(b"VP8 ", &lossy_data(4, 2))])], true),
        ] {
            assert_eq!(outline(&file(&chunks)).is_ok(), right, "{chunks:?}");
        }
    }

    #[test]
    fn what_stands_behind_the_files_own_end_does_not_count_and_what_is_missing_before_it_is_told() {
        let picture = chunk(b"VP8 ", &lossy_data(300, 200));
        let whole = file(&[canvas(8), picture.clone(), chunk(b"EXIF", NOTES)]);
        let long = [file(&[canvas(8), picture]), chunk(b"EXIF", NOTES)].concat();
        assert_eq!(outline(&long).map(|seen| (seen.orientation, seen.wrong)), Ok((1, None)));
        assert_eq!(outline(&whole).map(|seen| (seen.orientation, seen.wrong)), Ok((5, None)));
        let short = outline(&whole[..whole.len() - 4]).expect("seen");
        assert_eq!(short.wrong, Some(SHORT));
        let simple = file(&[chunk(b"VP8 ", &lossy_data(300, 200)), chunk(b"XYZ ", b"note")]);
        assert_eq!(outline(&simple).map(|seen| seen.wrong), Ok(None));
        assert_eq!(outline(&simple[..simple.len() - 1]).map(|seen| seen.wrong), Ok(Some(SHORT)));
    }

    #[test]
    fn chunks_that_do_not_fill_the_file_are_told() {
        let data = [lossy_data(300, 200), b"0123456789".to_vec()].concat();
        let (picture, note) = (chunk(b"VP8 ", &data), chunk(b"XYZ ", b"odd"));
        let right = file(&[canvas(0), picture.clone(), note.clone()]);
        assert_eq!(outline(&right).map(|seen| seen.wrong), Ok(None));
        // A byte doubled within the picture: what was its last one begins the next chunk.
        let mut doubled = right.clone();
        doubled.insert(50, doubled[50]);
        assert_eq!(outline(&doubled).map(|seen| seen.wrong), Ok(Some(UNFILLED)));
        for rest in [&b"XY"[..], b"XYZ \x09\0\0\0note"] {
            let odd = file(&[canvas(0), picture.clone(), rest.to_vec()]);
            assert_eq!(outline(&odd).map(|seen| seen.wrong), Ok(Some(UNFILLED)), "{rest:?}");
        }
        // The last chunk is odd, and the byte behind it is missing.
        let mut unpadded = right;
        let length = u32::from_le_bytes(*unpadded[4..].first_chunk().expect("a length")) - 1;
        unpadded[4..8].copy_from_slice(&length.to_le_bytes());
        unpadded.pop();
        assert_eq!(outline(&unpadded).map(|seen| seen.wrong), Ok(None));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(name in proptest::sample::select(vec![b"VP8 ", b"VP8L", b"VP8X"]), bytes: Vec<u8>) {
            let _ = outline(&[b"RIFF\xff\0\0\0WEBP".as_slice(), name, &bytes].concat());
            let _ = outline(&file(&[canvas(2), bytes.clone()]));
            let _ = outline(&file(&[canvas(2), frame(&[bytes])]));
        }
    }
}
