//! The largest set of threads each of which waits only for others of the set, found by taking out whoever does not.

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::Owner;
use crate::{Evidence, GpuUse, Known, ProcessEvidence, Source, ThreadEvidence, Tie};

/// The threads that nothing will let go on.
pub(crate) struct Closed<'a> {
    evidence: &'a Evidence,
    known: &'a Known,
    /// Threads of libraries that watch and report.
    watching: BTreeSet<u32>,
    tids: BTreeSet<u32>,
}

impl<'a> Closed<'a> {
    /// Of a job that two looks show without movement.
    pub(crate) fn of(first: &Evidence, second: &'a Evidence, known: &'a Known) -> Self {
        let before: BTreeMap<u32, &ThreadEvidence> = first
            .processes
            .iter()
            .flat_map(|process| &process.threads)
            .map(|thread| (thread.tid, thread))
            .collect();
        // In either look: one of them may have been met between two frames.
        let watches = |process: &ProcessEvidence| {
            let threads = process.threads.iter().filter(|thread| thread.only_watches(process.pid));
            threads.map(|thread| thread.tid).collect::<Vec<_>>()
        };
        let watching = first.processes.iter().chain(&second.processes).flat_map(watches).collect();
        let mut closed = Self { evidence: second, known, watching, tids: BTreeSet::new() };
        for process in &second.processes {
            let waits = process.threads.iter().filter(|thread| {
                let Some(earlier) = before.get(&thread.tid) else { return false };
                let kept = |holder: &ThreadEvidence| before.get(&holder.tid).is_some_and(|holder| holder.gil);
                let for_interpreter = interpreter_holder(process, thread).is_some_and(kept)
                    && asks_for_the_same(earlier, thread);
                waits_without_end(process, earlier, thread, for_interpreter)
            });
            closed.tids.extend(waits.map(|thread| thread.tid));
        }
        while closed.take_out() {}
        closed
    }

    /// Whether no thread is closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }

    /// Whether the main thread of the process is closed, or has ended before the others.
    pub(crate) fn has_main_thread(&self, process: &ProcessEvidence) -> bool {
        process.main_thread().is_some_and(|thread| self.is_closed(thread))
    }

    /// Whether every thread of the process is closed, or does not count.
    pub(crate) fn whole(&self, process: &ProcessEvidence) -> bool {
        process.threads.iter().all(|thread| {
            self.is_closed(thread) || self.is_idle_helper(process, thread) || self.watches(thread)
        })
    }

    /// Whether all are closed but for threads that only watch.
    pub(crate) fn but_for_monitors(&self, process: &ProcessEvidence) -> bool {
        let mut threads = process.threads.iter().filter(|thread| !self.known.monitors.contains(&thread.tid));
        threads.all(|thread| {
            self.is_closed(thread) || self.is_idle_helper(process, thread) || self.watches(thread)
        })
    }

    fn watches(&self, thread: &ThreadEvidence) -> bool {
        self.watching.contains(&thread.tid)
    }

    /// Closed, or ended.
    fn is_closed(&self, thread: &ThreadEvidence) -> bool {
        has_ended(thread) || self.tids.contains(&thread.tid)
    }

    /// A thread of the GPU driver, which has nothing to do while the GPU idles.
    fn is_idle_helper(&self, process: &ProcessEvidence, thread: &ThreadEvidence) -> bool {
        let idle = self.known.gpu == GpuUse::Idle;
        idle && process.descriptors.gpus > 0 && thread.frames.is_empty() && thread.name.starts_with("cuda")
    }

    /// Takes those out that something may let go on. Whether there were any.
    fn take_out(&mut self) -> bool {
        let mut open = Vec::new();
        let kills = self.evidence.processes.iter().any(|process| !self.whole(process));
        for process in &self.evidence.processes {
            let by_itself = process.signals.is_some() || !self.but_for_monitors(process);
            let threads = process.threads.iter().filter(|thread| self.tids.contains(&thread.tid));
            let leaves = threads.filter(|thread| by_itself || !self.stays(process, thread, kills));
            open.extend(leaves.map(|thread| thread.tid));
        }
        for tid in &open {
            self.tids.remove(tid);
        }
        !open.is_empty()
    }

    /// All who could let it go on are closed. `kills`: a thread is open somewhere in the job, which may be there to kill a process that
    /// is stuck: whoever waits for the end of that one, or at the other end of its pipes, goes on then.
    fn stays(&self, process: &ProcessEvidence, thread: &ThreadEvidence, kills: bool) -> bool {
        if let Some(holder) = interpreter_holder(process, thread) {
            return self.is_closed(holder);
        }
        let sources = thread.wait.as_ref().map(|wait| &wait.sources[..]).unwrap_or_default();
        let by_a_kill = |source: &Source| kills && self.ends_with_another(process, source);
        let cannot = |source: &Source| !by_a_kill(source) && self.cannot_give(process, thread, source);
        !sources.is_empty() && sources.iter().all(cannot)
    }

    fn cannot_give(&self, process: &ProcessEvidence, thread: &ThreadEvidence, source: &Source) -> bool {
        match source {
            Source::OwnThreads => self.whole_for(process, thread),
            // A thread that has ended releases nothing any more, but who joins it is about to notice.
            Source::Thread { tid, tie } => match self.thread(*tid) {
                Some(other) => self.is_closed(other) && (*tie != Tie::Joined || !has_ended(other)),
                None => *tie != Tie::Joined,
            },
            Source::Exit(pids) => !pids.is_empty() && pids.iter().all(|pid| self.will_not_end(*pid)),
            Source::Processes { pids, .. } => {
                let gives_nothing =
                    |pid| self.evidence.process(pid).is_some_and(|other| self.whole_for(other, thread));
                !pids.is_empty() && pids.iter().copied().all(gives_nothing)
            }
            Source::Gpu => self.known.gpu == GpuUse::Idle,
            Source::Clock | Source::Outside(_) => false,
        }
    }

