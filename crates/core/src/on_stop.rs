//! Ending what runs: its time is up, a person cancelled it, the run was interrupted. Here a process is only marked and asked to
//! end; what its exit then means is decided in `on_exit`.

use gpulane_model::{Attempt, FailReason, Failure, JobId};

use crate::Manner;
use crate::job::{Ending, Phase};
use crate::on_done::STAYED;
use crate::state::{Core, Interrupt};

impl Core {
    pub(crate) fn on_timeout(&mut self, job: JobId, attempt: Attempt) {
        if !self.runs_freely(job, attempt) {
            return;
        }
        if self.is_done(job) {
            return self.end_lingering(job, STAYED, Manner::Gently);
        }
        self.end_as(job, Ending::Timeout, Manner::Gently);
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
        match slot.phase {
            Phase::Waiting | Phase::Ready | Phase::Delayed { .. } => {
                self.fail(job, Attempt(0), Failure::because(FailReason::Cancelled));
            }
            Phase::Starting { lane, .. } => {
                self.set_phase(job, Phase::Starting { lane, ending: Ending::Cancelled });
            }
            Phase::Running { ending: Ending::No, .. } => self.end_as(job, Ending::Cancelled, Manner::Gently),
            Phase::Running { lane, since, .. } => {
                // Already being ended for another reason: that stays under way, but there will be no further try.
                self.set_phase(job, Phase::Running { lane, ending: Ending::Cancelled, since });
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
        let now = self.interrupt.as_ref().is_some_and(|interrupt| interrupt.now);
        self.end_feeders(now);
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
            Phase::Running { ending, .. } => {
                let manner = if insists { Manner::Now } else { Manner::Gently };
                match ending {
                    Ending::No if self.is_done(job) => {
                        self.end_lingering(job, "was still there when the run was interrupted", manner);
                    }
                    Ending::No => self.end_as(job, Ending::Interrupted, manner),
                    // What is done again elsewhere was killed already.
                    Ending::Lost => {}
                    _ if insists => self.end_as(job, ending, manner),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}
