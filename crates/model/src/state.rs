//! The state of a run, folded from its events. Resume, status and every view start from this; it decides nothing.

use std::collections::HashMap;

use crate::{Attempt, Event, Failure, JobId, LaneId, Machine, Millis, Plan, Record};

/// Where a job stands.
#[derive(Clone, Debug, PartialEq)]
pub enum JobStatus {
    /// Not started, or waiting for another try.
    Pending,
    /// A process of it is running, as far as the journal knows.
    Running {
        /// Where.
        lane: LaneId,
        /// Its main process.
        pid: u32,
        /// When it started, Unix time.
        since: Millis,
    },
    /// Done.
    Succeeded {
        /// From start to exit.
        seconds: f64,
        /// Most VRAM it held, in bytes.
        peak_vram: Option<u64>,
    },
    /// Given up.
    Failed(Box<Failure>),
    /// Will not run, and why.
    Skipped(Box<str>),
}

/// A job's state.
#[derive(Clone, Debug, PartialEq)]
pub struct JobState {
    /// Where it stands.
    pub status: JobStatus,
    /// The highest attempt number used; 0: none.
    pub attempts: u32,
    /// Failed tries that count against `retries`.
    pub failures: u32,
}

/// How many jobs stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting.
    pub pending: u32,
    /// Running.
    pub running: u32,
    /// Done.
    pub succeeded: u32,
    /// Given up.
    pub failed: u32,
    /// Will not run.
    pub skipped: u32,
}

impl Counts {
    /// Jobs that need nothing more.
    pub const fn ended(&self) -> u32 {
        self.succeeded + self.failed + self.skipped
    }

    fn slot(&mut self, status: &JobStatus) -> &mut u32 {
        match status {
            JobStatus::Pending => &mut self.pending,
            JobStatus::Running { .. } => &mut self.running,
            JobStatus::Succeeded { .. } => &mut self.succeeded,
            JobStatus::Failed(_) => &mut self.failed,
            JobStatus::Skipped(_) => &mut self.skipped,
        }
    }
}

/// A run, as its journal tells it.
#[derive(Clone, Debug)]
pub struct RunState {
    /// One per job of the plan, by [`JobId`].
    pub jobs: Vec<JobState>,
    /// Kept in step with `jobs`.
    pub counts: Counts,
    /// The first event's time.
    pub started: Option<Millis>,
    /// When the newest engine took over; rates and ETA count from here.
    pub engine_started: Option<Millis>,
    /// The newest engine's process.
    pub engine_pid: Option<u32>,
    /// What the newest engine may use.
    pub machine: Option<Machine>,
    /// Time of the newest event.
    pub last: Option<Millis>,
    /// The newest event's number.
    pub last_seq: u64,
    /// Every job had ended.
    pub finished: bool,
    /// Why the newest engine stopped early, if it said so.
    pub interrupted: Option<String>,
    /// Why starts are held back now, if they are.
    pub held: Option<String>,
    /// Events name jobs; this finds them.
    ids: HashMap<Box<str>, JobId>,
}

impl RunState {
    /// The state before the first event.
    pub fn new(plan: &Plan) -> Self {
        let pending = JobState { status: JobStatus::Pending, attempts: 0, failures: 0 };
        Self {
            jobs: vec![pending; plan.jobs.len()],
            counts: Counts {
                pending: u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX),
                ..Counts::default()
            },
            started: None,
            engine_started: None,
            engine_pid: None,
            machine: None,
            last: None,
            last_seq: 0,
            finished: false,
            interrupted: None,
            held: None,
            ids: plan.job_ids().map(|id| (plan.job_name(id).into_boxed_str(), id)).collect(),
        }
    }

    /// The job of this name.
    pub fn find(&self, job: &str) -> Option<JobId> {
        self.ids.get(job).copied()
    }

    /// The job's state.
    pub fn job(&self, id: JobId) -> &JobState {
        &self.jobs[id.index()]
    }

    /// Takes in one event. Jobs the plan does not have are ignored.
    pub fn apply(&mut self, record: &Record) {
        self.last_seq = record.seq;
        self.last = Some(record.time);
        self.started.get_or_insert(record.time);
        match &record.event {
            Event::RunStarted { machine, pid, .. } | Event::RunResumed { machine, pid, .. } => {
                self.machine = Some(machine.clone());
                self.engine_pid = Some(*pid);
                self.engine_started = Some(record.time);
                self.finished = false;
                self.interrupted = None;
                self.held = None;
            }
            Event::RunFinished { .. } => self.finished = true,
            Event::RunInterrupted { because } => self.interrupted = Some(because.clone()),
            Event::StartsHeld { because } => self.held = Some(because.clone()),
            Event::StartsReleased {} => self.held = None,
            Event::ProcessesLeft { .. } | Event::Unknown => {}
            job_event => {
                if let Some(id) = job_event.job().and_then(|name| self.find(name)) {
                    self.apply_to_job(id, record.time, job_event);
                }
            }
        }
    }

    fn apply_to_job(&mut self, id: JobId, time: Millis, event: &Event) {
        let job = &mut self.jobs[id.index()];
        *self.counts.slot(&job.status) -= 1;
        match event {
            Event::JobStarted { attempt, lane, pid, .. } => {
                job.attempts = job.attempts.max(attempt.0);
                job.status = JobStatus::Running { lane: *lane, pid: *pid, since: time };
            }
            Event::JobSucceeded { attempt, seconds, peak_vram, .. } => {
                job.attempts = job.attempts.max(attempt.0);
                job.status = JobStatus::Succeeded { seconds: *seconds, peak_vram: *peak_vram };
            }
            Event::JobFailed { attempt, failure, .. } => {
                job.attempts = job.attempts.max(attempt.0);
                if failure.reason.counts() {
                    job.failures += 1;
                    job.status = JobStatus::Failed(Box::new(failure.clone()));
                } else {
                    job.status = JobStatus::Pending;
                }
            }
            Event::JobRetrying { .. } => job.status = JobStatus::Pending,
            Event::JobRequeued { .. } => {
                job.failures = 0;
                job.status = JobStatus::Pending;
            }
            Event::JobSkipped { because, .. } => job.status = JobStatus::Skipped(because.as_str().into()),
            _ => {}
        }
        *self.counts.slot(&job.status) += 1;
    }

    /// The attempt number a job's next try gets.
    pub fn next_attempt(&self, id: JobId) -> Attempt {
        Attempt(self.job(id).attempts + 1)
    }
}
