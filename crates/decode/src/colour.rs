//! Pixels as files have them to the 8-bit RGB, RGBA or gray that was asked for, as Pillow's `convert` does it.

use gpulane_model::Channels;

use crate::Element;

/// What a pixel of a file is made of, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
    /// Ink: 255 is full.
    Cmyk,
    /// Ink as Adobe stores it in JPEGs: 0 is full.
    InvertedCmyk,
}

/// How the pixels of a file lie in memory: interleaved, in this machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What a pixel has.
    pub(crate) colour: Colour,
    /// What each of these is.
    pub(crate) element: Element,
}

/// What is asked for: `rgb`, `rgba` or `gray`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Rgb,
    Rgba,
    Gray,
}

impl From<Channels> for Wanted {
    fn from(channels: Channels) -> Self {
        match channels {
            Channels::Rgb => Self::Rgb,
            Channels::Rgba => Self::Rgba,
            Channels::Gray => Self::Gray,
        }
    }
}

impl Wanted {
    pub(crate) const fn channels(self) -> u32 {
        match self {
            Self::Rgb => 3,
            Self::Rgba => 4,
            Self::Gray => 1,
        }
    }

    /// The layout that needs no conversion.
    pub(crate) const fn layout(self) -> Layout {
        let colour = match self {
            Self::Rgb => Colour::Rgb,
            Self::Rgba => Colour::Rgba,
            Self::Gray => Colour::Gray,
        };
        Layout { colour, element: Element::U8 }
    }
}

impl Layout {
    pub(crate) const fn samples(self) -> usize {
        match self.colour {
            Colour::Gray => 1,
            Colour::GrayAlpha => 2,
            Colour::Rgb => 3,
            Colour::Rgba | Colour::Cmyk | Colour::InvertedCmyk => 4,
        }
    }

    #[allow(clippy::cast_possible_truncation)] // at most 32
    pub(crate) const fn pixel_bytes(self) -> usize {
        self.samples() * self.element.bytes() as usize
    }

    /// Whether a pixel can be less than opaque.
    pub(crate) const fn has_alpha(self) -> bool {
        matches!(self.colour, Colour::GrayAlpha | Colour::Rgba)
    }

    /// Whether it is gray with alpha, in 16 bits.
    pub(crate) const fn is_deep_gray_with_alpha(self) -> bool {
        matches!((self.colour, self.element), (Colour::GrayAlpha, Element::U16))
    }

    /// Whether [`convert`] can make 8 bits of it without guessing a range.
    pub(crate) const fn converts(self) -> bool {
        matches!(self.element, Element::U8 | Element::U16)
    }
}

/// Writes the gray of pixels that also have alpha into `target`, with all its bits.
pub(crate) fn gray_of_deep(source: &[u8], target: &mut [u8]) {
    let (pixels, _) = source.as_chunks::<4>();
    let (target, _) = target.as_chunks_mut::<2>();
    target.iter_mut().zip(pixels).for_each(|(to, [first, second, ..])| *to = [*first, *second]);
}

/// Writes what is `wanted` of `source` into `target`, pixel by pixel.
pub(crate) fn convert(source: &[u8], layout: Layout, wanted: Wanted, target: &mut [u8]) {
    match (layout.element, layout.samples()) {
        (Element::U16, 1) => convert_pixels::<2, 1>(source, layout.colour, wanted, target, deep),
        (Element::U16, 2) => convert_pixels::<4, 2>(source, layout.colour, wanted, target, deep),
        (Element::U16, 3) => convert_pixels::<6, 3>(source, layout.colour, wanted, target, deep),
        (Element::U16, _) => convert_pixels::<8, 4>(source, layout.colour, wanted, target, deep),
        (_, 1) => convert_pixels::<1, 1>(source, layout.colour, wanted, target, |pixel| *pixel),
        (_, 2) => convert_pixels::<2, 2>(source, layout.colour, wanted, target, |pixel| *pixel),
        (_, 3) => convert_pixels::<3, 3>(source, layout.colour, wanted, target, |pixel| *pixel),
        (_, _) => convert_pixels::<4, 4>(source, layout.colour, wanted, target, |pixel| *pixel),
    }
}

/// 16 bits to 8 by leaving off the lower ones.
fn deep<const BYTES: usize, const SAMPLES: usize>(pixel: &[u8; BYTES]) -> [u8; SAMPLES] {
    let (pairs, _) = pixel.as_chunks::<2>();
    std::array::from_fn(|index| u16::from_ne_bytes(pairs[index]).to_be_bytes()[0])
}

fn convert_pixels<const BYTES: usize, const SAMPLES: usize>(
    source: &[u8],
    colour: Colour,
    wanted: Wanted,
    target: &mut [u8],
    shallow: impl Fn(&[u8; BYTES]) -> [u8; SAMPLES],
) {
    let (pixels, _) = source.as_chunks::<BYTES>();
    match wanted {
        Wanted::Rgb => {
            let (target, _) = target.as_chunks_mut::<3>();
            target.iter_mut().zip(pixels).for_each(|(to, from)| *to = rgb(shallow(from), colour));
        }
        Wanted::Rgba => {
            let (target, _) = target.as_chunks_mut::<4>();
            for (to, from) in target.iter_mut().zip(pixels) {
                let samples = shallow(from);
                let [red, green, blue] = rgb(samples, colour);
                let clear = matches!(colour, Colour::GrayAlpha | Colour::Rgba);
                *to = [red, green, blue, if clear { samples[SAMPLES - 1] } else { u8::MAX }];
            }
        }
        Wanted::Gray => {
            let gray = |samples: [u8; SAMPLES]| match colour {
                Colour::Gray | Colour::GrayAlpha => samples[0],
                _ => luma(rgb(samples, colour)),
            };
            target.iter_mut().zip(pixels).for_each(|(to, from)| *to = gray(shallow(from)));
        }
    }
}

