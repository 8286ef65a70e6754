//! What the core asks of the runtime. Effects are to be performed in their order.

use std::ops::Deref;

use gpulane_model::{Attempt, Bytes, Event, GpuIndex, JobId, LaneId, Millis, StageId};

use crate::Timer;

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Start a process. Answered exactly once: `JobSpawned`, `SpawnFailed` or `SpawnBlocked`.
    Spawn {
        /// The job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// Where: the lowest of its lanes.
        lane: LaneId,
        /// Its GPUs, in order; none for a CPU-only job or where lanes stand in for GPUs.
        gpus: GpuSet,
        /// Threads it is given.
        cpus: u32,
        /// What it may take of each of its GPUs, where it shares them by memory; `None`: all, or not counted.
        reserve: Option<Bytes>,
        /// That is what it takes as far as is known; otherwise it may yet turn out to be more, and is nothing to hold it to.
        firm: bool,
    },
    /// Start the feeder of a stage with a map. Always before the first of its workers. Answered by `FeederGone` when it has
    /// ended, and by `MapEnded` before that if the map is over.
    Feed {
        /// The stage.
        stage: StageId,
    },
    /// End that feeder: it keeps what it has and goes. Answered by its `FeederGone`.
    EndFeeder {
        /// The stage.
        stage: StageId,
        /// KILL at once instead of TERM and grace.
        now: bool,
    },
    /// End a process tree. Answered by its `JobExited`.
    Terminate {
        /// The job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// In which manner.
        manner: Manner,
    },
    /// Make a finished attempt's output visible. Answered exactly once: `JobPublished` or `PublishFailed`.
    Publish {
        /// The job.
        job: JobId,
        /// The try whose output it is.
        attempt: Attempt,
    },
    /// Write to the journal and tell the world.
    Record(Event),
    /// Tell the core when this time has come.
    SetTimer {
        /// Given back in `TimerFired`.
        timer: Timer,
        /// On the clock of `step`'s `now`.
        at: Millis,
    },
    /// With leases: how many more GPUs could be put to use now, at most. Said when it changes; 0 at first.
    Want {
        /// How many beside those that are ours.
        gpus: u32,
    },
    /// With leases: this GPU is idle and no job that is ready can use it. It is not ours from now on.
    Release {
        /// Which.
        gpu: GpuIndex,
    },
    /// The run is over. The last effect ever, exactly once.
    Finish {
        /// How.
        outcome: Outcome,
    },
}

/// In which manner a process tree is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// TERM, the stage's grace, KILL.
    Gently,
    /// As gently, with ABRT before KILL: it is frozen, and Python then shows where its threads are.
    Frozen,
    /// KILL at once.
    Now,
}

/// How a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every job has ended.
    Finished,
    /// Stopped early; `resume` continues.
    Interrupted,
    /// Stopped because no GPU is left that could run what is left; `resume` continues.
    NoGpus,
}

/// A job's GPUs. Nearly every job has one, so one needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSet(Few);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Few {
    None,
    One([GpuIndex; 1]),
    Many(Box<[GpuIndex]>),
}

impl FromIterator<GpuIndex> for GpuSet {
    fn from_iter<I: IntoIterator<Item = GpuIndex>>(gpus: I) -> Self {
        let mut gpus = gpus.into_iter();
        let Some(first) = gpus.next() else { return Self(Few::None) };
        let Some(second) = gpus.next() else { return Self(Few::One([first])) };
        Self(Few::Many([first, second].into_iter().chain(gpus).collect()))
    }
}

impl Deref for GpuSet {
    type Target = [GpuIndex];

    fn deref(&self) -> &[GpuIndex] {
        match &self.0 {
            Few::None => &[],
            Few::One(one) => one,
            Few::Many(many) => many,
        }
    }
}
