//! Who has what and who waits, for people. Takes nothing, makes nothing, never fails.

use std::path::Path;

use rustix::fs::fstat;
use rustix::process::geteuid;

use super::directory::{self, LeaseDir, is_locked, open_file};
use super::holder::{self, Found, Holder, Ticket};
use super::queue;
use gpulane_files::user_name;

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
    waiting.dedup_by_key(|waiter| waiter.place);
    let ticket = |waiter: queue::Waiter| Ticket { user: user_name(waiter.owner), ..waiter.ticket };
    Survey { leases: leases(&dir), waiting: waiting.into_iter().map(ticket).collect() }
}

/// Whether all these GPUs are leased, by this user, to living engines among `engines`. A process below such an engine uses its GPUs.
pub fn are_leased_to(uuids: &[String], engines: &[u32]) -> bool {
    let Ok(dir) = LeaseDir::open(&directory::shared()) else { return false };
    let me = geteuid().as_raw();
    let found = holder::all(&dir);
    let is_theirs = |uuid: &String| {
        found.iter().any(|found| {
            found.gpu == *uuid
                && found.live
                && found.owner == me
                && engines.contains(&found.holder.pid)
                && jobs_live_on(&dir, found)
        })
    };
    !uuids.is_empty() && uuids.iter().all(is_theirs)
}

/// Who made the directory in which leases are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseDirOwner {
    /// The directory.
    pub path: std::path::PathBuf,
    /// Whose it is.
    pub user: String,
    /// It is root's, or this user's own: nobody else can remove what is in it.
    pub safe: bool,
}

/// Who owns the directory of leases, if there is one.
pub fn lease_dir_owner() -> Option<LeaseDirOwner> {
    let dir = LeaseDir::open(&directory::shared()).ok()?;
    let owner = fstat(&dir.files).ok()?.st_uid;
    let safe = owner == 0 || owner == geteuid().as_raw();
    Some(LeaseDirOwner { path: dir.path, user: user_name(owner), safe })
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
