//! Requests to a live run from other commands: small files in the run's `control` directory, and a FIFO beside them
//! that is rung like a bell. A file is written aside and renamed, so the engine never sees half a request; if no engine lives, what is
//! left is cleared before the next begins.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use gpulane_journal::RunDir;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use serde::{Deserialize, Serialize};

/// What can be asked of a live run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// End these jobs (`STAGE/NAME`); none named: all.
    Cancel(Vec<String>),
}

/// Leaves a request for the engine of `dir`. Returns its file, which is gone once the engine has taken it.
pub fn leave(dir: &RunDir, request: &Request) -> io::Result<PathBuf> {
    let directory = dir.control_dir();
    let stem = format!("{}-{}", std::process::id(), unique());
    let (draft, file) = (directory.join(format!(".{stem}")), directory.join(format!("{stem}.json")));
    std::fs::write(&draft, serde_json::to_vec(request)?)?;
    std::fs::rename(&draft, &file)?;
    ring(dir);
    Ok(file)
}

fn bell(dir: &RunDir) -> PathBuf {
    dir.control_dir().join("bell")
}

/// Wakes the engine. Without a bell, or with nobody to hear it, the file waits for the engine's next look.
fn ring(dir: &RunDir) {
    if let Ok(bell) = open(bell(dir), OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        let _ = rustix::io::write(bell, b"!");
    }
}

/// The engine's end of the bell: readable when it was rung. (Watching the directory by inotify costs some 15 ms at the
/// end of every run, because the kernel waits before it lets go of a watch.)
pub(crate) fn hang_bell(dir: &RunDir) -> Option<OwnedFd> {
    let _ = DirBuilder::new().mode(0o700).create(dir.control_dir());
    let path = bell(dir);
    let _ = std::fs::remove_file(&path);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).ok()?;
    // Open for writing too, so that it never reads as closed.
    open(&path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Removes the bell, and the directory unless a request is in it.
pub(crate) fn remove_bell(dir: &RunDir) {
    let _ = std::fs::remove_file(bell(dir));
    let _ = std::fs::remove_dir(dir.control_dir());
}

fn unique() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Removes requests to an engine that is gone: they were not meant for the next.
pub fn clear(dir: &RunDir) {
    take(dir);
}

/// Takes every request there is, in no particular order. A file that is no request is removed all the same.
pub(crate) fn take(dir: &RunDir) -> Vec<Request> {
    let entries = std::fs::read_dir(dir.control_dir()).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        .filter_map(|entry| {
            let text = std::fs::read(entry.path());
            // Gone already is as good as removed.
            let _ = std::fs::remove_file(entry.path());
            serde_json::from_slice(&text.ok()?).ok()
        })
        .collect()
}
