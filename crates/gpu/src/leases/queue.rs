//! The queue: a ticket for each run that waits, locked as long as it does. Older runs go first.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use rustix::fs::{AtFlags, unlinkat};

use super::directory::{self, LeaseDir, is_locked, is_ours, make_locked, open_file};
use super::holder::{Holder, Ticket};

/// How often a new ticket is tried; it fails only while somebody looks at it in the moment it is made.
const MOST_TRIES: u32 = 100;

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
}

impl Waiting {
    pub(super) fn gpus(&self) -> &[String] {
        &self.gpus
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = unlinkat(&self.dir.queue, &self.name, AtFlags::empty());
    }
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
            let waiting = Waiting { dir: Arc::clone(dir), name, gpus: ticket.gpus, file };
            (&waiting.file).write_all(&text)?;
            return Ok(waiting);
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// All who wait, the oldest first. Tickets of the dead are not among them; those of our own user are removed.
pub(super) fn waiting(dir: &LeaseDir) -> Vec<(Place, Ticket)> {
    let mut waiting: Vec<(Place, Ticket)> =
        directory::names(&dir.queue).iter().filter_map(|name| read(dir, name)).collect();
    waiting.sort_by_key(|(place, _)| *place);
    waiting
}

fn read(dir: &LeaseDir, name: &str) -> Option<(Place, Ticket)> {
    let (start, rest) = name.strip_suffix(".ticket")?.split_once('-')?;
    let (pid, _) = rest.split_once('-')?;
    let place = Place { start: start.parse().ok()?, pid: pid.parse().ok()? };
    let file = open_file(&dir.queue, name).ok()?;
    if !is_locked(&file) {
        if is_ours(&file) {
            let _ = unlinkat(&dir.queue, name, AtFlags::empty());
        }
        return None;
    }
    Some((place, serde_json::from_str(&directory::text(file).ok()?).ok()?))
}
