//! What we decode ourselves is what libjpeg-turbo makes of it, bit by bit; what it complains of is left to it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use super::baseline::Baseline;
use super::libjpeg::Pixel;
use super::route::{pack, planes_form};
use super::{Jpegs, Opened};
use crate::Limits;
use crate::damage::Damage;
use crate::planes::{Chroma, Planes};

/// A picture of edges, slopes and noise, as a JPEG.
#[derive(Clone, Debug)]
struct Photo {
    sides: (usize, usize),
    quality: i32,
    subsamp: Subsamp,
    optimize: bool,
    noise: u8,
    seed: u64,
}

fn photo() -> impl Strategy<Value = Photo> {
    let subsamp = select(vec![Subsamp::None, Subsamp::Sub2x1, Subsamp::Sub2x2]);
    ((5usize..90, 1usize..70), 1i32..=100, subsamp, any::<bool>(), any::<u8>(), any::<u64>()).prop_map(
        |(sides, quality, subsamp, optimize, noise, seed)| Photo {
            sides,
            quality,
            subsamp,
            optimize,
            noise,
            seed,
        },
    )
}

impl Photo {
    fn encoded(&self) -> Vec<u8> {
        let (width, height) = self.sides;
        let mut pixels = Vec::with_capacity(width * height * 3);
        let mut state = self.seed | 1;
        for at in 0..width * height * 3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (x, y) = (at / 3 % width, at / 3 / width);
            let ground = if (x / 7 + y / 5) % 3 == at % 3 { 250 } else { (x * 3 + y * 2) % 200 };
            let noise = (state >> 33) as usize % (usize::from(self.noise) + 1);
            pixels.push(u8::try_from((ground + noise) % 256).unwrap());
        }
        let mut compressor = Compressor::new().unwrap();
        compressor.set_quality(self.quality).unwrap();
        compressor.set_subsamp(self.subsamp).unwrap();
        compressor.set_optimize(self.optimize).unwrap();
        let image =
            Image { pixels: pixels.as_slice(), width, pitch: width * 3, height, format: PixelFormat::RGB };
        compressor.compress_to_vec(image).unwrap()
    }
}

/// Planes by ourselves and by libjpeg-turbo, where each gives any.
fn both(jpegs: &mut Jpegs, encoded: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let Ok(mut opened) = Opened::new(encoded, &Limits { max_pixels: 1 << 16, ..Limits::default() }) else {
        return (None, None);
    };
    let (Some(layout), Some(chroma)) = (opened.layout(1), opened.chroma()) else { return (None, None) };
    let form = planes_form((opened.header.width, opened.header.height), chroma, 1);
    let mut ours = vec![0; usize::try_from(form.bytes).unwrap()];
    let mut theirs = ours.clone();
    let mut samples = vec![0; layout.bytes()];
    let plain = jpegs.plain_planes(&opened, layout, &mut samples).map(|()| {
        pack(&Planes { samples: &samples, layout }, &mut ours);
        ours
    });
    let whole = opened.planes(1, &mut theirs) == Ok(Damage::NONE);
    (plain, whole.then_some(theirs))
}

/// The colours of planes whose chroma is as large as the luma, as libjpeg computes them.
fn colours(planes: &Planes<'_>) -> Vec<u8> {
    let mut pixels = Vec::new();
    for ((luma, bluish), reddish) in planes.rows(0).zip(planes.rows(1)).zip(planes.rows(2)) {
        for ((luma, bluish), reddish) in luma.iter().zip(bluish).zip(reddish) {
            let (y, b, r) = (i32::from(*luma), i32::from(*bluish) - 128, i32::from(*reddish) - 128);
            let red = y + ((91_881 * r + 32_768) >> 16);
            let green = y + ((-22_554 * b - 46_802 * r + 32_768) >> 16);
            let blue = y + ((116_130 * b + 32_768) >> 16);
            pixels.extend([red, green, blue].map(|colour| u8::try_from(colour.clamp(0, 255)).unwrap()));
        }
    }
    pixels
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_same_planes_to_the_bit(photos in vec(photo(), 1..4)) {
        // One after the other: tables are kept between files.
        let mut jpegs = Jpegs::new();
        for photo in photos {
            let (ours, theirs) = both(&mut jpegs, &photo.encoded());
            prop_assert_eq!(ours.is_some(), Baseline::is_able(), "left to libjpeg-turbo: {:?}", photo);
            prop_assert!(ours.is_none() || ours == theirs, "{photo:?}");
        }
    }

    #[test]
    fn smaller_ones_have_the_same_colours_to_the_bit(photo in photo(), by in select(vec![1u32, 2, 4, 8])) {
        let (mut jpegs, encoded) = (Jpegs::new(), photo.encoded());
        let mut opened = Opened::new(&encoded, &Limits::default()).unwrap();
        let layout = opened.layout(by).filter(|layout| layout.chroma == Chroma::Full);
        prop_assert_eq!(layout.is_some(), photo.subsamp == Subsamp::None || (photo.subsamp == Subsamp::Sub2x2 && by > 1));
        let Some(layout) = layout else { return Ok(()) };
        let mut samples = vec![0; layout.bytes()];
        let done = jpegs.plain_planes(&opened, layout, &mut samples).is_some();
        prop_assert_eq!(done, Baseline::is_able(), "left to libjpeg-turbo: {:?}", photo);
        if done {
            let ours = colours(&Planes { samples: &samples, layout });
            let mut theirs = vec![0; ours.len()];
            assert_eq!(opened.pixels(by, Pixel::Rgb, &mut theirs), Ok(Damage::NONE));
            prop_assert!(ours == theirs, "{by} times smaller: {photo:?}");
        }
    }

    #[test]
    fn what_libjpeg_complains_of_is_left_to_it(
        photo in photo(),
        changes in vec((any::<Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let mut encoded = photo.encoded();
        for (at, byte) in changes {
            let at = at.index(encoded.len());
            encoded[at] = byte;
        }
        if let Some(cut) = cut {
            encoded.truncate(cut.index(encoded.len()));
        }
        let (ours, theirs) = both(&mut Jpegs::new(), &encoded);
        // Samples may differ: coefficients that no encoder writes overflow in libjpeg-turbo, and do not here.
        prop_assert!(ours.is_none() || theirs.is_some(), "libjpeg-turbo complains of {encoded:02x?}");
    }
}
