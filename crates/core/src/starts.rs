//! Starting what can start. The first job in line goes first; if it does not fit, room is kept for it on those devices where
//! the least must come free, and others may use only what is left beside. So a large job is never overtaken where it could
//! run, never keeps what it could not use, and once it keeps something stays first until it has started.

use gpulane_model::{Attempt, JobId, StageId};

use crate::demand::Demand;
use crate::devices::Kept;
use crate::job::{Ending, Phase};
use crate::line::{Kind, QueueId};
use crate::state::{Core, Hold};
use crate::{Effect, GpuSet};

/// The next start: from which queue, and what it must leave to another.
pub(crate) struct Next {
    pub(crate) queue: QueueId,
    kept: Option<Kept>,
}

impl Core {
    /// Starts jobs until nothing more fits.
    pub(crate) fn start_jobs(&mut self, effects: &mut Vec<Effect>) {
        while self.may_start()
            && let Some(next) = self.next_to_start()
            && let Some(job) = self.pop_ready(next.queue)
        {
            if !self.start(&next, job, effects) {
                // Cannot be: `next_to_start` chose it because it fits. Back it goes rather than be lost.
                let stage = &mut self.stages[next.queue.stage.index()];
                stage.queue_mut(next.queue.kind).jobs.push_front(job);
                return;
            }
        }
        if self.may_start() {
            self.let_keepers_stay_first();
        }
    }

    /// Whoever keeps what is free from now on stays first, whatever comes back into the line before it.
    fn let_keepers_stay_first(&mut self) {
        for queue in [self.reserving(), self.reserving_cores()].into_iter().flatten() {
            let demand = self.demand_of(queue);
            if demand.is_hard_to_gather() {
                self.line.keep(queue, demand);
            }
        }
    }

    /// Whether anything may start now.
    pub(crate) fn may_start(&self) -> bool {
        self.interrupt.is_none() && matches!(self.hold, Hold::Free | Hold::Trial { .. })
    }

    /// What the jobs of a queue take.
    pub(crate) fn demand_of(&self, queue: QueueId) -> Demand {
        self.stages[queue.stage.index()].queue(queue.kind).demand
    }

    /// What this job takes.
    pub(crate) fn demand(&self, job: JobId) -> Demand {
        let kind = Kind::of(self.jobs[job.index()].alone);
        self.demand_of(QueueId { stage: self.stage_of(job), kind })
    }

    /// The queue whose first ready job is to start next.
    pub(crate) fn next_to_start(&self) -> Option<Next> {
        self.next_for_devices().or_else(|| self.next_for_cores())
    }

    fn next_for_devices(&self) -> Option<Next> {
        let head = self.head_for_devices()?;
        let Demand::Devices { count, need } = self.demand_of(head) else { return None };
        let devices = &self.lanes.devices;
        if devices.fits(count, need, None) {
            return Some(Next { queue: head, kept: None });
        }
        let kept = Some(self.lanes.keep(count, need));
        let beside = |count, need| devices.fits(count, need, kept.as_ref());
        let queue = self.line.first_open(beside)?;
        Some(Next { queue, kept })
    }

    /// The queue for devices that is to start next, or for which room is kept. One that would fit and waits only for the
    /// start gate leaves its turn to those that need not.
    fn head_for_devices(&self) -> Option<QueueId> {
        let head = self.first_for_devices()?;
        if self.line.is_shut(head) && self.lanes.fits(self.demand_of(head), None) {
            return self.line.first_open(|count, need| self.lanes.devices.can_ever_fit(count, need));
        }
        Some(head)
    }

    /// The first queue for devices, but for those that no device left can ever serve: they must not hold up others.
    pub(crate) fn first_for_devices(&self) -> Option<QueueId> {
        self.line.first_for_devices(|count, need| self.lanes.devices.can_ever_fit(count, need))
    }

    /// Cores are one pool: a job that does not fit yet keeps all that are free.
    fn next_for_cores(&self) -> Option<Next> {
        let queue = self.line.first_for_cores()?;
        self.lanes.fits(self.demand_of(queue), None).then_some(Next { queue, kept: None })
    }

