//! The end of an attempt: success and its publication, failure and the next try.

use gpulane_model::{Attempt, Bytes, Event, FailReason, Failure, JobId, Millis, ProcessExit};

use crate::job::{Ending, Phase};
use crate::starts::Place;
use crate::state::Core;
use crate::{Effect, Remains, Timer, Trouble};

/// What is said of a worker that exits well while its map goes on.
const LEFT_EARLY: &str = "ended by itself before the map was done";

/// How a process tree ended.
pub(crate) struct End {
    pub(crate) exit: ProcessExit,
    pub(crate) left: u32,
    pub(crate) who: Vec<String>,
    pub(crate) ago: Millis,
    pub(crate) peak: Option<Bytes>,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) stuck: Option<Remains>,
    pub(crate) fruitful: bool,
}

impl Core {
    pub(crate) fn on_job_exited(&mut self, job: JobId, attempt: Attempt, end: End) {
        let Some(slot) = self.slot(job).filter(|slot| slot.is_at(attempt)) else { return };
        let Phase::Running { ending, since, .. } = slot.phase else { return };
        let End { exit, left, who, ago, peak, trouble, stuck, fruitful } = end;
        let peak = self.note_peak(job, peak);
        let footing = self.footing(job);
        if let Some(peak) = peak.filter(|_| !self.is_guessed(job)) {
            self.check_reserved(job, peak);
        }
        let lost = self.lost_under(job);
        let stranded = stuck.as_ref().filter(|remains| self.on_remains(job, remains));
        self.release(job);
        if left > 0 {
            let job = self.plan.job_name(job);
            self.record(Event::ProcessesLeft { job, count: left, who });
        }
        let took = self.now.since(since.after(ago));
        self.note_fruit(job, fruitful);
        let counts = !matches!(
            ending,
            Ending::Timeout | Ending::Hang | Ending::Cancelled | Ending::Stopped | Ending::Replaced
        );
        let begun = !matches!(trouble, Some(Trouble::NeverBegun(_)));
        if (exit.success() && counts && begun && !self.is_worker(job))
            || self.is_map_complete(job)
            || self.succeeded_at_last(job, ending, exit)
        {
            return self.publish(job, attempt, took, peak);
        }
        self.peaks.remove(&job);
        let findings = self.findings.remove(&job).unwrap_or_default();
        let failure = Failure {
            peak_vram: peak.map(|peak| peak.0),
            message: exit.success().then(|| LEFT_EARLY.to_owned()).filter(|_| self.is_worker(job)),
            ..Failure::from_exit(exit, took.as_seconds())
        };
        if ending != Ending::Cancelled && self.is_map_stopped(job) {
            return self.on_stopped(job, attempt, failure);
        }
        match ending {
            // A lingering one has succeeded above, however it ended.
            Ending::No | Ending::Lingering => self.on_job_failed(job, attempt, failure, trouble, &footing),
            // Once: otherwise one job that nothing ends could take every GPU.
            Ending::Hang | Ending::Timeout
                if stranded.is_some() && !std::mem::replace(&mut self.jobs[job.index()].moved, true) =>
            {
                self.done_elsewhere(job, attempt, "its processes outlived SIGKILL and hold its GPU", failure);
            }
            Ending::Hang => self.on_hang_ended(job, attempt, findings, failure),
            Ending::Timeout => self.on_timed_out(job, attempt, took, failure),
            Ending::Cancelled => {
                self.jobs[job.index()].failures += 1;
                self.fail(job, attempt, Failure { reason: FailReason::Cancelled, ..failure });
            }
            // Its map has stopped, which was seen above.
            Ending::Stopped | Ending::Interrupted => {
                self.do_again(job, attempt, Failure { reason: FailReason::Interrupted, ..failure });
            }
            Ending::Replaced => {
                self.on_replaced(job, attempt, findings.unfit.unwrap_or_default(), failure);
            }
            Ending::MadeRoom => {
                let why = "made room: others of its stage take more GPU memory than was guessed at its start";
                self.done_elsewhere(job, attempt, why, failure);
            }
            Ending::Lost => {
                let why = lost.unwrap_or_else(|| "restarted after an MPS fault".to_owned());
                self.done_elsewhere(job, attempt, &why, failure);
            }
        }
    }

