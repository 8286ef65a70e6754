//! Why a job is not running, in plain words. Looks at the state, changes nothing.

use std::fmt;

use gpulane_model::{GpuKind, JobId, Millis, StageId};

use crate::Core;
use crate::demand::Demand;
use crate::job::Phase;
use crate::state::Hold;

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing starts any more; `resume` will.
    Interrupted,
    /// Nothing starts until something outside changes.
    Held {
        /// What, for a person.
        because: String,
    },
    /// A whole stage must end first.
    Stage {
        /// Its name.
        stage: String,
        /// Its jobs that have not ended.
        left: u32,
        /// All of its jobs.
        of: u32,
    },
    /// With `foreach`: another job must succeed first.
    Source {
        /// `STAGE/NAME`.
        job: String,
    },
    /// The pause before its next try.
    Retry {
        /// How much of it is left.
        left: Millis,
    },
    /// As many jobs of its stage run as may.
    Parallel {
        /// `parallel`.
        limit: u32,
    },
    /// Every lane is taken.
    Lanes {
        /// How many there are.
        lanes: u32,
        /// Jobs that come first.
        before: u32,
    },
    /// It takes several GPUs (where there are none: lanes) at once.
    Gang {
        /// How many.
        needs: u32,
        /// On how many a lane is free.
        free: u32,
        /// Lanes stand in for GPUs.
        stand_in: bool,
        /// Jobs that come first.
        before: u32,
    },
    /// Lanes are free, but kept until another job has all it needs at once.
    Kept {
        /// That job, `STAGE/NAME`.
        by: String,
        /// How many GPUs or lanes it needs.
        needs: u32,
        /// Jobs that come first.
        before: u32,
    },
    /// CPU-only, beside GPUs: cores are taken.
    Cores {
        /// How many it takes.
        needs: u32,
        /// How many are free.
        free: u32,
        /// How many there are.
        of: u32,
        /// Jobs that come first.
        before: u32,
    },
    /// Nothing stands in its way but its turn.
    Turn {
        /// Jobs that come first.
        before: u32,
    },
}

impl Core {
    /// Why the job is not running; `None` if it is, or has ended. Costs a walk over the stages and the job's queue: for the
    /// jobs a person looks at, not for all of them.
    pub fn waiting(&self, job: JobId) -> Option<Waiting> {
        let phase = self.slot(job)?.phase;
        if !phase.is_pending() {
            return None;
        }
        if self.interrupt.is_some() {
            return Some(Waiting::Interrupted);
        }
        Some(match phase {
            Phase::Waiting => self.awaited(job),
            Phase::Delayed { until } => Waiting::Retry { left: until.since(self.now) },
            _ => self.queued(job),
        })
    }

    fn awaited(&self, job: JobId) -> Waiting {
        let stage = self.plan.stage_of(job);
        let unended = stage.after.iter().find(|after| self.stages[after.index()].unended > 0);
        match (unended, self.plan.job(job).source) {
            (Some(after), _) => Waiting::Stage {
                stage: self.plan.stage(*after).name.clone(),
                left: self.stages[after.index()].unended,
                of: u32::try_from(self.plan.stage(*after).job_ids().len()).unwrap_or(u32::MAX),
            },
            (None, Some(source)) => Waiting::Source { job: self.plan.job_name(source) },
            (None, None) => Waiting::Turn { before: 0 },
        }
    }

