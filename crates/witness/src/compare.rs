//! What changed between two looks at the same processes. A job may be ended by this, so every doubt is taken for life.

mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use crate::{Evidence, Frame, ProcessEvidence, Python, Source, ThreadEvidence, proof};

/// CPU time between the looks that is work, in milliseconds; less than this may be a few turns of a poller.
const WORK: u64 = 20;
/// The share of the time between the looks that is work, in thousandths.
const WORK_PER_MILLE: u64 = 5;

/// What two looks at the same processes show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing has moved, and what it waits for cannot come: the proof, in words.
    Frozen(String),
    /// Nothing has moved, but what it waits for may still come from outside, or is not known; what that is.
    Waiting(String),
    /// The job lives; why.
    Moved(String),
    /// The job cannot be looked at, so nothing can be said of it; why.
    Unseen(String),
    /// Nothing has moved, and it waits by the clock: it will go on by itself; where.
    Sleeping(String),
    /// Something from outside holds it (a signal, a debugger, a freezer); which.
    Stopped(String),
}

/// What the caller knows beside the two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The job's main process; 0: the first of those looked at.
    pub main: u32,
    /// What its GPUs did from before the first look until the second.
    pub gpu: GpuUse,
    /// Ids of threads that only watch, as what they did over time has shown.
    pub monitors: BTreeSet<u32>,
    /// Ids of threads that seem to do no more than monitors, or are woken by one of them. They are no life, but a proof counts them as such.
    pub followers: BTreeSet<u32>,
    /// Ids of main threads that ask again and again for something by the clock: the little they compute for that is no work.
    pub pollers: BTreeSet<u32>,
    /// Ids of children, gone or there, that only slept for a loop of another process: they come and go without being work.
    pub naps: BTreeSet<u32>,
}

/// What the GPUs of a job did all along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuUse {
    /// Not known: they cannot be read, or were not.
    #[default]
    Unknown,
    /// The job has no GPU, or all of them idled.
    Idle,
}

/// Compares a later look with an earlier one.
///
/// Threads that wake by the clock and wait again at the same place (pollers, monitors, heartbeats) are no life by themselves:
/// what they do when there is something to do shows as another stack, or as CPU time, or as I/O or output, which the caller
/// watches. Threads of libraries that watch and report (wandb, tqdm) are left out altogether.
pub fn compare(first: &Evidence, second: &Evidence, known: &Known) -> Change {
    if let Some(which) = stopped(first).or_else(|| stopped(second)) {
        return Change::Stopped(which);
    }
    if let Some(why) = moved(first, second, known) {
        return Change::Moved(why);
    }
    if let Some(why) = unseen(first).or_else(|| unseen(second)) {
        return Change::Unseen(why);
    }
    // Whoever sleeps by a child goes on when that ends, and who only seems to be a monitor may be more.
    let provable = known.naps.is_empty() && known.followers.is_empty();
    let proof = provable.then(|| proof::prove(first, second, known)).flatten();
    proof.map_or_else(|| waiting::told(first, second, known), Change::Frozen)
}

fn stopped(evidence: &Evidence) -> Option<String> {
    let held = |process: &&ProcessEvidence| {
        is_stop(process.state) || process.threads.iter().any(|thread| is_stop(thread.state))
    };
    let process = evidence.processes.iter().find(held)?;
    Some(format!("process {} is stopped (state T): {}", process.pid, process.command))
}

const fn is_stop(state: char) -> bool {
    matches!(state, 'T' | 't')
}

fn moved(first: &Evidence, second: &Evidence, known: &Known) -> Option<String> {
    if second.processes.is_empty() {
        return Some("nothing is left of it".to_owned());
    }
    if let Some(why) = membership(&names(first, known), &names(second, known), "a process") {
        return Some(why);
    }
    let between = second.taken.saturating_sub(first.taken);
    pairs(first, second).find_map(|(before, after)| process_moved(before, after, between, known))
}

fn names(evidence: &Evidence, known: &Known) -> BTreeSet<(u32, u64)> {
    let lasting = evidence.processes.iter().filter(|process| !known.naps.contains(&process.pid));
    lasting.map(|process| (process.pid, process.start)).collect()
}

fn membership<T: Ord>(before: &BTreeSet<T>, after: &BTreeSet<T>, what: &str) -> Option<String> {
    if before.difference(after).next().is_some() {
        return Some(format!("{what} ended"));
    }
    after.difference(before).next().map(|_| format!("{what} was started"))
}

