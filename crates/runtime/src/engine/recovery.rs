//! Taking a run up again: what the journal says, set right by what is on the disk.
//!
//! An output directory at its final place is proof of success, because it gets there by one rename after
//! everything in it was made durable. So a success whose record was lost is recorded now, not run again.

use std::time::{Duration, Instant};

use gpulane_journal::{Journal, RunDir};
use gpulane_model::{
    Attempt, Event, FailReason, Failure, Hang, HangAction, JobId, JobStatus, Machine, Plan, Record, RunState,
    Stage,
};
use rustix::process::Signal;

use super::clock::Clock;
use super::publish::publish_belatedly;
use crate::process::tree::{self, Table};

/// A killed process with much memory takes its time; one stuck in the kernel must not keep us.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends what an earlier engine of this run may have left alive. The guardian sees to that; this is for the day
/// when guardian and engine were killed together. We hold the lock, so whatever bears the run's tag is a leftover.
pub(super) fn end_leftovers(dir: &RunDir) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let table = Table::read();
        // Started from inside one of the run's own jobs, we and our parents bear its tag too.
        let family = table.ancestors_of(rustix::process::getpid());
        let mut left = table.tagged(dir.root());
        left.retain(|process| !family.contains(&process.pid));
        if left.is_empty() {
            return;
        }
        for process in &left {
            tree::signal(process, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Records the start or the resumption, and everything that changed while nobody was writing.
pub(super) fn take_stock(
    dir: &RunDir,
    plan: &Plan,
    machine: &Machine,
    journal: &Journal,
    past: &mut RunState,
    failed_too: bool,
) {
    let mut stock = Stock { journal, past };
    let gpulane = env!("CARGO_PKG_VERSION").to_owned();
    let pid = std::process::id();
    if stock.past.last_seq > 0 {
        stock.record(Event::RunResumed { gpulane, machine: machine.clone(), pid });
    } else {
        stock.record(Event::RunStarted {
            format: 1,
            name: plan.name.clone(),
            gpulane,
            jobs: u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX),
            machine: machine.clone(),
            pid,
        });
    }
    // Also if the journal knows nothing: all of it may have been cut away.
    if !dir.root().join("jobs").exists() {
        return;
    }
    for job in plan.job_ids() {
        stock.settle(dir, plan, job);
        if plan.stage_of(job).map.is_some() {
            continue;
        }
        stock.retry(plan, job);
        if failed_too {
            stock.requeue(plan, job);
        }
    }
    stock.take_up_maps(plan, failed_too);
}

struct Stock<'a> {
    journal: &'a Journal,
    past: &'a mut RunState,
}

impl Stock<'_> {
    /// Into the journal, and into the state the core will start from.
    fn record(&mut self, event: Event) {
        let time = Clock::unix();
        let record = Record { seq: self.past.last_seq + 1, time, event };
        self.past.apply(&record);
        self.journal.append(time, record.event);
    }

    /// An attempt the journal saw start but not end was lost with its engine, unless its output is there.
    fn settle(&mut self, dir: &RunDir, plan: &Plan, job: JobId) {
        let state = self.past.job(job);
        let attempt = Attempt(state.attempts.max(1));
        let running = match state.status {
            JobStatus::Pending => false,
            JobStatus::Running { .. } => true,
            JobStatus::Failed(ref failure) if failure.reason == FailReason::Publish => false,
            _ => return,
        };
        if plan.stage_of(job).map.is_some() {
            return self.lose(plan, job, attempt, running);
        }
        // The record of its start may have been lost; whatever failed with its work done has failed all the same.
        let last = if running { attempt } else { self.past.next_attempt(job) };
        if dir.done_file(plan, job, last).exists()
            // If this fails, it is run again.
            && publish_belatedly(&dir.attempt_out(plan, job, last), &dir.out_dir(plan, job)).is_ok()
        {
            let because = "said that its work was done before gpulane ended".to_owned();
            self.record(Event::JobLingered { job: plan.job_name(job), attempt: last, because });
            let (job, seconds) = (plan.job_name(job), 0.0);
            self.record(Event::JobSucceeded { job, attempt: last, seconds, peak_vram: None });
        } else if dir.out_dir(plan, job).is_dir() {
            let seconds = 0.0;
            self.record(Event::JobSucceeded { job: plan.job_name(job), attempt, seconds, peak_vram: None });
        } else {
            self.lose(plan, job, attempt, running);
        }
    }

    fn lose(&mut self, plan: &Plan, job: JobId, attempt: Attempt, running: bool) {
        if running {
            let mut failure = Failure::because(FailReason::Lost);
            failure.message = Some("gpulane ended while it ran".to_owned());
            self.record(Event::JobFailed { job: plan.job_name(job), attempt, failure });
        }
    }

    /// Killed between the record of a failure and that of the try to follow, the job would lose that try.
    fn retry(&mut self, plan: &Plan, job: JobId) {
        let state = self.past.job(job);
        let JobStatus::Failed(failure) = &state.status else { return };
        let final_anyway = matches!(failure.reason, FailReason::Start | FailReason::Cancelled);
        let stage = plan.stage_of(job);
        if !final_anyway && state.failures <= tries_left(stage, failure.reason) && !self.is_stopped(stage) {
            let attempt = self.past.next_attempt(job);
            self.record(Event::JobRetrying { job: plan.job_name(job), attempt, delay: 0.0 });
        }
    }

    /// Whether so many jobs of the stage have failed that the rest is skipped.
    fn is_stopped(&self, stage: &Stage) -> bool {
        let failed = |job: &JobId| matches!(self.past.job(*job).status, JobStatus::Failed(_));
        stage.max_failures.is_some_and(|most| stage.job_ids().filter(failed).count() >= most as usize)
    }

    /// A map that is not complete goes on with all its workers, however the last ones ended.
    fn take_up_maps(&mut self, plan: &Plan, failed_too: bool) {
        for (at, stage) in plan.stages.iter().enumerate() {
            let Some(map) = self.past.maps.get(at).and_then(Option::as_ref) else { continue };
            if failed_too && map.failed > 0 {
                self.record(Event::MapReopened { stage: stage.name.clone() });
            } else if map.finished.is_some() {
                continue;
            }
            for job in stage.job_ids() {
                if !matches!(self.past.job(job).status, JobStatus::Pending) || self.past.job(job).failures > 0
                {
                    self.record(Event::JobRequeued { job: plan.job_name(job) });
                }
            }
        }
    }

    fn requeue(&mut self, plan: &Plan, job: JobId) {
        if matches!(self.past.job(job).status, JobStatus::Failed(_) | JobStatus::Skipped(_)) {
            self.record(Event::JobRequeued { job: plan.job_name(job) });
        }
    }
}

/// How often a job may fail like this and be tried again. What froze gets another try also where others get none.
fn tries_left(stage: &Stage, reason: FailReason) -> u32 {
    match stage.hang {
        Some(Hang { action: HangAction::Retry, .. }) if reason == FailReason::Hang => stage.retries.max(1),
        Some(Hang { action: HangAction::Fail, .. }) if reason == FailReason::Hang => 0,
        _ => stage.retries,
    }
}
