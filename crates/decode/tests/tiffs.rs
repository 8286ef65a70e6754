//! TIFFs of every make come out as they were written, or are refused with the reason: compressions, predictors, strips and tiles, bits, planes, extra
//! samples, bit and byte orders. The files are those of tests/pictures/tiffs.py, checked there against tifffile and Pillow.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod bombs;
mod place;
mod tiff_pack;

use bombs::{Entry, STRIP, long, short, tiff};
use flate2::Crc;
use gpulane_decode::{Element, Finish, Form, Rejection};
use place::{decoded, difference};
use tiff_pack::{Expected, tiffs};

const fn name(element: Element) -> &'static str {
    match element {
        Element::U8 => "uint8",
        Element::U16 => "uint16",
        Element::U32 => "uint32",
        Element::U64 => "uint64",
        Element::I8 => "int8",
        Element::I16 => "int16",
        Element::I32 => "int32",
        Element::I64 => "int64",
        Element::F16 => "float16",
        Element::F32 => "float32",
        Element::F64 => "float64",
        Element::Bool => "bool",
    }
}

/// What is wrong with what came of a file; nothing if it is as expected.
fn wrong(made: Result<(Form, Vec<u8>), Rejection>, wanted: &Expected, most: u8) -> Option<String> {
    let (form, pixels) = match (made, wanted) {
        (Err(rejected), Expected::Refused(words)) if rejected.to_string().contains(words) => return None,
        (Err(rejected), _) => return Some(rejected.to_string()),
        (Ok(_), Expected::Refused(words)) => return Some(format!("not refused ({words})")),
        (Ok(made), Expected::Pixels { .. }) => made,
    };
    let Expected::Pixels { shape, element, crc, bytes } = wanted else { return None };
    let sides: Vec<u64> = form.dims[..form.ndim as usize].iter().map(|side| u64::from(*side)).collect();
    if (&sides, name(form.element)) != (shape, element) {
        return Some(format!("{form:?} for {shape:?} {element}"));
    }
    if let Some(bytes) = bytes {
        let (_, apart) = difference(&pixels, bytes);
        return (apart > most).then(|| format!("{apart} apart"));
    }
    let mut sum = Crc::new();
    sum.update(&pixels);
    (sum.sum() != *crc).then(|| "other pixels".to_owned())
}

