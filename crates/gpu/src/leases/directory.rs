//! The directory that all gpulanes of a machine share, in a place where anybody may write: what is opened in it is
//! checked, never followed, never waited for.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_model::env_vars;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, fchmod, flock, fstat,
    linkat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// Made by root when the machine starts, where an administrator has seen to it: nobody else can remove it or what others have in it.
const BY_ROOT: &str = "/run/gpulane/leases";
/// Where leases are otherwise: the one place every user of a machine can write to.
const SHARED: &str = "/tmp/gpulane-leases";
/// Everybody may add, nobody may remove what is another's: `/tmp`'s own mode.
const FOR_ALL: u32 = 0o1777;
/// More than anything of ours in there has.
const LONGEST: u64 = 64 * 1024;

/// The directory, and the queue in it.
#[derive(Debug)]
pub(super) struct LeaseDir {
    pub(super) path: PathBuf,
    pub(super) files: OwnedFd,
    pub(super) queue: OwnedFd,
}

/// Where leases are kept on this machine.
pub(super) fn shared() -> PathBuf {
    let named = std::env::var_os(env_vars::LEASE_DIR).filter(|dir| !dir.is_empty());
    named.map_or_else(|| preferred(Path::new(BY_ROOT)).unwrap_or_else(|| SHARED.into()), Into::into)
}

/// The directory that root made, if it is there and all may use it.
pub(super) fn preferred(path: &Path) -> Option<PathBuf> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let queue = statat(CWD, path.join("queue"), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_for_all = |found: &Stat| {
        FileType::from_raw_mode(found.st_mode) == FileType::Directory
            && found.st_uid == 0
            && found.st_mode & 0o7777 == FOR_ALL
    };
    (is_for_all(&found) && is_for_all(&queue)).then(|| path.to_owned())
}

