//! Tar shards among the inputs of a map: every member ends in the results or in `failed.jsonl`, and a broken one costs itself.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gpulane_testkit::Gpulane;

const MODEL: &str = "def Model(batch):\n    return [len(item) for item in batch]\n";

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// A tar of these members in `photos`.
fn tar(gpulane: &Gpulane, name: &str, members: &[(&str, usize)]) -> PathBuf {
    let (photos, scratch) =
        (gpulane.workspace.path().join("photos"), gpulane.workspace.path().join("members"));
    fs::create_dir_all(&photos).unwrap();
    fs::create_dir_all(&scratch).unwrap();
    for (member, bytes) in members {
        fs::write(scratch.join(member), vec![7; *bytes]).unwrap();
    }
    let tar = photos.join(name);
    let mut command = Command::new("tar");
    command.arg("-cf").arg(&tar).arg("-C").arg(&scratch).args(members.iter().map(|(member, _)| member));
    assert!(command.status().unwrap().success());
    tar
}

fn items(gpulane: &Gpulane) -> Vec<String> {
    gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn two_images_of_one_key_are_two_items() {
    let gpulane = gpulane();
    tar(&gpulane, "hopper.tar", &[("hopper.jpg", 10), ("hopper.png", 20), ("hopper.json", 2)]);
    let finished = gpulane.map(MODEL, &["photos"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(items(&gpulane), ["photos/hopper.tar/hopper.jpg", "photos/hopper.tar/hopper.png"]);
}

#[test]
fn what_is_advised_for_a_member_that_is_no_image_can_be_followed() {
    let gpulane = gpulane();
    tar(&gpulane, "a.tar", &[("a.jpg", 10)]);
    fs::write(gpulane.workspace.path().join("photos/b.jpg"), "no image").unwrap();
    let finished = gpulane.map(MODEL, &["photos"], &["--decode", "rgb:8x8"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    let [(_, member), (_, file)] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(member.contains("decode it as `bytes`") && !member.contains("load(path)"), "{member}");
    assert!(file.contains("give the model its own load(path)"), "{file}");
}

#[test]
fn a_broken_tar_below_a_folder_fails_and_the_map_goes_on() {
    let gpulane = gpulane();
    let cut = tar(&gpulane, "cut.tar", &[("a.jpg", 3000), ("b.jpg", 3000)]);
    fs::write(&cut, &fs::read(&cut).unwrap()[..5000]).unwrap();
    fs::write(cut.with_file_name("junk.tar"), "no tar at all").unwrap();
    fs::write(cut.with_file_name("whole.jpg"), "x").unwrap();
    let finished = gpulane.map(MODEL, &["photos"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(items(&gpulane), ["photos/cut.tar/a.jpg", "photos/whole.jpg"]);
    let failed = gpulane.failed_items();
    let names: Vec<_> = failed.iter().map(|(item, _)| item.as_str()).collect();
    assert_eq!(names, ["photos/cut.tar", "photos/junk.tar"]);
    for ((_, reason), words) in failed.iter().zip(["within the member b.jpg", "after byte 0"]) {
        assert!(reason.contains("is no whole tar file") && reason.contains(words), "{reason}");
    }
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 3, "the inputs have not changed: {again:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (2, 2));
}

#[test]
fn a_tar_named_in_a_list_is_a_plain_file() {
    let gpulane = gpulane();
    let tar = tar(&gpulane, "s.tar", &[("a.jpg", 10), ("b.jpg", 20)]);
    gpulane.workspace.file("tars.txt", "photos/s.tar\n");
    let finished = gpulane.map(MODEL, &["@tars.txt"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let rows = gpulane.rows();
    assert_eq!(rows[0]["item"], "photos/s.tar");
    assert_eq!(rows[0]["result"], fs::metadata(tar).unwrap().len());
}

/// Compresses a tar by a program of the system.
fn compress(tar: &std::path::Path, program: &str) -> PathBuf {
    assert!(Command::new(program).arg("-q").arg(tar).status().unwrap().success(), "{program}");
    PathBuf::from(format!("{}.gz", tar.display()))
}

#[test]
fn compressed_tars_give_the_same_results_as_plain_ones_and_go_on_where_they_stopped() {
    let gpulane = gpulane();
    let names: Vec<String> = (0..40).map(|number| format!("{number:02}.jpg")).collect();
    let members: Vec<(&str, usize)> =
        names.iter().zip(1000..).map(|(name, size)| (name.as_str(), size)).collect();
    let packed = compress(&tar(&gpulane, "s.tar", &members), "gzip");
    // Fails for half of the items, the first time.
    let model = "import os\ndef Model(batch):\n    if len(batch) > 1 or (len(batch[0]) % 2 and not os.path.exists('go')):\n        raise ValueError('not yet')\n    return [len(item) for item in batch]\n";
    let finished = gpulane.map(model, &["photos"], &["--decode", "bytes", "--max-failures", "100%"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 20);
    let whole = fs::read(&packed).unwrap();
    fs::write(&packed, &whole[..whole.len() / 2]).unwrap();
    let changed = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(changed.code, 2, "{changed:?}");
    fs::write(&packed, &whole).unwrap();
    gpulane.workspace.file("go", "");
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 0, "{again:?}");
    let rows = gpulane.rows();
    assert_eq!(
        items(&gpulane),
        names.iter().map(|name| format!("photos/s.tar.gz/{name}")).collect::<Vec<_>>()
    );
    assert!(rows.iter().zip(1000..).all(|(row, size)| row["result"] == size), "{rows:?}");
}
