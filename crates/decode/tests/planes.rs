//! Planes, finished by the book, are the pixels that are finished here and those Pillow gives.
//!
//! The fixtures under tests/map-protocol/planes are for everyone who finishes planes, in whatever language.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod finish;
mod place;

use std::path::{Path, PathBuf};

use finish::finished;
use gpulane_decode::{Finish, Kind};
use place::{decoded, difference, image};
use serde_json::Value;

/// A fixture: the file's stem, what describes it, and its size and fit.
struct Fixture {
    stem: PathBuf,
    described: Value,
    target: (usize, usize),
    fit: String,
}

impl Fixture {
    fn read(&self, extension: &str) -> Vec<u8> {
        let path = self.stem.with_extension(extension);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn decode(&self) -> String {
        format!("rgb:{}x{}:{}", self.target.0, self.target.1, self.fit)
    }
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/map-protocol/planes");
    let paths = std::fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("an entry").path());
    let side = |described: &Value, index: usize| {
        usize::try_from(described["target"][index].as_u64().expect("target")).expect("small")
    };
    let fixture = |path: PathBuf| {
        let described: Value =
            serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        let target = (side(&described, 0), side(&described, 1));
        let fit = described["fit"].as_str().expect("fit").to_owned();
        Fixture { stem: path.with_extension(""), described, target, fit }
    };
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).map(fixture).collect()
}

#[test]
fn the_fixtures_are_what_the_decoder_gives() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 10);
    for fixture in fixtures {
        let (form, planes) =
            decoded(&fixture.read("jpg"), &fixture.decode(), Finish::Planes).expect("decodes");
        let told =
            ["height", "width", "chroma_height", "chroma_width"].map(|key| fixture.described[key].as_u64());
        assert_eq!(form.kind, Kind::Planes);
        assert_eq!(form.dims.map(|side| Some(u64::from(side))), told, "{}", fixture.stem.display());
        assert_eq!(Some(u64::from(form.chroma)), fixture.described["chroma"].as_u64());
        assert_eq!(Some(u64::from(form.orientation)), fixture.described["orientation"].as_u64());
        assert!(planes == fixture.read("planes"), "{}", fixture.stem.display());
    }
}

#[test]
fn finished_planes_are_pillows_pixels_and_ours() {
    for fixture in fixtures() {
        let encoded = fixture.read("jpg");
        let (form, planes) = decoded(&encoded, &fixture.decode(), Finish::Planes).expect("planes");
        let (_, here) = decoded(&encoded, &fixture.decode(), Finish::Here).expect("pixels");
        let planes = finished(&form, &planes, fixture.target, &fixture.fit);
        for (whose, pixels) in [("Pillow's", fixture.read("rgb")), ("ours", here)] {
            let (mean, most) = difference(&planes, &pixels);
            assert!(mean <= 0.5 && most <= 3, "{} and {whose}: {mean} {most}", fixture.stem.display());
        }
    }
}

#[test]
fn planes_are_shrunk_only_where_no_pixel_is_split_and_no_chroma_is_lost() {
    for (file, decode, sides) in [
        ("jpeg-large.jpg", "rgb:40x30", [259, 333]),
        ("jpeg-even.jpg", "rgb:40x30", [64, 96]),
        ("jpeg-even.jpg", "rgb:50x30", [128, 192]),
        ("jpeg-even-gray.jpg", "rgb:40x30", [64, 96]),
    ] {
        let (form, planes) = decoded(&image(file), decode, Finish::Planes).expect(file);
        assert_eq!(form.dims[..2], sides, "{file} {decode}");
        let (_, here) = decoded(&image(file), decode, Finish::Here).expect(file);
        let (width, height) = decode[4..].split_once('x').expect("a size");
        let target = (width.parse().expect("width"), height.parse().expect("height"));
        let (mean, _) = difference(&finished(&form, &planes, target, "stretch"), &here);
        assert!(mean <= 2.0, "{file} {decode}: {mean}");
    }
}
