//! How a file is opened that others may have put there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fcntl_setfl, fstat, ftruncate, openat, openat2,
    statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// For its owner only, whatever the umask.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Something else than a regular file stands in its place.
#[derive(Debug)]
pub struct NotRegular(&'static str);

impl std::fmt::Display for NotRegular {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "it is {}, not a regular file, and gpulane puts none there: look at it with `ls -l`, then remove it",
            self.0
        )
    }
}

impl std::error::Error for NotRegular {}

impl From<NotRegular> for io::Error {
    fn from(reason: NotRegular) -> Self {
        Self::new(io::ErrorKind::InvalidData, reason)
    }
}

/// A file, for reading.
pub fn open(path: &Path) -> io::Result<File> {
    // Looked at before: to open a pipe lets go on whoever waits for a reader of it.
    if let Ok(found) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        && let Some(kind) = other_kind(FileType::from_raw_mode(found.st_mode))
    {
        return Err(NotRegular(kind).into());
    }
    Ok(open_at(CWD, path, OFlags::RDONLY, Mode::empty())?.into())
}

/// All that is in a file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All that is in a file of text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// A file to be written anew, mode 0600 if it is made.
pub fn create(path: &Path) -> io::Result<File> {
    Ok(open_at(CWD, path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, PRIVATE)?.into())
}

/// A file to be written at its end, mode 0600 if it is made.
pub fn append(path: &Path) -> io::Result<File> {
    Ok(open_at(CWD, path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, PRIVATE)?.into())
}

/// A file as it is, for reading and writing, mode 0600 if it is made.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    Ok(open_at(CWD, path, OFlags::RDWR | OFlags::CREATE, PRIVATE)?.into())
}

/// Writes a file anew, mode 0600 if it is made.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(bytes.as_ref())
}

/// A directory, to open files in.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    open_directory_at(CWD, path)
}

/// A directory below another, to open files in.
pub fn open_directory_at(directory: impl AsFd, path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    resolve(directory, path.as_ref(), flags, Mode::empty())
}

/// A file to be written, with the mode that it gets if it is made. `anew`: what is in it goes.
pub fn create_with(path: &Path, mode: u32, anew: bool) -> io::Result<File> {
    let cut = if anew { OFlags::TRUNC } else { OFlags::empty() };
    Ok(open_at(CWD, path, OFlags::WRONLY | OFlags::CREATE | cut, Mode::from_raw_mode(mode))?.into())
}

/// A file below a directory. `flags`: how it is used; how links and pipes are kept out is added here.
pub fn open_at(
    directory: impl AsFd,
    path: impl AsRef<Path>,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let path = path.as_ref();
    // Emptied only when it is known to be a file of its own: what a link leads to is left as it is.
    let cut = flags.contains(OFlags::TRUNC);
    let plain = flags.difference(OFlags::TRUNC);
    let careful = plain | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = resolve(directory.as_fd(), path, careful, mode)?;
    let found = fstat(&file)?;
    if let Some(kind) = other_kind(FileType::from_raw_mode(found.st_mode)) {
        return Err(NotRegular(kind).into());
    }
    if cut && found.st_size != 0 {
        ftruncate(&file, 0)?;
    }
    if !plain.contains(OFlags::NONBLOCK) {
        // Jobs inherit some of these, and a program may ask how its stdout was opened.
        fcntl_setfl(&file, plain & OFlags::APPEND)?;
    }
    Ok(file)
}

/// Opens it without following links, also those of directories on the way, unless each was made by this user or by root.
fn resolve(directory: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    match openat2(&directory, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        Ok(file) => return Ok(file),
        Err(Errno::LOOP) => {
            if let Some(link) = strangers_link(&directory, path) {
                let why = format!("{} is a link that another user made", link.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        // Older kernels do not have it, and some sandboxes refuse it.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
        Err(error) => return Err(told(&directory, path, flags, error)),
    }
    openat(&directory, path, flags, mode).map_err(|error| told(&directory, path, flags, error))
}

/// What the system says of a thing that is no regular file is no help: ELOOP of a link, ENXIO of a pipe.
fn told(directory: impl AsFd, path: &Path, flags: OFlags, error: Errno) -> io::Error {
    if flags.contains(OFlags::DIRECTORY) {
        return match error {
            Errno::LOOP | Errno::NOTDIR => {
                io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file, not a directory")
            }
            error => error.into(),
        };
    }
    if matches!(error, Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::ISDIR)
        && let Ok(found) = statat(directory, path, AtFlags::SYMLINK_NOFOLLOW)
        && let Some(kind) = other_kind(FileType::from_raw_mode(found.st_mode))
    {
        return NotRegular(kind).into();
    }
    error.into()
}

/// The first link to a directory on the way that somebody else than this user or root made.
fn strangers_link(directory: impl AsFd, path: &Path) -> Option<PathBuf> {
    let me = geteuid().as_raw();
    let mut at = PathBuf::new();
    for part in path.parent()?.components() {
        at.push(part);
        let found = statat(&directory, &at, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        if is_link && found.st_uid != 0 && found.st_uid != me {
            return Some(at);
        }
    }
    None
}

fn other_kind(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a link"),
        FileType::Fifo => Some("a pipe"),
        FileType::Directory => Some("a directory"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}
