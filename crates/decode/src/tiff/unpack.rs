//! Rows of stored samples to rows of pixels as they are read: which samples are taken, how many bits they keep, what they mean.

use crate::colour::Colour;

use super::pixels::{After, Pixels, Unit};

/// Writes a row of pixels into `target`, which has room for exactly those that are wanted. `plane`: the row holds only this sample
/// of each pixel.
pub(super) fn row(pixels: &Pixels, plane: Option<usize>, packed: &[u8], target: &mut [u8]) {
    let count = pixels.stored.side_by_side();
    if let Unit::Index(colours) = &pixels.unit {
        return indexed(packed, (pixels.stored.bits, count), colours, target);
    }
    if plane.is_none() && is_as_stored(pixels) {
        target.copy_from_slice(&packed[..target.len()]);
        return;
    }
    let pixel = pixels.layout.pixel_bytes();
    for (channel, sample) in pixels.taken.iter().enumerate() {
        let at = match plane {
            Some(plane) if plane != *sample => continue,
            Some(_) => 0,
            None => *sample,
        };
        let inverted = pixels.inverted && channel == 0;
        let source = Source { packed, count, at, bits: pixels.stored.bits };
        one_channel(&pixels.unit, source, inverted, (target, pixel, channel));
    }
}

/// Makes pixels black, or one plane of them, as they are before the last step. Alpha becomes clear.
pub(super) fn blacken(pixels: &Pixels, plane: Option<usize>, target: &mut [u8]) {
    if let Unit::Index(_) = pixels.unit {
        return target.fill(0);
    }
    let pixel = pixels.layout.pixel_bytes();
    let sample = pixel / pixels.layout.samples();
    for channel in 0..pixels.layout.samples() {
        if plane.is_some_and(|plane| pixels.taken.get(channel) != Some(&plane)) {
            continue;
        }
        let level = match (&pixels.after, pixels.layout.colour) {
            (After::Colours(_), _) if channel > 0 => 128,
            (_, Colour::Cmyk) => u8::MAX,
            _ => 0,
        };
        for pixel in target.chunks_exact_mut(pixel) {
            pixel[channel * sample..][..sample].fill(level);
        }
    }
}

/// Whether a pixel is read exactly as it is stored, less the order of its bytes.
pub(super) fn is_as_stored(pixels: &Pixels) -> bool {
    matches!(pixels.unit, Unit::Same(_))
        && !pixels.inverted
        && pixels.grouped.is_none()
        && pixels.stored.count == pixels.layout.samples()
        && pixels.taken.iter().enumerate().all(|(channel, sample)| channel == *sample)
}

/// Where the samples of one channel are.
#[derive(Clone, Copy)]
struct Source<'a> {
    packed: &'a [u8],
    /// Samples of a pixel.
    count: usize,
    /// Which of them.
    at: usize,
    /// Of each.
    bits: u32,
}

impl<'a> Source<'a> {
    /// The samples of whole bytes.
    fn whole<const BYTES: usize>(self) -> impl Iterator<Item = &'a [u8; BYTES]> {
        let (samples, _) = self.packed.as_chunks::<BYTES>();
        samples.get(self.at..).unwrap_or_default().iter().step_by(self.count)
    }

    /// The samples of any bits up to 16, the highest bit first.
    fn any(self) -> impl Iterator<Item = u16> {
        let Self { packed, count, at, bits } = self;
        let bits = bits as usize;
        (0..).map(move |pixel: usize| number(packed, (pixel * count + at) * bits, bits))
    }
}

/// The number of up to 16 bits that begins at a bit.
fn number(packed: &[u8], bit: usize, bits: usize) -> u16 {
    let first = bit / 8;
    let byte = |at: usize| u32::from(packed.get(first + at).copied().unwrap_or(0));
    let three = byte(0) << 16 | byte(1) << 8 | byte(2);
    let below = 24 - bit % 8 - bits;
    #[allow(clippy::cast_possible_truncation)] // masked to 16 bits
    let number = (three >> below & ((1 << bits) - 1)) as u16;
    number
}

/// Writes the samples of one channel: target, bytes of a pixel there, and which of its samples.
fn one_channel(
    unit: &Unit,
    source: Source<'_>,
    inverted: bool,
    (target, pixel, channel): (&mut [u8], usize, usize),
) {
    let flip = if inverted { u8::MAX } else { 0 };
    match unit {
        Unit::Same(1) => put(target, pixel, channel, source.whole::<1>().map(|[byte]| [byte ^ flip])),
        Unit::Same(2) => {
            put(target, pixel, channel, source.whole::<2>().map(|two| two.map(|byte| byte ^ flip)));
        }
        Unit::Same(4) => {
            put(target, pixel, channel, source.whole::<4>().map(|four| four.map(|byte| byte ^ flip)));
        }
        Unit::Same(_) => {
            put(target, pixel, channel, source.whole::<8>().map(|all| all.map(|byte| byte ^ flip)));
        }
        Unit::Upper => {
            let upper = |two: &[u8; 2]| [u16::from_ne_bytes(*two).to_be_bytes()[0] ^ flip];
            put(target, pixel, channel, source.whole::<2>().map(upper));
        }
        Unit::Scaled(levels) if source.bits == 1 && source.count == 1 && pixel == 1 => {
            bilevel(source.packed, [levels[0], levels[1]], target);
        }
        Unit::Scaled(levels) => {
            put(target, pixel, channel, source.any().map(|value| [levels[usize::from(value)]]));
        }
        Unit::Deep { shift, keep } => {
            let most = u16::MAX >> (16 - source.bits);
            let value = |value: u16| if inverted { most - value } else { value };
            if *keep {
                put(target, pixel, channel, source.any().map(|stored| value(stored).to_ne_bytes()));
            } else {
                let upper = |stored: u16| [(value(stored) >> shift).to_be_bytes()[1]];
                put(target, pixel, channel, source.any().map(upper));
            }
        }
        Unit::Index(_) => {}
    }
}

