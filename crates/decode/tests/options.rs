//! Every option of `decode` gives the pixels that Pillow and torchvision give, within rounding. The images and the expected
//! pixels: options/make.py.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod place;

use std::io::Read;
use std::path::Path;

use flate2::read::ZlibDecoder;
use gpulane_decode::{Element, Finish, Kind};
use place::decoded;
use serde_json::Value;

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/options").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn inflated(name: &str) -> Vec<u8> {
    let mut pixels = Vec::new();
    ZlibDecoder::new(file(name).as_slice()).read_to_end(&mut pixels).expect("inflates");
    pixels
}

fn text<'v>(case: &'v Value, key: &str) -> &'v str {
    case[key].as_str().expect("a text")
}

/// How far two pixels are apart, at most. With alpha, colours count as far as they are opaque: what is nearly transparent has
/// hardly any, and the least rounding changes what is left of them.
fn apart(ours: &[u8], theirs: &[u8], channels: usize) -> u32 {
    let pixels = ours.chunks(channels).zip(theirs.chunks(channels));
    let apart = pixels.map(|(ours, theirs)| {
        let of = |one: &u8, other: &u8| u32::from(one.abs_diff(*other));
        let colours = ours.iter().zip(theirs).take(3).map(|(one, other)| of(one, other)).max().unwrap_or(0);
        match (ours.get(3), theirs.get(3)) {
            (Some(0), Some(0)) => 0,
            (Some(one), Some(other)) => of(one, other).max(colours * u32::from(*one.min(other)) / 255),
            _ => colours,
        }
    });
    apart.max().unwrap_or(0)
}

#[test]
fn every_option_gives_the_pixels_of_pillow_and_torchvision() {
    let cases: Vec<Value> = serde_json::from_slice(&file("cases.json")).expect("cases.json");
    assert!(cases.len() > 100);
    let mut wrong = Vec::new();
    for case in &cases {
        let (name, decode) = (text(case, "file"), text(case, "decode"));
        let (form, pixels) = match decoded(&file(name), decode, Finish::Here) {
            Ok(made) => made,
            Err(rejected) => {
                wrong.push(format!("{name} {decode}: {rejected}"));
                continue;
            }
        };
        let shape: Vec<u64> = form.dims[..form.ndim as usize].iter().map(|side| u64::from(*side)).collect();
        let wanted: Vec<u64> =
            case["shape"].as_array().expect("shape").iter().filter_map(Value::as_u64).collect();
        assert_eq!((form.kind, form.element, &shape), (Kind::Array, Element::U8, &wanted), "{name} {decode}");
        let channels = usize::try_from(wanted.get(2).copied().unwrap_or(1)).expect("few");
        let most = apart(&pixels, &inflated(text(case, "expected")), channels);
        if u64::from(most) > case["max"].as_u64().expect("max") {
            wrong.push(format!("{name} {decode}: {most} apart"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_profile_that_cannot_be_applied_is_the_items_reason() {
    let cases: Vec<Value> = serde_json::from_slice(&file("refused.json")).expect("refused.json");
    assert!(cases.len() >= 8);
    for case in &cases {
        let name = text(case, "file");
        let as_it_is = decoded(&file(name), "rgb", Finish::Here).expect("a good picture");
        match (case["words"].as_str(), decoded(&file(name), "rgb:srgb", Finish::Here)) {
            (Some(words), Err(rejected)) => {
                assert!(rejected.to_string().contains(words), "{name}: {rejected}");
            }
            (None, Ok(made)) => assert!(made == as_it_is, "{name}: its colours have changed"),
            (words, made) => panic!("{name}: {words:?}, {}", made.is_ok()),
        }
    }
}

#[test]
fn only_what_workers_can_finish_is_left_to_them() {
    for (name, decode, kind) in [
        ("filters.jpg", "rgb:32x24", Kind::Planes),
        ("filters.jpg", "rgb:32x24:short=30", Kind::Planes),
        ("filters.jpg", "rgb:32x24:srgb", Kind::Planes),
        ("filters.jpg", "rgb:32x24:bicubic", Kind::Array),
        ("filters.jpg", "rgba:32x24", Kind::Array),
        ("filters.jpg", "gray:32x24", Kind::Array),
        ("icc.jpg", "rgb:32x24", Kind::Planes),
        ("icc.jpg", "rgb:32x24:srgb", Kind::Array),
    ] {
        for finish in [Finish::Planes, Finish::Encoded] {
            let (form, _) = decoded(&file(name), decode, finish).expect(name);
            let encoded = finish == Finish::Encoded && kind == Kind::Planes;
            assert_eq!(form.kind, if encoded { Kind::Jpeg } else { kind }, "{name} {decode}");
        }
    }
}
