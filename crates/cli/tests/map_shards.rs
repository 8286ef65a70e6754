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
