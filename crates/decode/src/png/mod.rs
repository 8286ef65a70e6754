//! PNG by the `image` crate, turned as its notes say.

mod chunks;

use std::io::Cursor;

use image::ImageDecoder;
use image::codecs::png::PngDecoder;

use crate::memory::NOTES;
use crate::still::{Still, broken, still};
use crate::{Limits, Rejection};

pub(crate) fn open<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Still<'a>, Rejection> {
    let side = |at: usize| encoded.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
    let (Some(width), Some(height)) = (side(16), side(20)) else {
        return Err(Rejection::broken("truncated: the PNG's data ends too early"));
    };
    limits.check_pixels(width, height)?;
    // Four samples of 16 bits are the most a pixel can have.
    let row = 8 * u64::from(width);
    let mut allowed = image::Limits::default();
    allowed.max_alloc = Some(NOTES + row);
    let decoder =
        PngDecoder::with_limits(Cursor::new(encoded), allowed).map_err(|error| broken("PNG", &error))?;
    // Rows before and after their filter, in a buffer that doubles; how many, is decided by the `png` crate.
    let pixel = u64::from(decoder.color_type().bytes_per_pixel());
    let rows = (pixel * u64::from(width) + 1) * u64::from(height.min(8));
    let memory = 2 * rows + 2 * row + (1 << 20);
    still(decoder, "PNG", limits, (memory, chunks::notes(encoded).orientation()))
}
