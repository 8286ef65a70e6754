//! Inputs of a map that are not whole: folders that cannot be listed, tars that are cut. Each is one failure that is said, the rest goes
//! on; `--strict` starts nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use gpulane_testkit::Gpulane;

const MODEL: &str = "def Model(batch):\n    return [len(item) for item in batch]\n";

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// Two good files, a folder that nobody can list since its path is too long, and a tar that was cut behind its first member.
fn lacking() -> Gpulane {
    let gpulane = gpulane();
    let base = gpulane.workspace.path();
    gpulane.workspace.file("photos/a.jpg", "a");
    gpulane.workspace.file("photos/z.jpg", "z");
    let chain = |from: &Path| (0..12).fold(from.to_owned(), |path, _| path.join("n".repeat(250)));
    let (upper, lower) = (chain(&base.join("photos/deep")), base.join("lower"));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(chain(&lower)).unwrap();
    fs::rename(&lower, upper.join("lower")).unwrap();
    for member in ["1.jpg", "2.jpg"] {
        gpulane.workspace.file(&format!("members/{member}"), "picture");
    }
    let tar = base.join("photos/s.tar");
    let mut made = Command::new("tar");
    made.arg("-cf").arg(&tar).arg("-C").arg(base.join("members")).args(["1.jpg", "2.jpg"]);
    assert!(made.status().unwrap().success());
    fs::write(&tar, &fs::read(&tar).unwrap()[..1024]).unwrap();
    gpulane
}

#[test]
fn a_folder_that_cannot_be_listed_and_a_tar_cut_between_members_are_failures_that_are_said() {
    let gpulane = lacking();
    let finished = gpulane.map(MODEL, &["photos"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let items: Vec<_> = gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect();
    assert_eq!(items, ["photos/a.jpg", "photos/s.tar/1.jpg", "photos/z.jpg"]);
    let failed = gpulane.failed_items();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(
        failed[0].0.starts_with("photos/deep/n") && failed[0].1.contains("cannot be listed"),
        "{failed:?}"
    );
    assert_eq!(failed[1].0, "photos/s.tar");
    assert!(
        failed[1].1.contains("ends without the end-of-archive mark: members may be missing"),
        "{failed:?}"
    );
    for said in [&finished.stderr, &gpulane.call(&["status", "r"]).stdout] {
        for words in [
            "1 folder could not be listed",
            "1 tar file could not be read to its end",
            "by itself into another --out",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(!said.contains("resume"), "another try cannot help: {said}");
    }
    let doctor = gpulane.call(&["doctor", "r"]);
    assert!(!doctor.stdout.contains("--failed"), "{}", doctor.stdout);
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 3, "the inputs have not changed: {again:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (3, 2), "each once");
}

#[test]
fn another_try_is_advised_where_something_else_failed_as_well() {
    let gpulane = lacking();
    let model = MODEL.replace("len(item)", "1 / (len(item) - 1)");
    let finished = gpulane.map(&model, &["photos"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    for said in [&finished.stderr, &gpulane.call(&["status", "r"]).stdout] {
        assert!(said.contains("resume") && said.contains("--failed"), "{said}");
    }
}

#[test]
fn strict_starts_nothing_and_says_what_is_lacking() {
    let gpulane = lacking();
    let refused = gpulane.map(MODEL, &["photos"], &["--decode", "bytes", "--strict"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    for words in ["1 folder could not be listed", "photos/s.tar: ", "end-of-archive mark", "--strict"] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    assert!(!gpulane.dir().exists(), "nothing was begun");
    fs::remove_dir_all(gpulane.workspace.path().join("photos/deep")).unwrap();
    fs::remove_file(gpulane.workspace.path().join("photos/s.tar")).unwrap();
    let whole = gpulane.map(MODEL, &["photos"], &["--decode", "bytes", "--strict"]);
    assert_eq!(whole.code, 0, "{whole:?}");
}

/// What an earlier stage makes cannot be looked at beforehand: the feeder refuses it before any item is given out.
#[test]
fn strict_holds_for_what_the_run_itself_has_made() {
    let gpulane = lacking();
    gpulane.workspace.file("model.py", MODEL);
    let plan = "[[stage]]\nname = 'make'\ngpus = 0\ncommand = ['cp', 'photos/s.tar', '{out}/s.tar']\n\
                [[stage]]\nname = 'tag'\nafter = 'make'\n\
                map = { model = 'model.py:Model', input = '{run}/jobs/make/*/out/*.tar', decode = 'bytes', strict = true }\n";
    let refused = gpulane.run(plan, "none");
    assert_ne!(refused.code, 0, "{refused:?}");
    let stopped = gpulane.events_of("map_stopped");
    let because = stopped[0]["because"].as_str().unwrap();
    assert!(because.contains("strict") && because.contains("members may be missing"), "{because}");
    assert!(gpulane.events_of("batch_committed").is_empty());
}

#[test]
fn names_that_are_no_utf8_and_links_to_themselves_are_items_as_any() {
    let gpulane = gpulane();
    let photos = gpulane.workspace.path().join("photos");
    fs::create_dir(&photos).unwrap();
    fs::write(photos.join(std::ffi::OsStr::from_bytes(b"\xff.jpg")), "x").unwrap();
    std::os::unix::fs::symlink("round.jpg", photos.join("round.jpg")).unwrap();
    std::os::unix::fs::symlink(&photos, photos.join("up")).unwrap();
    let finished = gpulane.map(MODEL, &["photos"], &["--decode", "bytes"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (1, 1));
    assert_eq!(gpulane.rows()[0]["item"].as_str(), Some("photos/\\xff.jpg"));
    let (item, reason) = gpulane.failed_items().remove(0);
    assert!(item == "photos/round.jpg" && reason.contains("symbolic links"), "{item}: {reason}");
}
