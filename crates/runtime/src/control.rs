//! Requests to a live run from other commands: small files in the run's `control` directory, and a FIFO beside them
//! that is rung like a bell. A file is written aside and renamed, so the engine never sees half a request. It is removed when it is
//! taken, and answered by another file; if no engine lives, what is left is cleared before the next begins.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use gpulane_journal::RunDir;
use rustix::fs::{CWD, FileType, Mode, OFlags, fchmod, mknodat, open, openat, renameat};
use serde::{Deserialize, Serialize};

/// How the name of a request ends, and that of its answer.
const REQUEST: &str = ".json";
const ANSWER: &str = ".answer";

/// What can be asked of a live run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// End these jobs (`STAGE/NAME`); none named: all.
    Cancel(Vec<String>),
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How many jobs are being ended.
    pub ending: u32,
    /// Jobs that were asked for by name and had ended before (`STAGE/NAME`).
    pub ended_before: Vec<String>,
}

/// A request that was left, from the side of whoever asks.
#[derive(Debug)]
pub struct Left {
    file: PathBuf,
    answer: PathBuf,
}

impl Left {
    /// The engine's answer, once it is there.
    pub fn answer(&self) -> Option<Answer> {
        let text = std::fs::read(&self.answer).ok()?;
        let _ = std::fs::remove_file(&self.answer);
        Some(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Whether somebody has taken it.
    pub fn is_taken(&self) -> bool {
        !self.file.exists()
    }

    /// Takes it back.
    pub fn withdraw(&self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Leaves a request for the engine of `dir`, which may not have got as far as making the place for it.
pub fn leave(dir: &RunDir, request: &Request) -> io::Result<Left> {
    let directory = dir.control_dir();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let stem = format!("{}-{}", std::process::id(), unique());
    let file = directory.join(format!("{stem}{REQUEST}"));
    put(&directory, &file, &serde_json::to_vec(request)?)?;
    ring(dir);
    Ok(Left { file, answer: directory.join(format!("{stem}{ANSWER}")) })
}

/// Writes the whole file aside and gives it its name.
fn put(directory: &Path, file: &Path, text: &[u8]) -> io::Result<()> {
    // The run may be another user's who asked root for help: nothing there is followed, and its engine must be able to read the file.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(directory, flags, Mode::empty())?;
    let draft = format!(".{}-{}", std::process::id(), unique());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let aside = openat(&directory, &draft, flags, READABLE)?;
    fchmod(&aside, READABLE)?;
    File::from(aside).write_all(text)?;
    Ok(renameat(&directory, &draft, &directory, file.file_name().unwrap_or_default())?)
}

/// A request says no more than which jobs, and whoever may enter the directory may read it.
const READABLE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

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

/// Removes requests to an engine that is gone, and answers that nobody took: they were not meant for the next.
pub fn clear(dir: &RunDir) {
    for entry in std::fs::read_dir(dir.control_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(REQUEST) || name.ends_with(ANSWER) || name.starts_with('.') {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A request that was taken.
pub(crate) struct Taken {
    pub(crate) request: Request,
    directory: PathBuf,
    answer: PathBuf,
}

impl Taken {
    /// Tells whoever asks. On a full disk they learn only that it was taken.
    pub(crate) fn answer(&self, answer: &Answer) {
        if let Ok(text) = serde_json::to_vec(answer) {
            let _ = put(&self.directory, &self.answer, &text);
        }
    }
}

/// Takes every request there is, in no particular order. A file that is no request is removed all the same.
pub(crate) fn take(dir: &RunDir) -> Vec<Taken> {
    let directory = dir.control_dir();
    let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let stem = name.to_str()?.strip_suffix(REQUEST).filter(|stem| !stem.starts_with('.'))?;
            let text = std::fs::read(entry.path());
            // Gone already is as good as removed.
            let _ = std::fs::remove_file(entry.path());
            let request = serde_json::from_slice(&text.ok()?).ok()?;
            let answer = directory.join(format!("{stem}{ANSWER}"));
            Some(Taken { request, directory: directory.clone(), answer })
        })
        .collect()
}
