//! Which processes keep a lease although its engine is gone: jobs and what they have started inherit the lock, and one that has left
//! its session and emptied its environment shows by nothing else whose it is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::fstat;
use rustix::process::geteuid;

use super::directory::{self, LeaseDir, open_file};
use super::holder;

/// Processes of this user that keep a GPU leased to a run of which no engine lives any more.
pub fn keepers(run: &Path) -> Vec<u32> {
    LeaseDir::open(&directory::shared()).map(|dir| keepers_in(&dir, run)).unwrap_or_default()
}

pub(super) fn keepers_in(dir: &LeaseDir, run: &Path) -> Vec<u32> {
    let me = geteuid().as_raw();
    let found = holder::all(dir);
    let is_left = |one: &&holder::Found| {
        // The last who had it, and nobody has it now: whatever holds the lock got it from that engine.
        let last = found.iter().filter(|other| other.gpu == one.gpu).max_by_key(|other| other.holder.since);
        let taken = found.iter().any(|other| other.gpu == one.gpu && other.live);
        one.owner == me
            && one.holder.run == run
            && !taken
            && last.is_some_and(|last| last.holder == one.holder)
    };
    let locks = found.iter().filter(is_left).filter_map(|one| {
        let file = open_file(&dir.files, &format!("{}.lock", holder::key(&one.gpu))).ok()?;
        let stat = fstat(&file).ok()?;
        Some((stat.st_dev, stat.st_ino))
    });
    let locks: Vec<(u64, u64)> = locks.collect();
    if locks.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == me));
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && keeps(*pid, &locks)).collect()
}

/// Whether it has one of these files open in the way that is locked. Whoever only looks opens them anew.
fn keeps(pid: u32, locks: &[(u64, u64)]) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        fs::metadata(file.path()).is_ok_and(|found| locks.contains(&(found.dev(), found.ino()))) && {
            let number = file.file_name();
            let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", number.to_string_lossy()));
            info.is_ok_and(|info| info.lines().any(|line| line.starts_with("lock:")))
        }
    })
}
