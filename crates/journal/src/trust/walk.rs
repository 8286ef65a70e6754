//! From the root to a directory, step by step and without following links blindly: each is read, and its target walked to in turn.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fstat, openat, readlinkat,
    statat, statx,
};
use rustix::io::Errno;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory on the way.
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
    /// Device and inode.
    pub(super) id: (u64, u64),
    fd: OwnedFd,
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Place {
    fn open(parent: impl AsFd, name: &OsStr, path: PathBuf) -> io::Result<Self> {
        let fd = openat(parent, name, DIRECTORY, Mode::empty())?;
        let Stat { st_uid, st_gid, st_mode, st_dev, st_ino, .. } = fstat(&fd)?;
        Ok(Self { path, owner: st_uid, group: st_gid, mode: st_mode, id: (st_dev, st_ino), fd })
    }

    /// The device it lies on.
    pub(super) const fn device(&self) -> u64 {
        self.id.0
    }

    /// A directory that every system has for all users, which root makes.
    pub(super) fn is_systems_own(&self) -> bool {
        self.is_sticky() && ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|path| self.path == Path::new(path))
    }

    /// Only owners may remove or replace what is in it.
    pub(super) const fn is_sticky(&self) -> bool {
        self.mode & 0o1000 != 0
    }

    /// Something is mounted here.
    pub(super) fn is_mount(&self) -> bool {
        let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        statx(&self.fd, "", flags, StatxFlags::BASIC_STATS)
            .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }
}

/// A link on the way.
pub(super) struct Link {
    pub(super) path: PathBuf,
    pub(super) owner: u32,
    /// The device it lies on.
    pub(super) device: u64,
    /// Others than the directory's owner may add to the directory it stands in.
    pub(super) in_shared: bool,
}

/// What was met.
pub(super) struct Walked {
    /// Every directory, the root first, also those that only a link led through.
    pub(super) places: Vec<Place>,
    pub(super) links: Vec<Link>,
    /// What is not there yet of the path.
    pub(super) missing: Vec<OsString>,
}

impl Walked {
    /// The last directory that is there.
    pub(super) fn last(&self) -> BorrowedFd<'_> {
        self.places[self.places.len() - 1].fd.as_fd()
    }

    /// Its path, without links.
    pub(super) fn path(&self) -> &Path {
        &self.places[self.places.len() - 1].path
    }
}

/// Walks to an absolute path.
pub(super) fn to(path: &Path) -> io::Result<Walked> {
    let root = Place::open(CWD, OsStr::new("/"), PathBuf::from("/"))?;
    let mut places = vec![root];
    let (mut links, mut missing) = (Vec::new(), Vec::new());
    // Where we stand: indices of `places`, since a link leads away from some.
    let mut line = vec![0];
    let mut ahead: VecDeque<OsString> = words(path);
    while let Some(word) = ahead.pop_front() {
        let at = &places[line[line.len() - 1]];
        if word == ".." {
            if line.len() > 1 {
                line.pop();
            }
            continue;
        }
        let next = at.path.join(&word);
        let found = match statat(&at.fd, &word, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                missing.push(word);
                for word in ahead.drain(..) {
                    // What is not there has no links: it means what it says.
                    if word != ".." {
                        missing.push(word);
                    } else if missing.pop().is_none() {
                        return Err(Errno::NOENT.into());
                    }
                }
                break;
            }
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
            if links.len() == MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = readlinkat(&at.fd, &word, Vec::new())?;
            let in_shared = at.mode & 0o022 != 0;
            links.push(Link { path: next, owner: found.st_uid, device: found.st_dev, in_shared });
            follow(&target, &mut line, &mut ahead);
            continue;
        }
        let place = Place::open(&at.fd, &word, next)?;
        line.push(places.len());
        places.push(place);
    }
    // The place we stand at comes last, wherever a link or `..` has led.
    let last = line[line.len() - 1];
    if last + 1 != places.len() {
        let (fd, old) = (places[last].fd.try_clone()?, &places[last]);
        let place = Place {
            path: old.path.clone(),
            owner: old.owner,
            group: old.group,
            mode: old.mode,
            id: old.id,
            fd,
        };
        places.push(place);
    }
    Ok(Walked { places, links, missing })
}

fn follow(target: &CString, line: &mut Vec<usize>, ahead: &mut VecDeque<OsString>) {
    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
    if target.is_absolute() {
        line.truncate(1);
    }
    for word in words(target).into_iter().rev() {
        ahead.push_front(word);
    }
}

fn words(path: &Path) -> VecDeque<OsString> {
    let word = |part: Component<'_>| match part {
        Component::Normal(word) => Some(word.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(word).collect()
}
