//! What must be true between two steps, whatever happened. Recounts everything from the phases of the jobs: slow, for tests and
//! for looking into a bug.

use std::collections::BTreeMap;

use gpulane_model::{JobId, StageId};

use crate::demand::Demand;
use crate::job::Phase;
use crate::state::{Core, Life};

impl Core {
    /// The first thing that is wrong, if anything is.
    pub fn check_invariants(&self) -> Result<(), String> {
        if !self.news.is_empty() {
            return Err("the end of a job was not passed on".to_owned());
        }
        self.check_counts()?;
        self.check_lanes()?;
        self.check_keepers()?;
        for at in 0..self.stages.len() {
            self.check_stage(StageId::at(at))?;
        }
        for job in self.plan.job_ids() {
            self.check_dependencies(job)?;
        }
        self.check_progress()
    }

    /// Every count is what counting gives.
    fn check_counts(&self) -> Result<(), String> {
        let mut fresh = self.clone();
        fresh.counts = gpulane_model::Counts::default();
        (fresh.active, fresh.delayed) = (0, 0);
        for stage in &mut fresh.stages {
            (stage.failed, stage.skipped, stage.busy, stage.ready) = (0, 0, 0, 0);
            stage.unended = 0;
        }
        for job in self.plan.job_ids() {
            let (stage, phase) = (self.stage_of(job), self.phase(job));
            fresh.tally(stage, phase, |count| *count += 1);
            fresh.stages[stage.index()].unended += u32::from(!phase.is_ended());
        }
        if (self.counts, self.active, self.delayed) != (fresh.counts, fresh.active, fresh.delayed) {
            return Err(format!(
                "counted {:?}, {} active, {} delayed; there are {:?}, {}, {}",
                self.counts, self.active, self.delayed, fresh.counts, fresh.active, fresh.delayed
            ));
        }
        for (at, (kept, counted)) in self.stages.iter().zip(&fresh.stages).enumerate() {
            let of = |slot: &crate::stages::StageSlot| {
                [slot.failed, slot.skipped, slot.busy, slot.ready, slot.unended]
            };
            if of(kept) != of(counted) {
                return Err(format!("stage {at} counted {:?}; there are {:?}", of(kept), of(counted)));
            }
        }
        Ok(())
    }

    /// Every lane has at most one job, every job on lanes has all it needs and every other job none.
    fn check_lanes(&self) -> Result<(), String> {
        let mut held: BTreeMap<JobId, Vec<_>> = BTreeMap::new();
        for (lane, job) in self.lanes.holders() {
            held.entry(job).or_default().push(lane);
        }
        let mut taken_cores = 0;
        for job in self.plan.job_ids() {
            let lanes = held.remove(&job).unwrap_or_default();
            let Some(lead) = self.phase(job).lane() else {
                if lanes.is_empty() {
                    continue;
                }
                return Err(format!("job {job} holds lanes {lanes:?} but is {:?}", self.phase(job)));
            };
            let chain: Vec<_> = self.lanes.chain(lead).collect();
            if chain != lanes {
                return Err(format!("job {job} holds lanes {lanes:?} but its chain is {chain:?}"));
            }
            let expected = match self.stages[self.stage_of(job).index()].demand {
                Demand::Lanes(count) => count,
                Demand::Cores(count) => {
                    taken_cores += count;
                    1
                }
            };
            let mut gpus: Vec<_> = lanes.iter().filter_map(|lane| self.machine.gpu_of(*lane)).collect();
            let there = gpus.len();
            gpus.dedup();
            if lanes.len() != expected as usize || gpus.len() != there {
                return Err(format!("job {job} holds lanes {lanes:?} on GPUs {gpus:?}; it needs {expected}"));
            }
        }
        self.lanes.check(&self.machine, taken_cores)
    }

    /// Who stays first in the line stands in it.
    fn check_keepers(&self) -> Result<(), String> {
        for demand in [Demand::Lanes(1), Demand::Cores(1)] {
            if let Some(keeper) = self.line.keeper(demand)
                && !self.line.has(keeper, self.stages[keeper.index()].demand)
            {
                return Err(format!("stage {keeper} keeps what is free but does not stand in line"));
            }
        }
        Ok(())
    }

    /// The stage keeps its limit, its queue holds exactly its ready jobs, and it stands in line when it should.
    fn check_stage(&self, id: StageId) -> Result<(), String> {
        let (slot, stage) = (&self.stages[id.index()], self.plan.stage(id));
        if stage.parallel > 0 && slot.busy > stage.parallel {
            return Err(format!("stage {id} runs {} jobs, parallel is {}", slot.busy, stage.parallel));
        }
        let mut queued: Vec<JobId> =
            slot.queue.iter().copied().filter(|job| self.phase(*job) == Phase::Ready).collect();
        queued.sort_unstable();
        let ready: Vec<JobId> = stage.job_ids().filter(|job| self.phase(*job) == Phase::Ready).collect();
        if queued != ready {
            return Err(format!("stage {id} has {ready:?} ready but {queued:?} queued"));
        }
        let stands = !ready.is_empty() && slot.below_limit(stage);
        if self.line.has(id, slot.demand) != stands {
            return Err(format!("stage {id} should stand in line: {stands}"));
        }
        if slot.stopped != slot.reached_limit(stage) {
            return Err(format!("stage {id} has given up {} jobs; stopped: {}", slot.given_up, slot.stopped));
        }
        if slot.stopped && stage.job_ids().any(|job| self.phase(job).is_pending()) {
            return Err(format!("stage {id} was stopped but has jobs waiting"));
        }
        let awaited = stage.after.iter().filter(|after| self.stages[after.index()].unended > 0).count();
        if awaited != slot.awaited as usize {
            return Err(format!("stage {id} waits for {awaited} stages but counted {}", slot.awaited));
        }
        Ok(())
    }

    /// What may start is ready, and what is ready may start: nothing is early, nothing forgotten.
    fn check_dependencies(&self, job: JobId) -> Result<(), String> {
        let slot = &self.stages[self.stage_of(job).index()];
        let source = self.plan.job(job).source.map(|source| self.phase(source));
        let free = slot.awaited == 0 && source.is_none_or(|phase| phase == Phase::Succeeded);
        let lost = source.is_some_and(|phase| matches!(phase, Phase::Failed | Phase::Skipped));
        match self.phase(job) {
            Phase::Waiting if free => Err(format!("job {job} waits for nothing")),
            phase if phase.is_pending() && lost => Err(format!("job {job} waits for a source that is lost")),
            Phase::Ready | Phase::Delayed { .. } | Phase::Starting { .. } if !free => {
                Err(format!("job {job} went ahead of what it waits for"))
            }
            _ => Ok(()),
        }
    }

    /// While a run goes on, whatever fits has been started, and something is still to come.
    fn check_progress(&self) -> Result<(), String> {
        let Life::Going { .. } = self.life else { return Ok(()) };
        if self.may_start()
            && let Some(stage) = self.next_to_start()
        {
            return Err(format!("a job of stage {stage} fits but was not started"));
        }
        if self.is_stuck() {
            return Err("jobs are left that nothing will ever start".to_owned());
        }
        Ok(())
    }
}
