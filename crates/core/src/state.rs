//! The core's whole state, and the one step by which it moves. What a phase counts for is kept here, in one place.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use gpulane_model::{Bytes, Counts, Event, JobId, Machine, Millis, Plan, StageId};

use crate::gate::Gate;
use crate::job::{Ending, JobSlot, Phase};
use crate::lanes::Lanes;
use crate::leases::{Leases, Scarcity};
use crate::line::{Kind, Line, QueueId};
use crate::on_done::Findings;
use crate::on_exit::End;
use crate::stages::{Links, StageSlot};
use crate::{Effect, Input, Outcome, Timer};

/// A run's scheduler: what is known, and what follows from it.
#[derive(Clone, Debug)]
pub struct Core {
    pub(crate) plan: Arc<Plan>,
    pub(crate) machine: Machine,
    /// By job id.
    pub(crate) jobs: Vec<JobSlot>,
    /// By stage id.
    pub(crate) stages: Vec<StageSlot>,
    pub(crate) links: Links,
    pub(crate) lanes: Lanes,
    pub(crate) line: Line,
    pub(crate) gate: Gate,
    /// As the journal's fold counts: a job asked to start is pending, one being published is running.
    pub(crate) counts: Counts,
    /// Jobs about which the runtime owes an answer; an interrupted run is over when there are none.
    pub(crate) active: u32,
    /// Feeders of maps that have not ended; the run is not over while there are any.
    pub(crate) feeders: u32,
    /// Jobs between two tries; while there are any, a timer is set.
    pub(crate) delayed: u32,
    /// Devices that jobs which may start could be put on; what [`Effect::Want`] is made from.
    pub(crate) wanted: u64,
    /// Running jobs and those being published: the most GPU memory each was seen to hold, where it was seen.
    pub(crate) peaks: BTreeMap<JobId, Bytes>,
    /// Running jobs and those being published: what was found out about them, if anything was.
    pub(crate) findings: BTreeMap<JobId, Findings>,
    /// How long a job is taken to be whose stage nothing is known of, in seconds.
    pub(crate) typical_seconds: f64,
    /// `None`: every GPU is ours for good.
    pub(crate) leases: Option<Leases>,
    pub(crate) scarcity: Scarcity,
    pub(crate) hold: Hold,
    pub(crate) interrupt: Option<Interrupt>,
    pub(crate) life: Life,
    /// The newest step's time; `waiting` counts down from it.
    pub(crate) now: Millis,
    /// Jobs that have ended but whose end has not yet been passed on.
    pub(crate) news: VecDeque<JobId>,
    /// What this step asks for beside starts, which come first.
    pub(crate) later: Vec<Effect>,
}

/// Whether jobs may start, as far as the world outside is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// They may.
    Free,
    /// Nothing starts until the timer `RetryHeld` fires.
    Held { because: String },
    /// It fired: one job may start, to see whether it works again.
    Trial { because: String },
    /// That job was asked to start.
    Probing { because: String },
}

/// The run is to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt {
    /// For the journal.
    pub(crate) because: String,
    /// What is still running gets KILL.
    pub(crate) now: bool,
}

/// From the first input to the last effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// `Begin` has not come.
    New,
    /// Since then.
    Going { since: Millis },
    /// `Finish` was said; nothing happens any more.
    Over,
}

