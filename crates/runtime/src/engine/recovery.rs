//! Taking a run up again: what the journal says, set right by what is on the disk.
//!
//! An output directory at its final place is proof of success, because it gets there by one rename after
//! everything in it was made durable. So a success whose record was lost is recorded now, not run again.
//! The rename leaves an attempt without its own `out`; an attempt that failed keeps it.
//!
//! | by the journal | `out` | an attempt without its own `out` | then |
//! |---|---|---|---|
//! | succeeded | there or not | any | nothing: who removed it by hand wants it so |
//! | waiting or running | there | one, or no attempt is there at all | succeeded |
//! | failed or skipped | there | one that the journal does not know | succeeded; what was skipped for it may run |
//! | waiting, running, failed or skipped | there | none of those | as without `out`, which the next success puts aside (`out.lost-1`) |
//! | waiting | not there | any | as the plan says; an attempt that no record knows is put aside, or published if it said that it was done |
//! | running | not there | any | published if it said that it was done, else lost and tried again |
//! | failed, its output kept | not there | any | published now; lost meanwhile, it is tried again |
//! | failed | not there | any | stays so |
//! | skipped | not there | any | stays so while what it was skipped for is so; else it may run |
//!
//! A job's word that its work is done, and an output that is still where it was written, prove as much only as long as the
//! machine has not stopped since: after a power cut files may be there and empty. Then `job_done` in the journal counts alone.

use std::time::{Duration, Instant};

use gpulane_journal::{Journal, RunDir};
use gpulane_model::{
    Attempt, Event, FailReason, Failure, Hang, HangAction, JobId, JobStatus, Machine, Plan, Record, RunState,
    Stage,
};
use rustix::process::{Pid, Signal};

use super::boot;
use super::clock::Clock;
use super::publish::{KEPT, OutputPlace, Unpublished, publish_left};
use crate::process::tree::{self, Process, Table};

/// A killed process with much memory takes its time; one stuck in the kernel must not keep us.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends what an earlier engine of this run may have left alive. The guardian sees to that; this is for the day
/// when guardian and engine were killed together. We hold the lock, so whatever bears the run's tag is a leftover, and so is
/// what keeps a lease of it.
pub(super) fn end_leftovers(dir: &RunDir) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let table = Table::read();
        // Started from inside one of the run's own jobs, we and our parents bear its tag too.
        let family = table.ancestors_of(rustix::process::getpid());
        let mut left = table.tagged(dir.root());
        left.extend(keepers(dir).into_iter().filter(|keeper| !left.contains(keeper)).collect::<Vec<_>>());
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

/// Processes that keep a GPU leased to this run although no engine of it lived.
fn keepers(dir: &RunDir) -> Vec<Process> {
    let run = std::path::absolute(dir.root()).unwrap_or_else(|_| dir.root().to_owned());
    let pids = gpulane_gpu::keepers(&run).into_iter();
    pids.filter_map(|pid| tree::look(Pid::from_raw(i32::try_from(pid).ok()?)?)).collect()
}

/// What is taken up again.
pub(super) struct Resumed<'a> {
    pub(super) dir: &'a RunDir,
    pub(super) plan: &'a Plan,
    pub(super) machine: &'a Machine,
    pub(super) journal: &'a Journal,
    /// `--failed`.
    pub(super) failed_too: bool,
}

/// Records the start or the resumption, and everything that changed while nobody was writing.
pub(super) fn take_stock(resumed: &Resumed<'_>, past: &mut RunState) {
    let Resumed { dir, plan, machine, journal, failed_too } = *resumed;
    let (known, trust, boot) = (past.last_seq > 0, trust_in(past), boot::id());
    restore_files(dir, plan, past);
    let mut stock = Stock { dir, plan, journal, past, trust, published: false, stuck: Vec::new() };
    let gpulane = env!("CARGO_PKG_VERSION").to_owned();
    let pid = std::process::id();
    if known {
        stock.record(Event::RunResumed { gpulane, machine: machine.clone(), pid, boot });
    } else {
        stock.record(Event::RunStarted {
            format: 1,
            name: plan.name.clone(),
            gpulane,
            jobs: u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX),
            machine: machine.clone(),
            pid,
            boot,
        });
    }
    // Also if the journal knows nothing: all of it may have been cut away.
    if !known && !dir.root().join("jobs").exists() {
        return;
    }
    for job in plan.job_ids() {
        stock.settle(job);
        if plan.stage_of(job).map.is_some() {
            continue;
        }
        stock.retry(job);
    }
    // A map that stopped is taken up again, and with it what was skipped for that.
    stock.published |=
        stock.past.maps.iter().flatten().any(|map| map.stopped.is_some() && map.finished.is_none())
            || has_groundless_skips(plan, stock.past);
    for job in plan.job_ids().filter(|job| plan.stage_of(*job).map.is_none()) {
        stock.requeue(job, failed_too);
    }
    stock.take_up_maps(failed_too);
}

