//! Who has what and who waits, for people. Takes nothing, makes nothing, never fails.

use std::path::Path;

use super::directory::{self, LeaseDir, is_locked, open_file};
use super::holder::{self, Found, Holder, Ticket};
use super::queue;

/// Leases and queue of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Leased GPUs by UUID, each with who has it.
    pub leases: Vec<(String, Holder)>,
    /// Who waits, the oldest run first.
    pub waiting: Vec<Ticket>,
}

/// Looks around. Where no gpulane has ever run there is nothing to see.
pub fn survey() -> Survey {
    survey_of(&directory::shared())
}

pub(super) fn survey_of(dir: &Path) -> Survey {
    let Ok(dir) = LeaseDir::open(dir) else { return Survey::default() };
    let mut waiting = queue::waiting(&dir);
    waiting.dedup_by_key(|(place, _)| *place);
    Survey { leases: leases(&dir), waiting: waiting.into_iter().map(|(_, ticket)| ticket).collect() }
}

fn leases(dir: &LeaseDir) -> Vec<(String, Holder)> {
    let mut found = holder::all(dir);
    // Of several for one GPU, the living one counts, then the latest.
    found.sort_by(|a, b| (&a.gpu, b.live, b.holder.since).cmp(&(&b.gpu, a.live, a.holder.since)));
    found.dedup_by(|later, first| later.gpu == first.gpu);
    found.retain(|found| found.live || jobs_live_on(dir, found));
    found.into_iter().map(|found| (found.gpu, found.holder)).collect()
}

/// A killed engine's jobs may still have the lock. Only asked where the engine is gone: the question itself holds the
/// lock for an instant, in which nobody else could take it.
fn jobs_live_on(dir: &LeaseDir, found: &Found) -> bool {
    let name = format!("{}.lock", holder::key(&found.gpu));
    open_file(&dir.files, &name).is_ok_and(|lock| is_locked(&lock))
}