/// Checks all files whose names hold one of these words.
fn assert_right(words: &[&str], at_least: usize) {
    let (mut seen, mut failed) = (0, Vec::new());
    for file in tiffs().iter().filter(|file| words.iter().any(|word| file.name.contains(word))) {
        seen += 1;
        for (decode, expected) in &file.expected {
            let made = decoded(&file.encoded, decode, Finish::Here);
            failed.extend(
                wrong(made, expected, file.most).map(|what| format!("{} {decode}: {what}", file.name)),
            );
        }
    }
    assert!(seen >= at_least, "only {seen} files of {words:?}");
    assert!(failed.is_empty(), "{} of {seen}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn every_tiff_is_right_or_refused() {
    assert_right(&[""], 200);
}

#[test]
fn extra_samples_are_dropped_without_scrambling_the_others() {
    assert_right(&["-x-", "-xx-", "-xxx-", "-undeclared-"], 8);
}

#[test]
fn bits_in_the_other_order_are_turned_round() {
    assert_right(&["-fill2-"], 30);
}

#[test]
fn colours_multiplied_by_alpha_are_divided_by_it() {
    assert_right(&["-associated"], 6);
}

#[test]
fn tiles_that_reach_beyond_the_image_are_whole() {
    assert_right(&["-tiles-", "-wide-"], 40);
}

#[test]
fn bilevel_and_low_depths_fax_palettes_and_chroma_are_decoded() {
    assert_right(&["gray1-", "gray2-", "gray4-", "gray12-", "white-is-zero", "pillow-1-", "palette"], 20);
    assert_right(&["ycbcr", "jpeg", "webp", "planar"], 20);
}

/// A gray page of 3×2 pixels, and what is changed of it.
fn page(changes: &[(u16, Entry)], data: &[u8]) -> Vec<u8> {
    let mut entries =
        vec![long(256, 3), long(257, 2), short(258, &[8]), short(259, &[1]), short(262, &[1]), long(278, 2)];
    entries.retain(|entry| changes.iter().all(|(tag, _)| *tag != entry.0));
    entries.extend(changes.iter().filter(|(_, entry)| entry.0 != 0).map(|(_, entry)| entry.clone()));
    tiff(entries, data, STRIP)
}

/// A page whose pixels share their chroma, two by two, and what else is changed of it.
fn shared_chroma(bits: u16, samples: u16, more: &[(u16, Entry)]) -> Vec<(u16, Entry)> {
    let bits = short(258, &vec![bits; usize::from(samples)]);
    let mut changes = vec![(258, bits), (262, short(262, &[6])), (277, short(277, &[samples]))];
    changes.push((530, short(530, &[2, 2])));
    changes.extend(more.iter().cloned());
    changes
}

/// Leaves a tag out.
const NOTHING: Entry = (0, 0, 0, Vec::new());

#[test]
fn what_has_no_clear_meaning_is_refused_with_the_reason() {
    for (changes, words) in [
        (vec![(262, NOTHING)], "whether 0 is black or white"),
        (vec![(262, short(262, &[8]))], "L*a*b*"),
        (vec![(262, short(262, &[32_803]))], "colour filter array"),
        (vec![(259, short(259, &[34_712]))], "JPEG 2000"),
        (vec![(259, short(259, &[6]))], "JPEG as TIFF 6.0 had it at first"),
        (vec![(277, short(277, &[3]))], "nothing says what they are"),
        (
            vec![(258, short(258, &[8, 8, 4])), (262, short(262, &[2])), (277, short(277, &[3]))],
            "different depths",
        ),
        (vec![(339, short(339, &[6])), (258, short(258, &[64]))], "complex"),
        (vec![(262, short(262, &[0])), (258, short(258, &[32])), (339, short(339, &[3]))], "0 is white"),
        (vec![(262, short(262, &[3])), (320, short(320, &[200; 768]))], "a palette of 8 bits"),
        (vec![(278, long(278, 0))], "0 pixels"),
        (vec![(317, short(317, &[9])), (259, short(259, &[5]))], "Predictor 9"),
        (shared_chroma(8, 3, &[(259, short(259, &[5])), (317, short(317, &[2]))]), "share their chroma"),
        (shared_chroma(16, 3, &[]), "3 samples of 16 bits"),
        (shared_chroma(8, 4, &[]), "4 samples of 8 bits"),
        (shared_chroma(8, 4, &[(259, short(259, &[7]))]), "4 samples of 8 bits in its compression"),
    ] {
        for decode in ["rgb", "gray"] {
            let Err(Rejection::Broken(reason)) = decoded(&page(&changes, &[0; 64]), decode, Finish::Here)
            else {
                panic!("{words}: not refused")
            };
            assert!(reason.contains(words), "{reason}");
            let is_damage = reason.starts_with("broken TIFF");
            assert!(is_damage || reason.contains("load(path)"), "no way out: {reason}");
        }
    }
}

#[test]
fn gray_keeps_its_bits_beside_alpha_and_other_extra_samples() {
    let pixels: [[u16; 2]; 6] = [[0, 0], [513, 65_535], [20_000, 40_000], [1, 1], [9, 0], [65_535, 65_535]];
    let data: Vec<u8> = pixels.iter().flatten().flat_map(|sample| sample.to_le_bytes()).collect();
    let kept = |extra: u16, orientation: u16| {
        let deep = (258, short(258, &[16, 16]));
        let changes =
            [deep, (277, short(277, &[2])), (338, short(338, &[extra])), (274, short(274, &[orientation]))];
        let (form, bytes) = decoded(&page(&changes, &data), "gray", Finish::Here).expect("decodes");
        assert_eq!((form.element, form.ndim), (Element::U16, 2));
        bytes.as_chunks::<2>().0.iter().map(|two| u16::from_ne_bytes(*two)).collect::<Vec<u16>>()
    };
    let grays = [0, 513, 20_000, 1, 9, 65_535];
    for extra in [0, 2] {
        assert_eq!(kept(extra, 1), grays, "{extra}");
        assert_eq!(kept(extra, 3), [65_535, 9, 1, 20_000, 513, 0], "{extra}, turned");
    }
    assert_eq!(kept(1, 1), [0, 513, 32_767, 65_535, 0, 65_535], "divided by alpha");
    assert_eq!(kept(1, 3), [65_535, 0, 65_535, 32_767, 513, 0], "divided and turned");
}

#[test]
fn strips_that_end_too_early_are_truncated_and_what_follows_them_is_not_looked_at() {
    let (_, pixels) = decoded(&page(&[], b"abcdefgh"), "gray", Finish::Here).expect("more than enough");
    assert_eq!(pixels, b"abcdef");
    for compression in [1, 5, 8, 32_773, 50_000, 34_925] {
        let made = decoded(&page(&[(259, short(259, &[compression]))], b"abcd"), "gray", Finish::Here);
        assert!(matches!(made, Err(Rejection::Broken(_))), "{compression}");
    }
}

#[test]
fn pages_in_a_circle_are_refused_where_all_are_asked_for() {
    let mut file = page(&[], b"abcdef");
    // The next directory is the first one.
    let first = file[4..8].to_vec();
    let next = file.len() - 4;
    file[next..].copy_from_slice(&first);
    let refused = decoded(&file, "gray", Finish::Here);
    assert!(matches!(&refused, Err(Rejection::Broken(reason)) if reason.contains("circle")), "{refused:?}");
    assert!(decoded(&file, "rgb", Finish::Here).is_ok());
}