/// Sets right what a power cut may have undone that no record depends on, if the machine has stopped since the last engine.
pub(super) fn restore_files(dir: &RunDir, plan: &Plan, past: &RunState) {
    if trust_in(past) == Trust::SameBoot {
        return;
    }
    for job in plan.job_ids().filter(|job| past.job(*job).attempts > 0) {
        let (config, text) = (dir.config_file(plan, job), plan.job(job).config.text());
        // A job that starts has its own written anyway; this is for whoever reads those of finished ones.
        if gpulane_files::read(&config).is_ok_and(|there| there != text.as_bytes()) {
            let _ = gpulane_files::write(&config, text);
        }
        let state = past.job(job);
        let has_output =
            matches!(state.status, JobStatus::Succeeded { .. }) && plan.stage_of(job).map.is_none();
        if has_output && !dir.out_dir(plan, job).exists() {
            let last = Attempt(state.attempts);
            // The rename of an empty output is not synced. Removed by hand, it stays away.
            if dir.attempt_out(plan, job, last).exists() {
                let _ = publish_again(dir, plan, job, last);
            }
        }
    }
}

fn publish_again(dir: &RunDir, plan: &Plan, job: JobId, attempt: Attempt) -> Result<(), Unpublished> {
    publish_left(&OutputPlace::open(&dir.root().join("jobs"), plan, job, attempt)?)
}

fn trust_in(past: &RunState) -> Trust {
    if past.boot.is_some() && past.boot == boot::id() { Trust::SameBoot } else { Trust::RecordsOnly }
}

/// What of an attempt that was under way is believed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The machine has not stopped since: its files are what it wrote, also where nothing was synced.
    SameBoot,
    /// After another boot, or where that cannot be known, its files may be empty: only what the journal says was made durable.
    RecordsOnly,
}

