//! The first frame of a GIF, as Pillow shows it: what the frame does not cover has the transparent colour, or the first.

mod blocks;

use weezl::{BitOrder, LzwError, LzwStatus, decode::Decoder};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::still::Still;
use crate::{Element, Limits, Rejection};
use blocks::{Blocks, CUT};

/// Bytes that the table of codes takes.
const CODES: u64 = 128 << 10;

/// What is known of the first frame before its pixels are read. They come with alpha where `alpha` asks for it.
pub(crate) fn first_frame<'a>(
    encoded: &'a [u8],
    alpha: bool,
    limits: &Limits,
) -> Result<Still<'a>, Rejection> {
    let outline = blocks::outline(encoded).map_err(Rejection::broken)?;
    if outline.sides.0 == 0 || outline.sides.1 == 0 {
        return Err(Rejection::broken("broken GIF: a frame without pixels"));
    }
    if !(1..=11).contains(&outline.code_bits) {
        return Err(Rejection::broken(format!(
            "broken GIF: codes that begin with {} bits",
            u32::from(outline.code_bits) + 1
        )));
    }
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let sides = (side(outline.screen.0), side(outline.screen.1));
    limits.check_pixels(sides.0, sides.1)?;
    let shown = Frame { at: outline.at, sides: outline.sides, clear: outline.clear };
    let (width, height) = shown.sides;
    let copies = if outline.interlaced { 2 } else { 1 };
    let memory = copies * (width * height) as u64 + CODES;
    let read = move |target: &mut [u8]| {
        let background = shown.clear.unwrap_or(0);
        let mut indices = vec![background; width * height];
        // What was unpacked before a failure stays.
        let damage = unpack(outline.data, outline.code_bits, &mut indices);
        if outline.interlaced {
            let mut ordered = vec![background; indices.len()];
            put_in_order(&indices, &mut ordered, shown.sides);
            indices = ordered;
        }
        let colours = table(outline.palette, shown.clear);
        if alpha {
            shown.paint::<4>(&indices, &colours, outline.screen.0, target);
        } else {
            let opaque = colours.map(|[red, green, blue, _]| [red, green, blue]);
            shown.paint::<3>(&indices, &opaque, outline.screen.0, target);
        }
        Ok(damage)
    };
    let layout = Layout { colour: if alpha { Colour::Rgba } else { Colour::Rgb }, element: Element::U8 };
    Ok(Still { sides, layout, orientation: 1, memory, read: Box::new(read) })
}

/// Fills `indices` with what the codes say, and stops there: what stands behind the last pixel is not looked at.
fn unpack(data: Blocks<'_>, code_bits: u8, indices: &mut [u8]) -> Damage {
    let mut codes = Decoder::new(BitOrder::Lsb, code_bits);
    let mut filled = 0;
    for mut block in data {
        loop {
            let done = codes.decode_bytes(block, &mut indices[filled..]);
            (block, filled) = (&block[done.consumed_in..], filled + done.consumed_out);
            if filled == indices.len() {
                return Damage::NONE;
            }
            match done.status {
                Ok(LzwStatus::Done) => return Damage::of(CUT),
                Ok(LzwStatus::NoProgress) => break,
                // Codes may be left also where the block is used up.
                Ok(LzwStatus::Ok) => {}
                Err(LzwError::InvalidCode) => {
                    return Damage::of("broken GIF: a code that stands for nothing");
                }
            }
        }
    }
    Damage::of(CUT)
}

/// Brings the rows of four passes into their order.
fn put_in_order(indices: &[u8], ordered: &mut [u8], (width, height): (usize, usize)) {
    /// The first row of each pass, and rows from one to the next.
    const PASSES: [(usize, usize); 4] = [(0, 8), (4, 8), (2, 4), (1, 2)];
    let rows = PASSES.iter().flat_map(|(first, step)| (*first..height).step_by(*step));
    for (row, from) in rows.zip(indices.chunks(width)) {
        ordered[row * width..][..width].copy_from_slice(from);
    }
}

/// The first frame.
#[derive(Clone, Copy)]
struct Frame {
    /// Where it stands on its screen: left and top.
    at: (usize, usize),
    /// Width and height.
    sides: (usize, usize),
    /// The index that is transparent.
    clear: Option<u8>,
}