    fn publish(&mut self, job: JobId, attempt: Attempt, took: Millis, peak: Option<Bytes>) {
        if let Some(peak) = peak {
            self.learn(job, peak);
            self.stages[self.plan.job(job).stage.index()].confirmed = true;
        }
        self.set_phase(job, Phase::Publishing { took, cancelled: false });
        self.later.push(Effect::Publish { job, attempt });
    }

    fn on_timed_out(&mut self, job: JobId, attempt: Attempt, took: Millis, mut failure: Failure) {
        let limit = self.plan.stage_of(job).timeout.unwrap_or(took);
        failure.reason = FailReason::Timeout;
        failure.message = Some(format!("took longer than {limit}"));
        self.on_attempt_failed(job, attempt, failure);
    }

    /// Where it was it could not go on, through no fault of its own.
    pub(crate) fn done_elsewhere(&mut self, job: JobId, attempt: Attempt, why: &str, mut failure: Failure) {
        (failure.reason, failure.message) = (FailReason::Lost, Some(why.to_owned()));
        self.do_again(job, attempt, failure);
    }

    /// The try is recorded but does not count; the job has its turn again.
    pub(crate) fn do_again(&mut self, job: JobId, attempt: Attempt, failure: Failure) {
        let name = self.plan.job_name(job);
        self.record(Event::JobFailed { job: name, attempt, failure });
        self.put_back(job);
    }

    pub(crate) fn on_job_published(&mut self, job: JobId, attempt: Attempt) {
        let Some((took, _)) = self.publishing(job, attempt) else { return };
        self.set_phase(job, Phase::Succeeded);
        self.tell_lingered(job, attempt);
        let peak_vram = self.peaks.remove(&job).map(|peak| peak.0);
        let job = self.plan.job_name(job);
        self.record(Event::JobSucceeded { job, attempt, seconds: took.as_seconds(), peak_vram });
    }

    pub(crate) fn on_publish_failed(&mut self, job: JobId, attempt: Attempt, message: String, kept: bool) {
        let Some((took, cancelled)) = self.publishing(job, attempt) else { return };
        self.findings.remove(&job);
        let failure = Failure {
            message: Some(message),
            seconds: took.as_seconds(),
            peak_vram: self.peaks.remove(&job).map(|peak| peak.0),
            kept,
            ..Failure::because(FailReason::Publish)
        };
        // Computing again what is there would cost more than a `resume` that publishes it.
        if cancelled || kept {
            self.jobs[job.index()].failures += 1;
            self.fail(job, attempt, failure);
        } else {
            self.on_attempt_failed(job, attempt, failure);
        }
    }

    fn publishing(&self, job: JobId, attempt: Attempt) -> Option<(Millis, bool)> {
        match self.slot(job).filter(|slot| slot.is_at(attempt))?.phase {
            Phase::Publishing { took, cancelled } => Some((took, cancelled)),
            _ => None,
        }
    }

    /// The job failed by its own doing: it gets another try if one is left and its stage goes on.
    pub(crate) fn on_attempt_failed(&mut self, job: JobId, attempt: Attempt, failure: Failure) {
        self.on_attempt_failed_of(job, attempt, failure, self.plan.stage_of(job).retries);
    }

    /// The same where it is tried again at most so often.
    pub(crate) fn on_attempt_failed_of(
        &mut self,
        job: JobId,
        attempt: Attempt,
        failure: Failure,
        retries: u32,
    ) {
        let slot = &mut self.jobs[job.index()];
        slot.failures += 1;
        let failures = slot.failures;
        let delay = self.pause_before_retry(job);
        if failures > retries || self.stages[self.stage_of(job).index()].stopped {
            return self.fail(job, attempt, failure);
        }
        let name = self.plan.job_name(job);
        let because = failure.describe();
        self.record(Event::JobFailed { job: name.clone(), attempt, failure });
        let next = attempt.next();
        self.tell_restart(job, next, because);
        self.record(Event::JobRetrying { job: name, attempt: next, delay: delay.as_seconds() });
        if delay == Millis(0) {
            return self.enqueue(job, Place::Back);
        }
        let until = self.now.after(delay);
        self.set_phase(job, Phase::Delayed { until });
        self.later.push(Effect::SetTimer { timer: Timer::Retry { job }, at: until });
    }

    pub(crate) fn on_retry_due(&mut self, job: JobId) {
        if self.slot(job).is_some_and(|slot| matches!(slot.phase, Phase::Delayed { .. })) {
            self.enqueue(job, Place::Back);
        }
    }
}
