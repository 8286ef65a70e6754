//! Leases: several gpulanes of one or several users on one machine never use a GPU twice. A lease is a lock on a file
//! in a directory they share; the kernel gives it back when its last holder dies, in whatever way. Waiting is first
//! come, first served, by the time a run began. Which GPUs to lease is decided elsewhere.
//!
//! ```text
//! <uuid>.lock                      locked while the GPU is leased; never removed
//! <uuid>.<pid>.holder              who leases it, for people; locked and open for writing as long as that lives
//! queue/<start>-<pid>-<n>.ticket   who waits, and for which GPUs; likewise
//! ```

mod directory;
mod holder;
mod lease;
mod queue;
mod survey;
mod wakeup;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpulane_model::Millis;

use directory::LeaseDir;
use queue::{Place, Waiting};
use wakeup::Wakeup;

pub use holder::{Holder, Ticket};
pub use lease::Lease;
pub use survey::{Survey, survey};

/// One run's way to leases.
///
/// While it waits, [`Leases::changes`] becomes readable whenever a holder or an older waiter lets go. That is a hint,
/// not a promise: after the holder itself was killed, its jobs may hold the lock a little longer, and their end makes
/// no sound. So whoever waits also tries again on a timer.
#[derive(Debug)]
pub struct Leases {
    dir: Arc<LeaseDir>,
    /// What others are told of this run.
    me: Holder,
    /// Where in the queue it stands.
    place: Place,
    waiting: Option<Waiting>,
    /// How many tickets this run has had: no name is used twice, so that nobody removes a new one for an old one.
    tickets: u32,
    wakeup: Option<Wakeup>,
}

/// What came of asking for a GPU.
#[derive(Debug)]
pub enum Take {
    /// It is ours until the lease is dropped, and until every process that inherited it has ended.
    Taken(Lease),
    /// Another run has it.
    Busy {
        /// Who, where that can be seen.
        holder: Option<Holder>,
    },
    /// It may be free, but runs that began earlier wait for it.
    NotYourTurn {
        /// How many.
        before: u32,
    },
}

impl Leases {
    /// For the run in directory `run`, which begins now. Makes the shared directory where it is missing.
    pub fn open(run: &Path) -> io::Result<Self> {
        Self::open_in(&directory::shared(), run)
    }

    fn open_in(dir: &Path, run: &Path) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let start = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let dir = Arc::new(LeaseDir::open_or_make(dir)?);
        dir.guard();
        let me = Holder::myself(run, Millis(start / 1_000_000));
        let place = Place { start, pid: me.pid };
        Ok(Self { dir, me, place, waiting: None, tickets: 0, wakeup: None })
    }

    /// Takes a GPU if it is free and nobody who began earlier waits for it. Never waits.
    pub fn try_take(&mut self, uuid: &str) -> io::Result<Take> {
        let before = self.older_for(uuid);
        if before > 0 {
            return Ok(Take::NotYourTurn { before });
        }
        Ok(match lease::take(&self.dir, uuid, &self.me)? {
            Some(lease) => Take::Taken(lease),
            None => Take::Busy { holder: holder::of(&self.dir, uuid) },
        })
    }

    /// Says which GPUs this run would take if it could: from now on younger runs let it go first.
    pub fn want(&mut self, uuids: &[String]) -> io::Result<()> {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.gpus() == uuids) {
            return Ok(());
        }
        if self.wakeup.is_none() {
            // Without it, waiting goes by the timer alone.
            self.wakeup = Wakeup::new(&self.dir).ok();
        }
        // The new ticket is there before the old one goes: at no time is this run without one.
        let ticket = queue::enter(&self.dir, self.place, &mut self.tickets, &self.me, uuids)?;
        self.waiting = Some(ticket);
        Ok(())
    }

    /// Leaves the queue.
    pub fn stop_wanting(&mut self) {
        self.waiting = None;
    }

    /// Whether a run that began earlier waits for this GPU.
    pub fn older_waits_for(&mut self, uuid: &str) -> bool {
        self.older_for(uuid) > 0
    }

    fn older_for(&self, uuid: &str) -> u32 {
        let older = queue::waiting(&self.dir)
            .into_iter()
            .filter(|(place, ticket)| *place < self.place && ticket.gpus.iter().any(|wanted| wanted == uuid));
        let mut places: Vec<Place> = older.map(|(place, _)| place).collect();
        // For a moment a run may have two tickets.
        places.dedup();
        u32::try_from(places.len()).unwrap_or(u32::MAX)
    }

    /// Readable when it is worth to try again; there from the first [`Leases::want`] on, if the system allows it.
    pub fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.wakeup.as_ref().map(Wakeup::fd)
    }

    /// Forgets what has changed so far. To be called before trying again, so that nothing is missed.
    pub fn clear_changes(&self) {
        if let Some(wakeup) = &self.wakeup {
            wakeup.clear();
        }
    }
}

#[cfg(test)]
mod tests;
