//! Leases: several gpulanes of one or several users on one machine never use a GPU twice. A lease is a lock on a file
//! in a directory they share; the kernel gives it back when its last holder dies, in whatever way. Waiting is first
//! come, first served, by the time a run began. Which GPUs to lease is decided elsewhere.
//!
//! ```text
//! <uuid>.lock                      locked while the GPU is leased; never removed
//! <uuid>.<pid>.holder              who leases it, for people; locked and open for writing as long as that lives
//! queue/<start>-<pid>-<n>.ticket   who waits, and for which GPUs; likewise, and touched as long as its run would take one
//! queue/<start>-<pid>.place        made when the run began, and not changed since: its time is the run's place in the queue
//! ```
//!
//! Nobody is believed on their word: whose a file is, and how old, the file system tells. What any user of the machine can still do is
//! to lease GPUs and keep them.

mod directory;
mod holder;
mod keepers;
mod lease;
mod queue;
mod survey;
mod wakeup;

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpulane_model::Millis;

use directory::LeaseDir;
use queue::{Place, Proof, Waiting};
use wakeup::Wakeup;

pub use holder::{Holder, Ticket};
pub use keepers::keepers;
pub use lease::{Lease, Standing};
pub use survey::{LeaseDirOwner, Survey, are_leased_to, lease_dir_owner, survey};

/// Who waits and has not touched their ticket for this long is passed over: stopped, or stuck. They keep their place.
const ANSWER: Duration = Duration::from_secs(3);

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
    /// Where it says that it stands: in its file names.
    claimed: Place,
    /// Where in the queue it stands.
    place: Place,
    /// Shows others that this place is the right one. Absent if it could not be made.
    proof: Option<Proof>,
    /// By ticket of another: when it was last touched, and since when we have known that.
    heard: HashMap<String, (u64, Instant)>,
    /// How long a silence is too long.
    patience: Duration,
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
        let claimed = Place { start, pid: me.pid };
        let mut leases = Self {
            dir,
            me,
            claimed,
            place: claimed,
            proof: None,
            heard: HashMap::new(),
            patience: ANSWER,
            waiting: None,
            tickets: 0,
            wakeup: None,
        };
        leases.prove();
        Ok(leases)
    }

    fn prove(&mut self) {
        // On a full disk there is no ticket either; then we still try, only not in turn.
        self.proof = queue::prove(&self.dir, self.claimed).ok();
        if let Some(proof) = &self.proof {
            self.place = proof.place(self.claimed);
        }
    }

    /// Goes on in the directory that is there now, if whoever owns it has removed the one that was.
    fn follow_directory(&mut self) -> io::Result<()> {
        if self.dir.is_current() {
            return Ok(());
        }
        let dir = LeaseDir::open_or_make(&self.dir.path)?;
        dir.guard();
        (self.waiting, self.wakeup) = (None, None);
        self.dir = Arc::new(dir);
        self.prove();
        Ok(())
    }

    /// Takes a GPU if it is free and nobody who began earlier waits for it. Never waits.
    pub fn try_take(&mut self, uuid: &str) -> io::Result<Take> {
        self.follow_directory()?;
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
        self.follow_directory()?;
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.gpus() == uuids) {
            waiting.touch();
            return Ok(());
        }
        if self.wakeup.is_none() {
            // Without it, waiting goes by the timer alone.
            self.wakeup = Wakeup::new(&self.dir).ok();
        }
        // The new ticket is there before the old one goes: at no time is this run without one.
        let ticket = queue::enter(&self.dir, self.claimed, &mut self.tickets, &self.me, uuids)?;
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

    /// Those that began earlier, want this GPU and would take it: a waiter that does not touch its ticket is passed over.
    fn older_for(&mut self, uuid: &str) -> u32 {
        let mut waiting = queue::waiting(&self.dir);
        self.heard.retain(|name, _| waiting.iter().any(|waiter| waiter.name == *name));
        waiting.retain(|waiter| waiter.place < self.place);
        let mut places = Vec::new();
        for waiter in waiting {
            let (touched, since) = self.heard.entry(waiter.name).or_insert((waiter.touched, Instant::now()));
            if *touched != waiter.touched {
                (*touched, *since) = (waiter.touched, Instant::now());
            }
            let answers = since.elapsed() < self.patience;
            if answers && waiter.ticket.gpus.iter().any(|wanted| wanted == uuid) {
                places.push(waiter.place);
            }
        }
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
