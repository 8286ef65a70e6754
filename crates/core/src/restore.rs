//! A core from a plan, a machine and what the journal tells. What follows at once from the past (skips, stopped stages) is
//! worked out here and told by the first step.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpulane_model::{
    Bytes, Counts, FailReason, GpuIndex, GpuKind, JobId, JobState, JobStatus, LaneId, Machine, Measured,
    Millis, Plan, RunState, Stage, StageId,
};

use crate::Core;
use crate::demand::{Demand, Need};
use crate::devices::Status;
use crate::gate::Gate;
use crate::job::{Ending, JobSlot, Phase};
use crate::lanes::Lanes;
use crate::leases::{Leases, Scarcity};
use crate::line::{Kind, Line, QueueId};
use crate::stages::{Links, StageSlot};
use crate::state::{Hold, Interrupt, Life};

impl Core {
    /// A core that goes on from `past`. Jobs that ran there are taken as waiting: whoever calls this has made sure that they
    /// no longer run, and recorded them as lost.
    pub fn new(plan: Arc<Plan>, machine: Machine, past: &RunState) -> Self {
        let mut core = Self::bare(plan, machine, past);
        core.settle();
        core
    }

    /// With leases: no GPU is ours at first. They are asked for by [`Effect::Want`](crate::Effect::Want) and given back by
    /// [`Effect::Release`](crate::Effect::Release). To be said before `Begin`.
    #[must_use]
    pub fn with_leases(mut self) -> Self {
        if self.machine.kind != GpuKind::None {
            self.lanes.devices.send_away();
            self.leases = Some(Leases::default());
        }
        self
    }

    /// The same with every GPU ours, to see how it would go.
    pub(crate) fn for_trial(&self) -> Self {
        Self { leases: None, lanes: Lanes::new(&self.machine), later: Vec::new(), ..self.clone() }
            .without_gate()
    }

    /// A core that only looks: like [`Core::new`], but what ran keeps running on its lanes, and what held or interrupted the
    /// run still does, so that [`Core::waiting`] tells why, as of the newest event. Not to be stepped.
    pub fn observe(plan: Arc<Plan>, machine: Machine, past: &RunState) -> Self {
        Self::observe_at(plan, machine, past, past.last.unwrap_or_default())
    }

    /// [`Core::observe`] as of `now`, Unix time: pauses before another try are counted down from there.
    pub fn observe_at(plan: Arc<Plan>, machine: Machine, past: &RunState, now: Millis) -> Self {
        let mut core = Self::bare(plan, machine, past);
        core.now = now;
        for (slot, job) in core.jobs.iter_mut().zip(&past.jobs) {
            match (&job.status, job.retry_at()) {
                (JobStatus::Running { lane, since, .. }, _) => {
                    slot.phase = Phase::Running { lane: *lane, ending: Ending::No, since: *since };
                }
                (JobStatus::Pending, Some(until)) if until > now => slot.phase = Phase::Delayed { until },
                _ => {}
            }
        }
        core.settle();
        core.retake_lanes();
        core.take_out_of_use(past);
        core.infer_keepers();
        core.recall_youth();
        core.later.clear();
        if let Some(because) = &past.held {
            core.hold = Hold::Held { because: because.clone() };
        }
        core.interrupt = past.interrupted.clone().map(|because| Interrupt { because, now: false });
        core
    }

    /// Everything in its place, nothing counted and nothing passed on yet.
    fn bare(plan: Arc<Plan>, machine: Machine, past: &RunState) -> Self {
        let lanes = Lanes::new(&machine);
        // What was measured on larger GPUs than these may be more than they have.
        let measured = |(at, stage): (usize, &Stage)| {
            let most = Bytes(lanes.devices.largest(stage.gpus.max(1)));
            let measured = past.measured.get(at).copied().flatten();
            let measured = measured.map(|it| Measured { reserve: it.reserve.min(most), ..it });
            let mut slot = StageSlot::new(stage, &machine, measured);
            if let (Some(map), Some(past)) = (&mut slot.map, past.maps.get(at).and_then(Option::as_ref)) {
                map.restore(past);
            }
            slot
        };
        let mut stages: Vec<StageSlot> = plan.stages.iter().enumerate().map(measured).collect();
        let mut restore = |job: JobId| {
            let Some(state) = past.jobs.get(job.index()) else {
                return JobSlot {
                    phase: Phase::Waiting,
                    attempts: 0,
                    failures: 0,
                    alone: false,
                    disk_full: 0,
                    fruitful: false,
                    moved: false,
                };
            };
            let cancelled = |state: &JobState| matches!(&state.status, JobStatus::Failed(how) if how.reason == FailReason::Cancelled);
            let phase = match state.status {
                JobStatus::Pending | JobStatus::Running { .. } => Phase::Waiting,
                JobStatus::Succeeded { .. } => Phase::Succeeded,
                JobStatus::Failed(_) => Phase::Failed,
                JobStatus::Skipped(_) => Phase::Skipped,
            };
            if phase == Phase::Failed && !cancelled(state) {
                stages[plan.job(job).stage.index()].given_up += 1;
            }
            JobSlot {
                phase,
                attempts: state.attempts,
                failures: state.failures,
                alone: state.alone,
                disk_full: state.disk_full,
                fruitful: false,
                moved: false,
            }
        };
        let jobs = plan.job_ids().map(&mut restore).collect();
        let mut core = Self {
            links: Links::new(&plan),
            lanes,
            line: Line::new(&plan),
            gate: Gate::new(&machine),
            plan,
            machine,
            jobs,
            stages,
            counts: Counts::default(),
            active: 0,
            feeders: 0,
            delayed: 0,
            wanted: 0,
            peaks: BTreeMap::new(),
            findings: BTreeMap::new(),
            typical_seconds: 1.0,
            leases: None,
            scarcity: Scarcity::default(),
            hold: Hold::Free,
            interrupt: None,
            life: Life::New,
            now: Millis(0),
            news: VecDeque::new(),
            later: Vec::new(),
        };
        core.rank_all();
        core
    }

