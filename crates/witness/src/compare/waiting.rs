//! Waits that end by themselves: by the clock, or when somebody else who lives is done.

use super::{at, pairs, thread_pairs};
use crate::{Evidence, Frame, ThreadEvidence};

/// Libraries in which processes wait for each other's lock files, asking again and again.
const LOCK_FILES: [&str; 4] = ["/filelock/", "/fasteners/", "/portalocker/", "/torch/utils/file_baton.py"];

/// What the first thread found waits for that will go on by itself.
pub(super) fn sleeping(first: &Evidence, second: &Evidence) -> Option<String> {
    pairs(first, second).find_map(|(before, after)| {
        thread_pairs(before, after).find_map(|(earlier, later)| {
            for_file_lock(later)
                .or_else(|| for_lock_file(earlier, later))
                .or_else(|| by_the_clock(earlier, later, after.pid))
        })
    })
}

/// Parallel jobs wait like this for each other's builds and downloads.
fn for_file_lock(thread: &ThreadEvidence) -> Option<String> {
    let holder = thread.wait.as_ref()?.holder.as_ref()?;
    Some(format!("waits for a file lock that process {} ({}) holds", holder.pid, holder.name))
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
