//! Where the run is: its directory and its lock, looked at every few seconds, because nothing else tells that they were removed,
//! renamed or replaced while no file is written. Says what it finds and decides nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use gpulane_journal::RunDir;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, open, stat};
use rustix::io::Errno;

/// A run directory that is held open.
pub(super) struct Place {
    root: PathBuf,
    lock: PathBuf,
    directory: OwnedFd,
    root_id: Id,
    lock_id: Id,
}

/// Device and inode.
type Id = (u64, u64);

/// What is wrong with it, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// The directory is gone for good.
    Removed(String),
    /// Nothing can be started until it is put back, or the run is resumed.
    Held(String),
}

impl Place {
    /// `lock`: the lock that this engine holds.
    pub(super) fn of(dir: &RunDir, lock: impl AsFd) -> rustix::io::Result<Self> {
        let directory = open(dir.root(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let id = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let (root_id, lock_id) = (id(fstat(&directory)?), id(fstat(lock)?));
        Ok(Self { root: dir.root().to_owned(), lock: dir.lock_file(), directory, root_id, lock_id })
    }

    /// The directory itself, wherever it is now: what is made relative to it cannot come to lie elsewhere.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Whether the path leads to the directory now: one system call, before each start.
    pub(super) fn is_here(&self) -> bool {
        find(&self.root) == Ok(Some(self.root_id))
    }

    /// Another directory that the path leads to now; what was written by path may be there.
    pub(super) fn other(&self) -> Option<&Path> {
        matches!(find(&self.root), Ok(Some(id)) if id != self.root_id).then_some(&*self.root)
    }

    /// What is wrong now; nothing if all is where it was.
    pub(super) fn look(&self) -> Option<Misplaced> {
        let (root, lock) = (self.root.display(), self.lock.display());
        if self.is_removed() {
            return Some(Misplaced::Removed(format!("the run directory {root} was removed while in use")));
        }
        let held = |text| Some(Misplaced::Held(text));
        match find(&self.root) {
            Ok(Some(id)) if id == self.root_id => {}
            Ok(None) => {
                return held(format!(
                    "the run directory {root} was renamed or moved; move it back and the run goes on, or interrupt it and resume \
                     it where it is now"
                ));
            }
            Ok(Some(_)) => {
                return held(format!(
                    "another directory is in the place of the run directory {root}; put the right one back, or interrupt the run"
                ));
            }
            Err(error) => return held(format!("the run directory {root} cannot be looked at: {error}")),
        }
        if fstatvfs(&self.directory).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY)) {
            return held(format!("{root} is read-only now: its file system was mounted so, or had errors"));
        }
        match find_open(&self.lock) {
            Ok(Some(id)) if id == self.lock_id => None,
            Ok(_) => held(format!(
                "{lock} was removed or replaced; it keeps others off this run: interrupt the run and resume it"
            )),
            Err(error) => {
                held(format!("{lock} cannot be opened: {error}; check that disk, or interrupt the run"))
            }
        }
    }

    fn is_removed(&self) -> bool {
        fstat(&self.directory).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

fn find(path: &Path) -> rustix::io::Result<Option<Id>> {
    match stat(path) {
        Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same by opening it: a file system that was shut down still shows what it has in memory, but opens nothing.
fn find_open(path: &Path) -> rustix::io::Result<Option<Id>> {
    match open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => fstat(&file).map(|stat| Some((stat.st_dev, stat.st_ino))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        // Of a shortage of our own others will speak; it says nothing about the lock.
        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::ACCESS) => find(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn whatever_happens_to_the_directory_or_its_lock_is_told_apart() {
        let parent = tempfile::tempdir().unwrap();
        let (root, away) = (parent.path().join("run"), parent.path().join("away"));
        fs::create_dir(&root).unwrap();
        let dir = RunDir::planned(&root).unwrap();
        let lock = fs::File::create(dir.lock_file()).unwrap();
        let place = Place::of(&dir, &lock).unwrap();
        let says = |words: &str| match place.look() {
            Some(Misplaced::Held(text)) => assert!(text.contains(words), "{text}"),
            other => panic!("{words}: {other:?}"),
        };
        assert_eq!(place.look(), None);
        fs::rename(&root, &away).unwrap();
        says("renamed");
        fs::create_dir(&root).unwrap();
        says("another directory");
        fs::remove_dir(&root).unwrap();
        fs::rename(&away, &root).unwrap();
        assert_eq!(place.look(), None, "moved back, all is well");
        fs::remove_file(dir.lock_file()).unwrap();
        says("removed or replaced");
        fs::write(dir.lock_file(), "").unwrap();
        says("removed or replaced");
        fs::remove_dir_all(&root).unwrap();
        assert!(matches!(place.look(), Some(Misplaced::Removed(_))));
    }
}
