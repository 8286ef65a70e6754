//! A folder of images, good and bad, through the whole of `gpulane map`: pixels as Pillow gives them, what is broken named, and a decoder
//! that crashes takes nothing with it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpulane_testkit::Gpulane;

/// Compares each image with what Pillow makes of it, where that was kept.
const MODEL: &str = r#"
import os, zlib
import gpulane

class Model(gpulane.Model):
    decode = "rgb:24x18"

    def predict_batch(self, batch):
        return [self.compare(os.path.basename(name), bytes(pixels)) for name, pixels in zip(self.items, batch)]

    def compare(self, name, pixels):
        expected = os.path.join("expected", name + ".rgb-24x18.raw.z")
        worst = -1
        if os.path.exists(expected):
            with open(expected, "rb") as file:
                wanted = zlib.decompress(file.read())
            worst = max(abs(a - b) for a, b in zip(pixels, wanted)) if len(pixels) == len(wanted) else 999
        return {"worst": worst, "bytes": len(pixels)}
"#;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/images")
}

/// Puts the images into `images` and what is expected of them into `expected`; their names.
fn lay_out(gpulane: &Gpulane) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["images", "expected"] {
        std::fs::create_dir_all(gpulane.workspace.path().join(folder)).unwrap();
    }
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let kind = Path::new(&name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let folder = match kind {
            "z" => "expected",
            // Floats are no colours: that one is for `gray`.
            _ if name == "tiff-float.tif" => continue,
            "jpg" | "png" | "tif" | "webp" | "gif" | "bmp" => {
                names.insert(name.clone());
                "images"
            }
            _ => continue,
        };
        std::fs::copy(fixtures().join(&name), gpulane.workspace.path().join(folder).join(&name)).unwrap();
    }
    names
}

#[test]
fn good_images_are_as_pillow_has_them_and_bad_ones_are_named() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let names = lay_out(&gpulane);
    let finished = gpulane.map(MODEL, &["images"], &[]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let rows = gpulane.rows();
    let failed = gpulane.failed_items();
    let stem = |item: &str| item.trim_start_matches("images/").to_owned();
    let done: BTreeSet<String> = rows.iter().map(|row| stem(row["item"].as_str().unwrap())).collect();
    let refused: BTreeSet<String> = failed.iter().map(|(item, _)| stem(item)).collect();
    assert_eq!(rows.len() + failed.len(), names.len(), "each once");
    assert_eq!(&(&done | &refused), &names);
    let bad: BTreeSet<String> = names.iter().filter(|name| name.starts_with("bad-")).cloned().collect();
    assert_eq!(refused, bad, "the bad ones and no others: {failed:?}");
    assert!(failed.iter().all(|(_, reason)| reason.len() > 8), "each says why: {failed:?}");
    let mut compared = 0;
    for row in &rows {
        let worst = row["worst"].as_i64().unwrap();
        assert!(worst <= 4, "{row}");
        assert_eq!(row["bytes"].as_u64(), Some(24 * 18 * 3), "{row}");
        compared += usize::from(worst >= 0);
    }
    assert!(compared >= 20, "only {compared} were compared");
}

/// A library that crashes whoever opens `deadly.jpg`, as a decoder might.
fn trap(gpulane: &Gpulane) -> Option<PathBuf> {
    let source = gpulane.workspace.file(
        "trap.c",
        r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
int open64(const char *path, int flags, ...) {
    size_t length = strlen(path);
    if (length > 10 && strcmp(path + length - 10, "deadly.jpg") == 0) *(volatile int *)0 = 1;
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}
"#,
    );
    let library = gpulane.workspace.path().join("trap.so");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl").status();
    built.is_ok_and(|status| status.success()).then_some(library)
}

#[test]
fn a_decoder_that_crashes_costs_its_item_and_nothing_else() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let library = trap(&gpulane).expect("a C compiler, which building gpulane needs as well");
    let good = fixtures().join("jpeg-420.jpg");
    for number in 0..60 {
        let name = format!("images/{number}.jpg");
        gpulane.workspace.file(&name, "");
        std::fs::copy(&good, gpulane.workspace.path().join(name)).unwrap();
    }
    gpulane.workspace.file("images/30-deadly.jpg", "");
    let gpulane = gpulane.with([("LD_PRELOAD".to_owned(), library.display().to_string())]);
    let finished = gpulane.map(MODEL, &["images"], &[]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 60);
    let failed = gpulane.failed_items();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].0.ends_with("30-deadly.jpg") && failed[0].1.contains("crashed (SIGSEGV)"),
        "{failed:?}"
    );
    gpulane.assert_nothing_left();
}

