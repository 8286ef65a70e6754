//! The queue: a ticket for each run that waits, locked as long as it does. Older runs go first; how old a run is, its place file
//! proves, whose time the kernel set. A waiter touches its ticket again and again, so that others see that it would take a GPU.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, fstat, futimens, unlinkat};

use super::directory::{self, LeaseDir, changed_at, is_locked, is_ours, make_locked, open_file};
use super::holder::{Holder, Ticket};

/// How often a new ticket is tried; it fails only while somebody looks at it in the moment it is made.
const MOST_TRIES: u32 = 100;
/// How often a waiter shows that it is there.
const TOUCH: Duration = Duration::from_millis(500);

/// Where a run stands: by the time it began, in nanoseconds of the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) start: u64,
    pub(super) pid: u32,
}

/// Our own ticket; leaves the queue when dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    dir: Arc<LeaseDir>,
    name: String,
    gpus: Vec<String>,
    /// Locked while we wait; its close wakes those behind us.
    file: File,
    touched: Instant,
}

/// The proof of when a run began; gone when dropped.
#[derive(Debug)]
pub(super) struct Proof {
    dir: Arc<LeaseDir>,
    name: String,
    /// Locked as long as the run lives.
    file: File,
}

/// Somebody who waits.
pub(super) struct Waiter {
    pub(super) place: Place,
    pub(super) ticket: Ticket,
    /// Whose ticket it is.
    pub(super) owner: u32,
    /// The ticket's file name.
    pub(super) name: String,
    /// When the ticket was last touched.
    pub(super) touched: u64,
}

impl Waiting {
    pub(super) fn gpus(&self) -> &[String] {
        &self.gpus
    }

    /// Shows that we would take a GPU if one came free.
    pub(super) fn touch(&mut self) {
        if self.touched.elapsed() >= TOUCH {
            self.touched = Instant::now();
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let _ = futimens(&self.file, &Timestamps { last_access: now, last_modification: now });
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = unlinkat(&self.dir.queue, &self.name, AtFlags::empty());
    }
}

impl Proof {
    /// The place with this proof: no earlier than the kernel says.
    pub(super) fn place(&self, claimed: Place) -> Place {
        let made = fstat(&self.file).map_or(u64::MAX, |found| changed_at(&found));
        Place { start: claimed.start.max(made), ..claimed }
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        let _ = unlinkat(&self.dir.queue, &self.name, AtFlags::empty());
    }
}

fn proof_name(claimed: Place) -> String {
    format!("{:020}-{}.place", claimed.start, claimed.pid)
}

/// Leaves the proof that this run began now. Nothing is written to it later: that would change its time.
pub(super) fn prove(dir: &Arc<LeaseDir>, claimed: Place) -> io::Result<Proof> {
    let name = proof_name(claimed);
    for _ in 0..MOST_TRIES {
        if let Some(file) = make_locked(&dir.queue, &name)? {
            return Ok(Proof { dir: Arc::clone(dir), name, file });
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Joins the queue. `tickets` counts those this run has had.
pub(super) fn enter(
    dir: &Arc<LeaseDir>,
    place: Place,
    tickets: &mut u32,
    me: &Holder,
    gpus: &[String],
) -> io::Result<Waiting> {
    let ticket = Ticket {
        pid: me.pid,
        user: me.user.clone(),
        run: me.run.clone(),
        gpus: gpus.to_vec(),
        since: me.since,
    };
    let text = serde_json::to_vec(&ticket)?;
    for _ in 0..MOST_TRIES {
        *tickets = tickets.wrapping_add(1);
        let name = format!("{:020}-{}-{tickets}.ticket", place.start, place.pid);
        if let Some(file) = make_locked(&dir.queue, &name)? {
            let touched = Instant::now();
            let waiting = Waiting { dir: Arc::clone(dir), name, gpus: ticket.gpus, file, touched };
            (&waiting.file).write_all(&text)?;
            return Ok(waiting);
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// All who wait, the oldest first. Tickets of the dead are not among them; those of our own user are removed.
pub(super) fn waiting(dir: &LeaseDir) -> Vec<Waiter> {
    let mut waiting: Vec<Waiter> =
        directory::names(&dir.queue).into_iter().filter_map(|name| read(dir, name)).collect();
    waiting.sort_by_key(|waiter| waiter.place);
    waiting
}

fn read(dir: &LeaseDir, name: String) -> Option<Waiter> {
    let Some(stem) = name.strip_suffix(".ticket") else {
        if name.strip_suffix(".place").is_some() {
            remove_if_dead(dir, &name);
        }
        return None;
    };
    let (start, rest) = stem.split_once('-')?;
    let (pid, _) = rest.split_once('-')?;
    let claimed = Place { start: start.parse().ok()?, pid: pid.parse().ok()? };
    let file = open_file(&dir.queue, &name).ok()?;
    if !is_locked(&file) {
        if is_ours(&file) {
            let _ = unlinkat(&dir.queue, &name, AtFlags::empty());
        }
        return None;
    }
    let found = fstat(&file).ok()?;
    let (owner, touched) = (found.st_uid, changed_at(&found));
    // A name can claim any time. What proves it is a file of the same user that was made then; failing that, the ticket itself.
    let since = proved(dir, claimed, owner).unwrap_or(touched);
    let place = Place { start: claimed.start.max(since), ..claimed };
    let ticket = serde_json::from_str(&directory::text(file).ok()?).ok()?;
    Some(Waiter { place, ticket, owner, name, touched })
}

/// When the run in question began at the earliest, if it has left proof.
fn proved(dir: &LeaseDir, claimed: Place, owner: u32) -> Option<u64> {
    let proof = open_file(&dir.queue, &proof_name(claimed)).ok()?;
    let found = fstat(&proof).ok()?;
    (found.st_uid == owner && is_locked(&proof)).then(|| changed_at(&found))
}

fn remove_if_dead(dir: &LeaseDir, name: &str) {
    if open_file(&dir.queue, name).is_ok_and(|file| is_ours(&file) && !is_locked(&file)) {
        let _ = unlinkat(&dir.queue, name, AtFlags::empty());
    }
}
