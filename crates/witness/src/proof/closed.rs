//! The largest set of threads each of which waits only for others of the set, found by taking out whoever does not.

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::Owner;
use crate::syscall::SHARED_MEMORY;
use crate::{Evidence, GpuUse, Known, ProcessEvidence, Source, ThreadEvidence};

/// The threads that nothing will let go on.
pub(crate) struct Closed<'a> {
    evidence: &'a Evidence,
    known: &'a Known,
    /// Threads of libraries that watch and report.
    watching: BTreeSet<u32>,
    /// Threads that ask again and again in a loop of the user's, which may do something for others in each turn.
    asking: BTreeSet<u32>,
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
        let asking = asking(second);
        let mut closed = Self { evidence: second, known, watching, asking, tids: BTreeSet::new() };
        for process in &second.processes {
            let waits = process.threads.iter().filter(|thread| {
                let Some(earlier) = before.get(&thread.tid) else { return false };
                let kept = |holder: &ThreadEvidence| before.get(&holder.tid).is_some_and(|holder| holder.gil);
                let for_interpreter = interpreter_holder(process, thread).is_some_and(kept);
                waits_without_end(process, earlier, thread, for_interpreter)
            });
            closed.tids.extend(waits.map(|thread| thread.tid));
        }
        while closed.take_out() {}
        closed
    }

    /// Nobody is.
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
        matches!(thread.state, 'Z' | 'X') || self.tids.contains(&thread.tid)
    }

    /// Closed, and not one that may do something for this one before it waits again.
    fn gives_nothing(&self, thread: &ThreadEvidence, waiting: &ThreadEvidence) -> bool {
        // Who asks with a lock in hand has it in every turn.
        let for_lock = waiting.wait.as_ref().is_some_and(|wait| wait.on.as_deref() == Some(SHARED_MEMORY));
        let asks = thread.tid != waiting.tid && self.asking.contains(&thread.tid);
        self.is_closed(thread) && (for_lock || !asks)
    }

    /// A thread of the GPU driver, which has nothing to do while the GPU idles.
    fn is_idle_helper(&self, process: &ProcessEvidence, thread: &ThreadEvidence) -> bool {
        let idle = matches!(self.known.gpu, GpuUse::Idle | GpuUse::Lost);
        idle && process.descriptors.gpus > 0 && thread.frames.is_empty() && thread.name.starts_with("cuda")
    }

    /// Takes those out that something may let go on. Whether there were any.
    fn take_out(&mut self) -> bool {
        let mut open = Vec::new();
        for process in &self.evidence.processes {
            let by_itself = process.signals.is_some() || !self.but_for_monitors(process);
            let threads = process.threads.iter().filter(|thread| self.tids.contains(&thread.tid));
            let leaves = threads.filter(|thread| by_itself || !self.stays(process, thread));
            open.extend(leaves.map(|thread| thread.tid));
        }
        for tid in &open {
            self.tids.remove(tid);
        }
        !open.is_empty()
    }

    /// All who could let it go on are closed.
    fn stays(&self, process: &ProcessEvidence, thread: &ThreadEvidence) -> bool {
        if let Some(holder) = interpreter_holder(process, thread) {
            return self.gives_nothing(holder, thread);
        }
        let sources = thread.wait.as_ref().map(|wait| &wait.sources[..]).unwrap_or_default();
        !sources.is_empty() && sources.iter().all(|source| self.cannot_give(process, thread, source))
    }

    fn cannot_give(&self, process: &ProcessEvidence, thread: &ThreadEvidence, source: &Source) -> bool {
        match source {
            Source::OwnThreads => self.whole_for(process, thread),
            Source::Thread { tid, .. } => {
                self.thread(*tid).is_none_or(|other| self.gives_nothing(other, thread))
            }
            Source::Exit(pids) => !pids.is_empty() && pids.iter().all(|pid| self.will_not_end(*pid)),
            Source::Processes { pids, .. } => pids
                .iter()
                .all(|pid| self.evidence.process(*pid).is_some_and(|other| self.whole_for(other, thread))),
            Source::Gpu => matches!(self.known.gpu, GpuUse::Idle | GpuUse::Lost),
            Source::Clock | Source::Outside(_) => false,
        }
    }

    /// What has ended already is about to be noticed, and who was not looked at may end.
    fn will_not_end(&self, pid: u32) -> bool {
        let process = self.evidence.process(pid).filter(|process| !super::is_gone(process));
        process.is_some_and(|process| {
            let asks = process.threads.iter().any(|thread| self.asking.contains(&thread.tid));
            !asks && self.but_for_monitors(process)
        })
    }

    /// Whether every thread of a process is closed, seen from one that waits. Libraries that only watch hold nothing of others;
    /// but who waits inside of one waits for it.
    fn whole_for(&self, process: &ProcessEvidence, waiting: &ThreadEvidence) -> bool {
        let inside = waiting.frames.iter().any(crate::Frame::watches);
        process.threads.iter().all(|thread| {
            self.gives_nothing(thread, waiting)
                || self.is_idle_helper(process, thread)
                || !inside && self.watches(thread)
        })
    }

    fn thread(&self, tid: u32) -> Option<&'a ThreadEvidence> {
        self.evidence.processes.iter().flat_map(|process| &process.threads).find(|thread| thread.tid == tid)
    }
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