impl Core {
    /// Takes in what happened at `now` and adds what is to be done about it to `effects`: starts first, since a lane is
    /// idle until then, then everything else in order.
    pub fn step(&mut self, now: Millis, input: Input, effects: &mut Vec<Effect>) {
        if self.life == Life::Over {
            return;
        }
        self.now = now;
        self.let_grow_up();
        self.on_input(input);
        self.pass_on_news();
        if let Life::Going { since } = self.life {
            self.start_jobs(effects);
            if self.is_stuck() {
                self.skip_stuck();
                self.pass_on_news();
            }
            self.settle_leases();
            self.settle_gate();
            self.tell_scarcity();
            effects.append(&mut self.later);
            self.conclude(since, effects);
        } else {
            effects.append(&mut self.later);
        }
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Begin => self.on_begin(),
            Input::JobSpawned { job, attempt, pid, warm } => self.on_job_spawned(job, attempt, pid, warm),
            Input::SpawnFailed { job, attempt, message } => self.on_spawn_failed(job, attempt, message),
            Input::SpawnBlocked { job, attempt, because } => self.on_spawn_blocked(job, attempt, because),
            Input::JobExited { job, attempt, exit, left, who, ago, peak, trouble, stuck, fruitful } => {
                let end = End { exit, left, who, ago, peak, trouble, stuck, fruitful };
                self.on_job_exited(job, attempt, end);
            }
            Input::Stuck { job, attempt, quiet, verdict, stuck } => {
                self.on_stuck(job, attempt, quiet, verdict, stuck);
            }
            Input::Revived { job, attempt, quiet } => self.on_revived(job, attempt, quiet),
            Input::WorkDone { job, attempt, because, doing, frozen } => {
                self.on_work_done(job, attempt, because, doing, frozen);
            }
            Input::Pressure { idle } => self.on_pressure(idle),
            Input::JobPublished { job, attempt } => self.on_job_published(job, attempt),
            Input::PublishFailed { job, attempt, message, kept } => {
                self.on_publish_failed(job, attempt, message, kept);
            }
            Input::TimerFired { timer: Timer::Timeout { job, attempt } } => self.on_timeout(job, attempt),
            Input::TimerFired { timer: Timer::Retry { job } } => self.on_retry_due(job),
            Input::TimerFired { timer: Timer::RetryHeld } => self.on_retry_held(),
            Input::TimerFired { timer: Timer::Linger { job, attempt } } => self.on_linger_over(job, attempt),
            Input::TimerFired { timer: Timer::Gate } => self.on_gate_due(),
            Input::MapEnded { stage, result } => self.on_map_ended(stage, result),
            Input::WorkerUnneeded { job, attempt } => self.on_worker_unneeded(job, attempt),
            Input::WorkerUnfit { job, attempt, because, overdue } => {
                self.on_worker_unfit(job, attempt, because, overdue);
            }
            Input::StandbysFailed { stage, why } => self.on_standbys_failed(stage, why),
            Input::FeederGone { stage } => self.on_feeder_gone(stage),
            Input::CancelRequested { jobs } => self.on_cancel_requested(&jobs),
            Input::Interrupted { because, now } => self.on_interrupted(because, now),
            Input::PeakSeen { job, attempt, peak, settled } => {
                self.on_peak_seen(job, attempt, peak, settled);
            }
            Input::GpuGranted { gpu, usable } => self.on_gpu_granted(gpu, usable),
            Input::GiveWay => self.on_give_way(),
            Input::GpusAwaited { because } => self.on_gpus_awaited(because),
            Input::GpuHeld { gpu, pids, bytes, because } => self.on_gpu_held(gpu, pids, bytes, because),
            Input::GpuClear { gpu } => self.on_gpu_clear(gpu),
            Input::GpuLost { gpu, why } => self.on_gpu_lost(gpu, &why),
        }
    }

    fn on_begin(&mut self) {
        if self.life == Life::New {
            self.life = Life::Going { since: self.now };
        }
    }

    /// Says the last word if nothing can happen any more. A run that was interrupted when everything had ended, or was
    /// about to, is a finished one.
    fn conclude(&mut self, since: Millis, effects: &mut Vec<Effect>) {
        let (event, outcome) = if self.counts.ended() as usize == self.jobs.len() {
            let Counts { succeeded, failed, skipped, .. } = self.counts;
            let seconds = self.now.since(since).as_seconds();
            (Event::RunFinished { succeeded, failed, skipped, seconds, exit_code: None }, Outcome::Finished)
        } else if let Some(interrupt) = self.interrupt.as_ref().filter(|_| self.active == 0) {
            let because = interrupt.because.clone();
            (Event::RunInterrupted { because, exit_code: None }, Outcome::Interrupted)
        } else if self.is_out_of_gpus() {
            let because = self.out_of_gpus_because();
            (Event::RunInterrupted { because, exit_code: None }, Outcome::NoGpus)
        } else {
            return;
        };
        if self.feeders > 0 {
            self.end_feeders(false);
            effects.append(&mut self.later);
            return;
        }
        self.life = Life::Over;
        effects.extend([Effect::Record(event), Effect::Finish { outcome }]);
    }

    /// Whether `Finish` was said.
    pub fn is_finished(&self) -> bool {
        self.life == Life::Over
    }

    /// Whether nothing more will happen to the job.
    pub fn has_ended(&self, job: JobId) -> bool {
        let phase = self.slot(job).map(|slot| &slot.phase);
        matches!(phase, Some(Phase::Succeeded | Phase::Failed | Phase::Skipped))
    }

    /// Whether the job's process was left to end as it would: what its end tells is its own. Nobody asked for it, and its work was not done.
    pub fn ends_by_itself(&self, job: JobId) -> bool {
        let phase = self.slot(job).map(|slot| &slot.phase);
        matches!(phase, Some(Phase::Running { ending: Ending::No, .. })) && !self.is_done(job)
    }

    /// How many jobs stand where, as the fold of the events recorded so far would say.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn slot(&self, job: JobId) -> Option<&JobSlot> {
        self.jobs.get(job.index())
    }

    pub(crate) fn phase(&self, job: JobId) -> Phase {
        self.jobs[job.index()].phase
    }

    pub(crate) fn stage_of(&self, job: JobId) -> StageId {
        self.plan.job(job).stage
    }

    pub(crate) fn record(&mut self, event: Event) {
        self.later.push(Effect::Record(event));
    }

    /// Moves a job to a phase: every count that depends on phases is kept here and nowhere else.
    pub(crate) fn set_phase(&mut self, job: JobId, next: Phase) {
        let before = std::mem::replace(&mut self.jobs[job.index()].phase, next);
        let stage = self.stage_of(job);
        self.wanted -= self.stages[stage.index()].wanted(self.plan.stage(stage));
        self.tally(job, before, |count| *count -= 1);
        self.tally(job, next, |count| *count += 1);
        self.wanted += self.stages[stage.index()].wanted(self.plan.stage(stage));
        self.stand_in_line(stage);
        if next.is_ended() && !before.is_ended() {
            self.news.push_back(job);
        }
    }

    /// Puts the stage's queues into the line or takes them out, as they should be.
    pub(crate) fn stand_in_line(&mut self, stage: StageId) {
        let slot = &self.stages[stage.index()];
        let may = slot.below_limit(self.plan.stage(stage));
        for kind in Kind::BOTH {
            let (id, queue) = (QueueId { stage, kind }, slot.queue(kind));
            let stands = may && queue.ready > 0;
            if stands != self.line.has(id, queue.rank, queue.demand) {
                self.line.set(id, queue.rank, queue.demand, stands);
            }
        }
    }

    /// Applies `change` to every count a job in this phase adds to.
    pub(crate) fn tally(&mut self, job: JobId, phase: Phase, change: impl Fn(&mut u32)) {
        let kind = Kind::of(self.jobs[job.index()].alone);
        let stage = self.plan.job(job).stage;
        let slot = &mut self.stages[stage.index()];
        match phase {
            Phase::Waiting => {
                change(&mut self.counts.pending);
                change(&mut slot.pending);
            }
            Phase::Ready => {
                change(&mut self.counts.pending);
                change(&mut slot.pending);
                change(&mut slot.queue_mut(kind).ready);
            }
            Phase::Delayed { .. } => {
                change(&mut self.counts.pending);
                change(&mut slot.pending);
                change(&mut self.delayed);
            }
            Phase::Starting { .. } => {
                change(&mut self.counts.pending);
                change(&mut slot.busy);
                change(&mut self.active);
            }
            Phase::Running { .. } => {
                change(&mut self.counts.running);
                change(&mut slot.busy);
                change(&mut self.active);
            }
            Phase::Publishing { .. } => {
                change(&mut self.counts.running);
                change(&mut self.active);
            }
            Phase::Succeeded => change(&mut self.counts.succeeded),
            Phase::Failed => {
                change(&mut self.counts.failed);
                change(&mut slot.failed);
            }
            Phase::Skipped => {
                change(&mut self.counts.skipped);
                change(&mut slot.skipped);
            }
        }
    }
}
