//! What the publishing threads have to do, now or after a pause, and what they answer.

use std::collections::{HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpulane_model::{Attempt, JobId};

use super::{Answer, Output};

/// Pauses before another try where something is short: five tries in 30 seconds.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(8), Duration::from_secs(18)];

/// One thing to do.
pub(super) struct Task {
    pub(super) output: Output,
    pub(super) goal: Goal,
    /// How often it was tried.
    pub(super) tries: usize,
}

/// What is to become of an output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Durable, where it is: its job has said that it is finished but still runs.
    Durable,
    /// Durable and in its final place.
    Published,
    /// Measured, and left as it is.
    Measured,
}

/// Between the engine's loop and the threads.
pub(super) struct Queue {
    /// Not bounded: a few paths for each finished job, never data; the plan bounds it.
    inner: Mutex<Inner>,
    work: Condvar,
    pub(super) answers: Mutex<Vec<Answer>>,
    /// Readable when there are answers.
    pub(super) wake: OwnedFd,
}

#[derive(Default)]
struct Inner {
    ready: VecDeque<Task>,
    /// Tasks that failed for something that passes, with the time of their next try.
    later: Vec<(Instant, Task)>,
    /// Outputs of which the disk has once said that it did not take them. It says so only once.
    lost: HashSet<(JobId, Attempt)>,
    /// The run is to end: nothing is waited for any more.
    hurried: bool,
    closed: bool,
}

impl Queue {
    pub(super) fn new(wake: OwnedFd) -> Self {
        let (inner, answers) = (Mutex::default(), Mutex::default());
        Self { inner, work: Condvar::new(), answers, wake }
    }

    /// No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task. Publishing makes durable too, so it takes the place of a task that only does that.
    pub(super) fn add(&self, task: Task) {
        let mut inner = self.lock();
        if task.goal == Goal::Published {
            inner.drop_syncs_of(task.output.job);
        }
        inner.ready.push_back(task);
        drop(inner);
        self.work.notify_one();
    }

    /// A task whose time has come; waits for one. `None`: there will be none.
    pub(super) fn take(&self) -> Option<Task> {
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return None;
            }
            if let Some(task) = inner.ready.pop_front() {
                return Some(task);
            }
            let now = Instant::now();
            let next = (0..inner.later.len()).min_by_key(|at| inner.later[*at].0);
            let Some(next) = next else {
                inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let due = inner.later[next].0;
            if due <= now || inner.hurried {
                return Some(inner.later.swap_remove(next).1);
            }
            inner = self.work.wait_timeout(inner, due - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Keeps a task for another try. Given back: there will be none.
    pub(super) fn again(&self, mut task: Task) -> Option<Task> {
        let mut inner = self.lock();
        let pause = PAUSES.get(task.tries).filter(|_| !inner.hurried);
        let Some(pause) = pause else { return Some(task) };
        task.tries += 1;
        inner.later.push((Instant::now() + *pause, task));
        drop(inner);
        // Somebody may sleep until a later time than this.
        self.work.notify_one();
        None
    }

    /// From now on nothing is waited for: every task has one last try.
    pub(super) fn hurry(&self) {
        self.lock().hurried = true;
        self.work.notify_all();
    }

    /// These jobs are cancelled: their tasks have one last try.
    pub(super) fn hurry_jobs(&self, jobs: &[JobId]) {
        let mut inner = self.lock();
        let (hurried, later) = std::mem::take(&mut inner.later)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, task)| jobs.contains(&task.output.job));
        inner.later = later;
        inner.ready.extend(hurried.into_iter().map(|(_, task)| Task { tries: PAUSES.len(), ..task }));
        drop(inner);
        self.work.notify_all();
    }

    /// Remembers that the disk did not take an output.
    pub(super) fn note_lost(&self, output: &Output) {
        self.lock().lost.insert((output.job, output.attempt));
    }

    pub(super) fn is_lost(&self, output: &Output) -> bool {
        self.lock().lost.contains(&(output.job, output.attempt))
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
    }

    pub(super) fn answer(&self, answer: Answer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

impl Inner {
    fn drop_syncs_of(&mut self, job: JobId) {
        let stays = |task: &Task| task.goal != Goal::Durable || task.output.job != job;
        self.ready.retain(stays);
        self.later.retain(|(_, task)| stays(task));
    }
}
