//! The tables of docs/map.md that say what becomes of each format and of each option, checked line by line: every cell and every word
//! has files here, and what is made of them is what Pillow and torchvision make. A cell that is changed in the docs fails here until
//! its files are named anew.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod place;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use gpulane_decode::{Element, Finish};
use place::decoded;
use serde_json::Value;

const FORMATS: [&str; 6] = ["JPEG", "PNG", "TIFF", "WebP", "GIF", "BMP"];

/// What shows that a cell is true.
enum Shown {
    /// Files that are decoded like this to what Pillow gives: the cases beside these tests.
    Alike(&'static [(&'static str, &'static str)]),
    /// Samples of this element are left as they are, so many dimensions of them.
    Kept(&'static str, &'static str, Element, u32),
    /// The file is refused.
    Refused(&'static [&'static str]),
}
use Shown::{Alike, Kept, Refused};

/// Row, format, what the cell says, and what shows it.
type Cell = (&'static str, &'static str, &'static str, &'static [Shown]);

const CELLS: &[Cell] = &[
    ("8 bits", "JPEG", "as they are", &[Alike(&[("jpeg-444.jpg", "rgb"), ("jpeg-420.jpg", "rgb")])]),
    ("8 bits", "PNG", "as they are", &[Alike(&[("png-rgb.png", "rgb")])]),
    ("8 bits", "TIFF", "as they are", &[Alike(&[("tiff-none.tif", "rgb"), ("tiff-lzw.tif", "rgb")])]),
    ("8 bits", "WebP", "as they are", &[Alike(&[("webp-lossy.webp", "rgb"), ("webp-lossless.webp", "rgb")])]),
    ("8 bits", "GIF", "as they are", &[Alike(&[("gif-offset.gif", "rgb")])]),
    ("8 bits", "BMP", "as they are", &[Alike(&[("bmp.bmp", "rgb")])]),
    (
        "16 bits",
        "PNG",
        "the upper 8; all in `gray` without a size",
        &[
            Alike(&[("png-rgb16.png", "rgb"), ("png-16.png", "rgb"), ("png-16.png", "gray:24x18")]),
            Kept("png-16.png", "gray", Element::U16, 2),
        ],
    ),
    (
        "16 bits",
        "TIFF",
        "the upper 8; all in `gray` without a size",
        &[
            Alike(&[("tiff-stack.tif", "rgb"), ("tiff-stack.tif", "gray:12x10")]),
            Kept("tiff-unequal.tif", "gray", Element::U16, 2),
        ],
    ),
    ("gray", "JPEG", "its luma", &[Alike(&[("jpeg-gray.jpg", "gray"), ("jpeg-gray.jpg", "rgb")])]),
    ("gray", "PNG", "yes, also bilevel", &[Alike(&[("png-gray.png", "gray"), ("png-bits.png", "rgb")])]),
    ("gray", "TIFF", "yes", &[Alike(&[("tiff-gray.tif", "gray"), ("tiff-gray.tif", "rgb")])]),
    ("alpha", "JPEG", "none: 255", &[Alike(&[("opaque.jpg", "rgba"), ("opaque.jpg", "rgba:40x40:pad")])]),
    (
        "alpha",
        "PNG",
        "kept in `rgba`, otherwise dropped",
        &[Alike(&[
            ("alpha.png", "rgba"),
            ("gray-alpha.png", "rgba"),
            ("palette.png", "rgba"),
            ("png-rgba.png", "rgb"),
            ("png-la.png", "gray"),
        ])],
    ),
    (
        "alpha",
        "TIFF",
        "kept in `rgba`, otherwise dropped",
        &[Alike(&[("alpha.tif", "rgba"), ("alpha.tif", "rgba:30x24")])],
    ),
    (
        "alpha",
        "WebP",
        "kept in `rgba`, otherwise dropped",
        &[Alike(&[("alpha.webp", "rgba"), ("webp-alpha.webp", "rgb")])],
    ),
    (
        "alpha",
        "GIF",
        "kept in `rgba`, otherwise dropped",
        &[Alike(&[("alpha.gif", "rgba"), ("gif-offset.gif", "rgb")])],
    ),
    (
        "alpha",
        "BMP",
        "kept in `rgba` where a mask says it is there",
        &[Alike(&[("alpha.bmp", "rgba"), ("alpha.bmp", "rgb"), ("opaque.bmp", "rgba")])],
    ),
    ("palette", "PNG", "its colours", &[Alike(&[("png-palette.png", "rgb"), ("png-palette.png", "gray")])]),
    ("palette", "TIFF", "its colours", &[Alike(&[("palette.tif", "rgb"), ("palette.tif", "gray")])]),
    ("palette", "GIF", "its colours", &[Alike(&[("gif-animated.gif", "rgb"), ("gif-offset.gif", "gray")])]),
    ("palette", "BMP", "its colours", &[Alike(&[("bmp-palette.bmp", "rgb")])]),
    (
        "CMYK",
        "JPEG",
        "converted, also YCCK",
        &[Alike(&[("jpeg-cmyk.jpg", "rgb"), ("jpeg-cmyk.jpg", "gray"), ("jpeg-ycck.jpg", "rgb")])],
    ),
    ("CMYK", "TIFF", "converted", &[Alike(&[("tiff-cmyk.tif", "rgb")])]),
    (
        "orientation",
        "JPEG",
        "applied",
        &[Alike(&[("jpeg-exif-2.jpg", "rgb:24x18"), ("jpeg-exif-6.jpg", "rgb"), ("jpeg-exif-7.jpg", "rgb")])],
    ),
    ("orientation", "PNG", "applied", &[Alike(&[("png-turned.png", "rgb"), ("alpha-turned.png", "rgba")])]),
    ("orientation", "TIFF", "applied", &[Alike(&[("tiff-turned.tif", "rgb")])]),
    ("orientation", "WebP", "applied", &[Alike(&[("webp-turned.webp", "rgb")])]),
    (
        "colour profile",
        "JPEG",
        "applied with `srgb`",
        &[Alike(&[("icc.jpg", "rgb:srgb"), ("icc-parts.jpg", "rgb:srgb"), ("icc-press-v4.jpg", "rgb:srgb")])],
    ),
    (
        "colour profile",
        "PNG",
        "applied with `srgb`",
        &[Alike(&[("icc-adobe.png", "rgb:srgb"), ("icc-gray.png", "rgb:srgb"), ("icc-adobe.png", "rgb")])],
    ),
    (
        "colour profile",
        "TIFF",
        "applied with `srgb`",
        &[Alike(&[("icc.tif", "rgb:srgb"), ("icc-press-v2.tif", "rgb:srgb"), ("icc-press-v2.tif", "rgb")])],
    ),
    ("colour profile", "WebP", "applied with `srgb`", &[Alike(&[("icc.webp", "rgb:srgb")])]),
    ("colour profile", "GIF", "applied with `srgb`", &[Alike(&[("icc.gif", "rgb:srgb")])]),
    (
        "colour profile",
        "BMP",
        "applied with `srgb`",
        &[Alike(&[("icc.bmp", "rgb:srgb"), ("icc.bmp", "rgb")])],
    ),
    (
        "several pictures",
        "TIFF",
        "the first page; all in `gray` without a size, if they are alike",
        &[
            Alike(&[("tiff-stack.tif", "rgb"), ("tiff-stack.tif", "gray"), ("tiff-unequal.tif", "gray")]),
            Kept("tiff-stack.tif", "gray", Element::U16, 3),
        ],
    ),
    ("several pictures", "WebP", "the first", &[Alike(&[("webp-animated.webp", "rgb")])]),
    ("several pictures", "GIF", "the first", &[Alike(&[("gif-animated.gif", "rgb")])]),
    (
        "cut short",
        "JPEG",
        "fails",
        &[Refused(&["bad-truncated.jpg", "bad-truncated-progressive.jpg", "bad-truncated-with-end.jpg"])],
    ),
    ("cut short", "PNG", "fails", &[Refused(&["bad-truncated.png"])]),
    ("cut short", "TIFF", "fails", &[Refused(&["bad-truncated.tif"])]),
    ("cut short", "WebP", "fails", &[Refused(&["bad-truncated.webp"])]),
    ("cut short", "GIF", "fails", &[Refused(&["bad-truncated.gif"])]),
    ("cut short", "BMP", "fails", &[Refused(&["bad-truncated.bmp"])]),
];

