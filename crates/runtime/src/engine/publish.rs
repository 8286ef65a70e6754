//! Making an output visible: everything in it durable, then one rename to its final place. An empty output has
//! nothing to lose and is renamed on the spot; the rest is done by threads, because a disk can take its time.
//!
//! Something that is short just now (descriptors, memory, space) is waited for: five tries in 30 seconds, while the job's lane
//! has long been given to another. What still cannot be put in place stays where it is, for `resume` to publish.

mod durable;
mod measure;
mod queue;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use gpulane_model::{Attempt, JobId, Plan};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::files::put_aside;
use durable::{SyncError, make_durable, sync_directory};
use queue::{Goal, Queue, Task};

/// Large outputs must not make small ones wait; more would only compete for the disk.
const THREADS: usize = 4;

/// What a person is told of an output that is whole and not in its place.
pub(super) const KEPT: &str = "it is kept: `gpulane resume` publishes it, or `gpulane resume --failed` computes it again if that cannot be";

/// One output to publish.
#[derive(Clone)]
pub(super) struct Output {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    /// The attempt's private directory, for messages.
    pub(super) from: PathBuf,
    pub(super) place: OutputPlace,
}

/// An output's places below the directory of its stage: short ways, which stay right if the run directory is renamed.
#[derive(Clone)]
pub(super) struct OutputPlace {
    pub(super) stage: Arc<OwnedFd>,
    /// The stage's own name and those above it are durable.
    pub(super) anchored: Arc<AtomicBool>,
    /// The job's directory.
    pub(super) job: String,
    /// The attempt's, below the stage's too.
    pub(super) attempt: String,
}

impl OutputPlace {
    pub(super) fn new(stage: Arc<OwnedFd>, anchored: Arc<AtomicBool>, name: &str, attempt: Attempt) -> Self {
        Self { stage, anchored, job: name.to_owned(), attempt: format!("{name}/attempt-{attempt}") }
    }

    /// Of a job that an earlier engine started; `jobs`: the directory of all.
    pub(super) fn open(jobs: &Path, plan: &Plan, job: JobId, attempt: Attempt) -> Result<Self, Unpublished> {
        let stage = open(jobs.join(&plan.stage_of(job).name), DIRECTORY, Mode::empty());
        let stage = Arc::new(stage.map_err(Unpublished::reach)?);
        Ok(Self::new(stage, Arc::default(), &plan.job(job).name, attempt))
    }

    fn from(&self) -> String {
        format!("{}/out", self.attempt)
    }

    fn to(&self) -> String {
        format!("{}/out", self.job)
    }
}

/// What became of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The output is in its place, durably.
    Published { job: JobId, attempt: Attempt },
    /// The output is not in its place.
    Failed {
        job: JobId,
        attempt: Attempt,
        /// What the system said, for a person.
        message: String,
        /// The output is whole and stays where it is.
        kept: bool,
        /// It is on the disk, there.
        durable: bool,
    },
    /// What a job that still runs has written by now is on the disk.
    Durable { job: JobId, attempt: Attempt },
    /// A failed attempt has used so much of the disk.
    Measured { job: JobId, attempt: Attempt, bytes: u64 },
}

/// Why an output is not in its place.
#[derive(Debug)]
pub(super) struct Unpublished {
    error: io::Error,
    /// The output is whole and stays where it is.
    pub(super) kept: bool,
    /// It is on the disk, there.
    durable: bool,
}

impl Unpublished {
    /// Nothing was made durable, and nothing is lost.
    fn reach(error: impl Into<io::Error>) -> Self {
        Self { error: error.into(), kept: true, durable: false }
    }

    /// The disk did not take it.
    fn lost(error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let error = io::Error::new(error.kind(), format!("the disk did not take it: {error}"));
        Self { error, kept: false, durable: false }
    }

    /// There is no directory of that name any more, so nothing that could be kept.
    fn gone(error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let error = io::Error::new(error.kind(), format!("it is no directory any more: {error}"));
        Self { error, kept: false, durable: false }
    }

    /// Its data are on the disk, but it cannot be moved.
    fn moving(error: impl Into<io::Error>) -> Self {
        Self { error: error.into(), kept: true, durable: true }
    }

    /// Something was short that others will give back.
    pub(super) fn may_pass(&self) -> bool {
        let short = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOSPC, libc::EDQUOT];
        self.kept && self.error.raw_os_error().is_some_and(|code| short.contains(&code))
    }
}

