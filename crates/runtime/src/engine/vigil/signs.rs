//! The signs of life of a job's processes, read from `/proc`. Cheap ones first: only when the main process shows nothing is
//! the whole tree walked, and all jobs share one walk.

use std::path::{Path, PathBuf};

use gpulane_core::{ProcessSigns, Signs};
use gpulane_model::Millis;
use rustix::process::Pid;

use crate::process::tree::{self, Process, Table};

/// Where a job writes.
pub(super) struct Writings {
    pub(super) logs: [PathBuf; 3],
}

impl Writings {
    /// How much it has written.
    pub(super) fn bytes(&self) -> u64 {
        self.logs.iter().map(|log| std::fs::metadata(log).map_or(0, |data| data.len())).sum()
    }
}

/// What was seen of a job so far.
pub(super) struct Sight {
    main: Pid,
    signs: Signs,
    /// What of its output was its results.
    results: u64,
    /// A process of it that was stopped at the last look at all of them.
    stopped: Option<u32>,
}

impl Sight {
    pub(super) fn new(main: Pid) -> Self {
        Self { main, signs: Signs::default(), results: 0, stopped: None }
    }

    /// A look that costs next to nothing. `None`: nothing has moved as far as that can tell, so all must be looked at.
    pub(super) fn glance(&mut self, written: u64, gpu: u64) -> Option<&Signs> {
        let output = written.wrapping_add(self.results);
        let moved = self.signs.output != output || self.signs.gpu != gpu;
        (self.signs.output, self.signs.gpu) = (output, gpu);
        let main = tree::look(self.main)?;
        let known = self.signs.processes.iter_mut().find(|one| one.pid == raw(self.main))?;
        let cpu = time(&main);
        // What counts as work is for the vigil to say; this only decides whether to look closer.
        let works = cpu.since(known.cpu) >= Millis(30);
        if works {
            known.cpu = cpu;
        }
        (moved || works).then_some(&self.signs)
    }

    /// A look at the whole tree.
    pub(super) fn look(&mut self, table: &Table, written: u64, results: u64, gpu: u64) -> &Signs {
        self.results = results;
        let output = written.wrapping_add(results);
        let mut members = table.family(self.main);
        members.retain(|process| !process.monitor);
        let stopped = members.iter().find(|process| matches!(process.state, b'T' | b't'));
        self.stopped = stopped.map(|process| raw(process.pid));
        self.signs = Signs {
            output,
            gpu,
            stopped: self.stopped.is_some(),
            processes: members.iter().map(signs_of).collect(),
        };
        &self.signs
    }

    /// A process of it that was stopped then.
    pub(super) fn stopped(&self) -> Option<u32> {
        self.stopped
    }

    /// Its processes at the last look, the main one first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let main = raw(self.main);
        let others = self.signs.processes.iter().map(|process| process.pid).filter(|pid| *pid != main);
        std::iter::once(main).chain(others).collect()
    }
}

fn signs_of(process: &Process) -> ProcessSigns {
    let pid = raw(process.pid);
    let io = transferred(Path::new(&format!("/proc/{pid}/io"))).unwrap_or(0);
    ProcessSigns { pid, start: process.start, cpu: time(process), io, faults: process.faults }
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

fn time(process: &Process) -> Millis {
    // A tick is a hundredth of a second on every machine we know; another value would only shift a threshold.
    Millis(process.cpu * 10)
}

/// Bytes read and written so far, from and to anything.
fn transferred(io: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(io).ok()?;
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some(value("rchar:")? + value("wchar:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_reading_is_seen() {
        let me = Path::new("/proc/self/io");
        let before = transferred(me).unwrap();
        std::fs::read("/proc/self/maps").unwrap();
        assert!(transferred(me).unwrap() > before);
    }
}
