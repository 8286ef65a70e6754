//! The signs of life of a job's processes, read from `/proc`. Cheap ones first: only when the main process shows nothing is
//! the whole tree walked, and all jobs share one walk. Where a process moves a little, its threads say whose doing that is.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use gpulane_core::{Doubt, ProcessSigns, Signs};
use gpulane_model::Millis;
use rustix::process::Pid;

use super::job_tree::{JobTree, Orphan};
use super::naps::{Nap, Naps};
use super::threads::Threads;
use crate::process::tree::{self, Process, Table};

/// CPU time of a process that needs no closer look, and its part of the time; less may be what its threads do that only look.
const WORKS: Millis = Millis(30);
const WORKS_PART: u64 = 50;
/// More than this, and whose doing it was does not matter: it works.
const LITTLE: Millis = Millis(50);
const LITTLE_PART: u64 = 20;

/// What children may do between two looks in a loop that only asks: write what a command complains of that looks for something, read
/// what it takes to start one, in bytes; and the part of the time they may compute.
const TURN_WRITES: u64 = 512;
const TURN_READS: u64 = 32_768;
const TURN_PART: u64 = 100;

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
    /// Which processes are its own.
    tree: JobTree,
    signs: Signs,
    /// When it was last looked at.
    looked: Millis,
    /// What it had written then.
    written: u64,
    /// What of its output was its results.
    results: u64,
    /// A process of it that was stopped at the last look at all of them.
    stopped: Option<u32>,
    /// By id: its processes.
    members: HashMap<u32, Member>,
    /// Which of them only sleep for others.
    naps: Naps,
    /// Processes that only sleep for others now.
    asleep: Vec<u32>,
}

/// One process of it.
struct Member {
    /// As the kernel counts.
    counted: ProcessSigns,
    /// What the kernel counts, without what threads did that only look.
    shown: ProcessSigns,
    /// Of `shown`, in nanoseconds.
    cpu: u64,
    /// Its threads, since it last moved a little.
    threads: Option<Threads>,
    /// Its threads are looked at although the kernel counts nothing: what passes through sockets is not among what it counts.
    curious: bool,
    /// While it is in a loop that sleeps by a child.
    children: Option<Children>,
}

/// What children have done that were waited for. Bytes are those of the process itself, too.
#[derive(Clone, Copy)]
struct Children {
    /// In milliseconds.
    cpu: u64,
    read: u64,
    written: u64,
}

impl Sight {
    pub(super) fn new(main: Pid, tree: JobTree) -> Self {
        Self {
            main,
            tree,
            signs: Signs::default(),
            looked: Millis(0),
            written: 0,
            results: 0,
            stopped: None,
            members: HashMap::new(),
            naps: Naps::default(),
            asleep: Vec::new(),
        }
    }

    /// A look that costs next to nothing. `None`: nothing has moved as far as that can tell, so all must be looked at.
    pub(super) fn glance(&mut self, now: Millis, written: u64, gpu: u64) -> Option<&Signs> {
        let main = tree::look(self.main)?;
        let known = self.members.get_mut(&raw(self.main))?;
        let cpu = time(&main);
        let used = cpu.since(known.counted.cpu);
        // What counts as work is for the vigil to say; this only decides whether to look closer.
        let works = used >= WORKS.max(Millis(now.since(self.looked).0 / WORKS_PART));
        if !works && self.signs.gpu == gpu {
            return None;
        }
        if works {
            known.counted.cpu = cpu;
            known.add(used.0 * 1_000_000, 0, 0);
            known.threads = None;
            let shown = known.shown;
            self.signs.processes.iter_mut().filter(|one| one.pid == shown.pid).for_each(|one| *one = shown);
        }
        self.signs.output = self.signs.output.wrapping_add(written.wrapping_sub(self.written));
        (self.looked, self.written, self.signs.gpu) = (now, written, gpu);
        Some(&self.signs)
    }

