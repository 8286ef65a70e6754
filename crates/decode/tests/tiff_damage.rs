//! TIFFs of which a strip or tile is damaged: refused with the reason, or, where that was asked for, used with its rows black and marked.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod bombs;
mod place;

use std::io::Write;

use bombs::{Entry, TILE, long, plain_jpeg, short, tiff};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use gpulane_decode::{Decoder, Finish, Form, Limits, Rejection};
use gpulane_model::DamagePolicy;
use place::{Room, decoded};

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

/// A page of 4×4 pixels in two strips: how it is compressed, what a pixel means, samples of a pixel.
fn strips([compression, meaning, samples]: [u16; 3], data: [&[u8]; 2]) -> Vec<u8> {
    let length = |at: usize| u32::try_from(data[at].len()).expect("short");
    let two = |tag: u16, first: u32, second: u32| -> Entry {
        (tag, 4, 2, [first.to_le_bytes(), second.to_le_bytes()].concat())
    };
    let entries = vec![
        long(256, 4),
        long(257, 4),
        short(258, &vec![8; usize::from(samples)]),
        short(259, &[compression]),
        short(262, &[meaning]),
        short(277, &[samples]),
        long(278, 2),
        two(273, 8, 8 + length(0)),
        two(279, length(0), length(1)),
    ];
    tiff(entries, &data.concat(), (65_000, 65_001))
}

/// What comes of a file where damaged pictures are used.
fn used(file: &[u8], decode: &str) -> Result<(Form, Vec<u8>), Rejection> {
    let mut room = Room::enough();
    let decoder = Decoder::new(decode.parse().expect(decode), Limits::default());
    let form = decoder.with_damaged(DamagePolicy::Warn).decode(file, Finish::Here, &mut room)?;
    Ok((form, room.bytes))
}

/// Refused with these words; used as these pixels, and marked.
fn assert_damaged(file: &[u8], decode: &str, words: &str, pixels: &[u8]) {
    let refused = decoded(file, decode, Finish::Here);
    assert!(matches!(&refused, Err(Rejection::Broken(why)) if why.contains(words)), "{words}: {refused:?}");
    let (form, made) = used(file, decode).expect(words);
    assert!(form.damaged, "{words}: not marked");
    assert_eq!(made, pixels, "{words}");
}

#[test]
fn rows_of_a_damaged_strip_are_black() {
    let good: Vec<u8> = (101..109).collect();
    let whole = deflated(&good);
    let black = [good.as_slice(), &[0; 8]].concat();
    assert_damaged(&strips([8, 1, 1], [&whole, &whole[..3]]), "gray", "truncated", &black);
    assert_damaged(&strips([8, 1, 1], [&whole, b"nonsense"]), "gray", "Deflate data", &black);
    let first = [[0; 8].as_slice(), &good].concat();
    assert_damaged(&strips([8, 1, 1], [b"nonsense", &whole]), "gray", "Deflate data", &first);
    let inverted: Vec<u8> = good.iter().map(|level| 255 - level).chain([0; 8]).collect();
    assert_damaged(&strips([8, 0, 1], [&whole, b"nonsense"]), "gray", "Deflate data", &inverted);
}

#[test]
fn what_a_damaged_strip_still_gives_is_used() {
    let cut = [[60; 8].as_slice(), &[50; 4], &[0; 4]].concat();
    assert_damaged(&strips([1, 1, 1], [&[60; 8], &[50; 5]]), "gray", "truncated", &cut);
    let mut sum = deflated(&[9; 8]);
    *sum.last_mut().expect("a checksum") ^= 1;
    let all = [[60; 8].as_slice(), &[9; 8]].concat();
    assert_damaged(&strips([8, 1, 1], [&deflated(&[60; 8]), &sum]), "gray", "Deflate data", &all);
}

#[test]
fn inks_luma_and_chroma_become_black_as_well() {
    let ink = strips([8, 5, 4], [&deflated(&[0; 32]), b"nonsense"]);
    assert_damaged(&ink, "rgb", "Deflate data", &[[255; 24], [0; 24]].concat());
    let group = [200, 200, 200, 200, 128, 128].repeat(2);
    let luma = strips([8, 6, 3], [&deflated(&group), b"nonsense"]);
    assert_damaged(&luma, "rgb", "Deflate data", &[[200; 24], [0; 24]].concat());
}

#[test]
fn nothing_is_made_of_a_file_without_any_rows() {
    for file in [strips([8, 1, 1], [b"nonsense", b"nonsense"]), strips([7, 1, 1], [b"nonsense", b"nonsense"])]
    {
        let (refused, unused) = (decoded(&file, "rgb", Finish::Here), used(&file, "rgb"));
        assert!(matches!(refused, Err(Rejection::Broken(_))));
        assert_eq!(refused, unused);
    }
}

#[test]
fn jpegs_within_are_judged_as_jpegs_are() {
    let jpeg = plain_jpeg((4, 2));
    let scan = jpeg.windows(2).position(|two| two == [0xff, 0xda]).expect("a scan");
    let header = scan + 2 + usize::from(jpeg[scan + 3]);
    let empty = [&jpeg[..header], &[0xff, 0xd9]].concat();
    let file = strips([7, 6, 3], [&jpeg, &empty]);
    let refused = decoded(&file, "rgb", Finish::Here);
    let Err(Rejection::Broken(reason)) = &refused else { panic!("not refused: {refused:?}") };
    assert!(reason.contains("truncated stretch of image data"), "{reason}");
    let (form, pixels) = used(&file, "rgb").expect("used");
    assert!(form.damaged && pixels[..24].iter().all(|level| level.abs_diff(90) < 3), "{pixels:?}");
    // Without its end mark, all of the picture is there.
    let file = strips([7, 6, 3], [&jpeg, &jpeg[..jpeg.len() - 2]]);
    assert!(decoded(&file, "rgb", Finish::Here).is_ok());
}

#[test]
fn jpegs_within_have_as_many_components_as_pixels_have_samples() {
    let jpeg = plain_jpeg((4, 2));
    for (meaning, samples) in [(1, 1), (0, 1), (5, 4)] {
        let refused = decoded(&strips([7, meaning, samples], [&jpeg, &jpeg]), "rgb", Finish::Here);
        let said = matches!(&refused, Err(Rejection::Broken(why)) if why.contains("3 components"));
        assert!(said, "{refused:?}");
    }
}

#[test]
fn damage_below_the_image_is_damage_of_its_tile() {
    let tile = |compression: u16, data: &[u8]| {
        let mut entries = vec![long(256, 4), long(257, 4), short(258, &[8]), short(259, &[compression])];
        entries.extend([short(262, &[1]), short(277, &[1]), short(322, &[16]), short(323, &[16])]);
        tiff(entries, data, TILE)
    };
    let whole = deflated(&[70; 256]);
    let (_, pixels) = decoded(&tile(8, &whole), "gray", Finish::Here).expect("whole");
    assert_eq!(pixels, [70; 16]);
    let mut wrong = whole;
    *wrong.last_mut().expect("a checksum") ^= 1;
    assert_damaged(&tile(8, &wrong), "gray", "Deflate data", &[70; 16]);
    assert_damaged(&tile(8, &deflated(&[70; 64])), "gray", "truncated", &[70; 16]);
    // Four rows of 16 and no more.
    assert_damaged(&tile(32_773, &[0x81, 70]), "gray", "truncated", &[70; 16]);
}