/// A picture, how it is decoded, and what Pillow made of it.
struct Case {
    folder: PathBuf,
    expected: String,
    most: u64,
}

fn cases() -> BTreeMap<(String, String), Case> {
    let mut all = BTreeMap::new();
    for folder in ["images", "options"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
        let listed: Vec<Value> =
            serde_json::from_slice(&std::fs::read(folder.join("cases.json")).expect("cases")).expect("JSON");
        for case in listed {
            let text = |key: &str| case[key].as_str().expect(key).to_owned();
            let (expected, most) = (text("expected"), case["max"].as_u64().expect("max"));
            all.insert((text("file"), text("decode")), Case { folder: folder.clone(), expected, most });
        }
    }
    all
}

/// What is wrong with a picture that should come out as Pillow's, if anything.
fn unlike(cases: &BTreeMap<(String, String), Case>, file: &str, decode: &str) -> Option<String> {
    let case = cases.get(&(file.to_owned(), decode.to_owned()));
    let Some(Case { folder, expected, most }) = case else {
        return Some(format!("{file} {decode}: no such case"));
    };
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a file");
    let (_, pixels) = match decoded(&read(file), decode, Finish::Here) {
        Ok(made) => made,
        Err(rejected) => return Some(format!("{file} {decode}: {rejected}")),
    };
    let mut theirs = Vec::new();
    ZlibDecoder::new(read(expected).as_slice()).read_to_end(&mut theirs).expect("inflates");
    if pixels.len() != theirs.len() {
        return Some(format!("{file} {decode}: {} bytes instead of {}", pixels.len(), theirs.len()));
    }
    // Where little is opaque, colours have few bits: how near those are is another test's claim.
    let apart = if decode.starts_with("rgba") {
        pixels.iter().zip(&theirs).skip(3).step_by(4).map(|(one, other)| one.abs_diff(*other)).max()
    } else {
        pixels.iter().zip(&theirs).map(|(one, other)| one.abs_diff(*other)).max()
    };
    let apart = u64::from(apart.unwrap_or(0));
    (apart > *most).then(|| format!("{file} {decode}: {apart} apart"))
}