/// Each process of both looks, as it was and as it is.
fn pairs<'a>(
    first: &'a Evidence,
    second: &'a Evidence,
) -> impl Iterator<Item = (&'a ProcessEvidence, &'a ProcessEvidence)> {
    let later: BTreeMap<u32, &ProcessEvidence> =
        second.processes.iter().map(|process| (process.pid, process)).collect();
    first.processes.iter().filter_map(move |process| Some((process, *later.get(&process.pid)?)))
}

/// Each thread of one process in both looks, without those that only watch.
fn thread_pairs<'a>(
    before: &'a ProcessEvidence,
    after: &'a ProcessEvidence,
    known: &Known,
) -> impl Iterator<Item = (&'a ThreadEvidence, &'a ThreadEvidence)> + use<'a> {
    let later: BTreeMap<u32, &ThreadEvidence> =
        after.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let watching = watching(before, after, known);
    let threads = before.threads.iter().filter(move |thread| !watching.contains(&thread.tid));
    threads.filter_map(move |thread| Some((thread, *later.get(&thread.tid)?)))
}

/// Threads that only watch, in either look: one of them may have been met between two frames.
fn watching(before: &ProcessEvidence, after: &ProcessEvidence, known: &Known) -> BTreeSet<u32> {
    let threads = before.threads.iter().chain(&after.threads);
    let watches = |thread: &&ThreadEvidence| {
        known.monitors.contains(&thread.tid)
            || known.followers.contains(&thread.tid) && is_woken_inside(thread, after.pid)
            || thread.only_watches(after.pid)
    };
    threads.filter(watches).map(|thread| thread.tid).collect()
}

/// Whether nobody outside of its process could have woken the thread. Whoever sends datagrams to it is not written down anywhere; that it
/// keeps time with a thread of its own process tells.
fn is_woken_inside(thread: &ThreadEvidence, pid: u32) -> bool {
    let Some(wait) = thread.wait.as_ref() else { return true };
    let datagrams = wait.on.as_deref() == Some("socket");
    wait.sources.iter().all(|source| match source {
        Source::OwnThreads | Source::Thread { .. } | Source::Clock => true,
        Source::Processes { pids, .. } => pids.iter().all(|other| *other == pid),
        Source::Outside(_) => wait.timed == Some(true) || datagrams,
        Source::Exit(_) | Source::Gpu => false,
    })
}

fn process_moved(
    before: &ProcessEvidence,
    after: &ProcessEvidence,
    between: u64,
    known: &Known,
) -> Option<String> {
    let watching = watching(before, after, known);
    let tids = |process: &ProcessEvidence| {
        process.threads.iter().map(|thread| thread.tid).filter(|tid| !watching.contains(tid)).collect()
    };
    if let Some(why) = membership(&tids(before), &tids(after), "a thread") {
        return Some(why);
    }
    if before.tcp_bytes != after.tcp_bytes && !only_monitors_ran(before, after, known) {
        return Some("traffic on a socket".to_owned());
    }
    let open =
        |process: &ProcessEvidence| (process.descriptors.pipes.clone(), process.descriptors.sockets.clone());
    if open(before) != open(after) {
        return Some("opened or closed a connection".to_owned());
    }
    if before.command != after.command {
        return Some("a process runs another program".to_owned());
    }
    let looking: BTreeSet<u32> = watching.union(&known.pollers).copied().collect();
    if worked(before, after, &looking, between) {
        return Some("used CPU time".to_owned());
    }
    // One that asks again and again may be met while it asks, and at another line of its loop.
    let asks = |thread: &ThreadEvidence| known.pollers.contains(&thread.tid) && !thread.waits_by_the_clock();
    let goes_round = |before: &ThreadEvidence, after: &ThreadEvidence| {
        known.pollers.contains(&after.tid) && in_one_loop(before, after)
    };
    let mut threads = thread_pairs(before, after, known)
        .filter(|(before, after)| !asks(before) && !asks(after) && !goes_round(before, after));
    threads.find_map(|(before, after)| thread_moved(before, after))
}

/// Whether a thread waits by the clock in both looks, at lines of one loop of the program's own, called from the same place.
fn in_one_loop(before: &ThreadEvidence, after: &ThreadEvidence) -> bool {
    let (Some(earlier), Some(later)) = (&before.in_loop, &after.in_loop) else { return false };
    let callers = |thread: &ThreadEvidence| {
        let inside = thread.frames.iter().position(|frame| frame.file == later.file)?;
        Some(thread.frames[inside + 1..].to_vec())
    };
    (&earlier.file, earlier.line) == (&later.file, later.line)
        && callers(before).is_some()
        && callers(before) == callers(after)
        && before.waits_by_the_clock()
        && after.waits_by_the_clock()
}

