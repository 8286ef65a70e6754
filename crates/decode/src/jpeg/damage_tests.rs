//! Damaged copies of what an encoder wrote: none is accepted whole of which libjpeg says that it concealed something, whichever way it takes; and
//! what harms no pixel fails nothing.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

use super::Opened;
use super::libjpeg::{Kind, Pixel, Said};
use crate::sniff::{self, Format};
use crate::{Decoder, Finish, Form, Limits, Place, Rejection};
use gpulane_model::DamagePolicy;

/// How a picture is written.
#[derive(Clone, Copy, Debug)]
struct Writing {
    subsamp: Subsamp,
    optimize: bool,
    progressive: bool,
    arithmetic: bool,
}

const SIDES: (usize, usize) = (120, 88);

/// Small pictures alone: what a damaged header claims is not worth the time.
const LIMITS: Limits = Limits { max_pixels: 1 << 20, max_bytes: u32::MAX as u64, max_memory: 2 << 30 };

fn writing() -> impl Strategy<Value = Writing> {
    let subsamp = select(vec![Subsamp::None, Subsamp::Sub2x1, Subsamp::Sub2x2, Subsamp::Gray]);
    (subsamp, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(subsamp, optimize, progressive, arithmetic)| Writing { subsamp, optimize, progressive, arithmetic },
    )
}

impl Writing {
    fn encoded(self) -> Vec<u8> {
        let (width, height) = SIDES;
        let mut state = 7u32;
        let pixels: Vec<u8> = (0..width * height * 3)
            .map(|at| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (x, y) = (at / 3 % width, at / 3 / width);
                let slope = x * 2 + y + if (x / 19 + y / 13) % 2 == 0 { 60 } else { 0 } + at % 3 * 20;
                u8::try_from((slope + (state >> 28) as usize).min(255)).unwrap()
            })
            .collect();
        let mut compressor = Compressor::new().unwrap();
        compressor.set_quality(80).unwrap();
        compressor.set_subsamp(self.subsamp).unwrap();
        compressor.set_optimize(self.optimize).unwrap();
        compressor.set_progressive(self.progressive).unwrap();
        compressor.set_arithmetic(self.arithmetic).unwrap();
        let image =
            Image { pixels: pixels.as_slice(), width, pitch: width * 3, height, format: PixelFormat::RGB };
        compressor.compress_to_vec(image).unwrap()
    }
}

/// An image beside the tests.
fn stored(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/images/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

struct Room(Vec<u8>);

impl Place for Room {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.0 = vec![0; usize::try_from(bytes).ok()?];
        Some(&mut self.0)
    }
}

fn decoded(
    encoded: &[u8],
    (decode, finish): (&str, Finish),
    damaged: DamagePolicy,
) -> Result<(Form, Vec<u8>), Rejection> {
    let mut room = Room(Vec::new());
    let mut decoder = Decoder::new(decode.parse().unwrap(), LIMITS).with_damaged(damaged);
    decoder.decode(encoded, finish, &mut room).map(|form| (form, room.0))
}

/// All that libjpeg says of a file that is known by its first bytes and whose header can be read, if libjpeg makes a picture of it. Other
/// files are refused before there is anything to conceal.
fn said(encoded: &[u8]) -> Option<Said> {
    sniff::format(encoded).ok().filter(|format| *format == Format::Jpeg)?;
    let mut opened = Opened::new(encoded, &LIMITS).ok()?;
    let mut pixels = vec![0; (opened.header.width * opened.header.height * 3) as usize];
    opened.handle.pixels(1, Pixel::Rgb, &mut pixels).ok()
}

/// Warnings of the class that libjpeg calls corrupt data, but for bytes that it skips.
fn corrupt(said: &Said) -> u32 {
    [Kind::BadCode, Kind::Missing, Kind::Restart].into_iter().map(|kind| said.count(kind)).sum()
}

