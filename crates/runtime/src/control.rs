//! Requests to a live run from other commands: small files in the run's `control` directory, and a FIFO beside them
//! that is rung like a bell. A file is written aside and renamed, so the engine never sees half a request. It is removed when it is
//! taken, and answered by another file; if no engine lives, what is left is cleared before the next begins. Where the disk is full, a
//! short text is the target of a symbolic link instead, which needs no room; such links are read, never followed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use gpulane_files::{open_at, open_directory};
use gpulane_journal::RunDir;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, mkdirat, mknodat, openat, readlinkat,
    renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use serde::{Deserialize, Serialize};

/// How the name of a request ends, and that of its answer.
const REQUEST: &str = ".json";
const ANSWER: &str = ".answer";
/// The directory's name; [`RunDir::control_dir`] is its path.
const CONTROL: &str = "control";
/// More than a request for every job of a large plan has.
const LONGEST: u64 = 64 << 20;
/// Jobs of a request that is a link: with numbers of ten digits it is short enough for every file system.
const FEW: usize = 4;
/// The FIFO's name.
const BELL: &str = "bell";

/// What can be asked of a live run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// End these jobs, by their numbers in the plan; none: all.
    Cancel(Vec<u32>),
}

/// What became of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// How many jobs are being ended.
    pub ending: u32,
    /// Jobs that were asked for and had ended before, by their numbers in the plan.
    pub ended_before: Vec<u32>,
}

/// A request that was left, from the side of whoever asks.
#[derive(Debug)]
pub struct Left {
    /// The `control` directory. All is done relative to it: whose run it is may put another in its place meanwhile.
    directory: OwnedFd,
    /// Usually one; on a full disk several, of a few jobs each.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    file: String,
    answer: String,
    heard: Option<Answer>,
}

impl Left {
    /// The engine's answer, once all of it is there.
    pub fn answer(&mut self) -> Option<Answer> {
        for part in self.parts.iter_mut().filter(|part| part.heard.is_none()) {
            let text = read(&self.directory, &part.answer).ok()?;
            let _ = remove(&self.directory, &part.answer);
            part.heard = Some(serde_json::from_slice(&text).unwrap_or_default());
        }
        let mut whole = Answer::default();
        for heard in self.parts.iter_mut().filter_map(|part| part.heard.take()) {
            whole.ending += heard.ending;
            whole.ended_before.extend(heard.ended_before);
        }
        Some(whole)
    }

    /// Whether somebody has taken all of it.
    pub fn is_taken(&self) -> bool {
        self.parts.iter().all(|part| statat(&self.directory, &part.file, AtFlags::SYMLINK_NOFOLLOW).is_err())
    }

    /// Takes it back.
    pub fn withdraw(&self) {
        for part in &self.parts {
            let _ = remove(&self.directory, &part.file);
        }
    }
}

/// Leaves a request for the engine of `dir`, which may not have got as far as making the place for it.
pub fn leave(dir: &RunDir, request: &Request) -> io::Result<Left> {
    let mut left = Left { directory: make(dir)?, parts: Vec::new() };
    match left.add(request, put_file) {
        Err(error) if is_full(&error) => {
            let Request::Cancel(jobs) = request;
            let all = jobs.is_empty().then_some(&jobs[..]);
            for few in all.into_iter().chain(jobs.chunks(FEW)) {
                if let Err(error) = left.add(&Request::Cancel(few.to_vec()), put_link) {
                    left.withdraw();
                    return Err(error);
                }
            }
        }
        done => done?,
    }
    ring(&left.directory);
    Ok(left)
}

impl Left {
    fn add(
        &mut self,
        request: &Request,
        put: impl FnOnce(&OwnedFd, &str, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let stem = format!("{}-{}-{}", std::process::id(), unique(), self.parts.len());
        let (file, answer) = (format!("{stem}{REQUEST}"), format!("{stem}{ANSWER}"));
        put(&self.directory, &file, &serde_json::to_vec(request)?)?;
        self.parts.push(Part { file, answer, heard: None });
        Ok(())
    }
}

/// The `control` directory, made if it is not there.
fn make(dir: &RunDir) -> io::Result<OwnedFd> {
    let root = open_directory(dir.root())?;
    match mkdirat(&root, CONTROL, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return find(dir),
        Err(error) => return Err(error.into()),
    }
    let made = find(dir)?;
    let owner = fstat(&root)?;
    if geteuid().is_root() && owner.st_uid != 0 {
        // Root asks something of a user's run, whose engine must be able to use it.
        fchown(&made, Some(Uid::from_raw(owner.st_uid)), Some(Gid::from_raw(owner.st_gid)))?;
    }
    Ok(made)
}

/// The `control` directory, as it is. A link in its place is not followed.
fn find(dir: &RunDir) -> io::Result<OwnedFd> {
    open_directory(&dir.control_dir())
}

fn read(directory: &OwnedFd, name: &str) -> io::Result<Vec<u8>> {
    if let Ok(text) = readlinkat(directory, name, Vec::new()) {
        return Ok(text.into_bytes());
    }
    let file = open_at(directory, name, OFlags::RDONLY, Mode::empty())?;
    let mut text = Vec::new();
    File::from(file).take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

fn remove(directory: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    unlinkat(directory, name, AtFlags::empty())
}

/// The names in the directory.
fn names(directory: &OwnedFd) -> Vec<String> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)).collect()
}

