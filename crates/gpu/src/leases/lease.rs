//! One lease: a lock that lives as long as anybody has it open.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_model::Millis;
use rustix::fs::{
    AtFlags, FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, fstat, futimens, unlinkat,
};
use rustix::io::Errno;

use super::Leases;
use super::directory::{LeaseDir, insist};
use super::holder::{self, Holder};
use gpulane_files::user_name;

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
    /// Locks whose files were removed while jobs that inherited them live.
    removed: Vec<OwnedFd>,
    /// Absent if it could not be written, on a full disk for example; the lease holds all the same.
    note: Option<(String, File)>,
}

/// How a lease stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it was.
    Held,
    /// Its lock was removed; it is held by a new one.
    Renewed {
        /// Who owned the file that was removed.
        owner: String,
    },
    /// Its lock was removed, and another run has the new one: both think that the GPU is theirs.
    Taken {
        /// Who, where that can be seen.
        holder: Option<Holder>,
    },
}

impl Lease {
    /// The GPU's UUID.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Looks whether the lock is still the one that others meet. Whoever owns its file or the directory can remove it, and a lock on a
    /// file without a name keeps nobody away: then the one in its place is taken, if nobody else was quicker.
    pub fn look(&mut self, me: &Leases) -> io::Result<Standing> {
        let name = format!("{}.lock", holder::key(&self.uuid));
        if self.dir.is_current() && self.dir.still_there(&name, &self.lock)? {
            return Ok(Standing::Held);
        }
        let owner = fstat(&self.lock)?.st_uid;
        let before = Arc::clone(&self.dir);
        if !self.dir.is_current() {
            self.dir = Arc::new(LeaseDir::open_or_make(&self.dir.path)?);
            self.dir.guard();
        }
        let Some(lock) = lock(&self.dir, &self.uuid)? else {
            return Ok(Standing::Taken { holder: holder::of(&self.dir, &self.uuid) });
        };
        self.removed.push(std::mem::replace(&mut self.lock, lock));
        // Jobs that run now have inherited the old lock alone: if we are killed before they end, the new one is free.
        if let Some((name, _)) = self.note.take() {
            let _ = unlinkat(&before.files, name, AtFlags::empty());
        }
        self.note = holder::announce(&self.dir, &self.uuid, &Holder { since: now(), ..me.me.clone() }).ok();
        Ok(Standing::Renewed { owner: user_name(owner) })
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
    Ok(Some(Lease { uuid: uuid.to_owned(), dir: Arc::clone(dir), lock, removed: Vec::new(), note }))
}

fn lock(dir: &LeaseDir, uuid: &str) -> io::Result<Option<OwnedFd>> {
    let name = format!("{}.lock", holder::key(uuid));
    insist(&dir.path.join(&name), || {
        let file = dir.lock_file(&name)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Something that tidies up may have removed the file before we had its lock: then that lock is nothing.
            Ok(()) => Ok(dir.still_there(&name, &file)?.then_some(Some(file))),
            Err(Errno::WOULDBLOCK) => Ok(Some(None)),
            Err(error) => Err(error.into()),
        }
    })
}

fn now() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    Millis(u64::try_from(now).unwrap_or(u64::MAX))
}