fn in_gpu_driver(thread: &ThreadEvidence) -> bool {
    thread.wait.as_ref().is_some_and(|wait| wait.call == "ioctl" && wait.sources == [Source::Gpu])
}

/// Functions of Python's own library that programs call again and again, each time with a limit, until there is a result.
const ASKED_AGAIN: [(&str, &[&str]); 6] = [
    ("queue.py", &["get", "put"]),
    ("multiprocessing/queues.py", &["get", "put"]),
    ("multiprocessing/connection.py", &["wait", "poll"]),
    ("multiprocessing/pool.py", &["get", "wait", "next"]),
    ("concurrent/futures/_base.py", &["result", "exception", "wait", "as_completed"]),
    ("concurrent/futures/process.py", &["wait_result_broken_or_wakeup"]),
];

/// Threads that wait with a limit in a loop of the user's. One in a library, as that of a loader of batches, does nothing but ask; and one
/// that does not get the interpreter does nothing.
fn asking(evidence: &Evidence) -> BTreeSet<u32> {
    let in_library = |thread: &ThreadEvidence| {
        let caller = thread.frames.iter().find(|frame| !frame.is_standard());
        caller.is_some_and(|frame| frame.owner() == Owner::Library)
    };
    let asks = |process: &ProcessEvidence, thread: &ThreadEvidence| {
        thread.waits_by_the_clock() && !in_library(thread) && interpreter_holder(process, thread).is_none()
    };
    let processes = evidence.processes.iter();
    let asking = processes.flat_map(|process| {
        process.threads.iter().filter(move |thread| asks(process, thread)).map(|thread| thread.tid)
    });
    asking.collect()
}

/// Whether a thread asks for a result again and again at one place: its limits came and went between the looks, and it did nothing else. What it
/// asks is known: who else has a pipe, or that there are threads that could put.
fn asks_in_vain(process: &ProcessEvidence, earlier: &ThreadEvidence, later: &ThreadEvidence) -> bool {
    let known = later.frames.iter().take_while(|frame| frame.is_standard()).any(|frame| {
        let module = frame.module().unwrap_or_default();
        ASKED_AGAIN.iter().any(|(known, functions)| *known == module && functions.contains(&frame.bare()))
    });
    let sources = later.wait.as_ref().map(|wait| &wait.sources[..]).unwrap_or_default();
    let alone = process.threads.len() < 2 && sources.contains(&Source::OwnThreads);
    known && !alone && earlier.frames == later.frames && earlier.switches != later.switches
}

/// The thread that keeps the lock of the interpreter and sleeps with it: whoever else runs Python cannot go on, whatever its limits.
fn interpreter_holder<'a>(
    process: &'a ProcessEvidence,
    thread: &ThreadEvidence,
) -> Option<&'a ThreadEvidence> {
    let timed = thread.waits_by_the_clock() && !thread.frames.is_empty() && !thread.gil;
    let holder = process.threads.iter().find(|other| other.gil && other.tid != thread.tid)?;
    let sleeps = holder.state == 'S' && holder.wait.as_ref().is_some_and(|wait| wait.timed == Some(false));
    (timed && sleeps).then_some(holder)
}
