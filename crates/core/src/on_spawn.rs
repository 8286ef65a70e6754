//! Answers to a request to start: it runs, it cannot run, or nothing can be started just now.

use gpulane_model::{Attempt, Event, FailReason, Failure, JobId, LaneId, MAP_COMPLETE, Millis};

use crate::job::{Ending, Phase};
use crate::state::{Core, Hold};
use crate::{Effect, Manner, Timer};

/// How long starts are held before one is tried again.
const HOLD: Millis = Millis::seconds(2);

impl Core {
    pub(crate) fn on_job_spawned(&mut self, job: JobId, attempt: Attempt, pid: u32, warm: bool) {
        let Some((lane, ending)) = self.starting(job, attempt) else { return };
        self.set_phase(job, Phase::Running { lane, ending, since: self.now });
        let name = self.plan.job_name(job);
        let gpus = self.uuids(lane);
        self.record(Event::JobStarted { job: name, attempt, lane, gpus, pid, warm });
        if matches!(self.hold, Hold::Trial { .. } | Hold::Probing { .. }) {
            self.hold = Hold::Free;
            self.record(Event::StartsReleased {});
        }
        if ending == Ending::No && self.is_map_complete(job) {
            self.on_work_done(job, attempt, MAP_COMPLETE.to_owned(), None, false);
        } else if ending != Ending::No {
            // Wanted gone while it was being started.
            let now = matches!(ending, Ending::Lost | Ending::MadeRoom)
                || self.interrupt.as_ref().is_some_and(|interrupt| interrupt.now);
            let manner = if now { Manner::Now } else { Manner::Gently };
            self.later.push(Effect::Terminate { job, attempt, manner });
        } else if let Some(timeout) = self.plan.stage_of(job).timeout {
            let timer = Timer::Timeout { job, attempt };
            self.later.push(Effect::SetTimer { timer, at: self.now.after(timeout) });
        }
    }

    pub(crate) fn on_spawn_failed(&mut self, job: JobId, attempt: Attempt, message: String) {
        if self.starting(job, attempt).is_none() {
            return;
        }
        self.release(job);
        if !self.leave_map(job) {
            self.jobs[job.index()].failures += 1;
            self.fail(
                job,
                attempt,
                Failure { message: Some(message), ..Failure::because(FailReason::Start) },
            );
        }
        if let Hold::Probing { because } = &mut self.hold {
            // It says nothing about whether others can start.
            self.hold = Hold::Trial { because: std::mem::take(because) };
        }
    }

    pub(crate) fn on_spawn_blocked(&mut self, job: JobId, attempt: Attempt, because: String) {
        let Some((_, ending)) = self.starting(job, attempt) else { return };
        self.release(job);
        self.jobs[job.index()].attempts -= 1;
        if ending == Ending::Cancelled {
            self.fail(job, Attempt(0), Failure::because(FailReason::Cancelled));
        } else {
            self.put_back(job);
        }
        self.hold_starts(because);
    }

    fn hold_starts(&mut self, because: String) {
        let before = match &mut self.hold {
            // Others were asked to start at the same time; the timer is set.
            Hold::Held { .. } => return,
            Hold::Free => {
                self.supersede_scarcity();
                self.gate.supersede();
                None
            }
            Hold::Trial { because } | Hold::Probing { because } => Some(std::mem::take(because)),
        };
        // Views show the reason that was recorded last.
        if before.as_ref() != Some(&because) {
            self.record(Event::StartsHeld { because: because.clone() });
        }
        self.hold = Hold::Held { because };
        self.later.push(Effect::SetTimer { timer: Timer::RetryHeld, at: self.now.after(HOLD) });
    }

    pub(crate) fn on_retry_held(&mut self) {
        if let Hold::Held { because } = &mut self.hold {
            self.hold = Hold::Trial { because: std::mem::take(because) };
        }
    }

    /// The job's lane if this very try is being started.
    fn starting(&self, job: JobId, attempt: Attempt) -> Option<(LaneId, Ending)> {
        match self.slot(job).filter(|slot| slot.is_at(attempt))?.phase {
            Phase::Starting { lane, ending } => Some((lane, ending)),
            _ => None,
        }
    }

    fn uuids(&self, lane: LaneId) -> Vec<String> {
        self.lanes.chain(lane).filter_map(|lane| Some(self.uuid(self.machine.gpu_of(lane)?))).collect()
    }
}
