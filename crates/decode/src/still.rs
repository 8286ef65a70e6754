//! BMP by the `image` crate: what is known before the pixels are read, and how to read them.

use image::{ColorType, ImageDecoder, ImageError};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::{Element, Limits, Rejection};

/// Writes an image's pixels into a slice of exactly their size, and says what it had to conceal.
pub(crate) type ReadPixels<'a> = Box<dyn FnOnce(&mut [u8]) -> Result<Damage, Rejection> + 'a>;

/// An image whose header is known; its pixels come when they are asked for.
pub(crate) struct Still<'a> {
    /// Width and height as stored.
    pub(crate) sides: (u32, u32),
    /// How its pixels will lie.
    pub(crate) layout: Layout,
    /// How they are to be turned.
    pub(crate) orientation: u8,
    /// Bytes that reading takes beside the slice that is filled.
    pub(crate) memory: u64,
    /// How to get them.
    pub(crate) read: ReadPixels<'a>,
}

/// What a decoder that knows its sides will give. `memory` is what it takes for that, beside the pixels.
pub(crate) fn still<'a>(
    decoder: impl ImageDecoder + 'a,
    name: &'static str,
    limits: &Limits,
    (memory, orientation): (u64, u8),
) -> Result<Still<'a>, Rejection> {
    let sides = decoder.dimensions();
    limits.check_pixels(sides.0, sides.1)?;
    let layout = layout(decoder.color_type())?;
    let read = move |target: &mut [u8]| {
        decoder.read_image(target).map(|()| Damage::NONE).map_err(|error| broken(name, &error))
    };
    Ok(Still { sides, layout, orientation, memory, read: Box::new(read) })
}

fn layout(kind: ColorType) -> Result<Layout, Rejection> {
    let (colour, element) = match kind {
        ColorType::L8 => (Colour::Gray, Element::U8),
        ColorType::La8 => (Colour::GrayAlpha, Element::U8),
        ColorType::Rgb8 => (Colour::Rgb, Element::U8),
        ColorType::Rgba8 => (Colour::Rgba, Element::U8),
        ColorType::L16 => (Colour::Gray, Element::U16),
        ColorType::La16 => (Colour::GrayAlpha, Element::U16),
        ColorType::Rgb16 => (Colour::Rgb, Element::U16),
        ColorType::Rgba16 => (Colour::Rgba, Element::U16),
        other => return Err(Rejection::broken(format!("pixels of the kind {other:?} are not decoded"))),
    };
    Ok(Layout { colour, element })
}

/// Why samples like these are not brought to 8 bits.
pub(crate) fn not_eight_bits(layout: Layout) -> String {
    format!(
        "{:?} samples have no fixed range to bring to 8 bits; decode it as `gray` without a size, or give the model its own load(path)",
        layout.element
    )
}

pub(crate) fn broken(name: &str, error: &ImageError) -> Rejection {
    let said = error.to_string();
    let cut =
        matches!(error, ImageError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof);
    if cut || said.contains("unexpected end of file") || said.contains("UnexpectedEof") {
        return Rejection::broken(format!("truncated: the {name}'s data ends too early"));
    }
    Rejection::broken(format!("broken {name}: {said}"))
}
