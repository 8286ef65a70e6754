//! Everything below a directory onto the disk, however deep it is: two descriptors and no recursion, whatever the limits are.
//! Changes nothing.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, fsync, openat, statat, syncfs};
use rustix::io::Errno;

/// Why an output is not durable.
#[derive(Debug)]
pub(crate) enum SyncError {
    /// Something could not be opened or listed. What was written may still be whole.
    Reach(io::Error),
    /// The disk did not take what was written. The kernel forgets such data after it has said so once, so another sync that
    /// succeeds would prove nothing.
    Lost(io::Error),
}

impl SyncError {
    pub(crate) fn reach(error: Errno) -> Self {
        Self::Reach(error.into())
    }

    fn lost(error: Errno) -> Self {
        Self::Lost(error.into())
    }
}

/// A directory on the way down.
struct Level {
    /// Subdirectories that are still to be visited.
    left: Vec<CString>,
    /// Device and inode, to know it again on the way up.
    id: (u64, u64),
}

/// Makes `root` and everything below it durable. Links and special files hold no data. What may not be read (mode 000) is reached by
/// syncing its whole file system.
pub(crate) fn make_durable(root: OwnedFd) -> Result<(), SyncError> {
    let mut walk = Walk { unreadable: false };
    let mut levels = vec![walk.enter(&root)?];
    let mut current = root;
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            if let Some(child) = walk.open_directory(&current, &name)? {
                levels.push(walk.enter(&child)?);
                current = child;
            }
            continue;
        }
        sync_directory(&current)?;
        levels.pop();
        let Some(parent) = levels.last() else { break };
        let above = openat(&current, "..", DIRECTORY, Mode::empty()).map_err(SyncError::reach)?;
        if identity(&above)? != parent.id {
            return Err(SyncError::Reach(io::Error::other("a directory was moved meanwhile")));
        }
        current = above;
    }
    if walk.unreadable {
        syncfs(&current).map_err(SyncError::lost)?;
    }
    Ok(())
}

/// The names in a directory onto the disk. A file system that does not know this has nothing to be told.
pub(crate) fn sync_directory(directory: &OwnedFd) -> Result<(), SyncError> {
    match fsync(directory) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        other => other.map_err(SyncError::lost),
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Never waits for the other end, should a file have become a FIFO meanwhile.
const FILE: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

struct Walk {
    /// Something could not be opened for want of permission.
    unreadable: bool,
}

impl Walk {
    /// Syncs the files of a directory; what is left to visit below it.
    fn enter(&mut self, directory: &OwnedFd) -> Result<Level, SyncError> {
        let mut left = Vec::new();
        let mut buffer = Vec::with_capacity(8 << 10);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(SyncError::reach)?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(Errno::ACCESS) => {
                        self.unreadable = true;
                        continue;
                    }
                    Err(error) => return Err(SyncError::reach(error)),
                },
                known => known,
            };
            match kind {
                FileType::Directory => left.push(name.to_owned()),
                FileType::RegularFile => match openat(directory, name, FILE, Mode::empty()) {
                    Ok(file) => fsync(file).map_err(SyncError::lost)?,
                    Err(Errno::ACCESS | Errno::PERM) => self.unreadable = true,
                    // Gone, or a link by now.
                    Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => {}
                    Err(error) => return Err(SyncError::reach(error)),
                },
                _ => {}
            }
        }
        Ok(Level { left, id: identity(directory)? })
    }

    /// A subdirectory, if it can be entered and left again.
    fn open_directory(&mut self, parent: &OwnedFd, name: &CString) -> Result<Option<OwnedFd>, SyncError> {
        let opened = openat(parent, name, DIRECTORY, Mode::empty()).and_then(|directory| {
            // Where nothing below may be looked up, not even `..` can be.
            openat(&directory, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map(|_| directory)
        });
        match opened {
            Ok(directory) => Ok(Some(directory)),
            Err(Errno::ACCESS | Errno::PERM) => {
                self.unreadable = true;
                Ok(None)
            }
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(SyncError::reach(error)),
        }
    }
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), SyncError> {
    let stat = fstat(directory).map_err(SyncError::reach)?;
    Ok((stat.st_dev, stat.st_ino))
}
