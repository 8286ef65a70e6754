//! What is quoted of a source, and what reading costs.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use super::*;

const SOURCE: &str = "import os, time\n\
def wait_for(path):\n    \
    while not os.path.exists(path\u{1b}):\n        \
        pause()\n\
def pause():\n    \
    time.sleep(0.5)\n";

fn frame(file: &str, line: u32) -> Frame {
    Frame { function: "f".to_owned(), file: file.to_owned(), line }
}

/// A thread of this process that sleeps.
fn asleep(tid: u32, frames: &[Frame], texts: Vec<Text>) -> Asked {
    let wait = Wait { call: "clock_nanosleep".to_owned(), timed: Some(true), ..Wait::default() };
    Asked::of(std::process::id(), tid, &wait, frames, texts).unwrap()
}

#[test]
fn a_file_is_read_and_its_path_named_and_what_is_none_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wait.py");
    std::fs::write(&file, SOURCE).unwrap();
    let file = file.to_str().unwrap();
    let mut texts = Texts::new(&texts::read, &|| false);
    let value = Text { frame: 1, name: "path".to_owned(), value: "/data/_SUCCESS".to_owned() };
    let quoted = asleep(1, &[frame(file, 6), frame(file, 4)], vec![value]).answer(&mut texts).unwrap();
    assert_eq!(
        quoted.words(),
        ", in the loop `while not os.path.exists(path ):`: it polls for a file (/data/_SUCCESS)"
    );
    assert_eq!(quoted.line, 3);
    for strange in ["/dev/zero", "/proc/self/nothing", "/"] {
        assert_eq!(asleep(1, &[frame(strange, 6)], Vec::new()).answer(&mut texts), None);
    }
}

#[test]
fn one_look_reads_a_file_once_for_all_threads_and_callers() {
    let read = RefCell::new(Vec::new());
    let reads = |_: u32, path: &Path| {
        read.borrow_mut().push(path.to_owned());
        path.ends_with("wait.py").then(|| SOURCE.to_owned())
    };
    let mut texts = Texts::new(&reads, &|| false);
    let frames = [frame("/gone.py", 3), frame("/wait.py", 6), frame("/wait.py", 4)];
    for tid in 0..500 {
        assert_eq!(asleep(tid, &frames, Vec::new()).answer(&mut texts).unwrap().line, 3);
    }
    assert_eq!(*read.borrow(), [PathBuf::from("/gone.py"), PathBuf::from("/wait.py")]);
}

#[test]
fn one_look_goes_through_a_file_once_for_all_who_wait_at_one_line() {
    let gone_through = Cell::new(0);
    let reads = |_: u32, _: &Path| Some(SOURCE.to_owned());
    let mut texts = Texts::new(&reads, &|| false);
    for line in [Some(4), Some(4), None, Some(3), None] {
        let found = texts.find("/wait.py", line, (1, Path::new("/proc/1")), |_| {
            gone_through.set(gone_through.get() + 1);
            None
        });
        assert_eq!(found, None);
    }
    assert_eq!(gone_through.get(), 3);
}

#[test]
fn all_files_of_a_look_share_one_limit() {
    let read = Cell::new(0);
    // Each read takes half of the time.
    let reads = |_: u32, _: &Path| {
        read.set(read.get() + 1);
        Some(SOURCE.to_owned())
    };
    let over = || read.get() >= 2;
    let mut texts = Texts::new(&reads, &over);
    let told = (0..15)
        .filter_map(|tid| asleep(tid, &[frame(&format!("/{tid}.py"), 4)], Vec::new()).answer(&mut texts));
    assert_eq!(told.count(), 1, "what came too late is left out");
    assert_eq!(read.get(), 2);
}

#[test]
fn what_a_look_keeps_of_files_is_bounded() {
    let read = Cell::new(0);
    let reads = |_: u32, _: &Path| {
        read.set(read.get() + 1);
        Some(format!("{SOURCE}{}", "\n".repeat(1 << 20)))
    };
    let mut texts = Texts::new(&reads, &|| false);
    for tid in 0..100 {
        let _ = asleep(tid, &[frame(&format!("/{tid}.py"), 4)], Vec::new()).answer(&mut texts);
    }
    assert_eq!(read.get(), 16);
}

#[test]
fn a_thread_that_does_not_sleep_is_not_asked_about() {
    let wait = |call: &str, timed| Wait { call: call.to_owned(), timed, ..Wait::default() };
    let of = |wait: &Wait, frames: &[Frame]| Asked::of(1, 1, wait, frames, Vec::new()).is_some();
    let library = frame("/v/lib/python3.11/threading.py", 3);
    assert!(!of(&wait("futex", Some(false)), &[frame("/wait.py", 4)]));
    assert!(!of(&wait("futex", Some(true)), &[library]), "in nothing of its own");
    assert!(of(&wait("wait4", None), &[]), "a shell");
}
