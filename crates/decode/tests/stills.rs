//! Everything that PNG, WebP, GIF and BMP allow, and every way to say how a picture is to be turned: as Pillow shows it, or refused.
//! The files and Pillow's answers: stills/make.py.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod corpus;
mod place;

use std::io::Read;

use corpus::{bytes_of, still_cases};
use flate2::read::ZlibDecoder;
use gpulane_decode::{Finish, Rejection};
use place::{decoded, difference};
use serde_json::Value;

/// What is wrong with a case, if anything is.
fn fault(case: &Value) -> Option<String> {
    let made = decoded(&bytes_of(&case["file"]), case["decode"].as_str().expect("decode"), Finish::Here);
    if let Some(words) = case["refused"].as_str() {
        return match made {
            Err(Rejection::Broken(reason)) if reason.contains(words) => None,
            other => Some(format!("{:?} instead of `{words}`", other.map(|(form, _)| form))),
        };
    }
    let (form, pixels) = match made {
        Ok(made) => made,
        Err(rejected) => return Some(rejected.to_string()),
    };
    let shape: Vec<u64> = form.dims[..form.ndim as usize].iter().map(|side| u64::from(*side)).collect();
    let wanted: Vec<u64> =
        case["shape"].as_array().expect("shape").iter().filter_map(Value::as_u64).collect();
    if shape != wanted {
        return Some(format!("{shape:?} instead of {wanted:?}"));
    }
    let mut right = Vec::new();
    ZlibDecoder::new(bytes_of(&case["pixels"]).as_slice()).read_to_end(&mut right).expect("inflates");
    let (mean, most) = difference(&pixels, &right);
    let allowed = (case["mean"].as_f64().expect("mean"), case["max"].as_u64().expect("max"));
    (mean > allowed.0 || u64::from(most) > allowed.1)
        .then(|| format!("mean {mean:.3}, most {most}; allowed {allowed:?}"))
}

/// All cases whose name begins so.
fn assert_right(beginning: &str, least: usize) {
    let cases: Vec<Value> = still_cases()
        .into_iter()
        .filter(|case| case["name"].as_str().is_some_and(|name| name.starts_with(beginning)))
        .collect();
    assert!(cases.len() >= least, "{} cases", cases.len());
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| fault(case).map(|what| format!("{}: {what}", case["name"]))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_picture_is_turned_as_its_notes_say_wherever_they_stand() {
    assert_right("turned ", 70);
}

#[test]
fn a_webp_has_the_pixels_of_libwebp_or_is_refused() {
    assert_right("webp ", 45);
}

#[test]
fn a_bmp_of_any_header_depth_and_packing_is_as_pillow_has_it() {
    assert_right("bmp ", 80);
}

#[test]
fn a_png_of_any_kind_is_as_pillow_has_it_also_where_something_beside_its_pixels_is_wrong() {
    assert_right("png ", 120);
}

#[test]
fn the_first_frame_of_a_gif_is_as_pillow_has_it() {
    assert_right("gif ", 20);
}