impl LeaseDir {
    /// The directory as it is.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let files = open_dir(CWD, path).map_err(|error| about(path, &error))?;
        let queue =
            open_dir(&files, Path::new("queue")).map_err(|error| about(&path.join("queue"), &error))?;
        Ok(Self { path: path.to_owned(), files, queue })
    }

    /// The directory, made first if it is not there.
    pub(super) fn open_or_make(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            answer => return answer,
        }
        make_dir(CWD, path).map_err(|error| about(path, &error))?;
        let files = open_dir(CWD, path).map_err(|error| about(path, &error))?;
        make_dir(&files, Path::new("queue")).map_err(|error| about(&path.join("queue"), &error))?;
        Self::open(path)
    }

    /// Whether its path still leads to it: whoever owns it may have removed it.
    pub(super) fn is_current(&self) -> bool {
        let same = |fd: &OwnedFd, path: &Path| {
            let (opened, named) = (fstat(fd), statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW));
            opened.is_ok_and(|opened| named.is_ok_and(|named| id(&opened) == id(&named)))
        };
        same(&self.files, &self.path) && same(&self.queue, &self.path.join("queue"))
    }

    /// Keeps those who tidy up by age out, who pass over what is locked.
    pub(super) fn guard(&self) {
        for dir in [&self.files, &self.queue] {
            let _ = flock(dir, FlockOperation::NonBlockingLockShared);
        }
    }

    /// The file whose lock is the lease, made if it is not there. Opened for reading, which is enough to lock it and
    /// is all that may be had of another user's file.
    pub(super) fn lock_file(&self, name: &str) -> io::Result<OwnedFd> {
        insist(&self.path.join(name), || {
            match open_file(&self.files, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_in_the_way(&error) => return Err(self.in_the_way(name, &error)),
                Err(error) => return Err(error),
                Ok(file) => return Ok(Some(file)),
            }
            // Made aside, so that nobody meets it before all may read it.
            let aside = format!("{name}.{}.new", unique());
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = openat(&self.files, &aside, flags, Mode::from_raw_mode(0o644))?;
            let linked = fchmod(&made, Mode::from_raw_mode(0o644))
                .and_then(|()| linkat(&self.files, &aside, &self.files, name, AtFlags::empty()));
            unlinkat(&self.files, &aside, AtFlags::empty())?;
            match linked {
                // Another was quicker: then it is that one we want.
                Ok(()) | Err(Errno::EXIST) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Says whose file or directory it is that stands in the place of a lock and cannot be one.
    fn in_the_way(&self, name: &str, error: &io::Error) -> io::Error {
        let found = statat(&self.files, name, AtFlags::SYMLINK_NOFOLLOW);
        let owner =
            found.map_or_else(|_| "somebody".to_owned(), |found| gpulane_files::user_name(found.st_uid));
        let path = self.path.join(name);
        let why = format!(
            "{} cannot be locked ({error}); it belongs to {owner}, who or root must remove it",
            path.display()
        );
        io::Error::new(error.kind(), why)
    }

    /// Whether `name` is still the file that is open as `file`.
    pub(super) fn still_there(&self, name: &str, file: &OwnedFd) -> io::Result<bool> {
        let (opened, named) = (fstat(file)?, statat(&self.files, name, AtFlags::SYMLINK_NOFOLLOW));
        Ok(named.is_ok_and(|named| id(&named) == id(&opened)))
    }
}

/// How often a file is made that is gone again each time.
const TRIES: u32 = 16;

/// Tries again where there is nothing yet, but not for ever: somebody may remove the file as fast as it is made.
pub(super) fn insist<T>(file: &Path, mut attempt: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    for _ in 0..TRIES {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
    }
    let why = format!(
        "{} is removed as soon as it is there, {TRIES} times in a row: somebody who owns that directory or acts as you does it. Let root \
         make {BY_ROOT} (docs/gpus.md says how), or agree on another directory by {}",
        file.display(),
        env_vars::LEASE_DIR
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}

const fn id(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// When the file was last changed in any way, in nanoseconds of the Unix epoch. The kernel sets it, nobody else can.
pub(super) fn changed_at(found: &Stat) -> u64 {
    let seconds = u64::try_from(found.st_ctime).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(found.st_ctime_nsec)
}

/// A new file of ours that all may read, locked and open for writing; its close wakes whoever watches. `None` if the
/// name is taken, or somebody looked at the file just when it was made.
pub(super) fn make_locked(dir: impl AsFd, name: &str) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(&dir, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => file,
        Err(Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    fchmod(&file, Mode::from_raw_mode(0o644))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || fstat(&file)?.st_nlink == 0 {
        let _ = unlinkat(&dir, name, AtFlags::empty());
        return Ok(None);
    }
    Ok(Some(File::from(file)))
}

/// A file as it may be: regular, not a link, and not ours to wait for.
pub(super) fn open_file(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is not a regular file")));
    }
    Ok(file)
}

/// Whether the error is of what stands there, a link, a directory, somebody's closed file, and not of the system.
fn is_in_the_way(error: &io::Error) -> bool {
    let kinds = [Errno::LOOP, Errno::ISDIR, Errno::NXIO, Errno::ACCESS];
    error.kind() == io::ErrorKind::InvalidData
        || Errno::from_io_error(error).is_some_and(|code| kinds.contains(&code))
}

/// Whether a living process has it locked. Asks for a shared lock, so that two who ask do not mislead each other.
pub(super) fn is_locked(file: &OwnedFd) -> bool {
    let answer = flock(file, FlockOperation::NonBlockingLockShared);
    if answer.is_ok() {
        let _ = flock(file, FlockOperation::NonBlockingUnlock);
    }
    answer == Err(Errno::WOULDBLOCK)
}

/// Whether it belongs to the user we are.
pub(super) fn is_ours(file: &OwnedFd) -> bool {
    fstat(file).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
}

/// What is written in it.
pub(super) fn text(file: OwnedFd) -> io::Result<String> {
    let mut text = String::new();
    File::from(file).take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The names in a directory, in their order.
pub(super) fn names(dir: impl AsFd) -> Vec<String> {
    let Ok(entries) = Dir::read_from(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned))
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort();
    names
}

fn open_dir(parent: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(parent, path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => {
            io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file, not a directory")
        }
        other => other.into(),
    })?;
    let mode = fstat(&dir)?.st_mode;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let why =
            "others may write to it and it is not sticky, so they could remove leases; chmod it to 1777";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(dir)
}

/// Makes a directory for all. Under another name first: nobody must meet it with the mode our umask leaves it.
fn make_dir(parent: impl AsFd, path: &Path) -> io::Result<()> {
    let aside = path.with_extension(format!("{}.new", unique()));
    mkdirat(&parent, &aside, Mode::from_raw_mode(0o700))?;
    let made = openat(&parent, &aside, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
        .and_then(|dir| fchmod(&dir, Mode::from_raw_mode(FOR_ALL)))
        .and_then(|()| match renameat_with(&parent, &aside, &parent, path, RenameFlags::NOREPLACE) {
            // Some file systems cannot say "unless it is there".
            Err(Errno::INVAL) => renameat(&parent, &aside, &parent, path),
            answer => answer,
        });
    match made {
        Ok(()) => Ok(()),
        Err(error) => {
            let _ = unlinkat(&parent, &aside, AtFlags::REMOVEDIR);
            // Another was quicker.
            if matches!(error, Errno::EXIST | Errno::NOTEMPTY) { Ok(()) } else { Err(error.into()) }
        }
    }
}

/// A name nobody else uses: not another process, not another of our threads.
fn unique() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    format!("{}-{:?}-{now}", std::process::id(), std::thread::current().id()).replace(['(', ')'], "")
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the directory for leases, {}: {error}", path.display()))
}