impl From<SyncError> for Unpublished {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Reach(error) => Self::reach(error),
            SyncError::Lost(error) => Self::lost(error),
        }
    }
}

impl std::fmt::Display for Unpublished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.error)
    }
}

/// Publishes outputs.
pub(super) struct Publisher {
    queue: Arc<Queue>,
    /// Started when first needed.
    threads: usize,
}

impl Publisher {
    pub(super) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { queue: Arc::new(Queue::new(wake)), threads: 0 })
    }

    /// Publishes at once if the output is empty, and answers; otherwise leaves it to a thread.
    pub(super) fn publish(&mut self, output: Output) -> Option<Answer> {
        if let Ok(true) = publish_if_empty(&output.place) {
            return Some(Answer::Published { job: output.job, attempt: output.attempt });
        }
        // Whatever is wrong, a thread finds it too, and may wait until it is over.
        self.hand_over(output, Goal::Published);
        None
    }

    /// Makes durable what a job has written that is finished and still runs.
    pub(super) fn sync(&mut self, output: Output) {
        self.hand_over(output, Goal::Durable);
    }

    /// Finds out how much of the disk a failed attempt has used.
    pub(super) fn measure(&mut self, output: Output) {
        self.hand_over(output, Goal::Measured);
    }

    fn hand_over(&mut self, output: Output, goal: Goal) {
        if self.threads < THREADS {
            let queue = Arc::clone(&self.queue);
            let thread = std::thread::Builder::new().name("publish".into());
            if thread.spawn(move || while queue.take().is_some_and(|task| work(&queue, task)) {}).is_ok() {
                self.threads += 1;
            }
        }
        let task = Task { output, goal, tries: 0 };
        if self.threads > 0 {
            self.queue.add(task);
        } else if goal == Goal::Published {
            // No thread could be had: do it here rather than not at all.
            self.queue.answer(publish_now(&task));
        } else if goal == Goal::Measured {
            self.queue.answer(measure_out(&task.output));
        }
    }

    /// The run is to end: what is short now is not waited for any longer.
    pub(super) fn hurry(&self) {
        self.queue.hurry();
    }

    /// These jobs are to end: nothing is waited for on their account.
    pub(super) fn hurry_jobs(&self, jobs: &[JobId]) {
        self.queue.hurry_jobs(jobs);
    }

    /// Answers that came in.
    pub(super) fn take(&self) -> Vec<Answer> {
        let _ = rustix::io::read(&self.queue.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.queue.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Publisher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.wake.as_fd()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Does what a task asks for, now or another time. Always `true`: there may be more.
fn work(queue: &Queue, task: Task) -> bool {
    let (job, attempt) = (task.output.job, task.output.attempt);
    let result = match task.goal {
        Goal::Measured => {
            queue.answer(measure_out(&task.output));
            return true;
        }
        Goal::Durable => sync_in_place(&task.output.place),
        Goal::Published if queue.is_lost(&task.output) => Err(Unpublished::lost(Errno::IO)),
        Goal::Published => publish(&task.output.place),
    };
    if result.as_ref().is_err_and(|error| !error.kept) {
        queue.note_lost(&task.output);
        // The next engine must not take its job's word for it either. What the kernel has said once it does not say again.
        let place = &task.output.place;
        let _ = unlinkat(&place.stage, format!("{}/done", place.attempt), AtFlags::empty());
    }
    match (result, task.goal) {
        (Ok(()), Goal::Durable) => queue.answer(Answer::Durable { job, attempt }),
        (Ok(()), Goal::Measured | Goal::Published) => queue.answer(Answer::Published { job, attempt }),
        (Err(error), goal) => {
            let given_up = if error.may_pass() { queue.again(task) } else { Some(task) };
            if let Some(task) = given_up.filter(|_| goal == Goal::Published) {
                queue.answer(failed(&task, &error));
            }
        }
    }
    true
}

fn measure_out(output: &Output) -> Answer {
    let out = openat(&output.place.stage, output.place.from(), DIRECTORY, Mode::empty());
    let (job, attempt) = (output.job, output.attempt);
    Answer::Measured { job, attempt, bytes: out.map_or(0, measure::measure) }
}

fn publish_now(task: &Task) -> Answer {
    let (job, attempt) = (task.output.job, task.output.attempt);
    match publish(&task.output.place) {
        Ok(()) => Answer::Published { job, attempt },
        Err(error) => failed(task, &error),
    }
}

fn failed(task: &Task, error: &Unpublished) -> Answer {
    let output = &task.output;
    let tries = if task.tries > 0 { format!(", {} tries", task.tries + 1) } else { String::new() };
    let next = if error.kept { format!("; {KEPT}") } else { String::new() };
    let message = format!("{}: {error}{tries}{next}", output.from.display());
    let (job, attempt) = (output.job, output.attempt);
    Answer::Failed { job, attempt, message, kept: error.kept, durable: error.durable }
}

/// Renames an output that holds nothing. `false`: it holds something.
fn publish_if_empty(place: &OutputPlace) -> io::Result<bool> {
    let (stage, from, to) = (&place.stage, place.from(), place.to());
    match openat(stage, &from, DIRECTORY, Mode::empty()) {
        Ok(directory) => {
            let mut buffer = Vec::with_capacity(1024);
            let mut entries = rustix::fs::RawDir::new(&directory, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                if ![c".", c".."].contains(&entry?.file_name()) {
                    return Ok(false);
                }
            }
            renameat(stage, &from, stage, &to)?;
        }
        // The job removed its own output directory: then it has none.
        Err(Errno::NOENT) => mkdirat(stage, &to, Mode::RWXU)?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Publishes what an earlier engine's job has written. That job removed nothing before the eyes of this engine: an output that is in
/// neither of its places is lost, not empty.
pub(super) fn publish_left(place: &OutputPlace) -> Result<(), Unpublished> {
    let is_there = |name: String| statat(&place.stage, name, AtFlags::SYMLINK_NOFOLLOW).map(drop);
    match is_there(place.from()).or_else(|error| is_there(place.to()).map_err(|_| error)) {
        Err(Errno::NOENT) => Err(Unpublished::gone(Errno::NOENT)),
        _ => publish(place),
    }
}

/// Makes an output durable and renames it to its place. Where that was done before, nothing happens.
pub(super) fn publish(place: &OutputPlace) -> Result<(), Unpublished> {
    let (stage, from, to) = (&place.stage, place.from(), place.to());
    match openat(stage, &from, DIRECTORY, Mode::empty()) {
        Ok(output) => make_durable(output)?,
        Err(Errno::NOENT) if statat(stage, &to, AtFlags::SYMLINK_NOFOLLOW).is_ok() => return Ok(()),
        Err(Errno::NOENT) => return mkdirat(stage, &to, Mode::RWXU).map_err(Unpublished::moving),
        Err(error @ (Errno::NOTDIR | Errno::LOOP)) => return Err(Unpublished::gone(error)),
        Err(error) => return Err(Unpublished::reach(error)),
    }
    anchor(place)?;
    let job = openat(stage, &place.job, DIRECTORY, Mode::empty()).map_err(Unpublished::moving)?;
    match renameat(stage, &from, stage, &to) {
        // Recovery would have found an output that counts; what is there now is of no record and must not block this one for ever.
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {
            put_aside(stage, &to).map_err(Unpublished::moving)?;
            renameat(stage, &from, stage, &to).map_err(Unpublished::moving)?;
        }
        other => other.map_err(Unpublished::moving)?,
    }
    // The record that follows must not be ahead of the names.
    sync_directory(&job).and_then(|()| sync_directory(stage)).map_err(|error| {
        // At its place it would be taken for a success; it is not one until that is durable.
        let back = renameat(stage, &to, stage, &from);
        let (SyncError::Reach(error) | SyncError::Lost(error)) = error;
        Unpublished { error, kept: back.is_ok(), durable: false }
    })
}

/// Makes an output durable where it is, and every name on the way to it.
fn sync_in_place(place: &OutputPlace) -> Result<(), Unpublished> {
    for name in [place.from(), place.attempt.clone(), place.job.clone()] {
        match openat(&place.stage, &name, DIRECTORY, Mode::empty()) {
            Ok(output) if name.len() > place.attempt.len() => make_durable(output)?,
            Ok(directory) => sync_directory(&directory)?,
            // The job removed its own output directory: then it has none.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(Unpublished::reach(error)),
        }
    }
    sync_directory(&place.stage)?;
    anchor(place)
}

/// The names of the stage's directory and of `jobs` onto the disk, once.
fn anchor(place: &OutputPlace) -> Result<(), Unpublished> {
    if place.anchored.load(Ordering::Relaxed) {
        return Ok(());
    }
    for above in ["..", "../.."] {
        let directory = openat(&place.stage, above, DIRECTORY, Mode::empty()).map_err(Unpublished::reach)?;
        sync_directory(&directory)?;
    }
    place.anchored.store(true, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests;
