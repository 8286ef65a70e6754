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