    /// Jobs that will start next as things stand, at most `most`, each with the number of its try: what can be made
    /// ready for them while nothing else is to be done. A guess, not a promise.
    pub fn upcoming(&self, most: usize) -> impl Iterator<Item = (JobId, Attempt)> + '_ {
        let queue = self.first_for_devices().or_else(|| self.line.first_for_cores());
        let queue = queue.filter(|_| self.may_start());
        let jobs = queue.map(|queue| &self.stages[queue.stage.index()].queue(queue.kind).jobs);
        let ready = jobs.into_iter().flatten().filter(|job| self.phase(**job) == Phase::Ready);
        ready.take(most).map(|job| (*job, Attempt(self.jobs[job.index()].attempts).next()))
    }

    /// The queue that keeps free devices for its first job, if one does.
    pub(crate) fn reserving(&self) -> Option<QueueId> {
        let head = self.head_for_devices()?;
        let Demand::Devices { count, need } = self.demand_of(head) else { return None };
        let devices = &self.lanes.devices;
        let waits = !devices.fits(count, need, None);
        (waits && devices.keeps_anything(&self.lanes.keep(count, need))).then_some(head)
    }

    /// The queue that keeps free cores for its first job, if one does.
    fn reserving_cores(&self) -> Option<QueueId> {
        let head = self.line.first_for_cores()?;
        (self.lanes.cores() > 0 && !self.lanes.fits(self.demand_of(head), None)).then_some(head)
    }

    /// The queue's first ready job, out of it.
    fn pop_ready(&mut self, queue: QueueId) -> Option<JobId> {
        loop {
            let job = self.stages[queue.stage.index()].queue_mut(queue.kind).jobs.pop_front()?;
            if self.phase(job) == Phase::Ready {
                return Some(job);
            }
        }
    }

    fn start(&mut self, next: &Next, job: JobId, effects: &mut Vec<Effect>) -> bool {
        let demand = self.demand_of(next.queue);
        let Some(lane) = self.lanes.take(job, demand, next.kept.as_ref()) else { return false };
        self.line.give_up_place(next.queue);
        self.feed_first(next.queue.stage, effects);
        let slot = &mut self.jobs[job.index()];
        slot.attempts += 1;
        let attempt = Attempt(slot.attempts);
        self.set_phase(job, Phase::Starting { lane, ending: Ending::No });
        if let Hold::Trial { because } = &mut self.hold {
            self.hold = Hold::Probing { because: std::mem::take(because) };
        }
        let gpus: GpuSet = match demand {
            Demand::Devices { .. } => {
                self.lanes.chain(lane).filter_map(|lane| self.machine.gpu_of(lane)).collect()
            }
            Demand::Cores(_) => GpuSet::from_iter([]),
        };
        if let Demand::Devices { .. } = demand {
            self.enter_youth(job);
        }
        let (reserve, firm) = (demand.reserve(&self.machine), self.is_sure(job));
        let cpus = self.threads(next.queue.stage, demand);
        effects.push(Effect::Spawn { job, attempt, lane, gpus, cpus, reserve, firm });
        true
    }

    /// Gives back all the job holds.
    pub(crate) fn release(&mut self, job: JobId) {
        self.lanes.release(job);
        self.leave_youth(job);
    }

    pub(crate) fn threads(&self, stage: StageId, demand: Demand) -> u32 {
        let places = match demand {
            Demand::Devices { count, need } if self.machine.packing => {
                self.lanes.devices.places_for(count, need)
            }
            _ => 1,
        };
        demand.threads(self.plan.stage(stage), &self.machine, places)
    }

    /// Puts a job whose time has come into its queue: behind the others, or before them all if it had its turn.
    pub(crate) fn enqueue(&mut self, job: JobId, place: Place) {
        let kind = Kind::of(self.jobs[job.index()].alone);
        let jobs = &mut self.stages[self.plan.job(job).stage.index()].queue_mut(kind).jobs;
        match place {
            Place::Front => jobs.push_front(job),
            Place::Back => jobs.push_back(job),
        }
        self.set_phase(job, Phase::Ready);
    }
}

/// Where in its queue a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It had its turn, and lost it through no fault of its own.
    Front,
    /// Its turn is yet to come.
    Back,
}