    /// A look at the whole tree.
    pub(super) fn look(
        &mut self,
        now: Millis,
        (table, orphans): (&Table, &[Orphan]),
        written: u64,
        results: u64,
        gpu: u64,
    ) -> &Signs {
        let step = now.since(std::mem::replace(&mut self.looked, now));
        let family = self.family(table, orphans);
        let stopped = family.iter().find(|process| matches!(process.state, b'T' | b't'));
        self.stopped = stopped.map(|process| raw(process.pid));
        let asleep = self.naps.look(&family);
        self.asleep = asleep.iter().map(|pid| raw(*pid)).collect();
        let mut said = 0;
        let awake = family.iter().filter(|process| !asleep.contains(&process.pid));
        let processes = awake.map(|process| {
            let counted = signs_of(process);
            let member = self.members.entry(counted.pid).or_insert_with(|| Member::new(counted));
            let nap = self.naps.of(process);
            said += member.look(counted, now, step, nap);
            member.count_children(process, step, nap);
            member.shown
        });
        let processes: Vec<ProcessSigns> = processes.collect();
        self.members.retain(|pid, _| processes.iter().any(|process| process.pid == *pid));
        let output = written.wrapping_sub(std::mem::replace(&mut self.written, written));
        let results = results.wrapping_sub(std::mem::replace(&mut self.results, results));
        // What those print that only look is no life either.
        let output = if output <= said { 0 } else { output };
        self.signs = Signs {
            output: self.signs.output.wrapping_add(output).wrapping_add(results),
            gpu,
            stopped: self.stopped.is_some(),
            processes,
            doubt: self.doubt(),
        };
        &self.signs
    }

    /// Its processes but for those that only watch and report.
    fn family(&mut self, table: &Table, orphans: &[Orphan]) -> Vec<Process> {
        let mut family = self.tree.look(table, orphans);
        family.retain(|process| !process.monitor);
        family
    }

    /// Whether a process of it is there now that is not among these.
    pub(super) fn has_others(&mut self, table: &Table, orphans: &[Orphan], pids: &[u32]) -> bool {
        self.family(table, orphans).iter().any(|process| !pids.contains(&raw(process.pid)))
    }

    /// Which processes are its own.
    pub(super) fn tree(&self) -> &JobTree {
        &self.tree
    }

    /// The processes of a job that is not watched any more.
    pub(super) fn into_tree(self) -> JobTree {
        self.tree
    }

    fn doubt(&self) -> Doubt {
        let threads =
            || self.members.values().filter_map(|member| member.threads.as_ref()).map(Threads::doubt);
        // Children come and go: nothing can be compared before it is known that they only sleep.
        let loops = || self.naps.loops().filter_map(|pid| self.members.get(&pid));
        let unsure = loops().any(|member| !member.threads.as_ref().is_some_and(Threads::polls));
        if unsure || threads().any(|doubt| doubt == Doubt::Stirs) {
            Doubt::Stirs
        } else if threads().any(|doubt| doubt == Doubt::Still) {
            Doubt::Still
        } else {
            Doubt::None
        }
    }

    /// Others wait for these threads to end: what they did was work, though it looked like that of a monitor.
    pub(super) fn need(&mut self, tids: &BTreeSet<u32>) {
        for member in self.members.values_mut() {
            let work = member.threads.as_mut().map(|threads| threads.need(tids)).unwrap_or_default();
            member.add(work.cpu, work.io, work.faults);
        }
    }

    /// Looks at the threads of these processes from now on, as long as they do not work: one of them may only report, which nothing else shows.
    pub(super) fn know_threads(&mut self, pids: &BTreeSet<u32>) {
        for member in self.members.values_mut().filter(|member| pids.contains(&member.counted.pid)) {
            if member.threads.is_none() {
                member.threads = Threads::meet(member.counted.pid);
            }
            member.curious = true;
        }
    }

    /// Processes of it whose main thread only asks again and again for something.
    pub(super) fn pollers(&self) -> BTreeSet<u32> {
        let polls = |member: &&Member| member.threads.as_ref().is_some_and(Threads::polls);
        self.members.values().filter(polls).map(|member| member.counted.pid).collect()
    }

    /// Threads of it that only look, as what they did over time has shown; no main threads.
    pub(super) fn monitors(&self) -> BTreeSet<u32> {
        let threads = self.members.values().filter_map(|member| member.threads.as_ref());
        threads.flat_map(Threads::monitors).collect()
    }

    /// Threads of it that seem to do no more than those that only look.
    pub(super) fn followers(&self) -> BTreeSet<u32> {
        let threads = self.members.values().filter_map(|member| member.threads.as_ref());
        threads.flat_map(Threads::followers).collect()
    }

