//! What the samples of a page mean: which of them are taken, what they become, and which kinds are refused.

use crate::colour::{Colour, Layout};
use crate::{Element, Rejection};

use super::compression::Compression;
use super::directory::Directory;
use super::palette::palette;
use super::reasons::{broken, unknown};
use super::ycbcr::{self, Tables};

const BITS_PER_SAMPLE: u16 = 258;
const PHOTOMETRIC: u16 = 262;
const SAMPLES_PER_PIXEL: u16 = 277;
const PLANAR: u16 = 284;
const INK_SET: u16 = 332;
const EXTRA_SAMPLES: u16 = 338;
const SAMPLE_FORMAT: u16 = 339;

/// What numbers samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Unsigned,
    Signed,
    Float,
}

/// Samples as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Of a pixel.
    pub(super) count: usize,
    /// Of a sample.
    pub(super) bits: u32,
    /// What they are.
    pub(super) format: Format,
    /// Each sample of a pixel lies in a plane of its own.
    pub(super) planar: bool,
}

impl Stored {
    /// Samples of a pixel that lie side by side.
    pub(super) const fn side_by_side(self) -> usize {
        if self.planar { 1 } else { self.count }
    }
}

/// How a stored sample becomes one of the layout's.
pub(super) enum Unit {
    /// As it is, so many bytes.
    Same(usize),
    /// The upper 8 of 16 bits.
    Upper,
    /// Up to 8 bits, by what each value becomes.
    Scaled(Box<[u8]>),
    /// More than 8 bits that are no whole bytes: as 16 bits, less so many of the lower ones.
    Deep {
        /// Bits that are left off.
        shift: u32,
        /// Whether 16 bits are kept, not 8.
        keep: bool,
    },
    /// A number of a colour.
    Index(Box<[[u8; 3]]>),
}

/// What is still to be done when all samples are in their place.
pub(super) enum After {
    Nothing,
    /// Colours were multiplied by alpha.
    Divide,
    /// Luma and chroma are to become RGB.
    Colours(Box<Tables>),
}

/// What the pixels of a page are, and what is made of them.
pub(super) struct Pixels {
    /// As they lie in the file.
    pub(super) stored: Stored,
    /// As they are read.
    pub(super) layout: Layout,
    /// Which samples of a pixel are taken, in this order.
    pub(super) taken: Vec<usize>,
    /// How each is.
    pub(super) unit: Unit,
    /// The first of them says how dark it is, not how light.
    pub(super) inverted: bool,
    /// How many pixels across and down share their chroma, where they lie in such groups.
    pub(super) grouped: Option<(usize, usize)>,
    /// The last step.
    pub(super) after: After,
}

/// What a page's samples stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Dark,
    Light,
    Rgb,
    Index,
    Ink,
    Luma,
}

impl Meaning {
    fn of(page: &Directory<'_>) -> Result<Self, Rejection> {
        let number = page.number(PHOTOMETRIC)?;
        let number = number.ok_or_else(|| unknown("it does not say whether 0 is black or white"))?;
        Ok(match number {
            0 => Self::Dark,
            1 => Self::Light,
            2 => Self::Rgb,
            3 => Self::Index,
            5 => Self::Ink,
            6 => Self::Luma,
            4 => return Err(unknown("a mask for another image")),
            8..=10 => return Err(unknown("L*a*b* colours")),
            32_803 => return Err(unknown("the colour filter array of a sensor")),
            32_844 | 32_845 => return Err(unknown("logarithmic luminance")),
            34_892 => return Err(unknown("raw values of a sensor")),
            other => return Err(unknown(format!("PhotometricInterpretation {other}"))),
        })
    }

    /// Samples that every pixel of this kind has.
    const fn samples(self) -> usize {
        match self {
            Self::Dark | Self::Light | Self::Index => 1,
            Self::Rgb | Self::Luma => 3,
            Self::Ink => 4,
        }
    }
}

/// Alpha among the samples.
#[derive(Clone, Copy)]
struct Alpha {
    /// Which sample.
    sample: usize,
    /// Colours were multiplied by it.
    associated: bool,
}