fn put<const BYTES: usize>(
    target: &mut [u8],
    pixel: usize,
    channel: usize,
    samples: impl Iterator<Item = [u8; BYTES]>,
) {
    for (to, sample) in target.chunks_exact_mut(pixel).zip(samples) {
        to[channel * BYTES..][..BYTES].copy_from_slice(&sample);
    }
}

/// Eight pixels of a byte at a time.
fn bilevel(packed: &[u8], levels: [u8; 2], target: &mut [u8]) {
    for (pixels, byte) in target.chunks_mut(8).zip(packed) {
        for (at, pixel) in pixels.iter_mut().enumerate() {
            *pixel = levels[usize::from(byte >> (7 - at) & 1)];
        }
    }
}

fn indexed(packed: &[u8], (bits, count): (u32, usize), colours: &[[u8; 3]], target: &mut [u8]) {
    let source = Source { packed, count, at: 0, bits };
    let (target, _) = target.as_chunks_mut::<3>();
    match bits {
        8 => {
            let found = source.whole::<1>().map(|[index]| colours[usize::from(*index)]);
            target.iter_mut().zip(found).for_each(|(to, colour)| *to = colour);
        }
        16 => {
            let found = source.whole::<2>().map(|index| colours[usize::from(u16::from_ne_bytes(*index))]);
            target.iter_mut().zip(found).for_each(|(to, colour)| *to = colour);
        }
        _ => {
            let found = source.any().map(|index| colours[usize::from(index)]);
            target.iter_mut().zip(found).for_each(|(to, colour)| *to = colour);
        }
    }
}

/// Divides colours by the alpha they were multiplied by, in place; `samples` of a pixel, alpha last. As Pillow does it: what is
/// transparent is black, what is lighter than white is white.
pub(super) fn divide_by_alpha(pixels: &mut [u8], samples: usize) {
    for pixel in pixels.chunks_exact_mut(samples) {
        let Some((alpha, colours)) = pixel.split_last_mut() else { return };
        for colour in colours {
            *colour = match *alpha {
                u8::MAX => *colour,
                0 => 0,
                alpha => u8::try_from(255 * u32::from(*colour) / u32::from(alpha)).unwrap_or(u8::MAX),
            };
        }
    }
}

/// Divides gray of so many bits, 9 to 16, by the alpha behind it, in place, rounded as that of 8 bits is.
pub(super) fn divide_by_deep_alpha(pixels: &mut [u8], bits: u32) {
    let most = u16::MAX >> (16 - bits);
    let (pixels, _) = pixels.as_chunks_mut::<4>();
    for pixel in pixels {
        let (gray, alpha) =
            (u16::from_ne_bytes([pixel[0], pixel[1]]), u16::from_ne_bytes([pixel[2], pixel[3]]));
        let divided = (u32::from(most) * u32::from(gray)).checked_div(u32::from(alpha)).unwrap_or(0);
        pixel[..2].copy_from_slice(&u16::try_from(divided).map_or(most, |gray| gray.min(most)).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_at_any_bit() {
        let packed = [0b1011_0011, 0b0101_1100, 0b1110_0001];
        for (bit, bits, wanted) in [
            (0, 1, 1),
            (1, 1, 0),
            (3, 2, 0b10),
            (4, 12, 0b0011_0101_1100),
            (7, 16, 0b1010_1110_0111_0000),
            (20, 4, 1),
        ] {
            assert_eq!(number(&packed, bit, bits), wanted, "{bit} {bits}");
        }
    }

    #[test]
    fn alpha_of_16_bits_is_divided_out() {
        let pixels: [[u16; 2]; 4] = [[10, 0], [10, 65_535], [100, 32_768], [60_000, 100]];
        let mut bytes: Vec<u8> = pixels.iter().flatten().flat_map(|sample| sample.to_ne_bytes()).collect();
        divide_by_deep_alpha(&mut bytes, 16);
        let grays: Vec<u16> =
            bytes.as_chunks::<4>().0.iter().map(|pixel| u16::from_ne_bytes([pixel[0], pixel[1]])).collect();
        assert_eq!(grays, [0, 10, 199, 65_535]);
    }

    #[test]
    fn alpha_is_divided_out_as_pillow_does() {
        let mut pixels = [10, 20, 30, 0, 10, 20, 30, 255, 10, 64, 200, 128];
        divide_by_alpha(&mut pixels, 4);
        assert_eq!(pixels, [0, 0, 0, 0, 10, 20, 30, 255, 19, 127, 255, 128]);
    }
}
