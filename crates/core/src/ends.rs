//! What the end of a job means to others: followers and dependent stages that may now start, or never will. Worked off as a
//! list of news, not by recursion, so that a chain of thousands of stages is as safe as one of two.

use gpulane_model::{Attempt, Event, FailReason, Failure, JobId, StageId};

use crate::job::Phase;
use crate::line::Kind;
use crate::starts::Place;
use crate::state::Core;

impl Core {
    /// Tells everyone concerned about the jobs that have ended, and about those that end because of it.
    pub(crate) fn pass_on_news(&mut self) {
        while let Some(job) = self.news.pop_front() {
            for at in self.links.followers(job) {
                self.on_source_ended(self.links.follower(at), job);
            }
            let stage = self.stage_of(job);
            let slot = &mut self.stages[stage.index()];
            slot.unended -= 1;
            if slot.unended == 0 && self.may_close(stage) {
                self.on_stage_ended(stage);
            }
        }
    }

    fn on_source_ended(&mut self, follower: JobId, source: JobId) {
        if self.phase(follower) != Phase::Waiting {
            return;
        }
        let what = match self.phase(source) {
            Phase::Failed => "failed",
            Phase::Skipped => "was skipped",
            _ if self.stages[self.stage_of(follower).index()].awaited == 0 => {
                return self.make_ready(follower);
            }
            _ => return,
        };
        self.skip(follower, format!("{} {what}", self.plan.job_name(source)));
    }

    pub(crate) fn on_stage_ended(&mut self, ended: StageId) {
        let because = self.incomplete(ended);
        for at in self.links.dependents(ended) {
            let dependent = self.links.dependent(at);
            let slot = &mut self.stages[dependent.index()];
            slot.awaited -= 1;
            let opens = slot.awaited == 0;
            // Followers of single jobs there each look at their own source instead.
            let needs_all = self.plan.stage(dependent).foreach != Some(ended);
            if let Some(because) = because.as_ref().filter(|_| needs_all) {
                self.skip_pending(dependent, because);
            } else if opens {
                self.open_stage(dependent);
            }
        }
    }

    /// Why a stage that has ended is not what those after it need.
    fn incomplete(&self, stage: StageId) -> Option<String> {
        let slot = &self.stages[stage.index()];
        if let Some(map) = &slot.map {
            return map.lack(&self.plan.stage(stage).name);
        }
        let stage = self.plan.stage(stage);
        let of = format!("{} jobs of stage `{}`", stage.job_ids().len(), stage.name);
        match (slot.failed, slot.skipped) {
            (0, 0) => None,
            (failed, 0) => Some(format!("{failed} of {of} failed")),
            (0, 1) => Some(format!("1 of {of} was skipped")),
            (0, skipped) => Some(format!("{skipped} of {of} were skipped")),
            (failed, skipped) => Some(format!("{failed} of {of} failed, {skipped} skipped")),
        }
    }

    /// Everything the stage waited for has ended: its jobs may start, those with a source if that succeeded.
    pub(crate) fn open_stage(&mut self, stage: StageId) {
        for job in self.plan.stage(stage).job_ids() {
            let source = self.plan.job(job).source;
            let fed = source.is_none_or(|source| self.phase(source) == Phase::Succeeded);
            if fed && self.phase(job) == Phase::Waiting {
                self.make_ready(job);
            }
        }
    }

    /// Nothing holds the job back any more but its turn.
    fn make_ready(&mut self, job: JobId) {
        let stage = self.stage_of(job);
        if let Some(lack) = self.stages[stage.index()].lack {
            // Whoever starts a run asks `misfits` first. Without that: an end with its reason, not a wait without one.
            let message = Some(lack.to_string());
            self.fail(job, Attempt(0), Failure { message, ..Failure::because(FailReason::Start) });
        } else {
            self.enqueue(job, Place::Back);
        }
    }

    /// The job goes back to the queue through no fault of its own, unless its stage was stopped meanwhile.
    pub(crate) fn put_back(&mut self, job: JobId) {
        let stage = self.stage_of(job);
        if self.leave_map(job) {
            // The map is over, and so is the job.
        } else if self.stages[stage.index()].stopped {
            self.skip(job, self.stopped_because(stage));
        } else {
            self.enqueue(job, Place::Front);
        }
    }

    pub(crate) fn skip(&mut self, job: JobId, because: String) {
        self.set_phase(job, Phase::Skipped);
        let job = self.plan.job_name(job);
        self.record(Event::JobSkipped { job, because });
    }

    /// Skips whatever of the stage was not asked to start.
    pub(crate) fn skip_pending(&mut self, stage: StageId, because: &str) {
        for job in self.plan.stage(stage).job_ids() {
            if self.phase(job).is_pending() {
                self.skip(job, because.to_owned());
            }
        }
        for kind in Kind::BOTH {
            self.stages[stage.index()].queue_mut(kind).jobs.clear();
        }
    }

    /// The job has failed for good.
    pub(crate) fn fail(&mut self, job: JobId, attempt: Attempt, failure: Failure) {
        let reason = failure.reason;
        self.set_phase(job, Phase::Failed);
        let name = self.plan.job_name(job);
        self.record(Event::JobFailed { job: name, attempt, failure });
        // A person's choice says nothing about the stage.
        if reason == FailReason::Cancelled {
            return;
        }
        let stage = self.stage_of(job);
        self.stages[stage.index()].given_up += 1;
        self.stop_if_too_many(stage);
    }

    /// Stops the stage if it has failed as often as it may. Once, so the walk over its jobs is paid for by them.
    pub(crate) fn stop_if_too_many(&mut self, stage: StageId) {
        let slot = &mut self.stages[stage.index()];
        if !slot.stopped && slot.reached_limit(self.plan.stage(stage)) {
            slot.stopped = true;
            let because = self.stopped_because(stage);
            self.skip_pending(stage, &because);
        }
    }

    fn stopped_because(&self, stage: StageId) -> String {
        let stage = self.plan.stage(stage);
        let most = stage.max_failures.unwrap_or(1).max(1);
        format!("stage `{}` stopped after {most} failure{}", stage.name, if most == 1 { "" } else { "s" })
    }

    /// Jobs are left, yet nothing can ever happen to them.
    pub(crate) fn is_stuck(&self) -> bool {
        self.active == 0
            && self.feeders == 0
            && self.delayed == 0
            && self.counts.pending > 0
            && self.line_is_empty()
    }

    fn line_is_empty(&self) -> bool {
        self.line.classes().next().is_none() && self.line.first_for_cores().is_none()
    }

    /// Jobs are ready, but no GPU is left that could ever run them, and nothing else is to come.
    pub(crate) fn is_out_of_gpus(&self) -> bool {
        self.active == 0
            && self.delayed == 0
            && self.may_start()
            && self.line.first_for_cores().is_none()
            && self.line.classes().next().is_some()
            && self.line.classes().all(|(count, need)| !self.lanes.devices.can_ever_fit(count, need))
    }

    /// A checked plan has no cycles, but `plan.json` may have been edited: better an end with a reason than none.
    pub(crate) fn skip_stuck(&mut self) {
        for job in self.plan.job_ids() {
            if self.phase(job) == Phase::Waiting {
                self.skip(job, "it waits for itself: the plan has a cycle".to_owned());
            }
        }
    }
}