/// Every way that a file can take and that judges it.
const WAYS: [(&str, Finish); 4] = [
    ("rgb", Finish::Here),
    ("rgb:24x18", Finish::Here),
    ("rgb:24x18", Finish::Planes),
    ("gray:50x40", Finish::Here),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn nothing_is_accepted_that_libjpeg_concealed_a_part_of(
        writing in writing(),
        restarts in prop::bool::weighted(0.2),
        flips in vec((any::<Index>(), 0u8..8), 0..4),
        cut in prop::option::weighted(0.3, (any::<Index>(), 1usize..60)),
        spliced in prop::option::weighted(0.2, (any::<Index>(), any::<Index>())),
    ) {
        let whole = if restarts { stored("jpeg-restarts.jpg") } else { writing.encoded() };
        let mut encoded = whole.clone();
        for (at, bit) in flips {
            let at = at.index(encoded.len());
            encoded[at] ^= 1 << bit;
        }
        if let Some((at, many)) = cut {
            let at = at.index(encoded.len());
            encoded.drain(at..(at + many).min(whole.len()));
        }
        if let Some((to, from)) = spliced {
            encoded.truncate(to.index(encoded.len()));
            encoded.extend_from_slice(&whole[from.index(whole.len())..]);
        }
        let Some(said) = said(&encoded) else { return Ok(()) };
        for way in WAYS {
            let strict = decoded(&encoded, way, DamagePolicy::Fail);
            let lenient = decoded(&encoded, way, DamagePolicy::Warn);
            if corrupt(&said) > 0 {
                prop_assert!(strict.is_err(), "{way:?}: {said:?}");
                prop_assert!(lenient.as_ref().is_ok_and(|(form, _)| form.damaged), "{way:?}: {said:?}");
            }
            if let Ok((form, pixels)) = strict {
                // What fails nothing is the same whatever is asked.
                prop_assert!(!form.damaged);
                prop_assert_eq!(lenient, Ok((form, pixels)));
            }
        }
        // Not for nothing: all that was not flipped, cut or spliced has its pixels, and passes.
        if encoded == whole {
            prop_assert_eq!(corrupt(&said), 0);
            prop_assert!(decoded(&encoded, WAYS[0], DamagePolicy::Fail).is_ok());
        }
    }
}

fn plain(subsamp: Subsamp, progressive: bool) -> Vec<u8> {
    Writing { subsamp, optimize: false, progressive, arithmetic: false }.encoded()
}

/// Puts `bytes` before the place `from_end` bytes before the end.
fn with(encoded: &[u8], from_end: usize, bytes: &[u8]) -> Vec<u8> {
    let (head, tail) = encoded.split_at(encoded.len() - from_end);
    [head, bytes, tail].concat()
}

/// Whether two pictures are alike: what we finish ourselves is at most 1 apart from what libjpeg's way gives.
fn alike(one: &(Form, Vec<u8>), other: &(Form, Vec<u8>)) -> bool {
    one.0 == other.0 && one.1.iter().zip(&other.1).all(|(one, other)| one.abs_diff(*other) <= 1)
}

/// A marker with its length.
fn marker(code: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
    [&[0xff, code], &length[..], body].concat()
}

#[test]
fn what_harms_no_pixel_fails_nothing() {
    for (subsamp, progressive) in [(Subsamp::Sub2x2, false), (Subsamp::Gray, false), (Subsamp::Sub2x2, true)]
    {
        let whole = plain(subsamp, progressive);
        let sos = whole.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
        let mut odd_scan = whole.clone();
        if !progressive {
            // Where spectral selection ends, which sequential files do not have.
            odd_scan[sos + 4 + 2 * usize::from(whole[sos + 4]) + 2] = 17;
        }
        let behind_start = |bytes: &[u8]| [&whole[..2], bytes, &whole[2..]].concat();
        let odd = [
            ("no end mark", whole[..whole.len() - 2].to_vec()),
            ("a broken end mark", [&whole[..whole.len() - 2], &[0x7f, 0xd9]].concat()),
            ("bytes behind the end", with(&whole, 0, b"trailer")),
            ("zeros before the end", with(&whole, 2, &[0; 5])),
            ("a word before the end", with(&whole, 2, b"\0\0junk")),
            ("a marker before the end", with(&whole, 2, &marker(0xe9, b"note"))),
            ("a bad colour profile", behind_start(&marker(0xe2, b"ICC_PROFILE\0\x07\x03broken"))),
            ("bytes in the header", with(&whole, whole.len() - sos, b"junk")),
            ("another JFIF", behind_start(&marker(0xe0, b"JFIF\0\x07\x01\0\0\x01\0\x01\0\0"))),
            ("odd scan parameters", odd_scan),
        ];
        for way in WAYS {
            let right = decoded(&whole, way, DamagePolicy::Fail).unwrap();
            for (what, encoded) in &odd {
                let made = decoded(encoded, way, DamagePolicy::Fail);
                assert!(
                    made.as_ref().is_ok_and(|made| alike(made, &right)),
                    "{what} {way:?}: {:?}",
                    made.map(|made| made.0)
                );
            }
        }
    }
}