    fn queued(&self, job: JobId) -> Waiting {
        if let Hold::Held { because } | Hold::Trial { because } | Hold::Probing { because } = &self.hold {
            return Waiting::Held { because: because.clone() };
        }
        let stage = self.stage_of(job);
        let slot = &self.stages[stage.index()];
        let limit = self.plan.stage(stage).parallel;
        if !slot.below_limit(self.plan.stage(stage)) {
            return Waiting::Parallel { limit };
        }
        let before = self.before(stage, job);
        let free = self.lanes.open();
        match slot.demand {
            demand if before == 0 && self.lanes.fits(demand) => Waiting::Turn { before },
            Demand::Cores(needs) => {
                Waiting::Cores { needs, free: self.lanes.cores(), of: self.machine.cores, before }
            }
            Demand::Lanes(1) if free == 0 => Waiting::Lanes { lanes: self.lanes.main(), before },
            Demand::Lanes(needs) if needs > free => {
                Waiting::Gang { needs, free, stand_in: self.machine.kind == GpuKind::None, before }
            }
            Demand::Lanes(_) => self.kept(before).unwrap_or(Waiting::Turn { before }),
        }
    }

    fn kept(&self, before: u32) -> Option<Waiting> {
        let slot = &self.stages[self.reserving()?.index()];
        let by = *slot.queue.iter().find(|job| self.phase(**job) == Phase::Ready)?;
        let Demand::Lanes(needs) = slot.demand else { return None };
        Some(Waiting::Kept { by: self.plan.job_name(by), needs, before })
    }

    /// Jobs that come before this one for the same lanes or cores.
    fn before(&self, stage: StageId, job: JobId) -> u32 {
        let on_cores = |slot: Demand| matches!(slot, Demand::Cores(_));
        let own = &self.stages[stage.index()];
        let earlier = self.stages[..stage.index()].iter().zip(&self.plan.stages);
        let earlier = earlier
            .filter(|(slot, stage)| on_cores(slot.demand) == on_cores(own.demand) && slot.below_limit(stage));
        let earlier: u32 = earlier.map(|(slot, _)| slot.ready).sum();
        let queue = own.queue.iter().take_while(|other| **other != job);
        let queue = queue.filter(|other| self.phase(**other) == Phase::Ready).count();
        let queue = u32::try_from(queue).unwrap_or(u32::MAX);
        match self.line.keeper(own.demand) {
            // Only its first job goes before what comes earlier in the plan.
            Some(keeper) if keeper == stage && queue == 0 => 0,
            Some(keeper) if keeper > stage => earlier + queue + 1,
            _ => earlier + queue,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("the run was interrupted"),
            Self::Held { because } => write!(f, "starts are held: {because}"),
            Self::Stage { stage, left, of } => {
                write!(f, "waits for stage {stage}: {left} of {of} jobs still to end")
            }
            Self::Source { job } => write!(f, "waits for {job}"),
            Self::Retry { left } => write!(f, "tries again in {left}"),
            Self::Parallel { limit: 1 } => f.write_str("stage runs 1 job at a time (parallel = 1)"),
            Self::Parallel { limit } => write!(f, "stage runs {limit} jobs at a time (parallel = {limit})"),
            Self::Lanes { lanes: 1, before } => write!(f, "the only lane is busy; {}", Before(*before)),
            Self::Lanes { lanes, before } => write!(f, "all {lanes} lanes are busy; {}", Before(*before)),
            Self::Gang { needs, free, stand_in, before } => {
                let things = if *stand_in { "lanes" } else { "GPUs" };
                let are = if *free == 1 { "is" } else { "are" };
                write!(f, "needs {needs} {things} at once, {free} {are} free; {}", Before(*before))
            }
            Self::Kept { by, needs, before } => {
                write!(f, "free lanes are kept for {by}, which needs {needs} at once; {}", Before(*before))
            }
            Self::Cores { needs, free, of, before } => {
                let cores = if *needs == 1 { "core" } else { "cores" };
                write!(f, "needs {needs} {cores}, {free} of {of} are free; {}", Before(*before))
            }
            Self::Turn { before } => write!(f, "about to start; {}", Before(*before)),
        }
    }
}

/// A job's place in line.
struct Before(u32);

impl fmt::Display for Before {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("next in line"),
            1 => f.write_str("1 job before it"),
            count => write!(f, "{count} jobs before it"),
        }
    }
}
