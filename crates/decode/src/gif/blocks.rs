//! The blocks of a GIF up to the data of its first frame, found as Pillow finds them: what is no block between two of them is passed over.
//! Reads hostile bytes: every access is checked.

/// Said of a file that ends before its first frame does.
pub(super) const CUT: &str = "truncated: the GIF's data ends too early";

const EXTENSION: u8 = b'!';
const FRAME: u8 = b',';
const END: u8 = b';';
/// The extension that says which colour of the next frame is transparent.
const GRAPHIC_CONTROL: u8 = 249;
/// The extension for texts, whose data is passed over whatever stands in it.
const COMMENT: u8 = 254;

/// What is known of the first frame before its pixels are read.
pub(super) struct Outline<'a> {
    /// Width and height of the screen, which grows with a frame that reaches beyond it.
    pub(super) screen: (usize, usize),
    /// Where the frame stands on its screen: left and top.
    pub(super) at: (usize, usize),
    /// Width and height of the frame.
    pub(super) sides: (usize, usize),
    /// Rows come in four passes.
    pub(super) interlaced: bool,
    /// The index that is transparent.
    pub(super) clear: Option<u8>,
    /// Colours, three bytes each; `None`: an index is a gray.
    pub(super) palette: Option<&'a [u8]>,
    /// Bits of the first codes, less one.
    pub(super) code_bits: u8,
    /// The frame's data, in blocks that begin with their length.
    pub(super) data: Blocks<'a>,
}

/// Bytes that are read from their beginning on.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    fn chunk<const COUNT: usize>(&mut self) -> Option<&'a [u8; COUNT]> {
        self.take(COUNT)?.first_chunk()
    }

    /// One of the blocks that data comes in; an empty one ends it, as does the end of the file.
    fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.byte().filter(|length| *length > 0)?;
        let length = self.0.len().min(usize::from(length));
        self.take(length)
    }
}

/// The blocks that data comes in, without their lengths.
pub(super) struct Blocks<'a>(Bytes<'a>);

impl<'a> Iterator for Blocks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.block()
    }
}

/// Finds the first frame, or says why there is none.
pub(super) fn outline(encoded: &[u8]) -> Result<Outline<'_>, &'static str> {
    let mut bytes = Bytes(encoded);
    let [.., w0, w1, h0, h1, flags, _, _] = bytes.chunk::<13>().ok_or(CUT)?;
    let screen = (number(*w0, *w1), number(*h0, *h1));
    let for_all = palette(&mut bytes, *flags)?;
    let mut clear = None;
    loop {
        match bytes.byte() {
            Some(EXTENSION) => clear = extension(&mut bytes)?.or(clear),
            Some(FRAME) => {
                let [x0, x1, y0, y1, w0, w1, h0, h1, flags] = bytes.chunk::<9>().ok_or(CUT)?;
                let (at, sides) =
                    ((number(*x0, *x1), number(*y0, *y1)), (number(*w0, *w1), number(*h0, *h1)));
                let own = palette(&mut bytes, *flags)?;
                let code_bits = bytes.byte().ok_or(CUT)?;
                return Ok(Outline {
                    screen: (screen.0.max(at.0 + sides.0), screen.1.max(at.1 + sides.1)),
                    at,
                    sides,
                    interlaced: flags & 0x40 != 0,
                    clear,
                    palette: own.or(for_all).filter(|palette| !is_ramp(palette)),
                    code_bits,
                    data: Blocks(bytes),
                });
            }
            Some(END) => return Err("the GIF has no image in it"),
            Some(_) => {}
            None => return Err(CUT),
        }
    }
}