#[test]
fn junk_before_the_end_is_told_from_the_picture_s_own_data() {
    // A copy that claims to be one row of units lower leaves these units unread.
    for subsamp in [Subsamp::Sub2x2, Subsamp::None, Subsamp::Gray] {
        let whole = plain(subsamp, false);
        let frame = whole.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        let mut lower = whole.clone();
        lower[frame + 6] = 8 * u8::try_from(SIDES.1 / 16).unwrap();
        for way in WAYS {
            let failed = decoded(&lower, way, DamagePolicy::Fail).unwrap_err().to_string();
            assert!(failed.contains("more image data than the picture has room for"), "{way:?}: {failed}");
            assert!(decoded(&lower, way, DamagePolicy::Warn).unwrap().0.damaged);
        }
    }
}

#[test]
fn the_reason_says_what_is_damaged() {
    let whole = plain(Subsamp::Sub2x2, false);
    let half = &whole[..whole.len() / 2];
    for (encoded, words) in [
        (half.to_vec(), "truncated: the JPEG's image data ends too early"),
        ([half, &[0xff, 0xd9]].concat(), "damaged JPEG: a truncated stretch of image data"),
    ] {
        for way in WAYS {
            assert_eq!(decoded(&encoded, way, DamagePolicy::Fail), Err(Rejection::broken(words)), "{way:?}");
        }
    }
    // Cut where a scan ends: every scan that is there is whole, and some are not there.
    let progressive = plain(Subsamp::Sub2x2, true);
    let scan = progressive.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
    let table = progressive[..scan].windows(2).rposition(|pair| pair == [0xff, 0xc4]).unwrap();
    let failed = decoded(&progressive[..table], WAYS[0], DamagePolicy::Fail).map(|made| made.0);
    assert_eq!(failed, Err(Rejection::broken("truncated: the JPEG's image data ends too early")));
}

#[test]
fn what_is_missing_of_arithmetic_codes_is_told_by_the_missing_end() {
    for progressive in [false, true] {
        let writing = Writing { subsamp: Subsamp::Sub2x2, optimize: false, progressive, arithmetic: true };
        let whole = writing.encoded();
        for way in WAYS {
            assert!(decoded(&whole, way, DamagePolicy::Fail).is_ok(), "{way:?}");
            for length in [whole.len() / 2, whole.len() - 10] {
                let failed = decoded(&whole[..length], way, DamagePolicy::Fail).map(|made| made.0);
                let words = "truncated: the JPEG's image data ends too early";
                assert_eq!(failed, Err(Rejection::broken(words)), "{length} {way:?}");
                assert!(decoded(&whole[..length], way, DamagePolicy::Warn).unwrap().0.damaged);
            }
        }
    }
}

/// A picture with a scan for each of its three components: a gray one, three times.
fn apart() -> Vec<u8> {
    let gray = plain(Subsamp::Gray, false);
    let place = |mark: [u8; 2]| gray.windows(2).position(|pair| pair == mark).unwrap();
    let (frame, scan) = (place([0xff, 0xc0]), place([0xff, 0xda]));
    let components = [1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0];
    let head = marker(0xc0, &[&gray[frame + 4..frame + 9], &[3], &components].concat());
    let mut file = [&gray[..frame], &head, &gray[frame + 13..scan]].concat();
    for component in 1..=3 {
        file.extend(marker(0xda, &[1, component, 0, 0, 63, 0]));
        file.extend(&gray[scan + 10..gray.len() - 2]);
    }
    [file, vec![0xff, 0xd9]].concat()
}

