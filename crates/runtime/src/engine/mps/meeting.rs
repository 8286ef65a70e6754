//! The directory where an MPS daemon and its clients meet. Its path must be short, since a socket's may not be longer
//! than 108 bytes, so it cannot be in the run directory; and whoever can write to it owns the jobs, so it is made
//! anew, for this user alone.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, geteuid, test_kill_process};

/// Before the id of the engine it belongs to.
const PREFIX: &str = "gpulane-mps-";
/// Locked as long as that engine lives.
const LOCK: &str = "lock";
/// What a socket's path may have, less what comes below a place: `gpulane-mps-4194304-9/pipe/control_privileged`.
const LONGEST_PLACE: usize = 107 - 45;

/// A directory that only this user can enter; gone at the end.
pub(super) struct Meeting {
    folder: PathBuf,
    pipes: PathBuf,
    _lock: File,
}

impl Meeting {
    /// Makes one in the first of `places` that will have it, after clearing away what dead engines left there.
    pub(super) fn make(places: &[PathBuf]) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no place for the pipes of MPS");
        for place in places {
            clear(place);
            match make_in(place) {
                Ok(meeting) => return Ok(meeting),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// What goes into `CUDA_MPS_PIPE_DIRECTORY`.
    pub(super) fn path(&self) -> &Path {
        &self.pipes
    }

    /// Removes it.
    pub(super) fn leave(&self) {
        // What cannot be removed now, the next run removes.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The user's own directory for such things, else the one everybody has.
pub(super) fn places() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    own.filter(|place| fits(place)).into_iter().chain([PathBuf::from("/tmp")]).collect()
}

/// Whether sockets below it are possible.
pub(super) fn fits(place: &Path) -> bool {
    place.is_absolute() && place.as_os_str().as_bytes().len() <= LONGEST_PLACE
}

fn make_in(place: &Path) -> io::Result<Meeting> {
    let folders = (1..100).map(|count| place.join(format!("{PREFIX}{}-{count}", std::process::id())));
    for folder in folders {
        // Fails if it exists, whoever made it and whatever it is.
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
        return furnish(&folder).inspect_err(|_| drop(fs::remove_dir_all(&folder)));
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn furnish(folder: &Path) -> io::Result<Meeting> {
    let lock = File::create_new(folder.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    let pipes = folder.join("pipe");
    DirBuilder::new().mode(0o700).create(&pipes)?;
    Ok(Meeting { folder: folder.to_owned(), pipes, _lock: lock })
}

/// Removes what engines of this user left that were killed.
pub(super) fn clear(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if is_stale(&entry) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Ours, of an engine that is gone. The lock decides where the id alone could mislead: in another container with the
/// same `/tmp`, a living engine's id means nothing to us.
fn is_stale(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
    let Some(owner) = owner.and_then(Pid::from_raw) else { return false };
    let ours = entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw());
    ours && test_kill_process(owner) == Err(rustix::io::Errno::SRCH) && !is_locked(&entry.path().join(LOCK))
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}