/// Copies of a good JPEG with one byte changed, in each kind of segment that a decoder could remember.
fn damaged(good: &[u8]) -> Vec<Vec<u8>> {
    let (mut copies, mut at) = (Vec::new(), 2);
    while good[at + 1] != 0xda {
        let length = usize::from(u16::from_be_bytes([good[at + 2], good[at + 3]]));
        if matches!(good[at + 1], 0xc0 | 0xc4 | 0xdb) {
            for (place, value) in [(4, 0x7f), (9, 0xff), (11, 0x00), (11, 0xff)] {
                let mut copy = good.to_vec();
                copy[at + place] = value;
                copies.push(copy);
            }
        }
        at += 2 + length;
    }
    for (place, value) in [(4, 0xff), (6, 0xff), (8, 0x77)] {
        let mut copy = good.to_vec();
        copy[at + place] = value;
        copies.push(copy);
    }
    copies
}

/// Says which pixels each item has, by their sum.
const SUMS: &str = r#"
import gpulane

class Model(gpulane.Model):
    decode = "rgb:24x18"

    def predict_batch(self, batch):
        return [{"sum": sum(bytes(pixels))} for pixels in batch]
"#;

/// Good pictures of several kinds, and what a map makes of them, beside others or not.
fn sums_of_good(beside: &[Vec<u8>]) -> BTreeSet<(String, u64)> {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let kinds = ["jpeg-420.jpg", "jpeg-progressive.jpg", "jpeg-gray.jpg", "jpeg-444.jpg"];
    let images = gpulane.workspace.path().join("images");
    std::fs::create_dir_all(&images).unwrap();
    for number in 0..400 {
        std::fs::copy(fixtures().join(kinds[number % 4]), images.join(format!("{number:03}-good.jpg")))
            .unwrap();
        if let Some(other) = beside.get(number / 2 % beside.len().max(1)).filter(|_| number % 2 == 0) {
            std::fs::write(images.join(format!("{number:03}-other.jpg")), other).unwrap();
        }
    }
    let finished = gpulane.map(SUMS, &["images"], &[]);
    assert!(finished.code == 0 || finished.code == 3, "{finished:?}");
    let failed: Vec<_> =
        gpulane.failed_items().into_iter().filter(|(item, _)| item.ends_with("-good.jpg")).collect();
    assert!(failed.is_empty(), "{} good ones failed, the first: {:?}", failed.len(), failed[0]);
    let rows = gpulane.rows();
    let good = rows.iter().filter(|row| row["item"].as_str().unwrap().ends_with("-good.jpg"));
    good.map(|row| (row["item"].as_str().unwrap().to_owned(), row["sum"].as_u64().unwrap())).collect()
}

#[test]
fn good_pictures_beside_damaged_ones_are_as_if_alone() {
    let beside = damaged(&std::fs::read(fixtures().join("jpeg-420.jpg")).unwrap());
    assert!(beside.len() > 15);
    let alone = sums_of_good(&[]);
    assert_eq!(alone.len(), 400);
    assert_eq!(sums_of_good(&beside), alone);
}

#[test]
fn images_that_take_more_memory_than_there_is_are_named_and_the_others_go_on() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    // 13,300 × 13,300 pixels of one colour, lossless: sides, then five codes that take no bit.
    let side: u32 = 13_300 - 1;
    let sides = side | side << 14;
    let data = [&[0x2f], sides.to_le_bytes().as_slice(), &[0x88, 0x88, 0x08]].concat();
    let mut file = [b"RIFF\x1e\0\0\0WEBPVP8L\x08\0\0\0".as_slice(), &data].concat();
    file.resize(38, 0);
    let images = gpulane.workspace.path().join("images");
    std::fs::create_dir_all(&images).unwrap();
    for number in 0..24 {
        std::fs::copy(fixtures().join("jpeg-420.jpg"), images.join(format!("{number}.jpg"))).unwrap();
    }
    for number in 0..6 {
        std::fs::write(images.join(format!("{number}.webp")), &file).unwrap();
    }
    let gpulane = gpulane.limited("ulimit -v 2000000");
    let finished = gpulane.start_map(SUMS, &["images"], &["--threads", "4"]).wait();
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 24);
    let failed = gpulane.failed_items();
    assert_eq!(failed.len(), 6, "{failed:?}");
    let told = |reason: &str| reason.contains("13300×13300 pixels") && reason.contains("1.3 GiB of memory");
    assert!(failed.iter().all(|(_, reason)| told(reason)), "{failed:?}");
}
