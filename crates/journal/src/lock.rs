//! The lock that keeps two engines off one run. It lives on open descriptors, so it ends with its holder,
//! however that ends; the number in the file is for messages only.
//!
//! Two things are locked: the file `lock`, and the run directory itself. Whoever removes the file by hand would otherwise let a
//! second engine make and lock another. Where a directory cannot be locked (NFS), the file alone must do.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::RunDirError;

/// Held while an engine works on a run. Whoever inherits the descriptors holds the lock too.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    /// The run directory, where it can be locked.
    directory: Option<File>,
}

impl RunLock {
    /// The directory, locked like the file; `None` where that cannot be.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.directory.as_ref().map(AsFd::as_fd)
    }

    /// Whether `run` still leads to the directory that was locked. Where that could not be locked, the file is asked.
    pub fn is_of(&self, run: &Path, path: &Path) -> bool {
        let (held, path) = self.directory.as_ref().map_or((&self.file, path), |directory| (directory, run));
        let id = |found: io::Result<Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
        id(held.metadata()).is_some_and(|held| id(std::fs::metadata(path)) == Some(held))
    }
}

impl AsFd for RunLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl From<RunLock> for OwnedFd {
    fn from(lock: RunLock) -> Self {
        lock.file.into()
    }
}

/// How long views that look may be in the way, all in all.
const TRIES: u32 = 500;
const BETWEEN: Duration = Duration::from_millis(1);

pub(crate) fn take(run: &Path, path: &Path) -> Result<RunLock, RunDirError> {
    // The directory first: while somebody has it, nothing is made in it.
    let directory = match File::open(run) {
        Ok(directory) => match lock(&directory, run) {
            Ok(true) => Some(directory),
            Ok(false) => {
                let pid = gpulane_files::open(path).ok().and_then(|mut file| read_pid(&mut file));
                return Err(RunDirError::Locked { path: run.to_owned(), pid });
            }
            // Not everywhere can a directory be locked.
            Err(_) => None,
        },
        Err(error) => return Err(RunDirError::io("open", run)(error)),
    };
    let mut file = gpulane_files::open_or_create(path).map_err(RunDirError::io("open", path))?;
    if !lock(&file, path)? {
        return Err(RunDirError::Locked { path: run.to_owned(), pid: read_pid(&mut file) });
    }
    // Only for messages: a full disk is no reason not to take the run.
    let _ = write_pid(&mut file);
    Ok(RunLock { file, directory })
}

/// `false`: another engine has it.
fn lock(file: &File, path: &Path) -> Result<bool, RunDirError> {
    for _ in 0..TRIES {
        if try_lock(file, FlockOperation::NonBlockingLockExclusive, path)? {
            return Ok(true);
        }
        // `is_held` shares the lock for an instant to find out whether it is free. Whoever shares is a view, so
        // if it can be shared now, there is no other engine.
        if !try_lock(file, FlockOperation::NonBlockingLockShared, path)? {
            return Ok(false);
        }
        flock(file, FlockOperation::Unlock).map_err(|error| RunDirError::io("unlock", path)(error.into()))?;
        std::thread::sleep(BETWEEN);
    }
    Ok(false)
}

fn try_lock(file: &File, how: FlockOperation, path: &Path) -> Result<bool, RunDirError> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(RunDirError::io("lock", path)(error.into())),
    }
}

/// Whether somebody holds the lock. What cannot be looked at counts as free: taking it will tell.
pub(crate) fn is_held(run: &Path, path: &Path) -> bool {
    [gpulane_files::open(path), File::open(run)]
        .into_iter()
        .flatten()
        .any(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

/// Whether it is proved that nobody holds the lock: it was had for an instant.
pub(crate) fn is_surely_free(run: &Path, path: &Path) -> bool {
    gpulane_files::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
        && !is_held(run, path)
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