/// Whether a monitor ran and no other thread did: bytes through a connection that is kept were sent and read by it, then. One that rests where
/// somebody outside sends to it is none by that: what it wakes for may be those bytes.
fn only_monitors_ran(before: &ProcessEvidence, after: &ProcessEvidence, known: &Known) -> bool {
    let later: BTreeMap<u32, u64> =
        after.threads.iter().map(|thread| (thread.tid, thread.switches)).collect();
    let mut ran =
        before.threads.iter().filter(|thread| later.get(&thread.tid) != Some(&thread.switches)).peekable();
    let watches = |thread: &ThreadEvidence| {
        (known.monitors.contains(&thread.tid) || known.followers.contains(&thread.tid))
            && !receives(thread, before.pid)
    };
    ran.peek().is_some() && ran.all(watches)
}

/// Whether somebody outside of its process may send what the thread waits for. An event loop waits for all its connections, whatever it
/// wakes for.
fn receives(thread: &ThreadEvidence, pid: u32) -> bool {
    let Some(wait) = thread.wait.as_ref().filter(|wait| !wait.call.starts_with("epoll")) else {
        return false;
    };
    wait.sources.iter().any(|source| match source {
        Source::Processes { pids, .. } => pids.iter().any(|other| *other != pid),
        // Nobody knows whose datagrams they are.
        Source::Outside(_) => wait.call != "futex" && wait.on.as_deref() != Some("socket"),
        _ => false,
    })
}

/// More than those use who only wake to see that nothing has happened.
fn worked(before: &ProcessEvidence, after: &ProcessEvidence, watching: &BTreeSet<u32>, between: u64) -> bool {
    let by_watching = |process: &ProcessEvidence| -> u64 {
        let threads = process.threads.iter().filter(|thread| watching.contains(&thread.tid));
        threads.map(|thread| thread.cpu).sum()
    };
    let own = |process: &ProcessEvidence| process.cpu.saturating_sub(by_watching(process));
    let used = own(after).saturating_sub(own(before));
    used >= WORK && used.saturating_mul(1000) >= between.saturating_mul(WORK_PER_MILLE)
}

fn thread_moved(before: &ThreadEvidence, after: &ThreadEvidence) -> Option<String> {
    if before.state == 'R' || after.state == 'R' {
        let running = if after.state == 'R' { after } else { before };
        return Some(format!("runs{}", at(running.frames.first())));
    }
    if before.frames != after.frames {
        return Some(format!("{} → {}", place(before.frames.first()), place(after.frames.first())));
    }
    // Left and entered again: whatever it slept in deep in the kernel has ended.
    if (before.state == 'D') != (after.state == 'D') {
        return Some(format!("the kernel let it go on{}", at(after.frames.first())));
    }
    if before.waits_by_the_clock() && after.waits_by_the_clock() {
        return None;
    }
    let call = |thread: &ThreadEvidence| thread.wait.as_ref().map(|wait| (wait.call.clone(), wait.fd));
    if call(before) != call(after) {
        return Some(format!("waits for something else{}", at(after.frames.first())));
    }
    if before.switches != after.switches {
        return Some(format!("was woken and waits again{}", at(after.frames.first())));
    }
    None
}

/// A process of which nothing could be seen may be doing anything.
fn unseen(evidence: &Evidence) -> Option<String> {
    let dark = |process: &&ProcessEvidence| {
        let seen = |thread: &ThreadEvidence| {
            thread.wait.is_some() || !thread.frames.is_empty() || thread.state == 'D'
        };
        !is_ended(process) && !process.threads.iter().any(seen)
    };
    let process = evidence.processes.iter().find(dark)?;
    let why = match &process.python {
        Python::Unreadable(why) => why.as_str(),
        _ => "the system does not show what it waits for; look as its own user or as root",
    };
    Some(format!("process {} cannot be looked at: {why}", process.pid))
}

/// Only its exit status is left.
fn is_ended(process: &ProcessEvidence) -> bool {
    matches!(process.state, 'Z' | 'X') && process.threads.len() <= 1
}

fn at(frame: Option<&Frame>) -> String {
    frame.map_or_else(String::new, |frame| format!(" in {}", frame.place()))
}

fn place(frame: Option<&Frame>) -> String {
    frame.map_or_else(|| "no Python".to_owned(), Frame::place)
}
