//! Loops that sleep by a child, as shells do: `until [ -e FILE ]; do sleep 2; done`. Such a child comes and goes without being
//! work, and whoever waits for it waits by the clock. Owns which children these are, and which processes are in such a loop.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use gpulane_witness::{Resting, resting};
use rustix::process::Pid;

use crate::process::tree::Process;

/// Where a process is in such a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Nap {
    /// In none.
    #[default]
    No,
    /// A child of it sleeps.
    Asleep,
    /// One child has ended and the next does not sleep yet: it looks whether something has come.
    Between,
}

/// The children that sleep for a job's processes.
#[derive(Default)]
pub(super) struct Naps {
    /// Processes of the look before.
    met: HashSet<(Pid, u64)>,
    /// By parent: the child that was last met asleep.
    last: HashMap<i32, Pid>,
    /// Processes in such a loop: where they are.
    loops: HashMap<i32, Nap>,
    /// Children of these that have just come, or woke up and have not ended: for how many looks. The next tell what they are.
    fresh: HashMap<Pid, u32>,
    /// Children that sleep or are fresh, now and before, the newest last.
    hidden: VecDeque<u32>,
}

/// As many children are remembered: two looks for evidence are not farther apart than what has come and gone meanwhile.
const REMEMBERED: usize = 512;

/// Looks in a row that may meet a child awake: where others have the CPUs, it takes a while to begin and to end.
const GRACE: u32 = 4;

impl Naps {
    /// Takes in all processes of the job; the ids of those that only sleep for others of them.
    pub(super) fn look(&mut self, family: &[Process]) -> HashSet<Pid> {
        let parents: HashSet<i32> = family.iter().map(|process| process.parent).collect();
        let pids: HashSet<i32> = family.iter().map(|process| raw(process.pid)).collect();
        self.loops.retain(|parent, _| pids.contains(parent));
        self.last.retain(|parent, _| pids.contains(parent));
        self.loops.values_mut().for_each(|nap| *nap = Nap::Between);
        let fresh = std::mem::take(&mut self.fresh);
        let mut asleep = HashSet::new();
        for process in family {
            let is_new = !self.met.contains(&(process.pid, process.start));
            let leaf = !parents.contains(&raw(process.pid)) && pids.contains(&process.parent);
            let is_last = self.last.get(&process.parent) == Some(&process.pid);
            let looping = self.loops.contains_key(&process.parent);
            let looks = fresh.get(&process.pid).copied();
            if !leaf || !(is_new || is_last || looks.is_some()) {
                self.end_loop(process, looping);
            } else if sleeps(process) {
                // The child before it has gone: this is a loop.
                let again = self
                    .last
                    .insert(process.parent, process.pid)
                    .is_some_and(|before| before != process.pid && !pids.contains(&raw(before)));
                if looping || again {
                    self.loops.insert(process.parent, Nap::Asleep);
                    asleep.insert(process.pid);
                }
            } else if looping && is_idle(process) && looks.unwrap_or(0) < GRACE {
                self.fresh.insert(process.pid, looks.unwrap_or(0) + 1);
            } else {
                self.end_loop(process, looping);
            }
        }
        self.met = family.iter().map(|process| (process.pid, process.start)).collect();
        asleep.extend(self.fresh.keys());
        self.remember(&asleep);
        asleep
    }

    /// A child that does something else: whoever started it does not only ask.
    fn end_loop(&mut self, child: &Process, looping: bool) {
        if looping {
            self.loops.remove(&child.parent);
            self.last.remove(&child.parent);
        }
    }

    fn remember(&mut self, hidden: &HashSet<Pid>) {
        for pid in hidden.iter().map(|pid| raw(*pid).unsigned_abs()) {
            if !self.hidden.contains(&pid) {
                self.hidden.push_back(pid);
            }
        }
        while self.hidden.len() > REMEMBERED {
            self.hidden.pop_front();
        }
        if self.loops.is_empty() {
            self.hidden.clear();
        }
    }

    /// Where this process is in such a loop.
    pub(super) fn of(&self, process: &Process) -> Nap {
        self.loops.get(&raw(process.pid)).copied().unwrap_or_default()
    }

    /// Processes in such a loop.
    pub(super) fn loops(&self) -> impl Iterator<Item = u32> {
        self.loops.keys().map(|pid| pid.unsigned_abs())
    }

    /// Children that sleep for others, now or before.
    pub(super) fn hidden(&self) -> BTreeSet<u32> {
        self.hidden.iter().copied().collect()
    }
}

/// Whether the process does nothing but sleep, and has done nothing before.
fn sleeps(process: &Process) -> bool {
    let pid = raw(process.pid).unsigned_abs();
    is_idle(process) && matches!(resting(pid, pid), Resting::In { by_the_clock: true, by_events: false, .. })
}

/// Whether the process has hardly computed.
const fn is_idle(process: &Process) -> bool {
    process.threads == 1 && process.cpu <= 1
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