    /// Counts what is there and draws every conclusion from it.
    fn settle(&mut self) {
        for job in self.plan.job_ids() {
            let phase = self.phase(job);
            self.tally(job, phase, |count| *count += 1);
            if phase.is_ended() {
                self.news.push_back(job);
            }
        }
        let stages = || (0..self.plan.stages.len()).map(StageId::at);
        let (all, empty): (Vec<_>, Vec<_>) =
            (stages().collect(), stages().filter(|stage| self.plan.stage(*stage).jobs.is_empty()).collect());
        // Stopped stages and maps that are over first: what of them is left must not become ready.
        for stage in &all {
            self.stop_if_too_many(*stage);
            self.retire_pending(*stage);
        }
        for stage in &all {
            if self.stages[stage.index()].awaited == 0 {
                self.open_stage(*stage);
            }
        }
        for stage in empty {
            self.on_stage_ended(stage);
        }
        self.pass_on_news();
    }

    /// GPUs the journal says are not to be used.
    fn take_out_of_use(&mut self, past: &RunState) {
        let held = past.vram_held.iter().map(|(uuid, why)| (uuid, Status::Held(why.clone())));
        let lost = past.quarantined.iter().map(|(uuid, why)| (uuid, Status::Lost(why.clone())));
        for (uuid, status) in held.chain(lost) {
            if let Some(at) = self.machine.gpus.iter().position(|gpu| gpu.uuid == *uuid) {
                self.lanes.devices.set_status(GpuIndex::at(at).0, status);
            }
        }
    }

    /// The journal does not say who keeps free lanes or cores, but a live engine starts what fits: if something fits and
    /// waits, it waits for a job that does not.
    fn infer_keepers(&mut self) {
        let queues = (0..self.stages.len()).map(StageId::at);
        let queues = queues.flat_map(|stage| Kind::BOTH.map(|kind| QueueId { stage, kind }));
        let waits = |id: &QueueId| {
            let queue = self.stages[id.stage.index()].queue(id.kind);
            self.line.has(*id, queue.rank, queue.demand) && !self.lanes.fits(queue.demand, None)
        };
        let misfits: Vec<QueueId> = queues.filter(waits).collect();
        for id in misfits {
            let demand = self.demand_of(id);
            let keeps = match demand {
                Demand::Devices { count, need } => demand.is_hard_to_gather() && self.would_keep(count, need),
                Demand::Cores(_) => self.lanes.cores() > 0,
            };
            if keeps && self.line.keeper(demand).is_none() {
                self.line.keep(id, demand);
            }
        }
    }

    /// Whether a job that takes this keeps something, and all that is left beside it is used.
    fn would_keep(&self, count: u32, need: Need) -> bool {
        let devices = &self.lanes.devices;
        let kept = self.lanes.keep(count, need);
        let beside = self.line.first_for_devices(|count, need| devices.fits(count, need, Some(&kept)));
        devices.keeps_anything(&kept) && beside.is_none()
    }

    /// Books the lanes of jobs that are running. The journal names only the first and lowest lane of each, so these come
    /// first; a gang's others are taken from what is free above, the gang with the least above it before the others.
    fn retake_lanes(&mut self) {
        let mut running: Vec<(LaneId, JobId)> =
            self.plan.job_ids().filter_map(|job| Some((self.phase(job).lane()?, job))).collect();
        running.retain(|(lane, job)| {
            let demand = self.demand(*job);
            self.lanes.retake(*job, *lane, demand)
        });
        running.sort_unstable();
        for (lane, job) in running.into_iter().rev() {
            self.lanes.retake_others(job, lane, self.demand(job));
        }
    }
}
