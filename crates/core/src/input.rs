//! What the runtime tells the core: everything that happened in the world, one [`Input`] each.

use gpulane_model::{Attempt, JobId, ProcessExit};

/// Something happened. What is late or told twice (an attempt that is over, a job that has ended) is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Once, first.
    Begin,
    /// Answer to [`Effect::Spawn`](crate::Effect::Spawn): the process runs.
    JobSpawned {
        /// The job.
        job: JobId,
        /// As in the effect.
        attempt: Attempt,
        /// Its main process.
        pid: u32,
    },
    /// Answer to `Spawn`: the program cannot be executed. Final: another try would end the same way.
    SpawnFailed {
        /// The job.
        job: JobId,
        /// As in the effect.
        attempt: Attempt,
        /// What the system said.
        message: String,
    },
    /// Answer to `Spawn`: nothing can be started now, through no fault of the job (a full disk). The attempt's number is used
    /// again.
    SpawnBlocked {
        /// The job.
        job: JobId,
        /// As in the effect.
        attempt: Attempt,
        /// The reason and what to do, for a person.
        because: String,
    },
    /// The job's whole process tree is gone.
    JobExited {
        /// The job.
        job: JobId,
        /// The try that ended.
        attempt: Attempt,
        /// How the main process ended.
        exit: ProcessExit,
        /// Processes that had to be ended after the main one was gone.
        left: u32,
    },
    /// Answer to [`Effect::Publish`](crate::Effect::Publish): the output is in its place, durably.
    JobPublished {
        /// The job.
        job: JobId,
        /// As in the effect.
        attempt: Attempt,
    },
    /// Answer to `Publish`: it could not be done.
    PublishFailed {
        /// The job.
        job: JobId,
        /// As in the effect.
        attempt: Attempt,
        /// What the system said.
        message: String,
    },
    /// The time asked for by [`Effect::SetTimer`](crate::Effect::SetTimer) has come.
    TimerFired {
        /// As in the effect.
        timer: Timer,
    },
    /// A person wants these jobs gone.
    CancelRequested {
        /// Which; empty: all of them.
        jobs: Vec<JobId>,
    },
    /// The run is to stop and be resumable. May come again with `now`.
    Interrupted {
        /// The reason, for a person.
        because: String,
        /// KILL at once instead of TERM and grace.
        now: bool,
    },
}

/// A moment the core wants to hear about. Timers are never cancelled; one that no longer matters is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The attempt has had its time.
    Timeout {
        /// The job.
        job: JobId,
        /// The try the limit is for.
        attempt: Attempt,
    },
    /// The pause before a job's next try is over.
    Retry {
        /// The job.
        job: JobId,
    },
    /// Starts were held; see whether they work again.
    RetryHeld,
}
