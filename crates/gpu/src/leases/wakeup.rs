//! A sign that a lease or a place in the queue has become free. Files of holders and waiters are the only ones that
//! are ever open for writing, so their close, even by SIGKILL, is what a watch sees.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::directory::LeaseDir;

/// Readable when something has been closed.
#[derive(Debug)]
pub(super) struct Wakeup {
    watch: OwnedFd,
}

impl Wakeup {
    pub(super) fn new(dir: &LeaseDir) -> io::Result<Self> {
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        inotify::add_watch(&watch, &dir.path, flags)?;
        inotify::add_watch(&watch, dir.path.join("queue"), flags)?;
        Ok(Self { watch })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    pub(super) fn clear(&self) {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        // Ends with "would block".
        while rustix::io::read(&self.watch, &mut buffer).is_ok_and(|(filled, _)| !filled.is_empty()) {}
    }
}
