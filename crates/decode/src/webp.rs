//! A WebP's chunks, as far as they must be known before it is decoded: its sides, how it is coded, how it is to be turned. Reads hostile
//! bytes: every access is checked.

use crate::memory::area;
use crate::notes::Notes;

/// Every decoder says this of a file that ends before its sides are told.
const CUT: &str = "truncated: the WebP's data ends too early";

/// What stands in the chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Width and height of the whole.
    pub(crate) sides: (u32, u32),
    /// Bytes that decoding takes beside the pixels it writes.
    pub(crate) memory: u64,
    /// How it is to be turned.
    pub(crate) orientation: u8,
}

/// A chunk: its name and what stands in it, as far as the file goes.
type Chunk<'a> = ([u8; 4], &'a [u8]);

/// Reads the chunks. Of an animation, only the first frame counts.
pub(crate) fn outline(encoded: &[u8]) -> Result<Outline, &'static str> {
    let mut chunks = Chunks { rest: encoded.get(12..).ok_or(CUT)? };
    let (name, body) = chunks.next().ok_or(CUT)?;
    let length = encoded.len() as u64;
    match &name {
        b"VP8 " => {
            let sides = lossy_sides(body).ok_or(CUT)?;
            Ok(Outline { sides, memory: lossy(sides, false) + copies(length), orientation: 1 })
        }
        b"VP8L" => {
            let bits = u32::from_le_bytes(*body.get(1..).and_then(<[u8]>::first_chunk).ok_or(CUT)?);
            let sides = (1 + (bits & 0x3fff), 1 + (bits >> 14 & 0x3fff));
            Ok(Outline { sides, memory: lossless(sides, bits >> 28 & 1 == 1), orientation: 1 })
        }
        b"VP8X" => extended(body, chunks, length),
        _ => Err("broken WebP: it does not begin with an image"),
    }
}

fn extended(body: &[u8], chunks: Chunks<'_>, length: u64) -> Result<Outline, &'static str> {
    let &[flags, _, _, _, w0, w1, w2, h0, h1, h2] = body.first_chunk().ok_or(CUT)?;
    let side = |low, middle, high| 1 + u32::from_le_bytes([low, middle, high, 0]);
    let sides = (side(w0, w1, w2), side(h0, h1, h2));
    let (alpha, moving) = (flags & 0x10 != 0, flags & 0x02 != 0);
    let (mut notes, mut is_lossy, mut frames) = (Notes::default(), false, 0);
    for (name, body) in chunks {
        match &name {
            // Only what the flags announce is there for other decoders.
            b"EXIF" if flags & 0x08 != 0 && notes.exif.is_none() => notes.exif = Some(body.into()),
            b"XMP " if flags & 0x04 != 0 && notes.xmp.is_none() => notes.xmp = Some(body.into()),
            b"VP8 " => {
                is_lossy = true;
                fits(body, sides)?;
            }
            b"ANMF" if frames == 0 => {
                frames += 1;
                // The name of what follows alpha is not looked at by all decoders.
                for (_, body) in (Chunks { rest: body.get(16..).unwrap_or_default() }).take(2) {
                    fits(body, sides)?;
                }
            }
            _ => {}
        }
    }
    let memory = if moving {
        // The canvas, a frame with alpha, and what the frame is made of.
        2 * 4 * area(sides) + lossy(sides, false) + lossless(sides, true)
    } else if is_lossy {
        lossy(sides, alpha)
    } else {
        lossless(sides, alpha)
    };
    Ok(Outline { sides, memory: memory + copies(length), orientation: notes.orientation() })
}

/// A frame that claims to be larger than the image would be decoded before anybody compares.
fn fits(body: &[u8], sides: (u32, u32)) -> Result<(), &'static str> {
    match lossy_sides(body) {
        Some((width, height)) if width > sides.0 || height > sides.1 => {
            Err("broken WebP: a frame is larger than the image")
        }
        _ => Ok(()),
    }
}

