//! What we make of images is what Pillow makes of them, within rounding. The images and Pillow's answers: images/make.py.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod place;

use std::io::Read;

use flate2::read::ZlibDecoder;
use gpulane_decode::{Element, Finish, Kind};
use place::{decoded, difference, image};
use serde_json::Value;

fn cases() -> Vec<Value> {
    serde_json::from_slice(&image("cases.json")).expect("cases.json")
}

fn expected(case: &Value) -> Vec<u8> {
    let mut pixels = Vec::new();
    let stored = image(case["expected"].as_str().expect("a name"));
    ZlibDecoder::new(stored.as_slice()).read_to_end(&mut pixels).expect("inflates");
    pixels
}

#[test]
fn every_image_has_the_pixels_pillow_gives() {
    let mut wrong = Vec::new();
    for case in cases() {
        let (file, decode) = (case["file"].as_str().expect("file"), case["decode"].as_str().expect("decode"));
        let (form, pixels) = match decoded(&image(file), decode, Finish::Here) {
            Ok(made) => made,
            Err(rejected) => {
                wrong.push(format!("{file} {decode}: {rejected}"));
                continue;
            }
        };
        let shape: Vec<u64> = form.dims[..form.ndim as usize].iter().map(|side| u64::from(*side)).collect();
        let wanted: Vec<u64> =
            case["shape"].as_array().expect("shape").iter().filter_map(Value::as_u64).collect();
        let element = match case["type"].as_str() {
            Some("uint8") => Element::U8,
            Some("uint16") => Element::U16,
            Some("float32") => Element::F32,
            other => panic!("{other:?}"),
        };
        if (form.kind, &shape, form.element) != (Kind::Array, &wanted, element) {
            wrong.push(format!("{file} {decode}: {form:?} instead of {wanted:?} {element:?}"));
            continue;
        }
        let (mean, most) = difference(&pixels, &expected(&case));
        let allowed = (case["mean"].as_f64().expect("mean"), case["max"].as_u64().expect("max"));
        if mean > allowed.0 || u64::from(most) > allowed.1 {
            wrong.push(format!("{file} {decode}: mean {mean:.3}, most {most}; allowed {allowed:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_decoder_that_has_seen_much_still_gives_the_same() {
    for decode in ["rgb:24x18", "rgb:30x20:pad", "gray"] {
        let mut used =
            gpulane_decode::Decoder::new(decode.parse().expect(decode), gpulane_decode::Limits::default());
        for case in cases() {
            let encoded = image(case["file"].as_str().expect("file"));
            let mut room = place::Room::enough();
            let again = used.decode(&encoded, Finish::Here, &mut room).map(|form| (form, room.bytes));
            assert_eq!(again, decoded(&encoded, decode, Finish::Here), "{} {decode}", case["file"]);
        }
    }
}

#[test]
fn what_was_spent_adds_up() {
    let encoded = image("jpeg-420.jpg");
    let mut decoder =
        gpulane_decode::Decoder::new("rgb:24x18".parse().expect("rgb"), gpulane_decode::Limits::default());
    for _ in 0..3 {
        decoder.decode(&encoded, Finish::Here, &mut place::Room::enough()).expect("decodes");
    }
    let spent = decoder.spent();
    assert_eq!((spent.encoded_bytes, spent.decoded_bytes), (3 * encoded.len() as u64, 3 * 24 * 18 * 3));
    assert!(!spent.decode.is_zero() && !spent.resize.is_zero());
}
