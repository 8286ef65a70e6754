//! Tables whose column holds the data of items: every row ends in the results or in `failed.jsonl`, in tables that pyarrow wrote.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::path::{Path, PathBuf};

use gpulane_testkit::Gpulane;

const SIZES: &str = "def Model(batch):\n    return [len(item) for item in batch]\n";
/// The size of each picture and the colour in its middle.
const PICTURES: &str = "def Model(batch):\n    return [{'h': p.shape[0], 'w': p.shape[1], 'blue': p[15, 20, 2]} for p in batch]\n";

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// A table of `tests/tables`, in `data` of the workspace.
fn table(gpulane: &Gpulane, name: &str) -> PathBuf {
    let data = gpulane.workspace.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name);
    fs::copy(&from, data.join(name)).unwrap();
    data.join(name)
}

fn items(gpulane: &Gpulane) -> Vec<String> {
    let mut items: Vec<_> =
        gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect();
    items.sort_unstable();
    items
}

#[test]
fn images_in_tables_of_every_codec_are_decoded_as_files_are() {
    for name in ["hf.parquet", "v2.parquet", "gz.parquet", "lz4.parquet"] {
        let gpulane = gpulane();
        table(&gpulane, name);
        gpulane.workspace.file("beside.png", "no picture");
        let input = format!("data/{name}:image");
        let finished = gpulane.map(PICTURES, &[&input], &["--decode", "rgb"]);
        assert_eq!(finished.code, 3, "{name}: {finished:?}");
        let rows = gpulane.rows();
        assert_eq!(rows.len(), 21, "{name}");
        for row in &rows {
            let item = row["item"].as_str().unwrap();
            let number: u64 = item[input.len() + 1..].split('/').next().unwrap().parse().unwrap();
            let blue = row["blue"].as_i64().unwrap();
            assert_eq!((row["h"].as_u64(), row["w"].as_u64()), (Some(30), Some(40 + number)), "{item}");
            assert!((blue - 200).abs() < 4, "{item}: {blue}");
            let named = !number.is_multiple_of(3);
            assert_eq!(item.ends_with(&format!("/{number}/p{number:03}.jpg")), named, "{item}");
        }
        let failed = gpulane.failed_items();
        let names: Vec<_> = failed.iter().map(|(item, _)| item.as_str()).collect();
        let wanted = [format!("{input}/5/beside.png"), format!("{input}/7"), format!("{input}/9")];
        assert_eq!(names, wanted.each_ref());
        assert!(
            failed[1].1.contains("neither `image.bytes` nor `image.path` has a value in row 7"),
            "{failed:?}"
        );
    }
}

#[test]
fn several_tables_one_of_them_broken_are_counted_and_go_on() {
    let gpulane = gpulane();
    table(&gpulane, "hf.parquet");
    table(&gpulane, "v2.parquet");
    gpulane.workspace.file("data/cut.parquet", "PAR1 and no end");
    let inputs = ["data/*.parquet:raw"];
    let dry = gpulane.map(SIZES, &inputs, &["--decode", "bytes", "--dry-run"]);
    assert!(dry.stdout.contains("49 items"), "{dry:?}");
    let finished = gpulane.map(SIZES, &inputs, &["--decode", "bytes"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 48);
    let failed = gpulane.failed_items();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].0 == "data/cut.parquet" && failed[0].1.contains("cannot read"), "{failed:?}");
}

#[test]
fn a_resume_goes_on_and_a_table_that_changed_is_refused() {
    let gpulane = gpulane();
    let file = table(&gpulane, "hf.parquet");
    // Fails for half of the items, the first time.
    let model = "import os\ndef Model(batch):\n    if len(batch) > 1 or (len(batch[0]) % 2 and not os.path.exists('go')):\n        raise ValueError('not yet')\n    return [len(item) for item in batch]\n";
    let finished =
        gpulane.map(model, &["data/hf.parquet:image"], &["--decode", "bytes", "--max-failures", "100%"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let first = gpulane.rows().len();
    assert!((1..22).contains(&first), "{first}");
    gpulane.workspace.file("go", "");
    gpulane.workspace.file("beside.png", "x");
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 3, "rows 7 and 9 have nothing: {again:?}");
    assert_eq!(items(&gpulane).len(), 22);
    table(&gpulane, "v2.parquet");
    fs::rename(file.with_file_name("v2.parquet"), &file).unwrap();
    let same = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(same.code, 3, "the same items in another file: {same:?}");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables/lz4.parquet"), &file).unwrap();
    fs::write(&file, "PAR1 not a table").unwrap();
    let changed = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(changed.code, 2, "{changed:?}");
    assert!(changed.stderr.contains("data/hf.parquet"), "{changed:?}");
}

#[test]
fn what_cannot_be_read_of_a_table_is_refused_with_what_to_write() {
    let gpulane = gpulane();
    table(&gpulane, "hf.parquet");
    table(&gpulane, "brotli.parquet");
    for (input, words) in [
        ("data/brotli.parquet:raw", "is compressed by BROTLI, which is not read here; write the table again"),
        ("data/hf.parquet", "which column? It has `image`, `image.bytes`, `image.path`, `label`"),
        ("data/hf.parquet:picture", "has no column `picture`; its columns are `image`, `image.bytes`"),
        ("data/hf.parquet:imgae", "has no column `imgae`, did you mean `image`?"),
        (
            "data/hf.parquet:label",
            "holds INT64, not text; name a column that holds paths, or images as binary",
        ),
        ("data/hf.parquet:tags.list.element", "holds lists"),
    ] {
        let finished = gpulane.map(SIZES, &[input], &["--decode", "bytes"]);
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains(words), "{input}: {}", finished.stderr);
    }
}

#[test]
fn tables_alone_in_a_glob_or_folder_are_not_taken_for_pictures() {
    let gpulane = gpulane();
    table(&gpulane, "hf.parquet");
    table(&gpulane, "v2.parquet");
    for (input, written) in [("data/*.parquet", "data/*.parquet:image"), ("data", "data/*.parquet:image")] {
        let refused = gpulane.map(SIZES, &[input], &["--decode", "rgb:8x8"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        for words in ["these are tables; which column? The first has `image`", written] {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
    }
    // Read whole where that is asked for, and an item like any other beside files that are no tables.
    assert_eq!(gpulane.map(SIZES, &["data"], &["--decode", "bytes"]).code, 0);
    assert_eq!(gpulane.rows().len(), 2);
    fs::remove_dir_all(gpulane.dir()).unwrap();
    gpulane.workspace.file("data/zebra.jpg", "no picture");
    assert_eq!(gpulane.map(SIZES, &["data"], &["--decode", "rgb:8x8"]).code, 3);
    assert_eq!(gpulane.failed_items().len(), 3);
}