    /// Whether the end of a process other than the waiting one may end the wait.
    fn ends_with_another(&self, process: &ProcessEvidence, source: &Source) -> bool {
        match source {
            Source::Exit(_) => true,
            Source::Processes { pids, .. } => pids.iter().any(|pid| *pid != process.pid),
            Source::Thread { tid, .. } => {
                let own = process.threads.iter().any(|thread| thread.tid == *tid);
                !own && self.thread(*tid).is_some()
            }
            Source::OwnThreads | Source::Gpu | Source::Clock | Source::Outside(_) => false,
        }
    }

    /// What has ended already is about to be noticed, and who was not looked at may end.
    fn will_not_end(&self, pid: u32) -> bool {
        let process = self.evidence.process(pid).filter(|process| !super::is_gone(process));
        process.is_some_and(|process| self.but_for_monitors(process))
    }

    /// Whether every thread of a process is closed, seen from one that waits. Libraries that only watch hold nothing of others;
    /// but who waits inside of one waits for it.
    fn whole_for(&self, process: &ProcessEvidence, waiting: &ThreadEvidence) -> bool {
        let inside = waiting.frames.iter().any(crate::Frame::watches);
        process.threads.iter().all(|thread| {
            self.is_closed(thread) || self.is_idle_helper(process, thread) || !inside && self.watches(thread)
        })
    }

    fn thread(&self, tid: u32) -> Option<&'a ThreadEvidence> {
        self.evidence.processes.iter().flat_map(|process| &process.threads).find(|thread| thread.tid == tid)
    }
}

const fn has_ended(thread: &ThreadEvidence) -> bool {
    matches!(thread.state, 'Z' | 'X')
}

/// Whether a thread waits in both looks, and no limit ends that: neither of the call, nor by what it does when that is over.
fn waits_without_end(
    process: &ProcessEvidence,
    earlier: &ThreadEvidence,
    later: &ThreadEvidence,
    for_interpreter: bool,
) -> bool {
    if !matches!(later.state, 'S' | 'D') || earlier.state != later.state {
        return false;
    }
    let limit = |thread: &ThreadEvidence| thread.wait.as_ref().map(|wait| wait.timed);
    match (limit(earlier), limit(later)) {
        (Some(before), Some(after)) if later.state == 'D' => before == after,
        (Some(before), Some(Some(false))) => before == Some(false) && earlier.switches == later.switches,
        (Some(Some(true)), Some(Some(true))) => for_interpreter || asks_in_vain(process, earlier, later),
        // An `ioctl` has no limit that could be seen: in the driver of a GPU it ends with its work.
        (Some(None), Some(None)) => in_gpu_driver(later) && earlier.switches == later.switches,
        _ => false,
    }
}

/// Whether the limits of a thread have come and gone between the looks, while it waited for one and the same.
fn asks_for_the_same(earlier: &ThreadEvidence, later: &ThreadEvidence) -> bool {
    let sources = |thread: &ThreadEvidence| thread.wait.as_ref().map(|wait| wait.sources.clone());
    sources(earlier) == sources(later) && earlier.switches != later.switches
}

fn in_gpu_driver(thread: &ThreadEvidence) -> bool {
    thread.wait.as_ref().is_some_and(|wait| wait.call == "ioctl" && wait.sources == [Source::Gpu])
}

/// Loops inside a library that ask for a result again and again, each time with a limit, until there is one. They run nothing of the
/// user's in between and have no end of their own: file and functions.
const ASKING_LOOPS: [(&str, &[&str]); 3] = [
    ("/torch/utils/data/dataloader.py", &["_try_get_data"]),
    ("/torch/utils/data/_utils/pin_memory.py", &["_pin_memory_loop", "pin_memory_loop", "do_one_step"]),
    ("/torch/utils/data/_utils/worker.py", &["_worker_loop"]),
];

/// Whether a thread asks in such a loop, at one place: its limits came and went between the looks, and it did nothing else. What it
/// asks is known: who else has a pipe, or that there are threads that could put. A loop of the user's own may have an end of its own, and
/// do something for others in any turn.
fn asks_in_vain(process: &ProcessEvidence, earlier: &ThreadEvidence, later: &ThreadEvidence) -> bool {
    let caller = later.frames.iter().find(|frame| !frame.is_standard());
    let known = caller.filter(|frame| frame.owner() == Owner::Library).is_some_and(|frame| {
        ASKING_LOOPS
            .iter()
            .any(|(file, functions)| frame.file.ends_with(file) && functions.contains(&frame.bare()))
    });
    let sources = later.wait.as_ref().map(|wait| &wait.sources[..]).unwrap_or_default();
    let alone = process.threads.len() < 2 && sources.contains(&Source::OwnThreads);
    known && !alone && earlier.frames == later.frames && earlier.switches != later.switches
}

/// The thread that keeps the lock of the interpreter and sleeps with it, for one that waits for that lock: Python asks for it again and
/// again with a limit. A limit of anything else may end, and what follows need not be Python.
fn interpreter_holder<'a>(
    process: &'a ProcessEvidence,
    thread: &ThreadEvidence,
) -> Option<&'a ThreadEvidence> {
    let [Source::Thread { tid, tie: Tie::Interpreter }] = thread.wait.as_ref()?.sources[..] else {
        return None;
    };
    let holder = process.threads.iter().find(|other| other.tid == tid && other.gil)?;
    let sleeps = holder.state == 'S' && holder.wait.as_ref().is_some_and(|wait| wait.timed == Some(false));
    (sleeps && !thread.gil).then_some(holder)
}