impl Frame {
    /// Writes the colours of the frame, and around it the transparent or the first one.
    fn paint<const PIXEL: usize>(
        &self,
        indices: &[u8],
        colours: &[[u8; PIXEL]; 256],
        screen_width: usize,
        target: &mut [u8],
    ) {
        let (pixels, _) = target.as_chunks_mut::<PIXEL>();
        if indices.len() < pixels.len() {
            pixels.fill(colours[usize::from(self.clear.unwrap_or(0))]);
        }
        let rows = pixels.chunks_mut(screen_width).skip(self.at.1);
        for (row, indices) in rows.zip(indices.chunks(self.sides.0)) {
            for (pixel, index) in row[self.at.0..].iter_mut().zip(indices) {
                *pixel = colours[usize::from(*index)];
            }
        }
    }
}

/// All 256 colours an index can mean, opaque but for one: those of the palette, black where that is shorter; grays without one.
fn table(palette: Option<&[u8]>, clear: Option<u8>) -> [[u8; 4]; 256] {
    std::array::from_fn(|index| {
        let byte = u8::try_from(index).unwrap_or(u8::MAX);
        let [red, green, blue] = palette
            .map_or([byte; 3], |palette| palette.as_chunks::<3>().0.get(index).copied().unwrap_or_default());
        [red, green, blue, if clear == Some(byte) { 0 } else { u8::MAX }]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of 2 × 3 whose few codes come in one block: gray 0, 255, 0, 255, 255, 0.
    const CODES: [u8; 9] = [7, 0x00, 0x01, 0xfc, 0x13, 0x38, 0x30, 0x20, 0];

    fn file(sides: (u8, u8), flags: u8, data: &[u8]) -> Vec<u8> {
        let screen = [sides.0, 0, sides.1, 0, 0, 0, 0];
        let frame = [b',', 0, 0, 0, 0, sides.0, 0, sides.1, 0, flags, 8];
        [b"GIF89a".as_slice(), &screen, &frame, data, b";"].concat()
    }

    fn grays(encoded: &[u8]) -> (Vec<u8>, Damage) {
        let still = first_frame(encoded, false, &Limits::default()).expect("a frame");
        let mut pixels = vec![7; (still.sides.0 * still.sides.1 * 3) as usize];
        let damage = (still.read)(&mut pixels).expect("pixels");
        (pixels.as_chunks::<3>().0.iter().map(|pixel| pixel[0]).collect(), damage)
    }

    #[test]
    fn few_codes_and_what_follows_the_last_pixel() {
        let right = vec![0, 255, 0, 255, 255, 0];
        assert_eq!(grays(&file((2, 3), 0, &CODES)), (right.clone(), Damage::NONE));
        // One byte in a block each, and junk where the end should be.
        let single: Vec<u8> = CODES[1..8].iter().flat_map(|byte| [1, *byte]).chain([3, 9, 9, 9]).collect();
        assert_eq!(grays(&file((2, 3), 0, &single)), (right, Damage::NONE));
    }

    #[test]
    fn pixels_that_are_missing_are_damage() {
        let (pixels, damage) = grays(&file((2, 3), 0, &[3, 0x00, 0x01, 0xfc, 0]));
        assert_eq!((&pixels[..1], damage), (&[0][..], Damage::of(CUT)));
        let (_, damage) = grays(&file((2, 4), 0, &CODES));
        assert_eq!(damage, Damage::of(CUT), "the end code comes first");
        let (_, damage) = grays(&file((2, 3), 0, &[4, 0x00, 0xff, 0xff, 0xff, 0]));
        assert_eq!(damage, Damage::of("broken GIF: a code that stands for nothing"));
    }

    #[test]
    fn rows_in_four_passes_come_in_order() {
        // One column: the rows are told by their values. Each pass begins where the last one ended.
        let (mut ordered, passes) = ([0; 9], [0, 8, 4, 2, 6, 1, 3, 5, 7]);
        put_in_order(&passes, &mut ordered, (1, 9));
        assert_eq!(ordered, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(grays(&file((2, 3), 0x40, &CODES)).0, [0, 255, 255, 0, 0, 255]);
    }
}
