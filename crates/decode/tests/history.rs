//! What a decoder makes of a file does not depend on what it has seen before: the same bytes, the same form, the same
//! reason, as if the decoder were new.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod corpus;
mod place;
mod tiff_pack;

use corpus::{Named, arrays, broken_copies, jpegs, profiled, stills, stored};
use gpulane_decode::{Decoder, Finish, Form, Limits, Rejection};
use place::Room;

const MOST_BYTES: u64 = 3 << 20;

fn limits() -> Limits {
    Limits { max_pixels: 1 << 20, max_bytes: MOST_BYTES, ..Limits::default() }
}

type Made = Result<(Form, Vec<u8>), Rejection>;

/// What is asked of a decoder.
const FORMS: [(&str, Finish); 17] = [
    ("rgb", Finish::Here),
    ("rgb:24x18", Finish::Here),
    ("rgb:24x18", Finish::Planes),
    ("rgb:24x18", Finish::Encoded),
    ("rgb:5x4:crop", Finish::Planes),
    ("rgb:5x4", Finish::Here),
    ("rgb:7x30:pad", Finish::Here),
    ("gray", Finish::Here),
    ("gray:9x9", Finish::Here),
    ("rgb:12x12:short=14", Finish::Planes),
    ("rgb:12x12:short=14:bicubic", Finish::Here),
    ("rgb:24x18:lanczos", Finish::Planes),
    ("rgb:24x18:box", Finish::Here),
    ("gray:7x8:nearest", Finish::Here),
    ("rgba", Finish::Here),
    ("rgba:24x18", Finish::Encoded),
    ("rgba:13x9:pad:hamming", Finish::Here),
];

fn decoder(decode: &str) -> Decoder {
    Decoder::new(decode.parse().expect(decode), limits())
}

/// Decodes into a place full of `fill`, which must not show through.
fn made(decoder: &mut Decoder, encoded: &[u8], finish: Finish, fill: u8) -> Made {
    let mut room = Room { fill, ..Room::of(MOST_BYTES) };
    decoder.decode(encoded, finish, &mut room).map(|form| (form, room.bytes))
}

/// What each file is decoded to by a new decoder on a new thread: what a thread keeps would spoil both sides alike.
fn fresh(files: &[Named], (decode, finish): (&str, Finish)) -> Vec<Made> {
    let alone = |file: &[u8]| {
        std::thread::scope(|scope| {
            scope.spawn(|| made(&mut decoder(decode), file, finish, 0xa5)).join().expect("no panic")
        })
    };
    files.iter().map(|(_, file)| alone(file)).collect()
}

/// What a test shows of a result: pixels would fill the screen.
fn shown(made: &Made) -> String {
    match made {
        Ok((form, bytes)) => {
            format!("{form:?}, sum {}", bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())
        }
        Err(rejection) => rejection.to_string(),
    }
}

/// Decodes every file after every other one.
fn assert_pairs(files: &[Named], form: (&str, Finish)) {
    let alone = fresh(files, form);
    let mut wrong = Vec::new();
    for (before, first) in files {
        for ((name, file), right) in files.iter().zip(&alone) {
            let mut used = decoder(form.0);
            let _ = made(&mut used, first, form.1, 0x11);
            let again = made(&mut used, file, form.1, 0x5a);
            if again != *right {
                wrong.push(format!("`{name}` after `{before}`: {}; alone: {}", shown(&again), shown(right)));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{form:?}: {} pairs, among them\n{}",
        wrong.len(),
        wrong[..wrong.len().min(8)].join("\n")
    );
}

/// Decodes all files with one decoder, in several orders.
fn assert_sequences(files: &[Named], form: (&str, Finish)) {
    let alone = fresh(files, form);
    let mut order: Vec<usize> = (0..files.len()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..6 {
        let mut used = decoder(form.0);
        for at in &order {
            let again = made(&mut used, &files[*at].1, form.1, 0x5a);
            let (name, right) = (&files[*at].0, &alone[*at]);
            assert!(
                again == *right,
                "{form:?} round {round}, `{name}`: {}; alone: {}",
                shown(&again),
                shown(right)
            );
        }
        for end in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(end, (state >> 33) as usize % (end + 1));
        }
    }
}

#[test]
fn a_jpeg_after_any_other_is_decoded_as_if_alone() {
    let files = jpegs();
    for form in [FORMS[0], FORMS[1], FORMS[2], FORMS[3], FORMS[8]] {
        assert_pairs(&files, form);
    }
}

#[test]
fn any_image_after_any_other_is_decoded_as_if_alone() {
    let files = stored();
    for form in [
        ("rgb", Finish::Here),
        ("rgb:24x18", Finish::Planes),
        ("rgb:24x18", Finish::Here),
        ("gray", Finish::Here),
    ] {
        assert_pairs(&files, form);
    }
}

#[test]
fn files_good_and_damaged_in_any_order_are_decoded_as_if_alone() {
    let mut files = stored();
    files.extend(broken_copies(&files));
    files.extend(jpegs());
    files.extend(stills());
    for form in FORMS {
        assert_sequences(&files, form);
    }
}

#[test]
fn tiffs_of_every_make_leave_nothing_behind() {
    let packed = tiff_pack::tiffs();
    let mut files: Vec<Named> = packed.into_iter().step_by(3).map(|file| (file.name, file.encoded)).collect();
    files.extend(broken_copies(&files[..files.len() / 3]));
    for form in [FORMS[0], FORMS[1], FORMS[7]] {
        assert_sequences(&files, form);
    }
}

#[test]
fn a_profile_is_applied_to_its_own_picture_alone() {
    let files = profiled();
    assert!(files.len() > 20);
    // More profiles than are kept, some of them damaged.
    for form in
        [("rgb:srgb", Finish::Here), ("rgba:24x18:srgb", Finish::Here), ("rgb:24x18:srgb", Finish::Planes)]
    {
        assert_sequences(&files, form);
    }
    let few: Vec<Named> = files.into_iter().filter(|(name, _)| name.contains("p3")).collect();
    assert_sequences(&broken_copies(&few), ("gray:srgb", Finish::Here));
}

#[test]
fn arrays_and_texts_leave_nothing_behind() {
    let mut files = arrays();
    files.extend([("text".to_owned(), b"plain text".to_vec()), ("no text".to_owned(), vec![0xff, 0xfe])]);
    for decode in ["npy", "bytes", "text"] {
        assert_pairs(&files, (decode, Finish::Here));
    }
}

#[test]
fn a_jpeg_without_tables_of_its_own() {
    let files = jpegs();
    let file = |name: &str| files.iter().find(|(known, _)| known == name).expect(name).1.clone();
    let mut decoder = decoder("rgb");
    // Codes that a file leaves out are the standard's, as in Motion JPEG; factors that it leaves out are nobody's.
    let whole = made(&mut decoder, &file("420"), Finish::Here, 1).expect("whole");
    for _ in 0..2 {
        let coded = made(&mut decoder, &file("420 without DHT"), Finish::Here, 2);
        assert!(coded.as_ref() == Ok(&whole), "{}", shown(&coded));
        let refused = shown(&made(&mut decoder, &file("420 without DQT"), Finish::Here, 3));
        assert!(refused.contains("Quantization table"), "{refused}");
        assert!(made(&mut decoder, &file("progressive"), Finish::Here, 4).is_ok());
    }
}
