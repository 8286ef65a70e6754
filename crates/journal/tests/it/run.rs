//! A run directory with the sample plan, on a memory file system where there is one: these tests sync a lot.

#[path = "../../src/sample.rs"]
pub(crate) mod sample;

use std::path::Path;

use gpulane_journal::{Journal, JournalError, Mode, Repair, RunDir};
use gpulane_model::RunState;
use tempfile::TempDir;

/// Where the sample expects the crate's own functions.
pub(crate) use gpulane_journal::encode;

pub(crate) fn temp_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }.unwrap()
}

pub(crate) fn new_run() -> (TempDir, RunDir) {
    let temp = temp_dir();
    let dir = RunDir::create(&temp.path().join("run")).unwrap();
    dir.freeze(&sample::plan()).unwrap();
    (temp, dir)
}

pub(crate) fn open(dir: &RunDir, mode: Mode) -> Result<(Journal, RunState, Repair), JournalError> {
    Journal::open(dir, &sample::plan(), mode, Box::new(|_| ()))
}
