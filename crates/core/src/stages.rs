//! Stages while they run, and the links along which the end of one job or stage reaches others.

use std::collections::VecDeque;

use gpulane_model::{JobId, Machine, Measured, Memory, Plan, Stage, StageId};

use crate::demand::Demand;
use crate::guess::Guess;
use crate::line::Kind;
use crate::map_slot::MapSlot;
use crate::misfit::Lack;

/// The scheduling state of one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageSlot {
    /// Ready jobs that may be beside others.
    pub(crate) plain: Queue,
    /// Ready jobs that came to grief beside others.
    pub(crate) alone: Queue,
    /// With `memory = "auto"`, where GPUs are shared by it: what its jobs take, once that is known.
    pub(crate) measured: Option<Measured>,
    /// A job has shown it from beginning to end, here or in an earlier run; otherwise it may yet turn out to be more.
    pub(crate) confirmed: bool,
    /// With `memory = "auto"` and nothing measured yet: what is assumed since its first job came to its GPU.
    pub(crate) guess: Option<Guess>,
    /// How long its jobs take, where earlier runs tell.
    pub(crate) seconds: Option<f64>,
    /// Its place in an order that was looked for and found good.
    pub(crate) turn: Option<u32>,
    /// Why its jobs can never run on this machine, if so.
    pub(crate) lack: Option<Lack>,
    /// Stages of `after` that have not ended.
    pub(crate) awaited: u32,
    /// Its jobs whose end has not yet been passed on to others.
    pub(crate) unended: u32,
    /// Jobs that are still to start: waiting, ready, or between two tries.
    pub(crate) pending: u32,
    /// Its standbys were found to be of no use.
    pub(crate) standbys_off: bool,
    /// Jobs that failed or were cancelled.
    pub(crate) failed: u32,
    /// Jobs that will not run.
    pub(crate) skipped: u32,
    /// Failed jobs that count for `max_failures`: not those a person cancelled.
    pub(crate) given_up: u32,
    /// `max_failures` was reached: nothing of it starts any more.
    pub(crate) stopped: bool,
    /// Jobs that hold lanes; what `parallel` limits.
    pub(crate) busy: u32,
    /// Its jobs are the workers of a map.
    pub(crate) map: Option<MapSlot>,
}

/// Ready jobs of a stage that take the same.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// What each of them takes.
    pub(crate) demand: Demand,
    /// Its place in the line; the highest is first.
    pub(crate) rank: u64,
    /// Jobs that are `Ready`.
    pub(crate) ready: u32,
    /// These, in order. A job that ended while queued stays in as a dead entry and is passed over.
    pub(crate) jobs: VecDeque<JobId>,
}

impl Queue {
    fn new(demand: Demand) -> Self {
        Self { demand, rank: 0, ready: 0, jobs: VecDeque::new() }
    }
}

impl StageSlot {
    pub(crate) fn new(stage: &Stage, machine: &Machine, measured: Option<Measured>) -> Self {
        let measured = measured.filter(|_| machine.packing && stage.memory == Memory::Auto);
        let demand = Demand::of(stage, machine, measured.map(|measured| measured.reserve));
        Self {
            plain: Queue::new(demand),
            alone: Queue::new(demand.alone()),
            confirmed: measured.is_some(),
            measured,
            guess: None,
            seconds: None,
            turn: None,
            lack: Lack::of(stage, machine),
            awaited: u32::try_from(stage.after.len()).unwrap_or(u32::MAX),
            unended: u32::try_from(stage.job_ids().len()).unwrap_or(u32::MAX),
            pending: 0,
            standbys_off: false,
            failed: 0,
            skipped: 0,
            given_up: 0,
            stopped: false,
            busy: 0,
            map: stage.map.as_ref().map(|_| MapSlot::default()),
        }
    }

    pub(crate) fn queue(&self, kind: Kind) -> &Queue {
        match kind {
            Kind::Alone => &self.alone,
            Kind::Plain => &self.plain,
        }
    }

    pub(crate) fn queue_mut(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Alone => &mut self.alone,
            Kind::Plain => &mut self.plain,
        }
    }

    /// Jobs that are `Ready`.
    pub(crate) fn ready(&self) -> u32 {
        self.alone.ready + self.plain.ready
    }

    /// Whether `parallel`, or what a guess allows, lets another job start.
    pub(crate) fn below_limit(&self, stage: &Stage) -> bool {
        (stage.parallel == 0 || self.busy < stage.parallel)
            && self.guess.is_none_or(|guess| self.busy < guess.most)
    }

    /// Devices its jobs could be put on now if there were any number of them.
    pub(crate) fn wanted(&self, stage: &Stage) -> u64 {
        let Demand::Devices { count, .. } = self.plain.demand else { return 0 };
        let room = if stage.parallel == 0 { u32::MAX } else { stage.parallel.saturating_sub(self.busy) };
        u64::from(self.ready().min(room)) * u64::from(count)
    }

    /// Whether `max_failures` is reached. Zero would stop a stage that has done nothing wrong; it means one.
    pub(crate) fn reached_limit(&self, stage: &Stage) -> bool {
        stage.max_failures.is_some_and(|most| self.given_up >= most.max(1))
    }
}

/// Who waits for whom, the other way round than the plan says it.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    /// By stage: the stages with it in their `after`.
    stages: Grouped<StageId>,
    /// By job: the jobs that have it as their source. Empty if the plan has no `foreach`.
    jobs: Grouped<JobId>,
}

impl Links {
    pub(crate) fn new(plan: &Plan) -> Self {
        let after = plan.stages.iter().enumerate();
        let after =
            after.flat_map(|(at, stage)| stage.after.iter().map(move |on| (on.index(), StageId::at(at))));
        let sources = plan.job_ids().filter_map(|job| Some((plan.job(job).source?.index(), job)));
        Self { stages: Grouped::new(plan.stages.len(), after), jobs: Grouped::new(plan.jobs.len(), sources) }
    }

    /// Stages that wait for this one; one that names it twice is here twice.
    pub(crate) fn dependents(&self, stage: StageId) -> std::ops::Range<usize> {
        self.stages.range(stage.index())
    }

    pub(crate) fn dependent(&self, at: usize) -> StageId {
        self.stages.values[at]
    }

    /// Jobs whose source this one is.
    pub(crate) fn followers(&self, job: JobId) -> std::ops::Range<usize> {
        self.jobs.range(job.index())
    }

    pub(crate) fn follower(&self, at: usize) -> JobId {
        self.jobs.values[at]
    }
}

/// Lists of values by key, all in one vector: two small allocations for a hundred thousand lists.
#[derive(Clone, Debug)]
struct Grouped<T> {
    /// Where each key's values begin, and one more: where the last one's end. Empty if there are no values.
    starts: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy> Grouped<T> {
    fn new(keys: usize, pairs: impl Iterator<Item = (usize, T)>) -> Self {
        let mut pairs: Vec<(usize, T)> = pairs.collect();
        if pairs.is_empty() {
            return Self { starts: Vec::new(), values: Vec::new() };
        }
        pairs.sort_by_key(|(key, _)| *key);
        let mut starts = vec![0; keys + 1];
        for (key, _) in &pairs {
            starts[key + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        Self { starts, values: pairs.into_iter().map(|(_, value)| value).collect() }
    }

    fn range(&self, key: usize) -> std::ops::Range<usize> {
        match (self.starts.get(key), self.starts.get(key + 1)) {
            (Some(start), Some(end)) => *start as usize..*end as usize,
            _ => 0..0,
        }
    }
}
