//! Standbys that were handed a job and do not take it. One that somebody has stopped is let go on; one that does not take its job all
//! the same is ended, and the job starts without. Owns how long that may last.

use gpulane_model::JobId;

use super::{Handed, Standbys};
use crate::process::tree;

/// Looks in a row, half a second apart, at which one that only has to take its job has not done so. Counted in looks: time in which
/// the engine could not look, such as that of a machine that slept, does not count.
pub(super) const MOST_LOOKS: u32 = 20;

/// What is to be done about a standby that has not taken its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Press {
    /// Somebody has stopped it: let it go on.
    GoOn,
    /// Its time is up.
    End,
}

impl Handed {
    /// Whether the standby was given up because it did not take its job.
    pub(super) fn is_overdue(&self) -> bool {
        self.looks >= MOST_LOOKS
    }
}

impl Standbys {
    /// A look at all that have not taken their job. One that still imports may take as long as that takes, unless it is stopped.
    pub(in super::super) fn press(&mut self) -> Vec<(JobId, Press)> {
        let mut found = Vec::new();
        for handed in self.handed.values_mut() {
            let stopped = tree::look(handed.pid).is_some_and(|process| matches!(process.state, b'T' | b't'));
            handed.looks = if stopped || handed.ready { handed.looks.saturating_add(1) } else { 0 };
            if handed.is_overdue() {
                found.push((handed.job, Press::End));
            } else if stopped {
                found.push((handed.job, Press::GoOn));
            }
        }
        found
    }
}
