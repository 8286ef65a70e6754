//! Colour profiles to sRGB by Little CMS, with Pillow's defaults (`ImageCms.profileToProfile`: perceptual intent). Owns what a thread
//! keeps of profiles, by their bytes.

mod embedded;

use std::sync::{Arc, Mutex, PoisonError};

use lcms2::{
    ColorSpaceSignature, DisallowCache, Flags, Intent, PixelFormat, Profile, ThreadContext, Transform,
};

use crate::colour::{Colour, Layout, Wanted, convert, luma};
use crate::{Element, Rejection};
pub(crate) use embedded::embedded;

/// Bytes a profile may have. Those of printing presses have two to three million at most, nearly all others less than a thousandth.
pub(crate) const LARGEST: usize = 4 << 20;

/// Times the bytes of a profile that making its conversion takes at most: the profile itself, what is kept to know it again, Little CMS's
/// copy, and its tables before and after they are brought to 16 bits. Measured with a profile that is nearly all table.
pub(crate) const COPIES: u64 = 7;

/// Larger profiles are made conversions of one at a time: before its memory is claimed, an image may use no more than what is too little to
/// be counted.
const ALONE: usize = 1 << 20;

/// Held by whoever makes a conversion of a large profile.
static MAKING: Mutex<()> = Mutex::new(());

/// Profiles that are kept from file to file.
const KEPT: usize = 8;

/// Pixels that are converted at a time.
const STEP: usize = 2048;

/// What a conversion takes beside the bytes of its profile: tables of 17⁴ colours, or curves.
const TABLES: usize = 1 << 20;

type ToRgb = Transform<u8, u8, ThreadContext, DisallowCache>;

/// What a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Gray,
    Rgb,
    Cmyk,
}

/// From the colours of one profile to sRGB.
pub(crate) struct Conversion {
    /// What it takes.
    space: Space,
    /// None where it would leave every colour as it is, within rounding: most pictures say that they are sRGB.
    transform: Option<ToRgb>,
    /// Little CMS's memory functions and settings, which freeing a transform asks for: behind it, because fields are dropped in their order.
    /// Never locked; without a mutex it could not be shared between threads.
    _context: Mutex<ThreadContext>,
}

/// The bytes of a profile, and what became of them.
type Seen = (Vec<u8>, Result<Arc<Conversion>, String>);

/// Profiles seen before, the last one first, and what became of them.
#[derive(Default)]
pub(crate) struct Profiles {
    kept: Vec<Seen>,
}

impl Profiles {
    /// The conversion from `profile`, or why there is none.
    pub(crate) fn conversion(&mut self, profile: &[u8]) -> Result<Arc<Conversion>, Rejection> {
        if profile.len() > LARGEST {
            let what = format!("its colour profile has more than {LARGEST} bytes, which is not read");
            return Err(Rejection::broken(what));
        }
        let known = self.kept.iter().position(|(bytes, _)| bytes == profile);
        let made = if let Some(at) = known {
            self.kept.remove(at)
        } else {
            // An image's memory is claimed once, when it is known whether its colours are converted. Until then large ones wait for each other.
            let _alone =
                (profile.len() > ALONE).then(|| MAKING.lock().unwrap_or_else(PoisonError::into_inner));
            (profile.to_vec(), Conversion::new(profile).map(Arc::new))
        };
        let answer = made.1.clone();
        self.kept.insert(0, made);
        self.kept.truncate(KEPT);
        answer.map_err(Rejection::broken)
    }

    /// Bytes that are kept, about.
    pub(crate) fn kept(&self) -> usize {
        self.kept.iter().map(|(bytes, _)| bytes.len() + TABLES).sum()
    }

    /// Gives them back.
    pub(crate) fn give_back(&mut self) {
        self.kept = Vec::new();
    }
}

impl Conversion {
    fn new(profile: &[u8]) -> Result<Self, String> {
        if !tables_fit(profile) {
            return Err(damaged("a table in it is larger than the profile"));
        }
        let context = ThreadContext::new();
        let source = Profile::new_icc_context(&context, profile).map_err(|_| damaged("it cannot be read"))?;
        let (space, format) = match source.color_space() {
            ColorSpaceSignature::GrayData => (Space::Gray, PixelFormat::GRAY_8),
            ColorSpaceSignature::RgbData => (Space::Rgb, PixelFormat::RGB_8),
            ColorSpaceSignature::CmykData => (Space::Cmyk, PixelFormat::CMYK_8),
            other => {
                return Err(format!("its colour profile is for {other:?}, which is not converted to sRGB"));
            }
        };
        let target = Profile::new_srgb_context(&context);
        let transform = Transform::new_flags_context(
            &context,
            &source,
            format,
            &target,
            PixelFormat::RGB_8,
            Intent::Perceptual,
            Flags::NO_CACHE,
        )
        .map_err(|_| damaged("no conversion to sRGB can be made of it"))?;
        let transform = Some(transform).filter(|transform| !leaves_colours(space, transform));
        drop((source, target));
        Ok(Self { space, transform, _context: Mutex::new(context) })
    }

    /// Whether pixels of this kind must be converted; an error where the profile is for others.
    pub(crate) fn concerns(&self, colour: Colour) -> Result<bool, Rejection> {
        let fits = match colour {
            Colour::Gray | Colour::GrayAlpha => self.space != Space::Cmyk,
            Colour::Rgb | Colour::Rgba => self.space == Space::Rgb,
            Colour::Cmyk | Colour::InvertedCmyk => self.space == Space::Cmyk,
        };
        if fits {
            return Ok(self.transform.is_some());
        }
        let has = match colour {
            Colour::Gray | Colour::GrayAlpha => "gray",
            Colour::Rgb | Colour::Rgba => "RGB",
            Colour::Cmyk | Colour::InvertedCmyk => "CMYK",
        };
        Err(Rejection::broken(format!(
            "its colour profile is for {:?}, its pixels are {has}; decode it without `srgb`",
            self.space
        )))
    }