/// The table in the docs whose first line begins with this, as lines of cells.
fn table(begins: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/map.md");
    let docs = std::fs::read_to_string(path).expect("docs/map.md");
    let mut lines = docs.lines().skip_while(|line| !line.starts_with(begins));
    let lines = lines.by_ref().take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim_matches([' ', '|']).to_owned()).collect()
    };
    lines.filter(|line| !line.starts_with("|---")).map(cells).collect()
}

#[test]
fn every_cell_of_the_formats_is_true() {
    let rows = table("| of a file |");
    assert_eq!(rows[0][1..], FORMATS.map(str::to_owned));
    let cases = cases();
    let mut wrong = Vec::new();
    for row in &rows[1..] {
        for (format, cell) in FORMATS.iter().zip(&row[1..]) {
            let shown = CELLS.iter().find(|(what, of, _, _)| *what == row[0].as_str() && of == format);
            match shown {
                None if cell == "–" => {}
                None => wrong.push(format!("{} of {format}: `{cell}` is shown by nothing", row[0])),
                Some((_, _, says, _)) if says != cell => {
                    wrong.push(format!("{} of {format}: `{cell}` instead of `{says}`", row[0]));
                }
                Some((_, _, _, shown)) => wrong.extend(shown.iter().flat_map(|shown| untrue(&cases, shown))),
            }
        }
    }
    let told = |what: &str| rows.iter().any(|row| row[0] == what);
    wrong.extend(
        CELLS.iter().filter(|cell| !told(cell.0)).map(|cell| format!("{} is not in the docs", cell.0)),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn untrue(cases: &BTreeMap<(String, String), Case>, shown: &Shown) -> Vec<String> {
    match shown {
        Alike(pictures) => pictures.iter().filter_map(|(file, decode)| unlike(cases, file, decode)).collect(),
        Kept(file, decode, element, dimensions) => {
            let made =
                decoded(&place::image(file), decode, Finish::Here).map(|(form, _)| (form.element, form.ndim));
            let wanted = Ok((*element, *dimensions));
            (made != wanted).then(|| format!("{file} {decode}: {made:?}")).into_iter().collect()
        }
        Refused(files) => {
            let taken = |file: &&&str| decoded(&place::image(file), "rgb", Finish::Here).is_ok();
            files.iter().filter(taken).map(|file| format!("{file} is taken")).collect()
        }
    }
}

#[test]
fn every_word_of_the_options_is_true() {
    let cases = cases();
    let mut wrong = Vec::new();
    let mut words = 0;
    for row in &table("| word |")[1..] {
        for word in row[0].split('`').skip(1).step_by(2) {
            words += 1;
            let name = word.split('=').next().expect("a word");
            let has = |decode: &str| decode.split(':').any(|part| part.split('=').next() == Some(name));
            let plain = |decode: &str| decode.starts_with("rgb:") && decode.split(':').count() == 2;
            // What is the default need not be written.
            let default = matches!(name, "stretch" | "bilinear");
            let shown: Vec<_> =
                cases.keys().filter(|(_, decode)| has(decode) || (default && plain(decode))).collect();
            if shown.len() < 4 {
                wrong.push(format!("`{word}` is shown by {} pictures", shown.len()));
            }
            wrong.extend(shown.iter().filter_map(|(file, decode)| unlike(&cases, file, decode)));
        }
    }
    assert_eq!(words, 11, "words behind a size");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