impl Pixels {
    /// What the page's directory says. `keep`: samples of one channel keep all their bits.
    pub(super) fn of(
        page: &Directory<'_>,
        compression: Compression<'_>,
        keep: bool,
    ) -> Result<Self, Rejection> {
        let meaning = Meaning::of(page)?;
        let stored = stored(page, meaning)?;
        // Gray that keeps its bits is asked for without alpha, which matters only where it was multiplied with.
        let is_gray = matches!(meaning, Meaning::Dark | Meaning::Light);
        let alpha = alpha(page, meaning, stored)?.filter(|alpha| !(keep && is_gray) || alpha.associated);
        let grouped = match meaning {
            Meaning::Luma => ycbcr::groups(page, compression, stored)?,
            _ => None,
        };
        let after = match (meaning, compression) {
            (Meaning::Luma, Compression::Jpeg(_)) if !stored.planar => After::Nothing,
            (Meaning::Luma, _) => After::Colours(Box::new(Tables::of(page)?)),
            _ if alpha.is_some_and(|alpha| alpha.associated) => After::Divide,
            _ => After::Nothing,
        };
        let mut taken: Vec<usize> = (0..meaning.samples()).collect();
        taken.extend(alpha.map(|alpha| alpha.sample));
        let colour = match (meaning, alpha) {
            (Meaning::Dark | Meaning::Light, None) => Colour::Gray,
            (Meaning::Dark | Meaning::Light, Some(_)) => Colour::GrayAlpha,
            (Meaning::Rgb, Some(_)) => Colour::Rgba,
            (Meaning::Rgb | Meaning::Luma | Meaning::Index, _) => Colour::Rgb,
            (Meaning::Ink, _) => Colour::Cmyk,
        };
        let inverted = meaning == Meaning::Dark;
        if inverted && (stored.format != Format::Unsigned || matches!(after, After::Divide)) {
            return Err(unknown("0 is white, but there is no telling what is black"));
        }
        let (unit, element) = match meaning {
            Meaning::Index => (index(page, stored)?, Element::U8),
            _ => unit(stored, inverted, keep && matches!(colour, Colour::Gray | Colour::GrayAlpha))?,
        };
        Ok(Self { stored, layout: Layout { colour, element }, taken, unit, inverted, grouped, after })
    }

    /// Bytes that the way from stored samples takes.
    pub(super) fn memory(&self) -> u64 {
        match &self.unit {
            Unit::Index(colours) => 3 * colours.len() as u64,
            _ => 0,
        }
    }
}

fn stored(page: &Directory<'_>, meaning: Meaning) -> Result<Stored, Rejection> {
    let count = page.number_or(SAMPLES_PER_PIXEL, 1)?;
    let bits = alike(page, BITS_PER_SAMPLE, (1, count), "of different depths")?;
    let format = match alike(page, SAMPLE_FORMAT, (1, count), "of different types")? {
        // 4 is "undefined", which the standard tells readers to take for the default.
        1 | 4 => Format::Unsigned,
        2 => Format::Signed,
        3 => Format::Float,
        5 | 6 => return Err(unknown("complex numbers")),
        other => return Err(unknown(format!("SampleFormat {other}"))),
    };
    let count = usize::try_from(count).ok().filter(|count| (1..=65_535).contains(count));
    let count = count.ok_or_else(|| broken("a pixel without samples"))?;
    if count < meaning.samples() {
        return Err(broken(format!("{count} samples a pixel where {} are needed", meaning.samples())));
    }
    let planar = match page.number_or(PLANAR, 1)? {
        1 => false,
        2 => count > 1,
        other => return Err(broken(format!("PlanarConfiguration {other}"))),
    };
    let bits = u32::try_from(bits).ok().filter(|bits| (1..=64).contains(bits));
    Ok(Stored { count, bits: bits.ok_or_else(|| broken("samples without bits"))?, format, planar })
}

/// The one value that a tag has for all `count` samples.
fn alike(page: &Directory<'_>, tag: u16, (absent, count): (u64, u64), how: &str) -> Result<u64, Rejection> {
    let Some(values) = page.find(tag)?.filter(|values| values.count() > 0) else { return Ok(absent) };
    let first = values.number(0)?;
    for index in 1..values.count().min(count) {
        if values.number(index)? != first {
            return Err(unknown(format!("samples {how}")));
        }
    }
    if values.count() != 1 && values.count() < count {
        return Err(broken("a tag with a value for some samples but not for all"));
    }
    Ok(first)
}