struct Stock<'a> {
    dir: &'a RunDir,
    plan: &'a Plan,
    journal: &'a Journal,
    past: &'a mut RunState,
    trust: Trust,
    /// An output was published whose job had failed for want of that, a map goes on that had stopped, or a failure is no longer known:
    /// what was skipped for it may run.
    published: bool,
    /// Jobs whose kept output cannot be put in its place, for a reason that does not pass.
    stuck: Vec<JobId>,
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
    fn settle(&mut self, job: JobId) {
        let state = self.past.job(job);
        let attempt = Attempt(state.attempts.max(1));
        if matches!(state.status, JobStatus::Succeeded { .. }) {
            return;
        }
        if let Some(attempt) = published_by(self.dir, self.plan, self.past, job) {
            let was_over = matches!(state.status, JobStatus::Failed(_) | JobStatus::Skipped(_));
            self.published |= was_over;
            return self.succeed(job, attempt);
        }
        let running = match state.status {
            JobStatus::Pending => false,
            JobStatus::Running { .. } => true,
            JobStatus::Failed(ref failure) if failure.kept => return self.publish_kept(job, attempt),
            JobStatus::Failed(ref failure) if failure.reason == FailReason::Publish => false,
            _ => return,
        };
        if self.plan.stage_of(job).map.is_some() {
            return self.lose(job, attempt, running);
        }
        // The record of its start may have been lost; whatever failed with its work done has failed all the same.
        let last = if running { attempt } else { self.past.next_attempt(job) };
        let said_so = match self.trust {
            Trust::SameBoot => self.dir.done_file(self.plan, job, last).exists(),
            Trust::RecordsOnly => false,
        };
        if said_so || running && self.past.job(job).done == attempt.0 {
            match self.publish(job, last) {
                Ok(()) => {
                    let because = "said that its work was done before gpulane ended".to_owned();
                    let name = self.plan.job_name(job);
                    self.record(Event::JobLingered { job: name, attempt: last, because });
                    return self.succeed(job, last);
                }
                Err(error) if error.kept => return self.keep(job, last, &error),
                // What the disk did not take is computed again.
                Err(_) => {}
            }
        }
        self.lose(job, attempt, running);
    }

    /// Publishes what could not be published when its job ended.
    fn publish_kept(&mut self, job: JobId, attempt: Attempt) {
        if self.trust == Trust::RecordsOnly && self.past.job(job).done != attempt.0 {
            // It was never made durable, and the machine has stopped since.
            return self.compute_again(job);
        }
        match self.publish(job, attempt) {
            Ok(()) => {
                self.published = true;
                self.succeed(job, attempt);
            }
            Err(error) if error.kept => {
                self.keep(job, attempt, &error);
                if !error.may_pass() {
                    self.stuck.push(job);
                }
            }
            // Gone, or not taken by the disk, which says so once: a later try would prove nothing.
            Err(_) => self.compute_again(job),
        }
    }

    fn compute_again(&mut self, job: JobId) {
        let attempt = self.past.next_attempt(job);
        let job = self.plan.job_name(job);
        self.record(Event::JobRetrying { job, attempt, delay: 0.0 });
    }

    fn publish(&self, job: JobId, attempt: Attempt) -> Result<(), Unpublished> {
        publish_again(self.dir, self.plan, job, attempt)
    }

    fn succeed(&mut self, job: JobId, attempt: Attempt) {
        let (job, seconds) = (self.plan.job_name(job), 0.0);
        self.record(Event::JobSucceeded { job, attempt, seconds, peak_vram: None });
    }

    fn keep(&mut self, job: JobId, attempt: Attempt, error: &Unpublished) {
        let from = self.dir.attempt_out(self.plan, job, attempt);
        let message = Some(format!("{}: {error}; {KEPT}", from.display()));
        let failure = Failure { message, kept: true, ..Failure::because(FailReason::Publish) };
        self.record(Event::JobFailed { job: self.plan.job_name(job), attempt, failure });
    }

    fn lose(&mut self, job: JobId, attempt: Attempt, running: bool) {
        if running {
            let mut failure = Failure::because(FailReason::Lost);
            failure.message = Some("gpulane ended while it ran".to_owned());
            self.record(Event::JobFailed { job: self.plan.job_name(job), attempt, failure });
        }
    }

    /// Killed between the record of a failure and that of the try to follow, the job would lose that try.
    fn retry(&mut self, job: JobId) {
        if has_a_try_left(self.plan, self.past, job) {
            let attempt = self.past.next_attempt(job);
            self.record(Event::JobRetrying { job: self.plan.job_name(job), attempt, delay: 0.0 });
        }
    }

    /// A map that is not complete goes on with all its workers, however the last ones ended.
    fn take_up_maps(&mut self, failed_too: bool) {
        let plan = self.plan;
        for (at, stage) in plan.stages.iter().enumerate() {
            let Some(map) = self.past.maps.get(at).and_then(Option::as_ref) else { continue };
            if failed_too && map.failed > 0 {
                self.record(Event::MapReopened { stage: stage.name.clone() });
            } else if map.finished.is_some() || !self.past.is_map_due(plan, at, failed_too || self.published)
            {
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

    /// What failed gets a fresh start with `--failed`, unless its output can still be published; what was skipped, too where the
    /// reason may be gone. The core skips again what still cannot run.
    fn requeue(&mut self, job: JobId, failed_too: bool) {
        let again = match &self.past.job(job).status {
            JobStatus::Failed(failure) => failed_too && (!failure.kept || self.stuck.contains(&job)),
            JobStatus::Skipped(_) => failed_too || self.published,
            _ => false,
        };
        if again {
            self.record(Event::JobRequeued { job: self.plan.job_name(job) });
        }
    }
}

/// Whether a job that has failed or was skipped by the journal is not over all the same: its output is in its place, or a try is left.
pub(super) fn is_unsettled(dir: &RunDir, plan: &Plan, past: &RunState) -> bool {
    let is_over = |job: &JobId| matches!(past.job(*job).status, JobStatus::Failed(_) | JobStatus::Skipped(_));
    let mut over = plan.job_ids().filter(is_over).filter(|job| plan.stage_of(*job).map.is_none());
    let mut unsettled = |job| {
        !past.finished && has_a_try_left(plan, past, job) || published_by(dir, plan, past, job).is_some()
    };
    over.any(&mut unsettled) || has_groundless_skips(plan, past)
}

/// Whether a job is skipped although nothing keeps it from running any more. Where a part of the journal is lost, that may be the record
/// of the failure it was skipped for, and the job that failed runs again.
fn has_groundless_skips(plan: &Plan, past: &RunState) -> bool {
    let status = |job: JobId| &past.job(job).status;
    let is_over = |job: JobId| matches!(status(job), JobStatus::Failed(_) | JobStatus::Skipped(_));
    let is_skipped_map = |at: usize| {
        let map = past.maps.get(at).and_then(Option::as_ref);
        map.is_none_or(|map| map.finished.is_none()) && !past.is_map_due(plan, at, false)
    };
    let stages = || plan.stages.iter().enumerate();
    let incomplete = |(at, stage): (usize, &Stage)| match stage.map {
        Some(_) => is_skipped_map(at),
        None => stage.job_ids().any(is_over),
    };
    let incomplete: Vec<bool> = stages().map(incomplete).collect();
    let mut open = stages().filter(|(at, stage)| {
        let mut needed_whole = stage.after.iter().filter(|before| stage.foreach != Some(**before));
        (stage.map.is_none() || incomplete[*at])
            && !needed_whole.any(|before| incomplete[before.index()])
            && !has_stopped(stage, past)
    });
    open.any(|(_, stage)| {
        let mut skipped = stage.job_ids().filter(|job| matches!(status(*job), JobStatus::Skipped(_)));
        skipped.any(|job| plan.job(job).source.is_none_or(|source| !is_over(source)))
    })
}

/// Whether so many jobs of the stage have failed that the rest of it is skipped.
fn has_stopped(stage: &Stage, past: &RunState) -> bool {
    let counts = |job: &JobId| matches!(&past.job(*job).status, JobStatus::Failed(how) if how.reason != FailReason::Cancelled);
    stage.max_failures.is_some_and(|most| stage.job_ids().filter(counts).count() >= most.max(1) as usize)
}

/// Whether a job that has failed is to be tried again, which nobody has recorded.
fn has_a_try_left(plan: &Plan, past: &RunState, job: JobId) -> bool {
    let (stage, state) = (plan.stage_of(job), past.job(job));
    let JobStatus::Failed(failure) = &state.status else { return false };
    let final_anyway = failure.kept || matches!(failure.reason, FailReason::Start | FailReason::Cancelled);
    // So many of the stage have failed that the rest is skipped.
    let has_failed = |job: &JobId| matches!(past.job(*job).status, JobStatus::Failed(_));
    let stopped =
        || stage.max_failures.is_some_and(|most| stage.job_ids().filter(has_failed).count() >= most as usize);
    !final_anyway && state.failures <= tries_left(stage, failure.reason) && !stopped()
}

/// The attempt whose output is in its place, of a job that has not succeeded by the journal: see the table above.
fn published_by(dir: &RunDir, plan: &Plan, past: &RunState, job: JobId) -> Option<Attempt> {
    let state = past.job(job);
    if plan.stage_of(job).map.is_some() || !dir.out_dir(plan, job).is_dir() {
        return None;
    }
    let there = attempts_there(dir, plan, job);
    let (below, above): (Vec<_>, Vec<_>) = there.into_iter().partition(|attempt| attempt.0 <= state.attempts);
    // Beyond a gap they are not ours.
    let unknown = above
        .into_iter()
        .zip(state.attempts.saturating_add(1)..)
        .take_while(|(there, next)| there.0 == *next);
    let unknown = unknown.map(|(attempt, _)| attempt);
    let known: Vec<_> = match &state.status {
        // Its output is where it was written, or was moved to its place and could not be moved back.
        JobStatus::Failed(failure) if failure.reason == FailReason::Publish => vec![Attempt(state.attempts)],
        JobStatus::Failed(_) | JobStatus::Skipped(_) => Vec::new(),
        _ => below,
    };
    let candidates: Vec<_> = known.into_iter().chain(unknown).collect();
    let open = matches!(state.status, JobStatus::Pending | JobStatus::Running { .. });
    if open && candidates.is_empty() {
        return Some(Attempt(state.attempts.max(1)));
    }
    candidates.into_iter().rev().find(|attempt| !dir.attempt_out(plan, job, *attempt).exists())
}

/// The attempts of a job that have a directory, in order. Read from the disk: what a journal says may be any number.
fn attempts_there(dir: &RunDir, plan: &Plan, job: JobId) -> Vec<Attempt> {
    let place = dir.attempt_dir(plan, job, Attempt(1));
    let entries = place.parent().map(std::fs::read_dir).into_iter().flatten().flatten().flatten();
    let number = |entry: std::fs::DirEntry| {
        let attempt = Attempt(entry.file_name().to_str()?.strip_prefix("attempt-")?.parse().ok()?);
        (attempt.0 > 0 && dir.attempt_dir(plan, job, attempt).is_dir()).then_some(attempt)
    };
    let mut found: Vec<Attempt> = entries.filter_map(number).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// How often a job may fail like this and be tried again. What froze gets another try also where others get none.
fn tries_left(stage: &Stage, reason: FailReason) -> u32 {
    match stage.hang {
        Some(Hang { action: HangAction::Retry, .. }) if reason == FailReason::Hang => stage.retries.max(1),
        Some(Hang { action: HangAction::Fail, .. }) if reason == FailReason::Hang => 0,
        _ => stage.retries,
    }
}
