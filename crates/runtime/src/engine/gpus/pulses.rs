//! What GPUs are seen to do for the jobs on them: written by the thread that looks at GPUs, read by the one that watches
//! over jobs. A silent job whose GPU works lives.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpulane_model::JobId;

/// A look older than this says nothing about now.
const FRESH: Duration = Duration::from_secs(10);

/// What is known of one job's GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Pulse {
    /// Grows with every look at which they did something for it.
    pub(in crate::engine) beats: u64,
    /// How busy the busiest was at the last look, in percent; `None`: the driver does not say.
    pub(in crate::engine) load: Option<u32>,
    seen: Instant,
}

impl Pulse {
    /// Whether it can be told that the GPUs did nothing.
    pub(in crate::engine) fn is_telling(&self) -> bool {
        self.load.is_some() && self.seen.elapsed() < FRESH
    }
}

/// By job.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pulses(Mutex<HashMap<JobId, Pulse>>);

impl Pulses {
    /// A look at a job's GPUs. `beats`: they did something for it since the last.
    pub(super) fn look(&self, job: JobId, beats: bool, load: Option<u32>) {
        let mut pulses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Instant::now();
        let pulse = pulses.entry(job).or_insert(Pulse { beats: 0, load, seen });
        *pulse = Pulse { beats: pulse.beats + u64::from(beats), load, seen };
    }

    pub(super) fn forget(&self, job: JobId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
    }

    /// What is known of this job's GPUs; `None`: nothing was seen yet.
    pub(in crate::engine) fn get(&self, job: JobId) -> Option<Pulse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&job).copied()
    }
}
