//! One lease: a lock that lives as long as anybody has it open.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_model::Millis;
use rustix::fs::{AtFlags, FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens, unlinkat};
use rustix::io::Errno;

use super::directory::LeaseDir;
use super::holder::{self, Holder};

/// A GPU that is ours alone among all gpulanes of this machine.
///
/// Its descriptor is meant to be inherited by the jobs on that GPU: the lock belongs to all who have it, so the GPU
/// stays leased until the last of them has ended, even if we are killed. Dropping the lease closes our descriptor and
/// never unlocks it for the others.
#[derive(Debug)]
pub struct Lease {
    uuid: String,
    dir: Arc<LeaseDir>,
    // Closed in this order: who wakes at the close of the note must find the lock free.
    lock: OwnedFd,
    /// Absent if it could not be written, on a full disk for example; the lease holds all the same.
    note: Option<(String, File)>,
}

impl Lease {
    /// The GPU's UUID.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Says that it is in use: directories for temporary files are tidied up by age.
    pub fn keep_fresh(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        // Without the right to do so, it ages; whoever tidies up then usually leaves locked directories alone.
        let _ = futimens(&self.lock, &Timestamps { last_access: now, last_modification: now });
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((name, _)) = &self.note {
            let _ = unlinkat(&self.dir.files, name, AtFlags::empty());
        }
    }
}

/// Takes the GPU if nobody has it.
pub(super) fn take(dir: &Arc<LeaseDir>, uuid: &str, me: &Holder) -> io::Result<Option<Lease>> {
    let Some(lock) = lock(dir, uuid)? else { return Ok(None) };
    let note = holder::announce(dir, uuid, &Holder { since: now(), ..me.clone() }).ok();
    Ok(Some(Lease { uuid: uuid.to_owned(), dir: Arc::clone(dir), lock, note }))
}

fn lock(dir: &LeaseDir, uuid: &str) -> io::Result<Option<OwnedFd>> {
    let name = format!("{}.lock", holder::key(uuid));
    loop {
        let file = dir.lock_file(&name)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Something that tidies up may have removed the file before we had its lock: then that lock is nothing.
            Ok(()) if dir.still_there(&name, &file)? => return Ok(Some(file)),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

fn now() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    Millis(u64::try_from(now).unwrap_or(u64::MAX))
}
