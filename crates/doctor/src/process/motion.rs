//! What a tree of processes uses: CPU time, and bytes read and written.

use std::path::PathBuf;

use gpulane_model::{Bytes, Millis};
use gpulane_witness::stat_of;

use crate::Finding;
use crate::fields::named;

/// What was used, by process: those that come and go between two looks do not mislead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    each: Vec<Used>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    pid: u32,
    start: u64,
    /// In milliseconds.
    cpu: u64,
    read: u64,
    written: u64,
}

impl Usage {
    pub(super) fn of(pids: &[u32]) -> Self {
        Self { each: pids.iter().filter_map(|pid| used(*pid)).collect() }
    }

    /// What was used since an earlier look.
    pub(super) fn since(&self, before: &Self) -> Self {
        let earlier =
            |now: &Used| before.each.iter().find(|old| (old.pid, old.start) == (now.pid, now.start));
        let grown = self.each.iter().filter_map(|now| {
            let old = earlier(now)?;
            Some(Used {
                cpu: now.cpu.saturating_sub(old.cpu),
                read: now.read.saturating_sub(old.read),
                written: now.written.saturating_sub(old.written),
                ..*now
            })
        });
        Self { each: grown.collect() }
    }

    /// CPU time in percent of one CPU.
    pub(super) fn cpu(&self, over: Millis) -> u64 {
        let cpu: u64 = self.each.iter().map(|used| used.cpu).sum();
        cpu.saturating_mul(100) / over.0.max(1)
    }

    fn sums(&self) -> (u64, u64) {
        self.each.iter().fold((0, 0), |(read, written), used| (read + used.read, written + used.written))
    }

    /// Whether bytes were moved.
    pub(super) fn moved_bytes(&self) -> bool {
        self.sums() != (0, 0)
    }

    /// In words.
    pub(super) fn told(&self, over: Millis) -> Finding {
        let (read, written) = self.sums();
        let seen = format!(
            "in {over}: {}% of a CPU, {} read, {} written",
            self.cpu(over),
            Bytes(read),
            Bytes(written)
        );
        Finding::fine("use", seen)
    }
}

fn used(pid: u32) -> Option<Used> {
    let stat = stat_of(pid)?;
    // Another user's cannot be read; then its CPU time must do.
    let io = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/io"))).unwrap_or_default();
    let at = |name: &str| named(&io, name).unwrap_or(0);
    Some(Used { pid, start: stat.start, cpu: stat.cpu, read: at("rchar"), written: at("wchar") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cpu: u64, start: u64) -> Usage {
        Usage { each: vec![Used { pid: 7, start, cpu, read: cpu, written: 0 }] }
    }

    #[test]
    fn what_was_used_between_two_looks() {
        let grown = usage(1500, 1).since(&usage(1000, 1));
        assert_eq!((grown.cpu(Millis(1000)), grown.moved_bytes()), (50, true));
        assert!(!usage(1000, 1).since(&usage(1000, 1)).moved_bytes());
    }

    #[test]
    fn another_process_with_the_same_id_does_not_count() {
        assert_eq!(usage(1500, 2).since(&usage(1000, 1)).cpu(Millis(1000)), 0);
    }
}