/// Passes over an extension, and gives the index that it makes transparent, if it does.
fn extension(bytes: &mut Bytes<'_>) -> Result<Option<u8>, &'static str> {
    let kind = bytes.byte().ok_or(CUT)?;
    let first = bytes.block();
    let clear = match (kind, first) {
        (GRAPHIC_CONTROL, Some(block)) => {
            let [flags, _, _, index] =
                block.first_chunk().ok_or("broken GIF: a graphic control extension that is too short")?;
            (flags & 1 == 1).then_some(*index)
        }
        _ => None,
    };
    // Pillow looks for more blocks of any other extension also behind an empty first one.
    if kind != COMMENT || first.is_some() {
        while bytes.block().is_some() {}
    }
    Ok(clear)
}

fn palette<'a>(bytes: &mut Bytes<'a>, flags: u8) -> Result<Option<&'a [u8]>, &'static str> {
    if flags & 0x80 == 0 {
        return Ok(None);
    }
    bytes.take(3 << ((flags & 7) + 1)).map(Some).ok_or(CUT)
}

/// Whether every colour is the gray of its index. Pillow takes such a picture for gray, also where an index is beyond the palette.
fn is_ramp(palette: &[u8]) -> bool {
    let (colours, _) = palette.as_chunks::<3>();
    colours
        .iter()
        .enumerate()
        .all(|(index, colour)| colour.iter().all(|sample| usize::from(*sample) == index))
}

fn number(low: u8, high: u8) -> usize {
    usize::from(u16::from_le_bytes([low, high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A screen of 4 × 3 with two colours for all, and what follows.
    fn file(behind: &[u8]) -> Vec<u8> {
        let screen = [4, 0, 3, 0, 0x80, 0, 0, 9, 9, 9, 8, 8, 8];
        [b"GIF89a".as_slice(), &screen, behind].concat()
    }

    /// A frame of 2 × 1 at (1, 2), with codes that begin with three bits and one block of data.
    const FRAME_BLOCK: [u8; 14] = [FRAME, 1, 0, 2, 0, 2, 0, 1, 0, 0, 2, 1, 7, 0];

    #[test]
    fn the_first_frame_is_found_behind_whatever_is_no_block() {
        let clear = [EXTENSION, GRAPHIC_CONTROL, 4, 1, 0, 0, 1, 0];
        let comment = [EXTENSION, COMMENT, 2, b'!', b',', 0];
        for (before, transparent) in [
            (&[][..], None),
            (&[0xa1, 0xf9, 4, 0, 0][..], None),
            (&clear[..], Some(1)),
            (&[clear.as_slice(), &[0, 0xff], &comment].concat()[..], Some(1)),
            // An extension without any data.
            (&[EXTENSION, COMMENT, 0][..], None),
        ] {
            let file = file(&[before, &FRAME_BLOCK].concat());
            let found = outline(&file).expect("a frame");
            assert_eq!((found.screen, found.at, found.sides), ((4, 3), (1, 2), (2, 1)), "{before:?}");
            assert_eq!((found.clear, found.code_bits), (transparent, 2), "{before:?}");
            assert_eq!(found.palette, Some(&[9, 9, 9, 8, 8, 8][..]));
            assert_eq!(found.data.collect::<Vec<_>>(), [&[7][..]]);
        }
    }

    #[test]
    fn a_file_without_a_frame_says_why() {
        for (behind, why) in [
            (&[END][..], "the GIF has no image in it"),
            (&[][..], CUT),
            (&FRAME_BLOCK[..9], CUT),
            (&[EXTENSION][..], CUT),
            (
                &[EXTENSION, GRAPHIC_CONTROL, 2, 1, 0, 0][..],
                "broken GIF: a graphic control extension that is too short",
            ),
        ] {
            assert_eq!(outline(&file(behind)).map(|_| ()), Err(why), "{behind:?}");
        }
        for length in 6..19 {
            assert_eq!(outline(&file(&FRAME_BLOCK)[..length]).map(|_| ()), Err(CUT), "{length}");
        }
    }

    #[test]
    fn a_screen_grows_with_its_frame_and_a_ramp_is_gray() {
        let mut frame = FRAME_BLOCK;
        frame[5] = 200;
        let mut file = file(&frame);
        file[13..19].copy_from_slice(&[0, 0, 0, 1, 1, 1]);
        let found = outline(&file).expect("a frame");
        assert_eq!((found.screen, found.palette), ((201, 3), None));
    }
}
