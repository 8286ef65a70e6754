//! What must be true between two steps, whatever happened. Recounts everything from the phases of the jobs: slow, for tests and
//! for looking into a bug.

use std::collections::BTreeMap;

use gpulane_model::{JobId, Memory, StageId};

use crate::demand::{Demand, Need};
use crate::job::Phase;
use crate::line::{Kind, QueueId};
use crate::stages::StageSlot;
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
        self.check_findings()?;
        self.check_gate()?;
        self.check_maps()?;
        self.check_standbys()?;
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
            (stage.failed, stage.skipped, stage.busy, stage.pending) = (0, 0, 0, 0);
            (stage.alone.ready, stage.plain.ready) = (0, 0);
            stage.unended = 0;
        }
        for job in self.plan.job_ids() {
            let (stage, phase) = (self.stage_of(job), self.phase(job));
            fresh.tally(job, phase, |count| *count += 1);
            fresh.stages[stage.index()].unended += u32::from(!phase.is_ended());
        }
        if (self.counts, self.active, self.delayed) != (fresh.counts, fresh.active, fresh.delayed) {
            return Err(format!(
                "counted {:?}, {} active, {} delayed; there are {:?}, {}, {}",
                self.counts, self.active, self.delayed, fresh.counts, fresh.active, fresh.delayed
            ));
        }
        let wanted: u64 =
            self.stages.iter().zip(&self.plan.stages).map(|(slot, stage)| slot.wanted(stage)).sum();
        if self.wanted != wanted {
            return Err(format!("{} devices are said to be wanted, {wanted} are", self.wanted));
        }
        for (at, (kept, counted)) in self.stages.iter().zip(&fresh.stages).enumerate() {
            let of = |slot: &StageSlot| {
                let ready = [slot.alone.ready, slot.plain.ready];
                ([slot.failed, slot.skipped, slot.busy, slot.pending, slot.unended], ready)
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
            let Some(booking) = self.lanes.booking(job) else {
                return Err(format!("job {job} holds lanes {lanes:?} but has booked nothing"));
            };
            let expected = match booking.demand {
                Demand::Devices { count, .. } => count,
                Demand::Cores(_) => 1,
            };
            let mut gpus: Vec<_> = lanes.iter().filter_map(|lane| self.machine.gpu_of(*lane)).collect();
            let there = gpus.len();
            gpus.dedup();
            if lanes.len() != expected as usize || gpus.len() != there {
                return Err(format!("job {job} holds lanes {lanes:?} on GPUs {gpus:?}; it needs {expected}"));
            }
        }
        self.check_bookings()?;
        self.lanes.check(&self.machine)
    }

    /// Nobody has booked less than its stage reserves, and a device is over its capacity only because somebody on it
    /// turned out to take more than expected.
    fn check_bookings(&self) -> Result<(), String> {
        for (at, device) in self.lanes.devices.iter() {
            let grown = |job: JobId| {
                self.peaks.contains_key(&job) || {
                    let slot = self.stage_slot(job);
                    slot.measured.is_some() || slot.guess.is_some()
                }
            };
            if device.used > device.capacity && !self.lanes.jobs_on(at).any(grown) {
                return Err(format!("device {at} is {device:?} though nobody on it has grown"));
            }
        }
        for (job, booking) in self.lanes.bookings() {
            let less = match (booking.demand, self.demand(job)) {
                // Who shares a GPU that others of its stage now take whole was started before that was known.
                (
                    Demand::Devices { need: Need::Share(_), .. },
                    Demand::Devices { need: Need::Whole(_), .. },
                ) => self.plan.stage_of(job).memory != Memory::Auto,
                (Demand::Devices { need, .. }, Demand::Devices { need: asked, .. }) => need < asked,
                (has, asked) => has != asked,
            };
            if less {
                return Err(format!("job {job} has {booking:?}, its stage takes {:?}", self.demand(job)));
            }
        }
        Ok(())
    }

    fn stage_slot(&self, job: JobId) -> &StageSlot {
        &self.stages[self.stage_of(job).index()]
    }

    /// What was found out about a job is forgotten when it ends.
    fn check_findings(&self) -> Result<(), String> {
        let lives =
            |job: &JobId| matches!(self.phase(*job), Phase::Running { .. } | Phase::Publishing { .. });
        match self.findings.keys().find(|job| !lives(job)) {
            Some(job) => Err(format!("job {job} is {:?} and still remembered", self.phase(*job))),
            None => Ok(()),
        }
    }

    /// Who stays first in the line stands in it.
    fn check_keepers(&self) -> Result<(), String> {
        for demand in [Demand::Devices { count: 1, need: Need::Share(1) }, Demand::Cores(1)] {
            if let Some(keeper) = self.line.keeper(demand) {
                let queue = self.stages[keeper.stage.index()].queue(keeper.kind);
                if !self.line.has(keeper, queue.rank, queue.demand) {
                    return Err(format!("{keeper:?} keeps what is free but does not stand in line"));
                }
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
        for kind in Kind::BOTH {
            let queue = slot.queue(kind);
            let of_kind = |job: &JobId| Kind::of(self.jobs[job.index()].alone) == kind;
            let is_ready = |job: &JobId| self.phase(*job) == Phase::Ready && of_kind(job);
            let mut queued: Vec<JobId> = queue.jobs.iter().copied().filter(is_ready).collect();
            queued.sort_unstable();
            let ready: Vec<JobId> = stage.job_ids().filter(is_ready).collect();
            if queued != ready {
                return Err(format!("stage {id} has {ready:?} ready but {queued:?} queued as {kind:?}"));
            }
            let stands = !ready.is_empty() && slot.below_limit(stage);
            if self.line.has(QueueId { stage: id, kind }, queue.rank, queue.demand) != stands {
                return Err(format!("the {kind:?} queue of stage {id} should stand in line: {stands}"));
            }
        }
        if slot.stopped != slot.reached_limit(stage) {
            return Err(format!("stage {id} has given up {} jobs; stopped: {}", slot.given_up, slot.stopped));
        }
        if slot.stopped && stage.job_ids().any(|job| self.phase(job).is_pending()) {
            return Err(format!("stage {id} was stopped but has jobs waiting"));
        }
        let goes_on =
            |after: &&StageId| self.stages[after.index()].unended > 0 || self.is_map_open_after_all(**after);
        let awaited = stage.after.iter().filter(goes_on).count();
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
            && let Some(next) = self.next_to_start()
        {
            return Err(format!("a job of {:?} fits but was not started", next.queue));
        }
        if self.is_stuck() {
            return Err("jobs are left that nothing will ever start".to_owned());
        }
        Ok(())
    }
}
