//! How much of the disk everything below a directory has, however deep it is: two descriptors and no recursion. Follows no link.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory on the way down.
struct Level {
    /// Subdirectories that are still to be looked at.
    left: Vec<CString>,
    /// Device and inode, to know it again on the way up.
    id: (u64, u64),
}

/// What was found.
#[derive(Default)]
struct Sum {
    bytes: u64,
    /// How many names each file with several has that were not met, by device and inode.
    unmet: BTreeMap<(u64, u64), u64>,
}

impl Sum {
    /// Adds a file when the last of its names is met: it comes back only if all of them are removed.
    fn add(&mut self, stat: &Stat) {
        let unmet = self.unmet.entry((stat.st_dev, stat.st_ino)).or_insert(stat.st_nlink);
        *unmet = unmet.saturating_sub(1);
        if *unmet == 0 {
            self.unmet.remove(&(stat.st_dev, stat.st_ino));
            self.bytes += u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512);
        }
    }
}

/// How many bytes would come back if all of it were removed, as far as can be seen.
pub(super) fn measure(root: OwnedFd) -> u64 {
    let mut sum = Sum::default();
    let _ = add_below(root, &mut sum);
    sum.bytes
}

fn add_below(root: OwnedFd, sum: &mut Sum) -> Result<(), Errno> {
    let mut levels = vec![enter(&root, sum)?];
    let mut current = root;
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            if let Ok(child) = openat(&current, &name, DIRECTORY, Mode::empty())
                && let Ok(level) = enter(&child, sum)
            {
                levels.push(level);
                current = child;
            }
            continue;
        }
        levels.pop();
        let Some(parent) = levels.last() else { break };
        let above = openat(&current, c"..", DIRECTORY, Mode::empty())?;
        if identity(&above)? != parent.id {
            return Err(Errno::XDEV);
        }
        current = above;
    }
    Ok(())
}

/// Adds the files of a directory; what is left to look at below it.
fn enter(directory: &OwnedFd, sum: &mut Sum) -> Result<Level, Errno> {
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
        } else {
            sum.add(&stat);
        }
    }
    Ok(Level { left, id: identity(directory)? })
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}
