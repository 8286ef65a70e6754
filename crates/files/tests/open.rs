//! Whatever stands in the place of a file is neither followed nor waited for.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use gpulane_files::{append, create, open, open_or_create, read, write};
use rustix::fs::{CWD, FileType, OFlags, fcntl_getfl, mknodat};

fn all(path: &Path) -> [(&'static str, std::io::Result<()>); 6] {
    [
        ("open", open(path).map(drop)),
        ("read", read(path).map(drop)),
        ("create", create(path).map(drop)),
        ("append", append(path).map(drop)),
        ("open_or_create", open_or_create(path).map(drop)),
        ("write", write(path, "x")),
    ]
}

#[test]
fn only_regular_files_are_opened_and_all_else_is_named() {
    let place = tempfile::tempdir().unwrap();
    let precious = place.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    let link = place.path().join("link");
    symlink(&precious, &link).unwrap();
    let dangling = place.path().join("dangling");
    symlink(place.path().join("new"), &dangling).unwrap();
    let pipe = place.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
    for (path, kind) in [
        (&link, "a link"),
        (&dangling, "a link"),
        (&pipe, "a pipe"),
        (&place.path().to_owned(), "a directory"),
    ] {
        for (how, answer) in all(path) {
            let said = answer.unwrap_err().to_string();
            assert!(said.contains(kind), "{how} {}: {said}", path.display());
        }
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert!(!place.path().join("new").exists());
}

#[test]
fn a_file_is_made_for_its_owner_and_used_as_asked() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    write(&file, "long text").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    write(&file, "short").unwrap();
    let mut end = append(&file).unwrap();
    end.write_all(b" and more").unwrap();
    assert_eq!(read(&file).unwrap(), b"short and more");
    let flags = fcntl_getfl(&end).unwrap();
    assert!(flags.contains(OFlags::APPEND) && !flags.contains(OFlags::NONBLOCK), "{flags:?}");
    assert_eq!(open(&place.path().join("none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn a_link_to_a_directory_is_followed_only_if_it_is_ones_own() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("real")).unwrap();
    let link = place.path().join("elsewhere");
    symlink("real", &link).unwrap();
    write(&link.join("file"), "x").unwrap();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::lchown(&link, Some(65_102), Some(65_102)).unwrap();
    for (how, answer) in all(&link.join("file")) {
        let said = answer.unwrap_err().to_string();
        assert!(said.contains("another user"), "{how}: {said}");
    }
    assert_eq!(fs::read_to_string(place.path().join("real/file")).unwrap(), "x");
}

#[test]
fn whoever_waits_for_a_reader_of_a_pipe_is_left_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, 0o600.into(), 0).unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let opened = std::fs::OpenOptions::new().write(true).open(pipe);
            said.send(()).unwrap();
            opened
        })
    };
    // Also while the other is still on its way.
    for _ in 0..50 {
        assert!(gpulane_files::open(&pipe).is_err());
        assert!(heard.recv_timeout(std::time::Duration::from_millis(2)).is_err(), "a reader came");
    }
    let _reader = std::fs::File::open(&pipe).unwrap();
    writer.join().unwrap().unwrap();
}
