//! Waits that end by themselves: by the clock, when somebody else who lives is done, when a disk answers.

use super::{Change, at, pairs, thread_pairs};
use crate::{Evidence, Frame, ThreadEvidence};

/// Libraries in which processes wait for each other's lock files, asking again and again.
const LOCK_FILES: [&str; 4] = ["/filelock/", "/fasteners/", "/portalocker/", "/torch/utils/file_baton.py"];

/// What the first thread found waits for that may still come, or will go on by itself.
pub(super) fn change(first: &Evidence, second: &Evidence) -> Option<Change> {
    pairs(first, second).find_map(|(before, after)| {
        thread_pairs(before, after).find_map(|(earlier, later)| {
            for_a_disk(earlier, later)
                .or_else(|| for_file_lock(later))
                .or_else(|| for_lock_file(earlier, later))
                .map(Change::Waiting)
                .or_else(|| by_the_clock(earlier, later, after.pid).map(Change::Sleeping))
        })
    })
}

/// Deep in the kernel for a disk or a file server that does not answer. It goes on when that does, and nothing could end it
/// before. (In a GPU's driver, or where it cannot be told, it is frozen: there nothing comes back.)
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
fn for_file_lock(thread: &ThreadEvidence) -> Option<String> {
    let holder = thread.wait.as_ref()?.holder.as_ref()?;
    Some(format!("waits for a file lock that {holder} holds"))
}

/// The same, by a file that is there or not: who made it cannot be seen.
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
    let how = if later.is_plain_sleep() { "sleeps" } else { "waits with a time limit" };
    Some(format!("{how}{}", at(innermost_of_its_own(&later.frames))))
}

/// Has not woken between the looks, and will: as the main thread or one of Python in any wait with a limit, as another in a
/// plain sleep. (Helper threads of drivers wait with limits all their lives; a plain sleep is somebody's own.)
fn sleeps(earlier: &ThreadEvidence, later: &ThreadEvidence, main: u32) -> bool {
    let unwoken =
        earlier.switches == later.switches && earlier.waits_by_the_clock() && later.waits_by_the_clock();
    unwoken && (later.tid == main || !later.frames.is_empty() || later.is_plain_sleep())
}

fn innermost_of_its_own(frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !frame.is_standard()).or(frames.first())
}