#[inline]
fn rgb<const SAMPLES: usize>(samples: [u8; SAMPLES], colour: Colour) -> [u8; 3] {
    let ink = |invert: u8| {
        let light = 255 - (samples[SAMPLES - 1] ^ invert);
        std::array::from_fn(|index| light - times(samples[index] ^ invert, light))
    };
    match colour {
        Colour::Gray | Colour::GrayAlpha => [samples[0]; 3],
        Colour::Rgb | Colour::Rgba => std::array::from_fn(|index| samples[index]),
        Colour::Cmyk => ink(0),
        Colour::InvertedCmyk => ink(255),
    }
}

/// ITU-R 601 in fixed point, as Pillow has it.
pub(crate) fn luma([red, green, blue]: [u8; 3]) -> u8 {
    let sum = u32::from(red) * 19_595 + u32::from(green) * 38_470 + u32::from(blue) * 7_471 + 0x8000;
    sum.to_be_bytes()[1]
}

/// Colours as far as they are opaque, so that what is transparent lends no colour to its neighbours when it is resized: Pillow's
/// `RGBa`.
pub(crate) fn premultiply(pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<4>().0 {
        let [red, green, blue, alpha] = *pixel;
        *pixel = [times(red, alpha), times(green, alpha), times(blue, alpha), alpha];
    }
}

/// [`premultiply`] undone.
pub(crate) fn divide(pixels: &mut [u8]) {
    for pixel in pixels.as_chunks_mut::<4>().0 {
        let [red, green, blue, alpha] = *pixel;
        if !matches!(alpha, 0 | u8::MAX) {
            let full =
                |colour: u8| u8::try_from(u32::from(colour) * 255 / u32::from(alpha)).unwrap_or(u8::MAX);
            *pixel = [full(red), full(green), full(blue), alpha];
        }
    }
}

/// The product of two parts of 255, rounded.
fn times(one: u8, other: u8) -> u8 {
    let product = u32::from(one) * u32::from(other) + 128;
    ((product + (product >> 8)) >> 8).to_be_bytes()[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(source: &[u8], colour: Colour, element: Element, wanted: Wanted) -> Vec<u8> {
        let layout = Layout { colour, element };
        let mut target = vec![0; source.len() / layout.pixel_bytes() * wanted.channels() as usize];
        convert(source, layout, wanted, &mut target);
        target
    }

    #[test]
    fn alpha_is_kept_where_a_file_has_it_and_full_elsewhere() {
        for (source, colour, expected) in [
            (&[7_u8, 9][..], Colour::GrayAlpha, [7, 7, 7, 9]),
            (&[10, 20, 30, 40], Colour::Rgba, [10, 20, 30, 40]),
            (&[10, 20, 30], Colour::Rgb, [10, 20, 30, 255]),
            (&[7], Colour::Gray, [7, 7, 7, 255]),
            (&[0, 128, 255, 0], Colour::Cmyk, [255, 127, 0, 255]),
        ] {
            assert_eq!(converted(source, colour, Element::U8, Wanted::Rgba), expected, "{colour:?}");
        }
    }

    #[test]
    fn what_is_opaque_or_transparent_is_divided_as_pillow_does() {
        let mut pixels = [200, 100, 50, 128, 9, 9, 9, 0, 255, 254, 1, 255, 90, 80, 70, 64];
        premultiply(&mut pixels[..12]);
        assert_eq!(pixels[..12], [100, 50, 25, 128, 0, 0, 0, 0, 255, 254, 1, 255]);
        divide(&mut pixels);
        assert_eq!(pixels, [199, 99, 49, 128, 0, 0, 0, 0, 255, 254, 1, 255, 255, 255, 255, 64]);
    }

    #[test]
    fn colours_become_what_pillow_makes_of_them() {
        let deep: Vec<u8> =
            [0x1234_u16, 0xff80, 0x00ff].iter().flat_map(|value| value.to_ne_bytes()).collect();
        for (source, colour, element, rgb, gray) in [
            (&[7_u8][..], Colour::Gray, Element::U8, vec![7, 7, 7], vec![7]),
            (&[7, 0], Colour::GrayAlpha, Element::U8, vec![7, 7, 7], vec![7]),
            (&[10, 20, 30, 0], Colour::Rgba, Element::U8, vec![10, 20, 30], vec![18]),
            (&deep, Colour::Rgb, Element::U16, vec![0x12, 0xff, 0], vec![155]),
            (&[0, 128, 255, 0], Colour::Cmyk, Element::U8, vec![255, 127, 0], vec![151]),
            (&[255, 127, 0, 255], Colour::InvertedCmyk, Element::U8, vec![255, 127, 0], vec![151]),
            (&[0, 0, 0, 255], Colour::Cmyk, Element::U8, vec![0, 0, 0], vec![0]),
        ] {
            assert_eq!(converted(source, colour, element, Wanted::Rgb), rgb, "{colour:?}");
            assert_eq!(converted(source, colour, element, Wanted::Gray), gray, "{colour:?}");
        }
    }
}