/// Makes the text the target of a link, for which a full disk has room if the text is short: ext4 keeps up to 59 bytes in the inode
/// itself, other file systems more.
fn put_link(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    Ok(symlinkat(text, directory, name)?)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes the whole file aside and gives it its name.
fn put_file(directory: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    let draft = format!(".{}-{}", std::process::id(), unique());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let aside = openat(directory, &draft, flags, READABLE)?;
    // The run may be another user's who asked root for help: its engine must be able to read the file.
    fchmod(&aside, READABLE)?;
    let written = File::from(aside).write_all(text);
    let named = written.and_then(|()| Ok(renameat(directory, &draft, directory, name)?));
    if named.is_err() {
        let _ = remove(directory, &draft);
    }
    named
}

/// A request says no more than which jobs, and whoever may enter the directory may read it.
const READABLE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// Wakes the engine. Without a bell, or with nobody to hear it, the file waits for the engine's next look.
fn ring(directory: &OwnedFd) {
    if let Some(bell) = open_bell(directory, OFlags::WRONLY) {
        let _ = rustix::io::write(bell, b"!");
    }
}

/// The bell, if it is a FIFO: a link or a file in its place is somebody's trap.
fn open_bell(directory: &OwnedFd, how: OFlags) -> Option<OwnedFd> {
    let flags = how | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let bell = openat(directory, BELL, flags, Mode::empty()).ok()?;
    let is_fifo = |found: Stat| FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
    fstat(&bell).is_ok_and(is_fifo).then_some(bell)
}

/// The engine's end of the bell: readable when it was rung. (Watching the directory by inotify costs some 15 ms at the
/// end of every run, because the kernel waits before it lets go of a watch.)
pub(crate) fn hang_bell(dir: &RunDir) -> Option<OwnedFd> {
    let directory = make(dir).ok()?;
    let _ = remove(&directory, BELL);
    mknodat(&directory, BELL, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).ok()?;
    // Open for writing too, so that it never reads as closed.
    open_bell(&directory, OFlags::RDWR)
}

/// Removes the bell, and the directory unless a request is in it.
pub(crate) fn remove_bell(dir: &RunDir) {
    if let Ok(directory) = find(dir) {
        let _ = remove(&directory, BELL);
        let _ = std::fs::remove_dir(dir.control_dir());
    }
}

fn unique() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Removes requests to an engine that is gone, and answers that nobody took: they were not meant for the next.
pub fn clear(dir: &RunDir) {
    let Ok(directory) = find(dir) else { return };
    for name in names(&directory) {
        if name.ends_with(REQUEST) || name.ends_with(ANSWER) || name.starts_with('.') {
            let _ = remove(&directory, &name);
        }
    }
}

/// A request that was taken.
pub(crate) struct Taken {
    pub(crate) request: Request,
    directory: OwnedFd,
    answer: String,
}

impl Taken {
    /// Tells whoever asks; on a full disk, if need be, without naming the jobs that had ended.
    pub(crate) fn answer(&self, answer: &Answer) {
        let tell = |answer: &Answer, put: fn(&OwnedFd, &str, &[u8]) -> io::Result<()>| {
            put(&self.directory, &self.answer, &serde_json::to_vec(answer)?)
        };
        let short = Answer { ending: answer.ending, ended_before: Vec::new() };
        let _ =
            tell(answer, put_file).or_else(|_| tell(answer, put_link)).or_else(|_| tell(&short, put_link));
    }
}

/// Takes every request there is, in no particular order. A file that is no request is removed all the same.
pub(crate) fn take(dir: &RunDir) -> Vec<Taken> {
    let Ok(directory) = find(dir) else { return Vec::new() };
    let requests = names(&directory).into_iter().filter_map(|name| {
        let stem = name.strip_suffix(REQUEST).filter(|stem| !stem.starts_with('.'))?;
        let text = read(&directory, &name);
        // Gone already is as good as removed.
        let _ = remove(&directory, &name);
        let request = serde_json::from_slice(&text.ok()?).ok()?;
        let directory = directory.as_fd().try_clone_to_owned().ok()?;
        Some(Taken { request, directory, answer: format!("{stem}{ANSWER}") })
    });
    requests.collect()
}
