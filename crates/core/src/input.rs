//! What the runtime tells the core: everything that happened in the world, one [`Input`] each.

use gpulane_model::{Attempt, Bytes, FullDisk, GpuIndex, JobId, Millis, ProcessExit, StageId, Stuck};

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
        /// It was a standby.
        warm: bool,
    },
    /// Standbys of this stage cannot be had, or must not be: its jobs start without.
    StandbysFailed {
        /// The stage.
        stage: StageId,
        /// Why and what to do, for a person.
        why: String,
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
    /// The job's whole process tree is gone, and the GPU memory it held is back.
    JobExited {
        /// The job.
        job: JobId,
        /// The try that ended.
        attempt: Attempt,
        /// How the main process ended.
        exit: ProcessExit,
        /// Processes that had to be ended after the main one was gone.
        left: u32,
        /// What some of them were, for a person.
        who: Vec<String>,
        /// How long ago that was: its GPU memory may have been awaited since.
        ago: Millis,
        /// The most GPU memory it held on any one of its GPUs, where measured.
        peak: Option<Bytes>,
        /// What was found out about its end beyond the exit.
        trouble: Option<Trouble>,
        /// Processes of it that outlived KILL and will stay; they are no longer waited for.
        stuck: Option<Remains>,
        /// For a worker of a map: it had its model loaded.
        fruitful: bool,
    },
    /// The job has shown no sign of life for long, and evidence was taken.
    Stuck {
        /// The job.
        job: JobId,
        /// The try under way.
        attempt: Attempt,
        /// For how long it has shown none.
        quiet: Millis,
        /// What that means for it.
        verdict: Verdict,
        /// What it is stuck in.
        stuck: Stuck,
    },
    /// The job was suspected, and shows life again.
    Revived {
        /// The job.
        job: JobId,
        /// The try under way.
        attempt: Attempt,
        /// For how long it had shown none.
        quiet: Millis,
    },
    /// The job says, or its results show, that its work is done.
    WorkDone {
        /// The job.
        job: JobId,
        /// The try under way.
        attempt: Attempt,
        /// How that is known, for a person: `called gpulane.done()`.
        because: String,
        /// What it does instead of exiting, once that was looked at. May come later, beside the same `because`.
        doing: Option<String>,
        /// It is known to be frozen: it is ended now, not after the stage's grace.
        frozen: bool,
    },
    /// How the CPUs do. Until this is said for the first time, they are taken to be free.
    Pressure {
        /// How many have nothing to do; 0 also if more wants to run than can.
        idle: u32,
    },
    /// How much GPU memory a running job has held so far.
    PeakSeen {
        /// The job.
        job: JobId,
        /// The try under way.
        attempt: Attempt,
        /// The most on any one of its GPUs.
        peak: Bytes,
        /// It has computed for a while without growing: others of its stage can be expected to take as much.
        settled: bool,
    },
    /// With leases: this GPU is ours until [`Effect::Release`](crate::Effect::Release).
    GpuGranted {
        /// Which.
        gpu: GpuIndex,
        /// What of its memory jobs can have.
        usable: Bytes,
    },
    /// With leases: an older run waits. Every idle GPU is released now, also one kept for a job that needs more.
    GiveWay,
    /// With leases: whether any of the GPUs wanted can be had.
    GpusAwaited {
        /// Why none can be had now, for a person; `None`: that is over.
        because: Option<String>,
    },
    /// Memory of this GPU is held by something that should not hold it: no new job there until `GpuClear`.
    GpuHeld {
        /// Which.
        gpu: GpuIndex,
        /// Who holds it, where that can be seen.
        pids: Vec<u32>,
        /// How much.
        bytes: Bytes,
        /// The same for a person, and what to do.
        because: String,
    },
    /// That memory is back.
    GpuClear {
        /// Which.
        gpu: GpuIndex,
    },
    /// This GPU has failed: never used again in this run, and what ran on it is done again elsewhere.
    GpuLost {
        /// Which.
        gpu: GpuIndex,
        /// What happened, so that it follows the GPU's name: `is lost: …`.
        why: String,
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
        /// The output is whole and stays where it is, for a later engine to publish.
        kept: bool,
    },
    /// The feeder of a stage with a map says that the map is over: complete, or why it does not go on.
    MapEnded {
        /// The stage.
        stage: StageId,
        /// Why and what to do, for a person, if it does not go on.
        result: Result<(), String>,
    },
    /// A worker whose map is complete was not there to be told: it is ended, and has succeeded as the others have.
    WorkerUnneeded {
        /// The worker.
        job: JobId,
        /// The attempt that runs.
        attempt: Attempt,
    },
    /// The feeder says that a worker is broken, or does not come back from what it was given: a fresh one is to take its place. That is no
    /// failed try of the worker.
    WorkerUnfit {
        /// The worker.
        job: JobId,
        /// The attempt that runs.
        attempt: Attempt,
        /// Why, for a person.
        because: String,
        /// The worker has exceeded its time: before it is killed, it is made to show where it is.
        overdue: bool,
    },
    /// Answer to [`Effect::Feed`](crate::Effect::Feed), sooner or later: the feeder is gone and is not started again by itself.
    FeederGone {
        /// The stage.
        stage: StageId,
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

/// Processes that nothing can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Which.
    pub pids: Vec<u32>,
    /// What they are stuck in, for a person.
    pub because: String,
}

/// Why a job came to grief, as far as the world could tell from more than its exit. The text is words for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Out of GPU memory.
    GpuOom(String),
    /// Out of host memory.
    HostOom(String),
    /// A fault under MPS, which takes down every process on the GPU.
    MpsFault(String),
    /// A disk is full.
    DiskFull {
        /// What was seen of it, and the job's own words.
        because: String,
        /// That of the run: the world holds starts until there is space, so the job may have its turn at once.
        disk: FullDisk,
    },
    /// The standby it was handed to was gone before it took the job: nothing of the job has run, whatever the exit.
    NeverBegun(String),
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
    /// A job whose work is done has had its grace to exit.
    Linger {
        /// The job.
        job: JobId,
        /// The try that is done.
        attempt: Attempt,
    },
    /// Starts were held back by `start_gate`; see who may start now.
    Gate,
}

/// What was found out about a job that shows no life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing proves that it cannot go on: people are told, and it is left alone.
    Told,
    /// Nothing proves it, but it has waited for longer than its stage allows (`hang.outside`).
    Overdue,
    /// It provably cannot go on.
    Frozen,
}
