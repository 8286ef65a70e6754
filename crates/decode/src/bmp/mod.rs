//! BMP: rows of pixels or of indices, packed by runs or not, to RGB in place. Reads hostile bytes: every access is checked.

mod header;
mod runs;
mod swap;

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::still::Still;
use crate::{Element, Limits, Rejection};
use header::{Header, Mask, Masks, Stored};

const CUT: &str = "truncated: the BMP's data ends too early";

/// What is known of a BMP before its pixels are read. They come with alpha where the file has it and `alpha` asks for it.
pub(crate) fn open<'a>(encoded: &'a [u8], alpha: bool, limits: &Limits) -> Result<Still<'a>, Rejection> {
    let mut header = header::read(encoded).map_err(Rejection::broken)?;
    limits.check_pixels(header.sides.0, header.sides.1)?;
    let alpha = alpha && header.stored.has_alpha(header.bits);
    if !alpha {
        header.stored.leave_out_alpha();
    }
    let layout = Layout { colour: if alpha { Colour::Rgba } else { Colour::Rgb }, element: Element::U8 };
    // Runs of one colour are unpacked to indices first.
    let memory = match header.stored {
        Stored::Runs { .. } => u64::from(header.sides.0) * u64::from(header.sides.1),
        _ => 4096,
    };
    let (sides, orientation) = (header.sides, 1);
    let read = move |target: &mut [u8]| Ok(read(encoded, &header, alpha, target));
    Ok(Still { sides, layout, orientation, memory, read: Box::new(read) })
}

fn read(encoded: &[u8], header: &Header, alpha: bool, target: &mut [u8]) -> Damage {
    let (width, height) = (header.sides.0 as usize, header.sides.1 as usize);
    let data = encoded.get(header.pixels..).unwrap_or_default();
    if let Stored::Runs { of_four_bits } = header.stored {
        let (indices, cut) = runs::unpack(data, (width, height), of_four_bits);
        for (row, indices) in rows(target, header, 3).zip(indices.chunks_exact(width)) {
            paint(row, indices.iter().copied(), &header.palette);
        }
        return if cut { Damage::of(CUT) } else { Damage::NONE };
    }
    let stride = (width * header.bits).div_ceil(32) * 4;
    // The last row may end with its last pixel.
    let used = (width * header.bits).div_ceil(8);
    let mut missing = false;
    for (index, row) in rows(target, header, if alpha { 4 } else { 3 }).enumerate() {
        if let Some(stored) = data.get(index * stride..).and_then(|rest| rest.get(..used)) {
            one_row(row, stored, header, alpha);
        } else {
            missing = true;
            row.fill(0);
        }
    }
    if missing { Damage::of(CUT) } else { Damage::NONE }
}

/// The rows of the picture, in the order in which they are stored.
fn rows<'t>(target: &'t mut [u8], header: &Header, pixel: usize) -> impl Iterator<Item = &'t mut [u8]> {
    let (row, top_down) = (header.sides.0 as usize * pixel, header.top_down);
    let mut rows = target.chunks_exact_mut(row);
    std::iter::from_fn(move || if top_down { rows.next() } else { rows.next_back() })
}

fn one_row(row: &mut [u8], stored: &[u8], header: &Header, alpha: bool) {
    match (header.bits, &header.stored) {
        (1, _) => {
            let bits = stored.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            paint(row, bits, &header.palette);
        }
        (4, _) => paint(row, stored.iter().flat_map(|byte| [byte >> 4, byte & 15]), &header.palette),
        (8, _) => paint(row, stored.iter().copied(), &header.palette),
        (16, Stored::Masks(masks)) => {
            let (pixels, _) = stored.as_chunks::<2>();
            masked(row, pixels.iter().map(|pixel| u32::from(u16::from_le_bytes(*pixel))), masks, alpha);
        }
        (_, Stored::Masks(masks)) => {
            let (pixels, _) = stored.as_chunks::<4>();
            masked(row, pixels.iter().map(|pixel| u32::from_le_bytes(*pixel)), masks, alpha);
        }
        (24, _) => swap::three(stored, row),
        _ => swap::four(stored, row),
    }
}

/// Writes the colours that indices mean.
fn paint(row: &mut [u8], indices: impl Iterator<Item = u8>, palette: &[[u8; 3]; 256]) {
    let (pixels, _) = row.as_chunks_mut::<3>();
    for (pixel, index) in pixels.iter_mut().zip(indices) {
        *pixel = palette[usize::from(index)];
    }
}

/// Writes the samples that masks take out of words.
fn masked(row: &mut [u8], words: impl Iterator<Item = u32>, masks: &Masks, alpha: bool) {
    let sample = |word: u32, index: usize| masks[index].map_or(0, |mask: Mask| mask.sample(word));
    if alpha {
        let (pixels, _) = row.as_chunks_mut::<4>();
        pixels
            .iter_mut()
            .zip(words)
            .for_each(|(to, word)| *to = std::array::from_fn(|index| sample(word, index)));
    } else {
        let (pixels, _) = row.as_chunks_mut::<3>();
        pixels
            .iter_mut()
            .zip(words)
            .for_each(|(to, word)| *to = std::array::from_fn(|index| sample(word, index)));
    }
}
