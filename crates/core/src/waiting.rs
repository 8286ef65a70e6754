//! Why a job is not running, in plain words. Looks at the state, changes nothing.

use std::cmp::Reverse;
use std::fmt;

use gpulane_model::{Bytes, GpuKind, JobId, Millis, StageId};

use crate::Core;
use crate::demand::{Demand, Need};
use crate::devices::Status;
use crate::job::Phase;
use crate::line::{Kind, QueueId};
use crate::stages::Queue;
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
    /// As many jobs of its stage run as may before one of them is measured.
    Measure {
        /// How many.
        most: u32,
    },
    /// As many jobs of its stage run as may.
    Parallel {
        /// `parallel`.
        limit: u32,
    },
    /// It could start, but `start_gate` holds it back while others start up.
    Gate {
        /// How many.
        young: u32,
        /// They are of its own stage, which starts no more at once; otherwise the CPUs are saturated.
        own: bool,
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
    /// It shares a GPU by memory, and none has enough free.
    Memory {
        /// What it needs.
        needs: Bytes,
        /// What the GPU with most free has.
        most: Bytes,
        /// Jobs that come first.
        before: u32,
    },
    /// It has a GPU to itself, and on each there are others.
    Empty {
        /// Jobs that come first.
        before: u32,
    },
    /// A GPU has enough memory free, but that is kept until another job has all it needs.
    Room {
        /// That job, `STAGE/NAME`.
        by: String,
        /// Jobs that come first.
        before: u32,
    },
    /// None of our GPUs is to be used now.
    Gpus {
        /// Why: others use them, or their memory is not back. For a person.
        because: String,
    },
    /// No GPU that is left can ever run it.
    NoGpu {
        /// What it needs and what is left, for a person.
        because: String,
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
        let id = QueueId { stage: self.stage_of(job), kind: Kind::of(self.jobs[job.index()].alone) };
        let stage = self.plan.stage(id.stage);
        if !self.stages[id.stage.index()].below_limit(stage) {
            let guess = self.stages[id.stage.index()].guess.map(|guess| guess.most);
            return match guess.filter(|most| stage.parallel == 0 || *most < stage.parallel) {
                Some(most) => Waiting::Measure { most },
                None => Waiting::Parallel { limit: stage.parallel },
            };
        }
        if self.line.is_shut(id) && self.lanes.fits(self.demand_of(id), None) {
            return self.held_by_gate(id);
        }
        let before = self.before(id, job);
        match self.demand_of(id) {
            demand if before == 0 && self.lanes.fits(demand, None) => Waiting::Turn { before },
            Demand::Cores(needs) => {
                Waiting::Cores { needs, free: self.lanes.cores(), of: self.machine.cores, before }
            }
            Demand::Devices { count, need } => self.for_devices(id, count, need, before),
        }
    }

    fn for_devices(&self, id: QueueId, count: u32, need: Need, before: u32) -> Waiting {
        let devices = &self.lanes.devices;
        if !devices.can_ever_fit(count, need) {
            return Waiting::NoGpu { because: self.no_gpu_because(id) };
        }
        if let Some(because) = self.out_of_use() {
            return Waiting::Gpus { because };
        }
        let free = devices.open(need);
        if free >= count {
            return self.kept(before).unwrap_or(Waiting::Turn { before });
        }
        match need {
            _ if count > 1 => {
                Waiting::Gang { needs: count, free, stand_in: self.machine.kind == GpuKind::None, before }
            }
            _ if !self.machine.packing => Waiting::Lanes { lanes: self.lanes.usable(), before },
            Need::Whole(_) => Waiting::Empty { before },
            Need::Share(needs) => {
                let usable = devices.iter().filter(|(_, device)| device.status == Status::Usable);
                let most = usable.map(|(_, device)| device.free()).max().unwrap_or(0);
                Waiting::Memory { needs: Bytes(needs), most: Bytes(most), before }
            }
        }
    }

    /// Why no GPU is to be used now, if so.
    fn out_of_use(&self) -> Option<String> {
        let mut devices = self.lanes.devices.iter().map(|(_, device)| device);
        if devices.any(|device| device.status == Status::Usable) {
            return None;
        }
        let mut devices = self.lanes.devices.iter();
        let held = devices.find_map(|(at, device)| match &device.status {
            Status::Held(because) => Some(format!("GPU {at}: {because}")),
            _ => None,
        });
        let asked = || "they were asked for and have not been granted".to_owned();
        Some(self.scarcity.because.clone().or(held).unwrap_or_else(asked))
    }

    fn kept(&self, before: u32) -> Option<Waiting> {
        let id = self.reserving()?;
        let queue = self.stages[id.stage.index()].queue(id.kind);
        let by = *queue.jobs.iter().find(|job| self.phase(**job) == Phase::Ready)?;
        let by = self.plan.job_name(by);
        match queue.demand {
            Demand::Devices { count: 1, .. } if self.machine.packing => Some(Waiting::Room { by, before }),
            Demand::Devices { count: needs, .. } => Some(Waiting::Kept { by, needs, before }),
            Demand::Cores(_) => None,
        }
    }

    /// Jobs that come before this one for the same devices or cores.
    fn before(&self, id: QueueId, job: JobId) -> u32 {
        let on_cores = |demand: Demand| matches!(demand, Demand::Cores(_));
        let own = self.stages[id.stage.index()].queue(id.kind);
        let turn = |id: QueueId, queue: &Queue| (Reverse(queue.rank), id);
        let may = self.stages.iter().zip(&self.plan.stages).zip((0..).map(StageId::at));
        let may = may.filter(|((slot, stage), _)| slot.below_limit(stage));
        let queues = may.flat_map(|((slot, _), stage)| {
            Kind::BOTH.map(|kind| (QueueId { stage, kind }, slot.queue(kind)))
        });
        let earlier = queues.filter(|(other, queue)| {
            on_cores(queue.demand) == on_cores(own.demand) && turn(*other, queue) < turn(id, own)
        });
        let earlier: u32 = earlier.map(|(_, queue)| queue.ready).sum();
        let queue = own.jobs.iter().take_while(|other| **other != job);
        let queue = queue.filter(|other| self.phase(**other) == Phase::Ready).count();
        let queue = u32::try_from(queue).unwrap_or(u32::MAX);
        match self.line.keeper(own.demand) {
            // Only its first job goes before what comes earlier in the order.
            Some(keeper) if keeper == id && queue == 0 => 0,
            Some(keeper) => {
                let other = self.stages[keeper.stage.index()].queue(keeper.kind);
                earlier + queue + u32::from(turn(keeper, other) > turn(id, own))
            }
            None => earlier + queue,
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
            Self::Measure { most } => {
                write!(f, "{most} jobs of its stage run; more when one of them has shown what it takes")
            }
            Self::Parallel { limit: 1 } => f.write_str("stage runs 1 job at a time (parallel = 1)"),
            Self::Parallel { limit } => write!(f, "stage runs {limit} jobs at a time (parallel = {limit})"),
            Self::Gate { young, own: true } => {
                write!(f, "{young} of its stage start up; more when they run (start_gate = {young})")
            }
            Self::Gate { young, own: false } => {
                write!(f, "the CPUs are saturated, {young} jobs start up (start_gate = \"auto\")")
            }
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
            Self::Memory { needs, most, before } => {
                write!(f, "needs {needs}, the GPU with most free has {most}; {}", Before(*before))
            }
            Self::Empty { before } => {
                write!(f, "needs a GPU to itself, none is empty; {}", Before(*before))
            }
            Self::Room { by, before } => write!(f, "free memory is kept for {by}; {}", Before(*before)),
            Self::Gpus { because } => write!(f, "waits for GPUs: {because}"),
            Self::NoGpu { because } => f.write_str(because),
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
