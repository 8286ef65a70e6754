//! Ending what runs: its time is up, a person cancelled it, the run was interrupted. Here a process is only marked and asked to
//! end; what its exit then means is decided in `on_exit`.

use gpulane_model::{Attempt, FailReason, Failure, JobId};

use crate::Effect;
use crate::job::{Ending, Phase};
use crate::state::{Core, Interrupt};

impl Core {
    pub(crate) fn on_timeout(&mut self, job: JobId, attempt: Attempt) {
        let Some(slot) = self.slot(job).filter(|slot| slot.is_at(attempt)) else { return };
        if let Phase::Running { lane, ending: Ending::No, since } = slot.phase {
            self.set_phase(job, Phase::Running { lane, ending: Ending::Timeout, since });
            self.later.push(Effect::Terminate { job, attempt, now: false });
        }
    }

    pub(crate) fn on_cancel_requested(&mut self, jobs: &[JobId]) {
        if jobs.is_empty() {
            for job in self.plan.job_ids() {
                self.cancel(job);
            }
        }
        for job in jobs {
            self.cancel(*job);
        }
    }

    fn cancel(&mut self, job: JobId) {
        let Some(slot) = self.slot(job) else { return };
        let attempt = Attempt(slot.attempts);
        match slot.phase {
            Phase::Waiting | Phase::Ready | Phase::Delayed { .. } => {
                self.fail(job, Attempt(0), Failure::because(FailReason::Cancelled));
            }
            Phase::Starting { lane, .. } => {
                self.set_phase(job, Phase::Starting { lane, ending: Ending::Cancelled });
            }
            Phase::Running { lane, ending, since } => {
                // Already being ended for another reason: that stays under way, but there will be no further try.
                self.set_phase(job, Phase::Running { lane, ending: Ending::Cancelled, since });
                if ending == Ending::No {
                    self.later.push(Effect::Terminate { job, attempt, now: false });
                }
            }
            Phase::Publishing { took, .. } => {
                self.set_phase(job, Phase::Publishing { took, cancelled: true });
            }
            Phase::Succeeded | Phase::Failed | Phase::Skipped => {}
        }
    }

    pub(crate) fn on_interrupted(&mut self, because: String, now: bool) {
        let insists = now && self.interrupt.as_ref().is_none_or(|before| !before.now);
        match &mut self.interrupt {
            Some(interrupt) => interrupt.now |= now,
            None => self.interrupt = Some(Interrupt { because, now }),
        }
        // Only those that hold lanes run.
        let running: Vec<JobId> = self.lanes.bookings().map(|(job, _)| job).collect();
        for job in running {
            self.interrupt_job(job, insists);
        }
    }

    /// `insists`: KILL, also if it was already asked to end.
    fn interrupt_job(&mut self, job: JobId, insists: bool) {
        match self.phase(job) {
            Phase::Starting { lane, ending: Ending::No | Ending::MadeRoom } => {
                self.set_phase(job, Phase::Starting { lane, ending: Ending::Interrupted });
            }
            Phase::Running { lane, ending, since } => {
                if ending == Ending::No {
                    self.set_phase(job, Phase::Running { lane, ending: Ending::Interrupted, since });
                }
                // What is done again elsewhere was killed already.
                if ending == Ending::No || (insists && ending != Ending::Lost) {
                    let attempt = Attempt(self.jobs[job.index()].attempts);
                    self.later.push(Effect::Terminate { job, attempt, now: insists });
                }
            }
            _ => {}
        }
    }
}
