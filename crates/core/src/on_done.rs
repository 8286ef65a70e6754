//! A job whose work is done. It may take the stage's grace to exit; one that does not is ended and has succeeded, and so has one
//! that a signal ends on its way out.

use gpulane_model::{Attempt, Event, JobId, ProcessExit, Stuck};

use crate::job::Ending;
use crate::state::Core;
use crate::{Effect, Manner, Timer};

/// What a job does that is done and stays.
pub(crate) const STAYED: &str = "did not exit";

/// What was found out about a running job, by which its exit is judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// What it was frozen in when that was found.
    pub(crate) frozen: Option<Stuck>,
    /// Why a fresh worker takes its place.
    pub(crate) unfit: Option<String>,
    /// How it is known that its work is done.
    pub(crate) done: Option<String>,
    /// What it does instead of exiting, where that is known.
    doing: Option<String>,
    /// Its exit was not what it should have been, yet it counts as succeeded; why, for a person.
    lingered: Option<String>,
}

impl Core {
    pub(crate) fn on_work_done(
        &mut self,
        job: JobId,
        attempt: Attempt,
        because: String,
        doing: Option<String>,
        frozen: bool,
    ) {
        if !self.runs_freely(job, attempt) {
            return;
        }
        let known = self.is_done(job);
        let findings = self.findings.entry(job).or_default();
        findings.done.get_or_insert(because);
        findings.doing = doing.or(findings.doing.take());
        if frozen {
            self.end_lingering(job, STAYED, Manner::Gently);
        } else if !known {
            let at = self.now.after(self.plan.stage_of(job).grace);
            self.later.push(Effect::SetTimer { timer: Timer::Linger { job, attempt }, at });
        }
    }

    pub(crate) fn on_linger_over(&mut self, job: JobId, attempt: Attempt) {
        if self.runs_freely(job, attempt) && self.is_done(job) {
            self.end_lingering(job, STAYED, Manner::Gently);
        }
    }

    /// Whether the running job's work is known to be done.
    pub(crate) fn is_done(&self, job: JobId) -> bool {
        self.findings.get(&job).is_some_and(|findings| findings.done.is_some())
    }

    /// Ends a job whose work is done; what it did instead of exiting.
    pub(crate) fn end_lingering(&mut self, job: JobId, instead: &str, manner: Manner) {
        self.note_lingered(job, instead);
        self.end_as(job, Ending::Lingering, manner);
    }

    fn note_lingered(&mut self, job: JobId, how: &str) {
        let Some(findings) = self.findings.get_mut(&job) else { return };
        let because = findings.done.as_deref().unwrap_or("finished its work");
        let doing = findings.doing.take().filter(|_| how == STAYED).map(|doing| format!(": {doing}"));
        findings.lingered = Some(format!("{because}, then {how}{}", doing.unwrap_or_default()));
    }

    /// Whether a job that ended in this way, with its work done, has succeeded. One that reports an error itself has not.
    pub(crate) fn succeeded_at_last(&mut self, job: JobId, ending: Ending, exit: ProcessExit) -> bool {
        match (ending, exit) {
            (Ending::Lingering, _) => true,
            (Ending::Timeout | Ending::Hang | Ending::Cancelled, _) | (_, ProcessExit::Code(_)) => false,
            (_, ProcessExit::Signal(_)) if self.is_done(job) => {
                self.note_lingered(job, &format!("died of {exit} at its exit"));
                true
            }
            _ => false,
        }
    }

    /// Says that the job, which succeeds now, did not exit as it should have.
    pub(crate) fn tell_lingered(&mut self, job: JobId, attempt: Attempt) {
        if let Some(because) = self.findings.remove(&job).and_then(|findings| findings.lingered) {
            let job = self.plan.job_name(job);
            self.record(Event::JobLingered { job, attempt, because });
        }
    }
}