    /// Threads of it that may turn out to be such.
    pub(super) fn unknown(&self) -> BTreeSet<u32> {
        let threads = self.members.values().filter_map(|member| member.threads.as_ref());
        threads.flat_map(Threads::unknown).collect()
    }

    /// Processes of it that only slept for others, now or before.
    pub(super) fn naps(&self) -> BTreeSet<u32> {
        self.naps.hidden()
    }

    /// A process of it that was stopped then.
    pub(super) fn stopped(&self) -> Option<u32> {
        self.stopped
    }

    /// Its processes at the last look, the main one first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let main = raw(self.main);
        let others = self.signs.processes.iter().map(|process| process.pid).filter(|pid| *pid != main);
        std::iter::once(main).chain(others).chain(self.asleep.iter().copied()).collect()
    }
}

impl Member {
    fn new(counted: ProcessSigns) -> Self {
        Self {
            counted,
            shown: counted,
            cpu: counted.cpu.0 * 1_000_000,
            threads: None,
            curious: false,
            children: None,
        }
    }

    /// Takes in what the kernel counts now; bytes that threads wrote which only look.
    fn look(&mut self, counted: ProcessSigns, now: Millis, step: Millis, nap: Nap) -> u64 {
        let before = std::mem::replace(&mut self.counted, counted);
        if before.start != counted.start {
            *self = Self::new(counted);
            return 0;
        }
        self.curious &= self.threads.is_some();
        let curious = self.curious || self.threads.as_ref().is_some_and(Threads::are_to_be_known);
        if before == counted && !curious {
            return 0;
        }
        let used = counted.cpu.since(before.cpu);
        let told = if used > LITTLE.max(Millis(step.0 / LITTLE_PART)) {
            self.threads = None;
            None
        } else {
            self.threads.as_mut().map(|threads| threads.look(now, step, nap))
        };
        match told {
            // Where the kernel says nothing of threads, the process speaks for all of them.
            Some(told) if told.ran || told.changed || before == counted => {
                self.add(told.work.cpu, told.work.io, told.work.faults);
                self.shown.computed += u64::from(told.work.computed || told.changed);
                told.said
            }
            Some(_) | None => {
                let io = counted.io.saturating_sub(before.io);
                self.add(used.0 * 1_000_000, io, counted.faults.saturating_sub(before.faults));
                if self.threads.is_none() && used <= LITTLE {
                    self.threads = Threads::meet(counted.pid);
                }
                0
            }
        }
    }

    /// Takes in what children did that have come and gone in a loop: a little is no work.
    fn count_children(&mut self, process: &Process, step: Millis, nap: Nap) {
        if nap == Nap::No {
            self.children = None;
            return;
        }
        let io = std::fs::read_to_string(format!("/proc/{}/io", raw(process.pid))).unwrap_or_default();
        let done = |name: &str| value(&io, name).unwrap_or(0);
        let now = Children { cpu: process.children * 10, read: done("rchar:"), written: done("wchar:") };
        let before = self.children.replace(now).unwrap_or(now);
        let used = now.cpu.saturating_sub(before.cpu);
        let (read, written) =
            (now.read.saturating_sub(before.read), now.written.saturating_sub(before.written));
        let io = if read > TURN_READS || written > TURN_WRITES { read + written } else { 0 };
        self.add(used * 1_000_000, io, 0);
        self.shown.computed += u64::from(Millis(used) >= WORKS.max(Millis(step.0 / TURN_PART)));
    }

    fn add(&mut self, cpu: u64, io: u64, faults: u64) {
        self.cpu = self.cpu.saturating_add(cpu);
        self.shown.cpu = Millis(self.cpu / 1_000_000);
        self.shown.io = self.shown.io.wrapping_add(io);
        self.shown.faults = self.shown.faults.saturating_add(faults);
    }
}

fn signs_of(process: &Process) -> ProcessSigns {
    let pid = raw(process.pid);
    let io = transferred(Path::new(&format!("/proc/{pid}/io"))).unwrap_or(0);
    ProcessSigns { pid, start: process.start, cpu: time(process), io, faults: process.faults, computed: 0 }
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
    Some(value(&text, "rchar:")? + value(&text, "wchar:")?)
}

/// The number behind a name that begins a line.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
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