/// Which of the extra samples is alpha. The others are dropped, as the standard tells readers to do.
fn alpha(page: &Directory<'_>, meaning: Meaning, stored: Stored) -> Result<Option<Alpha>, Rejection> {
    let extra = stored.count - meaning.samples();
    let Some(kinds) = page.find(EXTRA_SAMPLES)?.filter(|kinds| kinds.count() > 0) else {
        let sample = meaning.samples();
        return match (meaning, extra) {
            // A fourth sample that is not declared is alpha for Pillow, and for whoever forgets to declare it.
            (Meaning::Rgb, 1..) | (Meaning::Dark | Meaning::Light, 1) => {
                Ok(Some(Alpha { sample, associated: false }))
            }
            (Meaning::Dark | Meaning::Light | Meaning::Index, 2..) => {
                Err(unknown(format!("{} samples a pixel, and nothing says what they are", stored.count)))
            }
            _ => Ok(None),
        };
    };
    for at in 0..extra.min(usize::try_from(kinds.count()).unwrap_or(usize::MAX)) {
        let associated = match kinds.number(at as u64)? {
            1 => true,
            // 999 is what one drawing program writes for it.
            2 | 999 => false,
            _ => continue,
        };
        let sample = meaning.samples() + at;
        return match meaning {
            Meaning::Dark | Meaning::Light | Meaning::Rgb => Ok(Some(Alpha { sample, associated })),
            _ if associated => Err(unknown("inks or a palette multiplied by alpha")),
            _ => Ok(None),
        };
    }
    Ok(None)
}

fn index(page: &Directory<'_>, stored: Stored) -> Result<Unit, Rejection> {
    if stored.bits > 16 || stored.format != Format::Unsigned {
        return Err(unknown(format!("a palette for samples of {} bits", stored.bits)));
    }
    Ok(Unit::Index(palette(page, stored.bits)?))
}

/// What becomes of each sample.
fn unit(stored: Stored, inverted: bool, keep: bool) -> Result<(Unit, Element), Rejection> {
    let odd = |what: &str| unknown(format!("{what} of {} bits", stored.bits));
    let element = match (stored.format, stored.bits) {
        (Format::Unsigned, bits @ 1..8) => return Ok((Unit::Scaled(scaled(bits, inverted)), Element::U8)),
        (Format::Unsigned, 8) => Element::U8,
        (Format::Unsigned, 16) if keep => Element::U16,
        (Format::Unsigned, 16) => return Ok((Unit::Upper, Element::U8)),
        (Format::Unsigned, bits @ 9..16) => {
            let shift = if keep { 0 } else { bits - 8 };
            return Ok((Unit::Deep { shift, keep }, if keep { Element::U16 } else { Element::U8 }));
        }
        (Format::Unsigned, 32) => Element::U32,
        (Format::Unsigned, 64) => Element::U64,
        (Format::Signed, 8) => Element::I8,
        (Format::Signed, 16) => Element::I16,
        (Format::Signed, 32) => Element::I32,
        (Format::Signed, 64) => Element::I64,
        (Format::Float, 16) => Element::F16,
        (Format::Float, 32) => Element::F32,
        (Format::Float, 64) => Element::F64,
        (Format::Unsigned, _) => return Err(odd("samples")),
        (Format::Signed, _) => return Err(odd("signed samples")),
        (Format::Float, _) => return Err(odd("floats")),
    };
    Ok((Unit::Same(stored.bits as usize / 8), element))
}

/// What each value of so few bits becomes: from black to white, evenly.
fn scaled(bits: u32, inverted: bool) -> Box<[u8]> {
    let most = (1_u32 << bits) - 1;
    let level = |value: u32| {
        let value = if inverted { most - value } else { value };
        u8::try_from((value * 255 + most / 2) / most).unwrap_or(u8::MAX)
    };
    (0..=most).map(level).collect()
}

/// Whether inks are those four that can be brought to RGB.
pub(super) fn check_inks(page: &Directory<'_>) -> Result<(), Rejection> {
    let set = page.number_or(INK_SET, 1)?;
    if page.number(PHOTOMETRIC)? == Some(5) && set != 1 {
        return Err(unknown("inks other than cyan, magenta, yellow and black"));
    }
    Ok(())
}
