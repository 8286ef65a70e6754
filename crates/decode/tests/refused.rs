//! Items that cannot be decoded are refused with a reason a person can act on; what is not decoded here is handed on as
//! it is.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod corpus;
mod place;

use std::collections::BTreeMap;

use corpus::jpegs;
use gpulane_decode::{Decoder, Finish, Form, Kind, Limits, Rejection};
use place::{Room, decoded, image};

#[test]
fn broken_files_say_what_is_wrong_with_them() {
    let reasons: BTreeMap<String, String> = serde_json::from_slice(&image("bad.json")).expect("bad.json");
    assert!(reasons.len() > 10);
    for (file, words) in reasons {
        for decode in ["rgb", "rgb:24x18", "gray", "gray:8x8:crop"] {
            for finish in [Finish::Here, Finish::Planes, Finish::Encoded] {
                // Only the worker sees data that is missing in the middle of a file that is handed on.
                let handed_on =
                    finish == Finish::Encoded && decode == "rgb:24x18" && file.ends_with("with-end.jpg");
                match decoded(&image(&file), decode, finish).map(|(form, _)| form) {
                    Err(Rejection::Broken(reason)) => {
                        assert!(reason.contains(&words), "{file} {decode}: {reason}");
                    }
                    other => assert!(handed_on, "{file} {decode} {finish:?}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn no_room_says_how_much_is_needed_and_the_item_can_be_tried_again() {
    for (file, decode, bytes) in [
        ("jpeg-420.jpg", "rgb", 41 * 31 * 3),
        ("jpeg-420.jpg", "rgb:24x18", 24 * 18 * 3),
        ("png-rgb.png", "gray:8x9", 72),
        ("tiff-stack.tif", "gray", 3 * 19 * 23 * 2),
    ] {
        let mut decoder = Decoder::new(decode.parse().expect(decode), Limits::default());
        let refused = decoder.decode(&image(file), Finish::Here, &mut Room::of(bytes - 1));
        assert_eq!(refused, Err(Rejection::NoRoom { bytes }), "{file}");
        assert!(decoder.decode(&image(file), Finish::Here, &mut Room::of(bytes)).is_ok(), "{file}");
    }
}

#[test]
fn the_limits_hold_before_anything_is_asked_for() {
    for (limits, words) in [
        (Limits { max_pixels: 41 * 31 - 1, ..Limits::default() }, "41×31"),
        (Limits { max_bytes: 41 * 31 * 3 - 1, ..Limits::default() }, "3813 bytes"),
    ] {
        for file in ["jpeg-420.jpg", "png-rgb.png", "tiff-lzw.tif", "webp-lossy.webp"] {
            let mut room = Room::enough();
            let refused = Decoder::new("rgb".parse().expect("rgb"), limits).decode(
                &image(file),
                Finish::Here,
                &mut room,
            );
            let Err(Rejection::Broken(reason)) = refused else { panic!("{file}: {refused:?}") };
            assert!(reason.contains(words), "{file}: {reason}");
            assert_eq!(room.asked, 0, "{file}");
        }
    }
}

#[test]
fn bytes_and_text_come_as_they_are() {
    let (form, bytes) = decoded(b"\0\xff", "bytes", Finish::Here).expect("bytes");
    assert_eq!((form.kind.code(), form.ndim, bytes.as_slice()), (4, 0, b"\0\xff".as_slice()));
    let (form, bytes) = decoded("\u{feff}grün".as_bytes(), "text", Finish::Here).expect("text");
    assert_eq!((form.kind.code(), bytes.as_slice()), (5, "grün".as_bytes()));
    let refused = decoded(b"abc\xff", "text", Finish::Here);
    assert_eq!(refused, Err(Rejection::Broken("not UTF-8 text: wrong from byte 3 on".to_owned())));
}

#[test]
fn what_needs_no_decoder_is_refused() {
    for decode in ["value", "load"] {
        let refused = decoded(b"x", decode, Finish::Here);
        assert!(matches!(refused, Err(Rejection::Broken(reason)) if reason.contains("not for the decoder")));
    }
}

#[test]
fn plain_jpegs_travel_as_they_are_and_others_as_planes_or_pixels() {
    let kinds = |file: &str, decode: &str, finish: Finish| {
        let (form, bytes) = decoded(&image(file), decode, finish).expect(file);
        if form.kind == Kind::Jpeg {
            assert_eq!(bytes, image(file));
        }
        form
    };
    for (file, decode, finish, kind) in [
        ("jpeg-420.jpg", "rgb:24x18", Finish::Encoded, Kind::Jpeg),
        ("jpeg-gray.jpg", "rgb:24x18", Finish::Encoded, Kind::Jpeg),
        ("jpeg-progressive.jpg", "rgb:24x18", Finish::Encoded, Kind::Planes),
        ("jpeg-440.jpg", "rgb:24x18", Finish::Encoded, Kind::Planes),
        ("jpeg-junk-in-header.jpg", "rgb:24x18", Finish::Encoded, Kind::Planes),
        ("jpeg-420.jpg", "rgb:24x18", Finish::Planes, Kind::Planes),
        ("jpeg-420.jpg", "rgb", Finish::Encoded, Kind::Array),
        ("jpeg-420.jpg", "gray:8x8", Finish::Planes, Kind::Array),
        ("jpeg-411.jpg", "rgb:24x18", Finish::Planes, Kind::Array),
        ("jpeg-cmyk.jpg", "rgb:24x18", Finish::Encoded, Kind::Array),
        ("jpeg-rgb.jpg", "rgb:24x18", Finish::Encoded, Kind::Array),
        ("png-rgb.png", "rgb:24x18", Finish::Encoded, Kind::Array),
    ] {
        assert_eq!(kinds(file, decode, finish).kind, kind, "{file} {decode} {finish:?}");
    }
    let without_codes = &jpegs().into_iter().find(|(name, _)| name == "420 without DHT").expect("made").1;
    let (form, _) = decoded(without_codes, "rgb:24x18", Finish::Encoded).expect("the standard's codes");
    assert_eq!(form.kind, Kind::Planes, "not every decoder knows which codes are meant");
    let Form { orientation, dims, bytes, .. } = kinds("jpeg-exif-6.jpg", "rgb:24x18", Finish::Encoded);
    assert_eq!((orientation, dims, bytes), (6, [31, 41, 0, 0], image("jpeg-exif-6.jpg").len() as u64));
}
