//! What stands before a BMP's pixels: sides, how pixels are stored, palette, where they begin. All versions of the header that Pillow knows.

use super::CUT;

/// What is known of the pixels.
#[derive(Debug)]
pub(super) struct Header {
    /// Width and height.
    pub(super) sides: (u32, u32),
    /// The first row stored is the highest.
    pub(super) top_down: bool,
    /// Bits of a pixel.
    pub(super) bits: usize,
    /// How they are stored.
    pub(super) stored: Stored,
    /// The colours of all indices; black where the file has none.
    pub(super) palette: Box<[[u8; 3]; 256]>,
    /// Where pixels begin.
    pub(super) pixels: usize,
}

/// How pixels are stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Blue, green, red in 24 or 32 bits, or indices.
    Plain,
    /// Red, green, blue and alpha somewhere in words of 16 or 32 bits.
    Masks(Masks),
    /// Indices in runs.
    Runs { of_four_bits: bool },
}

/// Red, green, blue, alpha.
pub(super) type Masks = [Option<Mask>; 4];

impl Stored {
    /// Whether words have a part for alpha that counts. In words of 16 bits it does not, as for Pillow: it is zero in most files.
    pub(super) fn has_alpha(&self, bits: usize) -> bool {
        bits == 32 && matches!(self, Self::Masks([_, _, _, Some(_)]))
    }

    /// Takes a word for blue, green, red and nothing, where it is that but for its alpha: such rows are read faster.
    pub(super) fn leave_out_alpha(&mut self) {
        const BYTES: [Option<Mask>; 3] = [Some(Mask::byte(16)), Some(Mask::byte(8)), Some(Mask::byte(0))];
        if matches!(self, Self::Masks([colours @ .., _]) if *colours == BYTES) {
            *self = Self::Plain;
        }
    }
}

/// Where a sample stands in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask {
    /// How far from the lowest bit.
    shift: u32,
    /// The largest value.
    most: u32,
}

impl Mask {
    /// A mask of consecutive bits; nothing for none.
    fn of(bits: u32) -> Result<Option<Self>, &'static str> {
        if bits == 0 {
            return Ok(None);
        }
        let (shift, most) = (bits.trailing_zeros(), bits >> bits.trailing_zeros());
        if most.count_ones() != 32 - most.leading_zeros() || most > 0xff_ffff {
            return Err("broken BMP: a mask that is no row of bits");
        }
        Ok(Some(Self { shift, most }))
    }

    const fn byte(shift: u32) -> Self {
        Self { shift, most: 255 }
    }

    /// The sample, brought to 8 bits as Pillow does.
    pub(super) fn sample(self, word: u32) -> u8 {
        ((word >> self.shift & self.most) * 255 / self.most).to_le_bytes()[0]
    }
}

pub(super) fn read(encoded: &[u8]) -> Result<Header, &'static str> {
    let long = |at: usize| {
        encoded.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_le_bytes).ok_or(CUT)
    };
    let short = |at: usize| {
        encoded.get(at..).and_then(<[u8]>::first_chunk).copied().map(u16::from_le_bytes).ok_or(CUT)
    };
    let length = long(14)?;
    let (sides, top_down, bits, packed, colours) = match length {
        12 => ((u32::from(short(18)?), u32::from(short(20)?)), false, short(24)?, 0, 0),
        40 | 52 | 56 | 64 | 108 | 124 => {
            let (height, from_top) = (long(22)?, long(22)? >= 0xff00_0000);
            let height = if from_top { height.wrapping_neg() } else { height };
            ((long(18)?, height), from_top, short(28)?, long(30)?, long(46)?)
        }
        _ => {
            return Err(
                "a BMP whose header is of a kind gpulane does not know; give the model its own load(path)",
            );
        }
    };
    let behind = 14 + length as usize;
    encoded.get(..behind).ok_or(CUT)?;
    if !matches!(bits, 1 | 4 | 8 | 16 | 24 | 32) {
        return Err(
            "a BMP with pixels of a depth gpulane does not decode; give the model its own load(path)",
        );
    }
    let (stored, behind) = match (packed, bits) {
        (0, 16) => (masks(&[0x7c00, 0x3e0, 0x1f, 0], bits)?, behind),
        (0, _) => (Stored::Plain, behind),
        (1, 1 | 4 | 8) => (Stored::Runs { of_four_bits: false }, behind),
        (2, 1 | 4 | 8) => (Stored::Runs { of_four_bits: true }, behind),
        (3, 16 | 24 | 32) => {
            let alpha = if length >= 56 { long(66)? } else { 0 };
            // Behind the shortest header they stand by themselves.
            (
                masks(&[long(54)?, long(58)?, long(62)?, alpha], bits)?,
                if length == 40 { behind + 12 } else { behind },
            )
        }
        (4 | 5, _) => {
            return Err("a BMP that holds a JPEG or PNG is not decoded; give the model its own load(path)");
        }
        _ => return Err("broken BMP: depth and compression do not go together"),
    };
    let entry = if length == 12 { 3 } else { 4 };
    let colours = if bits > 8 { 0 } else { most_colours(colours, bits)? };
    let palette = palette(encoded.get(behind..).unwrap_or_default(), entry, colours);
    let table = entry * colours;
    let pixels = match long(10)? as usize {
        0 => behind + table,
        // Some writers forget the palette.
        at if at == 14 + length as usize => at + table,
        at => at,
    };
    Ok(Header { sides, top_down, bits: usize::from(bits), stored, palette, pixels })
}

/// How many colours the palette has: what is said, or as many as there can be.
fn most_colours(said: u32, bits: u16) -> Result<usize, &'static str> {
    match said {
        0 => Ok(1 << bits),
        1..=65_536 => Ok(said as usize),
        _ => Err("broken BMP: a palette of more than 65536 colours"),
    }
}

fn masks(masks: &[u32; 4], bits: u16) -> Result<Stored, &'static str> {
    match (bits, masks) {
        // Nothing said: the usual order, and alpha above it.
        (32, [0, 0, 0, 0]) => Ok(Stored::Masks([16, 8, 0, 24].map(|shift| Some(Mask::byte(shift))))),
        (24, [0xff_0000, 0xff00, 0xff, _]) => Ok(Stored::Plain),
        (24, _) => Err("a BMP with masks gpulane does not know; give the model its own load(path)"),
        _ => Ok(Stored::Masks([
            Mask::of(masks[0])?,
            Mask::of(masks[1])?,
            Mask::of(masks[2])?,
            Mask::of(masks[3])?,
        ])),
    }
}

/// Colours as they stand: blue, green, red, and a byte of nothing in longer ones.
fn palette(table: &[u8], entry: usize, colours: usize) -> Box<[[u8; 3]; 256]> {
    let colour = |index: usize| match table.get(index * entry..).and_then(<[u8]>::first_chunk) {
        Some([blue, green, red]) if index < colours => [*red, *green, *blue],
        _ => [0; 3],
    };
    Box::new(std::array::from_fn(colour))
}