#[test]
fn a_picture_without_one_of_its_components_is_damaged_also_with_an_end_mark() {
    // One scan for each component; the last ones are left out.
    let apart = apart();
    let scans: Vec<usize> =
        apart.windows(2).enumerate().filter(|(_, pair)| *pair == [0xff, 0xda]).map(|(at, _)| at).collect();
    assert_eq!(scans.len(), 3);
    for way in WAYS {
        assert!(decoded(&apart, way, DamagePolicy::Fail).is_ok(), "{way:?}");
        for (end, words) in [
            (scans[1], "damaged JPEG: 2 components without image data"),
            (scans[2], "damaged JPEG: no image data for one of its components"),
        ] {
            let ended = [&apart[..end], &[0xff, 0xd9]].concat();
            let failed = decoded(&ended, way, DamagePolicy::Fail).map(|made| made.0);
            assert_eq!(failed, Err(Rejection::broken(words)), "{way:?}");
        }
    }
    // Of a progressive one the first coefficients must be there. That later scans make them no finer is how some files are written.
    let progressive = plain(Subsamp::Sub2x2, true);
    let scan = progressive.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
    let table = progressive[..scan].windows(2).rposition(|pair| pair == [0xff, 0xc4]).unwrap();
    let coarse = [&progressive[..table], &[0xff, 0xd9]].concat();
    for way in WAYS {
        assert!(decoded(&coarse, way, DamagePolicy::Fail).is_ok_and(|made| !made.0.damaged), "{way:?}");
    }
}

#[test]
fn bits_that_are_left_are_counted_at_the_end_of_every_scan() {
    // What `watch.c` takes from inside libjpeg-turbo: a version that keeps it elsewhere fails here.
    for (subsamp, progressive) in [(Subsamp::Sub2x2, false), (Subsamp::Gray, false), (Subsamp::Sub2x2, true)]
    {
        let whole = plain(subsamp, progressive);
        for junk in [0usize, 1, 3, 7, 9, 40] {
            let encoded = with(&whole, 2, &vec![0x11; junk]);
            let said = said(&encoded).unwrap();
            assert_eq!(said.last.bytes as usize, junk, "{subsamp:?}");
            assert_eq!(said.last.end, encoded.len() - 2);
            assert_eq!(said.last.padding + 1, 1 << said.last.bits, "filled up with ones");
        }
    }
}

#[test]
fn a_transform_of_colours_that_nobody_knows_is_read_as_libjpeg_reads_it() {
    // Four components with Adobe's transform 2 are YCCK, and libjpeg takes any other number but 0 for that, too.
    let ycck = stored("jpeg-ycck.jpg");
    let adobe = ycck.windows(5).position(|bytes| bytes == b"Adobe").unwrap();
    assert_eq!(ycck[adobe + 11], 2);
    for transform in [3, 7, 255] {
        let mut odd = ycck.clone();
        odd[adobe + 11] = transform;
        for way in [WAYS[0], WAYS[1]] {
            let (right, made) =
                (decoded(&ycck, way, DamagePolicy::Fail), decoded(&odd, way, DamagePolicy::Fail));
            assert!(right.is_ok() && made == right, "transform {transform} {way:?}");
        }
    }
}

#[test]
fn a_handle_s_file_is_read_from_the_slice_it_was_made_with() {
    let whole = plain(Subsamp::Sub2x2, false);
    let mut opened = Opened::new(&whole, &Limits::default()).unwrap();
    let mut small = vec![0; 10];
    assert!(opened.pixels(1, Pixel::Rgb, &mut small).is_err(), "no room");
    assert!(opened.planes(1, &mut small).is_err(), "no room");
}