    /// Writes what is `wanted` of `source` into `target` as [`convert`] does, in sRGB.
    pub(crate) fn convert(&self, source: &[u8], layout: Layout, wanted: Wanted, target: &mut [u8]) {
        let Some(transform) = &self.transform else { return convert(source, layout, wanted, target) };
        let mut given = [0; STEP * 4];
        let mut colours = [0; STEP * 3];
        let channels = wanted.channels() as usize;
        let sources = source.chunks(STEP * layout.pixel_bytes());
        for (source, target) in sources.zip(target.chunks_mut(STEP * channels)) {
            let count = source.len() / layout.pixel_bytes();
            let given = match self.space {
                Space::Gray => &mut given[..count],
                Space::Rgb => &mut given[..count * 3],
                Space::Cmyk => &mut given[..count * 4],
            };
            match self.space {
                Space::Gray => convert(source, layout, Wanted::Gray, given),
                Space::Rgb => convert(source, layout, Wanted::Rgb, given),
                Space::Cmyk => ink(source, layout, given),
            }
            let colours = &mut colours[..count * 3];
            transform.transform_pixels(given, colours);
            let rows = colours.as_chunks::<3>().0;
            match wanted {
                Wanted::Rgb => target[..colours.len()].copy_from_slice(colours),
                Wanted::Gray => target.iter_mut().zip(rows).for_each(|(to, from)| *to = luma(*from)),
                Wanted::Rgba => {
                    // For its alpha.
                    convert(source, layout, wanted, target);
                    let pixels = target.as_chunks_mut::<4>().0.iter_mut().zip(rows);
                    pixels.for_each(|([red, green, blue, _], from)| [*red, *green, *blue] = *from);
                }
            }
        }
    }
}

/// 8 bits of ink, 255 is full.
fn ink(source: &[u8], layout: Layout, target: &mut [u8]) {
    let invert = if layout.colour == Colour::InvertedCmyk { 0xff } else { 0 };
    if layout.element == Element::U16 {
        let samples = source.as_chunks::<2>().0;
        let high = |pair: &[u8; 2]| u16::from_ne_bytes(*pair).to_be_bytes()[0];
        target.iter_mut().zip(samples).for_each(|(to, from)| *to = high(from) ^ invert);
    } else {
        target.iter_mut().zip(source).for_each(|(to, from)| *to = from ^ invert);
    }
}

fn damaged(how: &str) -> String {
    format!("damaged colour profile: {how}; decode it without `srgb` to take its colours as they are")
}

/// Whether a transform moves no colour of a grid by more than a level, which is what rounding does.
fn leaves_colours(space: Space, transform: &ToRgb) -> bool {
    const GRID: [u8; 10] = [0, 1, 8, 32, 64, 96, 128, 192, 254, 255];
    if space != Space::Rgb {
        return false;
    }
    let grays = (0..=255).flat_map(|level: u8| [level; 3]);
    let grid = (0..1000).flat_map(|at: usize| [GRID[at / 100], GRID[at / 10 % 10], GRID[at % 10]]);
    let given: Vec<u8> = grays.chain(grid).collect();
    let mut made = vec![0; given.len()];
    transform.transform_pixels(&given, &mut made);
    given.iter().zip(&made).all(|(one, other)| one.abs_diff(*other) <= 1)
}

/// Numbers in a table of so many points along each of its sides.
fn entries(grid: &[u8], out: u8) -> Option<usize> {
    grid.iter().try_fold(usize::from(out), |product, points| product.checked_mul(usize::from(*points).max(1)))
}

/// Whether no table of colours claims more entries than the profile has bytes: Little CMS would take memory for it before it reads
/// it.
fn tables_fit(profile: &[u8]) -> bool {
    let number = |at: usize| -> Option<usize> {
        usize::try_from(u32::from_be_bytes(*profile.get(at..)?.first_chunk()?)).ok()
    };
    let table = |tag: usize| -> Option<Option<usize>> {
        let at = number(128 + 4 + tag * 12 + 4)?;
        let body = profile.get(at..)?;
        let (inputs, out) = (usize::from(*body.get(8)?), *body.get(9)?);
        match body.get(..4)? {
            b"mft1" | b"mft2" => {
                let points = *body.get(10)?;
                Some(entries(&vec![points; inputs], out))
            }
            b"mAB " | b"mBA " => {
                let offset = number(at.checked_add(24)?)?;
                let inputs = if body.starts_with(b"mAB ") { inputs } else { inputs.max(usize::from(out)) };
                let grid = body.get(offset..)?.get(..inputs.min(16))?;
                Some(if offset == 0 { Some(0) } else { entries(grid, out) })
            }
            // Pipelines of floating-point numbers, which nobody embeds in pictures.
            b"mpet" => Some(None),
            _ => Some(Some(0)),
        }
    };
    let tags = number(128).unwrap_or(0).min(100);
    // A tag that lies beyond the end is Little CMS's to refuse.
    (0..tags).all(|tag| table(tag).is_none_or(|size| size.is_some_and(|size| size <= profile.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_profile_that_is_too_large() {
        let mut profiles = Profiles::default();
        let refused = profiles.conversion(&vec![0; LARGEST + 1]).err().map(|why| why.to_string());
        assert!(refused.is_some_and(|why| why.contains("more than 4194304 bytes")));
        assert_eq!(profiles.kept(), 0);
        assert!(profiles.conversion(&[0; 10]).is_err());
        assert!(profiles.kept() > 0, "what is damaged is known again");
    }
}
