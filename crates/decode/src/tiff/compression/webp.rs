//! Strips and tiles that are WebP pictures, by the decoder that reads whole files of them.

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::memory::area;
use crate::still::Still;
use crate::webp::open;
use crate::{Element, Limits};

use super::super::reasons::{Fault, broken, unknown};
use super::Shape;

/// Bytes that decoding one takes beside the room for its samples; 0 where it is none, which is told when it is decoded.
pub(super) fn memory(data: &[u8], samples: usize, limits: &Limits) -> u64 {
    let opened = open(data, samples == 4, limits);
    opened.map_or(0, |still| still.memory + area(still.sides) * still.layout.pixel_bytes() as u64)
}

/// Fills `target`, which has room for a whole strip or tile, and says what had to be made up.
pub(super) fn decode(data: &[u8], shape: Shape, limits: &Limits, target: &mut [u8]) -> Result<Damage, Fault> {
    let Still { sides: (width, height), layout, read, .. } =
        open(data, shape.samples == 4, limits).map_err(|error| broken(format!("a WebP in it: {error}")))?;
    let (width, height) = (width as usize, height as usize);
    if width != shape.columns || height < shape.rows || width * height * shape.samples > target.len() {
        return Err(broken(format!("a WebP in it has {width}×{height} pixels")).into());
    }
    let Layout { colour: Colour::Rgb | Colour::Rgba, element: Element::U8 } = layout else {
        return Err(Fault::Refused(unknown("WebPs without colours")));
    };
    let mut pixels = vec![0; width * height * layout.pixel_bytes()];
    let damage = read(&mut pixels).map_err(Fault::Refused)?;
    for (to, from) in target.chunks_exact_mut(shape.samples).zip(pixels.chunks_exact(layout.pixel_bytes())) {
        to[..3].copy_from_slice(&from[..3]);
        if let Some(alpha) = to.get_mut(3) {
            *alpha = from.get(3).copied().unwrap_or(u8::MAX);
        }
    }
    Ok(damage)
}
