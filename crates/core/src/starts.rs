//! Starting what can start. The first job in line goes first; if it needs more GPUs at once than are free, it keeps one free
//! lane on each that is, and others may use only what is left beside. So a gang is never overtaken on a lane it could use,
//! never keeps one it could not, and once it keeps one stays first until it has started.

use gpulane_model::{Attempt, JobId, StageId};

use crate::demand::Demand;
use crate::job::{Ending, Phase};
use crate::state::{Core, Hold};
use crate::{Effect, GpuSet};

impl Core {
    /// Starts jobs until nothing more fits.
    pub(crate) fn start_jobs(&mut self, effects: &mut Vec<Effect>) {
        while self.may_start()
            && let Some(stage) = self.next_to_start()
            && let Some(job) = self.pop_ready(stage)
        {
            if !self.start(stage, job, effects) {
                // Cannot be: `next_to_start` chose it because it fits. Back it goes rather than be lost.
                self.stages[stage.index()].queue.push_front(job);
                return;
            }
        }
        if self.may_start() {
            self.let_keepers_stay_first();
        }
    }

    /// Whoever keeps what is free from now on stays first, whatever comes back into the line before it.
    fn let_keepers_stay_first(&mut self) {
        for stage in [self.reserving(), self.reserving_cores()].into_iter().flatten() {
            self.line.keep(stage, self.stages[stage.index()].demand);
        }
    }

    /// Whether anything may start now.
    pub(crate) fn may_start(&self) -> bool {
        self.interrupt.is_none() && matches!(self.hold, Hold::Free | Hold::Trial { .. })
    }

    /// The stage whose first ready job is to start next.
    pub(crate) fn next_to_start(&self) -> Option<StageId> {
        self.next_for_lanes().or_else(|| self.next_for_cores())
    }

    fn next_for_lanes(&self) -> Option<StageId> {
        let open = self.lanes.open();
        if open == 0 {
            return None;
        }
        match self.line.first_for_lanes() {
            Some(head) if self.lanes.fits(self.stages[head.index()].demand) => Some(head),
            Some(_) => self.line.first_with_at_most(self.lanes.spare()),
            None => None,
        }
    }

    /// Cores are one pool: a job that does not fit yet keeps all that are free.
    fn next_for_cores(&self) -> Option<StageId> {
        self.line.first_for_cores().filter(|stage| self.lanes.fits(self.stages[stage.index()].demand))
    }

    /// Jobs that will start next as things stand, at most `most`, each with the number of its try: what can be made
    /// ready for them while nothing else is to be done. A guess, not a promise.
    pub fn upcoming(&self, most: usize) -> impl Iterator<Item = (JobId, Attempt)> + '_ {
        let stage = self.line.first_for_lanes().or_else(|| self.line.first_for_cores());
        let queue = stage.filter(|_| self.may_start()).map(|stage| &self.stages[stage.index()].queue);
        let ready = queue.into_iter().flatten().filter(|job| self.phase(**job) == Phase::Ready);
        ready.take(most).map(|job| (*job, Attempt(self.jobs[job.index()].attempts + 1)))
    }

    /// The stage that keeps free lanes for its first job, if one does.
    pub(crate) fn reserving(&self) -> Option<StageId> {
        let head = self.line.first_for_lanes()?;
        (self.lanes.open() > 0 && !self.lanes.fits(self.stages[head.index()].demand)).then_some(head)
    }

    /// The stage that keeps free cores for its first job, if one does.
    fn reserving_cores(&self) -> Option<StageId> {
        let head = self.line.first_for_cores()?;
        (self.lanes.cores() > 0 && !self.lanes.fits(self.stages[head.index()].demand)).then_some(head)
    }

    /// The stage's first ready job, out of its queue.
    fn pop_ready(&mut self, stage: StageId) -> Option<JobId> {
        loop {
            let job = self.stages[stage.index()].queue.pop_front()?;
            if self.phase(job) == Phase::Ready {
                return Some(job);
            }
        }
    }

    fn start(&mut self, stage: StageId, job: JobId, effects: &mut Vec<Effect>) -> bool {
        let demand = self.stages[stage.index()].demand;
        let Some(lane) = self.lanes.take(job, demand) else { return false };
        self.line.give_up_place(stage);
        let slot = &mut self.jobs[job.index()];
        slot.attempts += 1;
        let attempt = Attempt(slot.attempts);
        self.set_phase(job, Phase::Starting { lane, ending: Ending::No });
        if let Hold::Trial { because } = &mut self.hold {
            self.hold = Hold::Probing { because: std::mem::take(because) };
        }
        let gpus: GpuSet = match demand {
            Demand::Lanes(_) => self.lanes.chain(lane).filter_map(|lane| self.machine.gpu_of(lane)).collect(),
            Demand::Cores(_) => GpuSet::from_iter([]),
        };
        let cpus = demand.threads(self.plan.stage(stage), &self.machine);
        effects.push(Effect::Spawn { job, attempt, lane, gpus, cpus });
        true
    }

    /// Puts a job whose time has come into its stage's queue: behind the others, or before them all if it had its turn.
    pub(crate) fn enqueue(&mut self, job: JobId, place: Place) {
        let queue = &mut self.stages[self.plan.job(job).stage.index()].queue;
        match place {
            Place::Front => queue.push_front(job),
            Place::Back => queue.push_back(job),
        }
        self.set_phase(job, Phase::Ready);
    }
}

/// Where in its stage's queue a job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It had its turn, and lost it through no fault of its own.
    Front,
    /// Its turn is yet to come.
    Back,
}
