//! Removes everything below a directory, however deep it is: two descriptors and no recursion. Follows no link.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory on the way down.
struct Level {
    name: CString,
    /// Subdirectories that are still to be emptied.
    left: Vec<CString>,
    /// Device and inode, to know it again on the way up.
    id: (u64, u64),
}

/// Empties `root`, which stays. Returns how much of the disk that gives back. What may not be removed stays, too.
pub(super) fn empty(root: OwnedFd) -> u64 {
    let mut freed = 0;
    // Where something goes wrong, the rest stays: it is in nobody's way but for its size.
    let _ = remove_below(root, &mut freed);
    freed
}

fn remove_below(root: OwnedFd, freed: &mut u64) -> Result<(), Errno> {
    let mut levels = vec![enter(CString::default(), &root, freed)?];
    let mut current = root;
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            if let Ok(child) = openat(&current, &name, DIRECTORY, Mode::empty())
                && let Ok(level) = enter(name, &child, freed)
            {
                levels.push(level);
                current = child;
            }
            continue;
        }
        let done = levels.pop();
        let (Some(done), Some(parent)) = (done, levels.last()) else { break };
        let above = openat(&current, c"..", DIRECTORY, Mode::empty())?;
        if identity(&above)? != parent.id {
            return Err(Errno::XDEV);
        }
        let _ = unlinkat(&above, &done.name, AtFlags::REMOVEDIR);
        current = above;
    }
    Ok(())
}

/// Removes the files of a directory; what is left to empty below it.
fn enter(name: CString, directory: &OwnedFd, freed: &mut u64) -> Result<Level, Errno> {
    let mut left = Vec::new();
    let mut buffer = Vec::with_capacity(8 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            left.push(name.to_owned());
        } else if unlinkat(directory, name, AtFlags::empty()).is_ok() && stat.st_nlink == 1 {
            *freed += u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512);
        }
    }
    Ok(Level { name, left, id: identity(directory)? })
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}
