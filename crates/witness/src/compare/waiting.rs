//! Waits that may end: by the clock, when somebody else who lives is done, when a disk answers. Names what is waited for.

use super::{Change, Known, at, pairs, thread_pairs};
use crate::proof::{main_process, words};
use crate::{Database, Evidence, Frame, Loop, ThreadEvidence, Wakes};

/// Libraries in which processes wait for each other's lock files, asking again and again.
const LOCK_FILES: [&str; 4] = ["/filelock/", "/fasteners/", "/portalocker/", "/torch/utils/file_baton.py"];

/// What a job waits for that does not move, and of which it is not proven that it cannot come.
pub(super) fn told(first: &Evidence, second: &Evidence, known: &Known) -> Change {
    let main = main_process(second, known).map_or(0, |process| process.pid);
    let mut threads: Vec<(&ThreadEvidence, &ThreadEvidence, u32)> = pairs(first, second)
        .flat_map(|(before, after)| {
            let threads = thread_pairs(before, after, known);
            threads.map(move |(earlier, later)| (earlier, later, after.pid))
        })
        .collect();
    threads.sort_by_key(|(_, later, pid)| (later.tid != main, *pid != main));
    let by_file = threads.iter().find_map(|(earlier, later, _)| {
        for_a_disk(earlier, later)
            .or_else(|| for_file_lock(second, later))
            .or_else(|| for_lock_file(earlier, later))
    });
    if let Some(what) = by_file {
        return Change::Waiting(what);
    }
    let by_clock = threads.iter().find_map(|(earlier, later, pid)| {
        Some(by_the_clock(earlier, later, *pid)? + &for_database(second, *pid))
    });
    if let Some(what) = by_clock {
        return Change::Sleeping(what);
    }
    // Met while it asks: a moment later it waits by the clock.
    if let Some((_, later, _)) = threads.iter().find(|(_, later, _)| known.pollers.contains(&later.tid)) {
        let place = in_its_loop(later);
        let by =
            if known.naps.is_empty() { String::new() } else { format!(": {}", words::open(second, known)) };
        return Change::Sleeping(format!("asks again and again{place}{by}"));
    }
    match second.processes.iter().find_map(|process| process.signals.as_ref()) {
        Some(Wakes::Timer(why)) => Change::Sleeping(format!("{}; {why}", words::open(second, known))),
        Some(Wakes::Sent(why)) => Change::Waiting(format!("{}; {why}", words::open(second, known))),
        None => Change::Waiting(words::open(second, known)),
    }
}

/// Deep in the kernel for a disk or a file server that does not answer. It goes on when that does, and nothing could end it
/// before.
fn for_a_disk(earlier: &ThreadEvidence, later: &ThreadEvidence) -> Option<String> {
    let deep =
        earlier.state == 'D' && later.state == 'D' && is_about_a_file(earlier) && is_about_a_file(later);
    deep.then(|| {
        format!("waits in the kernel for a disk or a file server{}", at(innermost_of_its_own(&later.frames)))
    })
}

/// Calls that have to do with files whatever they are on.
const FILE_CALLS: [&str; 10] =
    ["fdatasync", "fsync", "getdents64", "lstat", "newfstatat", "open", "openat", "rename", "stat", "statx"];

/// Where in the kernel disks and file servers are waited for.
const FILE_PLACES: [&str; 8] =
    ["ceph", "folio", "fuse", "io_schedule", "jbd2", "nfs", "rpc_", "wait_on_page"];

fn is_about_a_file(thread: &ThreadEvidence) -> bool {
    let place = thread.wchan.as_deref().unwrap_or_default();
    let wait = thread.wait.as_ref();
    let on = wait.and_then(|wait| wait.on.as_deref()).unwrap_or_default();
    let on_file = on.starts_with('/') && !on.starts_with("/dev/");
    let call = wait.is_some_and(|wait| FILE_CALLS.contains(&wait.call.as_str()));
    !on.starts_with("/dev/nvidia")
        && (on_file || call || FILE_PLACES.iter().any(|known| place.contains(known)))
}

/// Parallel jobs wait like this for each other's builds and downloads.
fn for_file_lock(evidence: &Evidence, thread: &ThreadEvidence) -> Option<String> {
    let wait = thread.wait.as_ref()?;
    let inside = |pid: u32| evidence.process(pid).is_some();
    let holder = wait.holder.as_ref().filter(|holder| !holder.pid.is_some_and(inside))?;
    let file = wait.on.as_deref().unwrap_or("a file");
    Some(format!(
        "waits for the lock of {file}, which {holder} holds{}",
        at(innermost_of_its_own(&thread.frames))
    ))
}

/// A wait for a lock that is a file, there or not: who made it cannot be seen.
fn for_lock_file(earlier: &ThreadEvidence, later: &ThreadEvidence) -> Option<String> {
    if !(earlier.waits_by_the_clock() && later.waits_by_the_clock()) {
        return None;
    }
    let frame = innermost_of_its_own(&later.frames)?;
    let caller = || later.frames.iter().find(|frame| !frame.is_standard() && !in_lock_library(frame));
    in_lock_library(frame).then(|| format!("waits for a lock file: {}", caller().unwrap_or(frame).place()))
}

fn in_lock_library(frame: &Frame) -> bool {
    LOCK_FILES.iter().any(|library| frame.file.contains(library))
}

fn by_the_clock(earlier: &ThreadEvidence, later: &ThreadEvidence, main: u32) -> Option<String> {
    if !sleeps(earlier, later, main) {
        return None;
    }
    let how = match (later.is_plain_sleep(), later.switches == earlier.switches) {
        (true, true) => "sleeps".to_owned(),
        (true, false) => "sleeps again and again".to_owned(),
        (false, unwoken) => {
            let again = if unwoken { "" } else { ", again and again" };
            let sources = later.wait.iter().flat_map(|wait| &wait.sources);
            let what = sources.map(|source| format!(" for {source}")).next().unwrap_or_default();
            format!("waits with a time limit{what}{again}")
        }
    };
    Some(format!("{how}{}", in_its_loop(later)))
}

/// The database for whose lock a process that sleeps may be waiting.
fn for_database(evidence: &Evidence, pid: u32) -> String {
    let database = evidence.process(pid).and_then(|process| process.database.as_ref());
    database.map_or_else(String::new, |Database { path, locked_by }| {
        let inside = if evidence.process(*locked_by).is_some() { "this job itself, " } else { "" };
        format!("; the SQLite database {path} is locked by {inside}process {locked_by}")
    })
}

/// Where a thread is, and in which loop.
fn in_its_loop(thread: &ThreadEvidence) -> String {
    let around = thread.in_loop.as_ref().map(Loop::words).unwrap_or_default();
    format!("{}{around}", at(innermost_of_its_own(&thread.frames)))
}

/// Waits with a limit in both looks, and will go on or ask again: as the main thread or one of Python in any such wait, as another
/// in a plain sleep. (Helper threads of drivers wait with limits all their lives; a plain sleep is somebody's own.)
fn sleeps(earlier: &ThreadEvidence, later: &ThreadEvidence, main: u32) -> bool {
    let timed = earlier.waits_by_the_clock() && later.waits_by_the_clock();
    timed && (later.tid == main || !later.frames.is_empty() || later.is_plain_sleep())
}

fn innermost_of_its_own(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !frame.is_standard()).or(frames.first())
}
