//! A running job that shows no life: suspected, found frozen, or suspected for longer than its stage allows. Here it is told, and
//! ended if its stage says so; what its exit then means is decided in `on_exit`.

use gpulane_model::{Attempt, Event, FailReason, Failure, Hang, HangAction, JobId, Millis, Stuck};

use crate::job::{Ending, Phase};
use crate::on_done::{Findings, STAYED};
use crate::state::Core;
use crate::{Effect, Manner, Verdict};

impl Core {
    pub(crate) fn on_stuck(
        &mut self,
        job: JobId,
        attempt: Attempt,
        quiet: Millis,
        verdict: Verdict,
        mut stuck: Stuck,
    ) {
        if !self.runs_freely(job, attempt) {
            return;
        }
        self.record(Event::HangSuspected {
            job: self.plan.job_name(job),
            attempt,
            quiet: quiet.as_seconds(),
            frozen: verdict == Verdict::Frozen,
            overdue: verdict == Verdict::Overdue,
            stuck: stuck.clone(),
        });
        match verdict {
            Verdict::Told => return,
            Verdict::Overdue => stuck.evidence = self.overdue(job, &stuck),
            Verdict::Frozen => {}
        }
        if self.is_done(job) {
            return self.end_lingering(job, &format!("{STAYED}: {}", stuck.evidence), Manner::Gently);
        }
        if self.hang_action(job) == HangAction::Warn {
            return;
        }
        self.findings.entry(job).or_default().frozen = Some(stuck);
        self.end_as(job, Ending::Hang, Manner::Frozen);
    }

    /// What was said of the job is over.
    pub(crate) fn on_revived(&mut self, job: JobId, attempt: Attempt, quiet: Millis) {
        if self.runs_freely(job, attempt) {
            let (job, quiet) = (self.plan.job_name(job), quiet.as_seconds());
            self.record(Event::JobRevived { job, attempt, quiet });
        }
    }

    /// What is said of a job that is ended without a proof that it cannot go on.
    fn overdue(&self, job: JobId, stuck: &Stuck) -> String {
        let outside = self.plan.stage_of(job).hang.and_then(|hang| hang.outside);
        let limit = outside.map_or_else(String::new, |outside| format!(" of {outside}"));
        format!("waited for longer than its limit `hang.outside`{limit}: {}", stuck.evidence)
    }

    /// The job was ended because it was frozen, or waited for too long. Another try may do better: there is one even where failures have none.
    pub(crate) fn on_hang_ended(
        &mut self,
        job: JobId,
        attempt: Attempt,
        findings: Findings,
        mut failure: Failure,
    ) {
        let Stuck { evidence, proof, cause, remedy, .. } = findings.frozen.unwrap_or_default();
        // Where no known cause fits, the proof says best why it froze.
        let cause = cause.or(proof);
        failure = Failure { reason: FailReason::Hang, message: Some(evidence), cause, remedy, ..failure };
        if self.hang_action(job) == HangAction::Fail {
            self.jobs[job.index()].failures += 1;
            return self.fail(job, attempt, failure);
        }
        let tries = self.plan.stage_of(job).retries.max(1);
        self.on_attempt_failed_of(job, attempt, failure, tries);
    }

    fn hang_action(&self, job: JobId) -> HangAction {
        // A verdict where the watchdog is off can only be a late one.
        self.plan.stage_of(job).hang.map_or(HangAction::Warn, |hang: Hang| hang.action)
    }

    /// Whether this very try runs and nobody ends it.
    pub(crate) fn runs_freely(&self, job: JobId, attempt: Attempt) -> bool {
        let slot = self.slot(job).filter(|slot| slot.is_at(attempt));
        slot.is_some_and(|slot| matches!(slot.phase, Phase::Running { ending: Ending::No, .. }))
    }

    /// Ends a job that runs, for this reason.
    pub(crate) fn end_as(&mut self, job: JobId, why: Ending, manner: Manner) {
        if let Phase::Running { lane, since, .. } = self.phase(job) {
            self.set_phase(job, Phase::Running { lane, ending: why, since });
            let attempt = Attempt(self.jobs[job.index()].attempts);
            self.later.push(Effect::Terminate { job, attempt, manner });
        }
    }
}