/// The sides that lossy data claims; nothing if it is none.
fn lossy_sides(body: &[u8]) -> Option<(u32, u32)> {
    let &[_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1] = body.first_chunk()? else { return None };
    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    Some((side(w0, w1), side(h0, h1)))
}

/// Luma and chroma in whole blocks; alpha comes as a lossless image of its own, and once more by itself.
const fn lossy((width, height): (u32, u32), alpha: bool) -> u64 {
    let whole = area((width.next_multiple_of(16), height.next_multiple_of(16)));
    let alpha = if alpha { lossless((width, height), false) + area((width, height)) } else { 0 };
    whole + whole / 2 + 64 * width as u64 + alpha
}

/// Four bytes a pixel, unless they are what is asked for; and up to four small images that say how to read it.
const fn lossless((width, height): (u32, u32), in_place: bool) -> u64 {
    let whole = if in_place { 0 } else { 4 * area((width, height)) };
    whole + area((width.next_multiple_of(4), height.next_multiple_of(4)))
}

/// What is copied of the file itself: a buffer that grows while it is read, and what is made of it.
const fn copies(encoded: u64) -> u64 {
    3 * encoded
}

/// Chunks one after the other, until the file ends.
struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (name, rest) = self.rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let (body, _) = rest.split_at(length.min(rest.len()));
        self.rest = rest.get(length + length % 2..).unwrap_or_default();
        Some((*name, body))
    }
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
        [b"RIFF\0\0\0\0WEBP".as_slice(), &chunks.concat()].concat()
    }

    /// A canvas of 300 × 200.
    fn canvas(flags: u8) -> Vec<u8> {
        chunk(b"VP8X", &[flags, 0, 0, 0, 43, 1, 0, 199, 0, 0])
    }

    fn lossy_data(width: u16, height: u16) -> Vec<u8> {
        [&[0, 0, 0, 0x9d, 1, 0x2a], width.to_le_bytes().as_slice(), &height.to_le_bytes()].concat()
    }

    #[test]
    fn sides_and_notes_are_found() {
        let lossless = file(&[chunk(b"VP8L", &[0x2f, 0x2b, 0xc1, 0x31, 0])]);
        assert_eq!(outline(&lossless).map(|seen| seen.sides), Ok((300, 200)));
        let lossy = file(&[chunk(b"VP8 ", &lossy_data(300, 200))]);
        assert_eq!(outline(&lossy).map(|seen| seen.sides), Ok((300, 200)));
        let notes = file(&[
            canvas(8),
            chunk(b"XYZ ", b"odd"),
            chunk(b"VP8 ", &lossy_data(300, 200)),
            chunk(b"EXIF", b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0"),
        ]);
        assert_eq!(outline(&notes).map(|seen| (seen.sides, seen.orientation)), Ok(((300, 200), 5)));
    }

    #[test]
    fn a_frame_larger_than_its_image_is_refused_before_it_is_decoded() {
        let frame = |data: &[u8]| {
            chunk(b"ANMF", &[[0; 16].as_slice(), &chunk(b"ALPH", &[0]), &chunk(b"????", data)].concat())
        };
        for (chunks, right) in [
            ([canvas(0), chunk(b"VP8 ", &lossy_data(16_383, 16_383))], false),
            ([canvas(2), frame(&lossy_data(301, 1))], false),
            ([canvas(2), frame(&lossy_data(300, 200))], true),
        ] {
            assert_eq!(outline(&file(&chunks)).is_ok(), right, "{chunks:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(name in proptest::sample::select(vec![b"VP8 ", b"VP8L", b"VP8X"]), bytes: Vec<u8>) {
            let _ = outline(&[b"RIFF\0\0\0\0WEBP".as_slice(), name, &bytes].concat());
            let _ = outline(&file(&[canvas(2), bytes]));
        }
    }
}
