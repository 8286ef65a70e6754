//! The state of a run, folded from its events. Resume, status and every view start from this; it decides nothing.

use std::collections::HashMap;
use std::num::NonZeroU64;

use crate::{
    Attempt, Bytes, Event, Failure, FullDisk, JobId, LaneId, MAP_COMPLETE, Machine, MapState, Millis, Plan,
    Record, Stuck,
};

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
    /// It came to grief on a shared GPU: its next tries are alone on one.
    pub alone: bool,
    /// How often it said that a disk is full while that of the run was not, which did not count.
    pub disk_full: u8,
    /// Its last start was from a standby.
    pub warm: bool,
    /// The last attempt that said its work was finished and whose output was then made durable; 0: none.
    pub done: u32,
    /// Unix time in milliseconds; so written because there may be a hundred thousand jobs.
    retry_at: Option<NonZeroU64>,
}

impl JobState {
    /// When the pause before its next try ends, Unix time; `None`: it is not between two tries.
    pub fn retry_at(&self) -> Option<Millis> {
        self.retry_at.map(|at| Millis(at.get()))
    }
}

/// How much GPU memory the jobs of a stage take, as a run found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The most a job held.
    pub peak: Bytes,
    /// What is reserved for each.
    pub reserve: Bytes,
}

/// What is thought of a running job that shows no life.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspicion {
    /// When that was said, Unix time.
    pub time: Millis,
    /// Without a sign of life for so many seconds, at that time.
    pub quiet: f64,
    /// It was found frozen.
    pub frozen: bool,
    /// What it is stuck in.
    pub stuck: Stuck,
}

impl Suspicion {
    /// For how many seconds the job has shown no life, if it shows none yet.
    pub fn lasted(&self, now: Millis) -> f64 {
        self.quiet + now.since(self.time).as_seconds()
    }
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
    /// The boot id under which the newest engine ran, where the kernel has one.
    pub boot: Option<String>,
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
    /// The exit code the newest engine said the run ends with.
    pub(crate) told_code: Option<u8>,
    /// Why starts are held back now, if they are.
    pub held: Option<String>,
    /// A job failed because the disk of the run was full, and none has succeeded since.
    pub disk_full: bool,
    /// By stage: how much GPU memory its jobs take, where measured.
    pub measured: Vec<Option<Measured>>,
    /// By stage: what is assumed of its jobs while nothing is measured.
    pub guessed: Vec<Option<Bytes>>,
    /// GPUs no longer used, each with the reason.
    pub quarantined: Vec<(String, String)>,
    /// GPUs whose memory is not back, each with the reason.
    pub vram_held: Vec<(String, String)>,
    /// Running jobs that show no life: the newest that was said of each.
    pub suspected: HashMap<JobId, Suspicion>,
    /// How many seconds jobs spent in waits that were told and have ended, without a proof that they could not go on.
    pub waited: HashMap<JobId, f64>,
    /// How many jobs finished their work but did not exit as they should have.
    pub lingered: u32,
    /// How many jobs succeeded that had been started from a standby.
    pub warm: u32,
    /// By stage: how far its map has come; `None`: it is no map.
    pub maps: Vec<Option<MapState>>,
    /// Events name stages too.
    stages: HashMap<Box<str>, usize>,
    /// Events name jobs; this finds them.
    ids: HashMap<Box<str>, JobId>,
}

impl RunState {
    /// The state before the first event.
    pub fn new(plan: &Plan) -> Self {
        let pending = JobState {
            status: JobStatus::Pending,
            attempts: 0,
            failures: 0,
            alone: false,
            disk_full: 0,
            warm: false,
            done: 0,
            retry_at: None,
        };
        Self {
            jobs: vec![pending; plan.jobs.len()],
            counts: Counts {
                pending: u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX),
                ..Counts::default()
            },
            started: None,
            engine_started: None,
            engine_pid: None,
            boot: None,
            machine: None,
            last: None,
            last_seq: 0,
            finished: false,
            interrupted: None,
            told_code: None,
            held: None,
            disk_full: false,
            measured: vec![None; plan.stages.len()],
            guessed: vec![None; plan.stages.len()],
            quarantined: Vec::new(),
            vram_held: Vec::new(),
            suspected: HashMap::new(),
            waited: HashMap::new(),
            lingered: 0,
            warm: 0,
            maps: plan.stages.iter().map(|stage| stage.map.as_ref().map(|_| MapState::default())).collect(),
            stages: plan
                .stages
                .iter()
                .enumerate()
                .map(|(at, stage)| (stage.name.as_str().into(), at))
                .collect(),
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
            Event::RunStarted { machine, pid, boot, .. } | Event::RunResumed { machine, pid, boot, .. } => {
                self.boot.clone_from(boot);
                self.machine = Some(machine.clone());
                self.engine_pid = Some(*pid);
                self.engine_started = Some(record.time);
                self.finished = false;
                self.interrupted = None;
                self.told_code = None;
                self.held = None;
                self.quarantined.clear();
                self.guessed.fill(None);
                self.vram_held.clear();
                // A new engine does not wait out the pauses of the last one.
                for job in &mut self.jobs {
                    job.retry_at = None;
                }
            }
            Event::RunFinished { exit_code, .. } => {
                self.finished = true;
                self.told_code = *exit_code;
            }
            Event::RunInterrupted { because, exit_code } => {
                self.interrupted = Some(because.clone());
                self.told_code = *exit_code;
            }
            Event::StartsHeld { because } => self.held = Some(because.clone()),
            Event::StartsReleased {} => self.held = None,
            Event::MemoryMeasured { stage, peak, reserve, .. } => {
                if let Some(at) = self.stages.get(stage.as_str()) {
                    let measured = Measured { peak: Bytes(*peak), reserve: Bytes(*reserve) };
                    self.measured[*at] = Some(measured);
                    self.guessed[*at] = None;
                }
            }
            Event::MemoryGuessed { stage, reserve } => {
                if let Some(at) = self.stages.get(stage.as_str()) {
                    self.guessed[*at] = Some(Bytes(*reserve));
                }
            }
            Event::GpuQuarantined { gpu, why } => self.quarantined.push((gpu.clone(), why.clone())),
            Event::VramHeld { gpu, because, .. } => {
                self.vram_held.retain(|(known, _)| known != gpu);
                self.vram_held.push((gpu.clone(), because.clone()));
            }
            Event::VramBack { gpu } => self.vram_held.retain(|(known, _)| known != gpu),
            Event::HangSuspected { job, quiet, frozen, stuck, .. } => {
                if let Some(id) = self.find(job) {
                    let (time, stuck) = (record.time, stuck.clone());
                    self.suspected.insert(id, Suspicion { time, quiet: *quiet, frozen: *frozen, stuck });
                }
            }
            Event::JobRevived { job, quiet, .. } => {
                if let Some(id) = self.find(job)
                    && self.suspected.remove(&id).is_some_and(|it| !it.frozen)
                {
                    *self.waited.entry(id).or_default() += quiet;
                }
            }
            Event::JobLingered { .. } => self.lingered += 1,
            Event::JobDone { job, attempt } => {
                if let Some(id) = self.find(job) {
                    self.jobs[id.index()].done = attempt.told();
                }
            }
            Event::MapOpened { stage, .. }
            | Event::ItemFailed { stage, .. }
            | Event::BatchCommitted { stage, .. }
            | Event::MapFinished { stage, .. }
            | Event::MapStopped { stage, .. }
            | Event::MapReopened { stage } => {
                let at = self.stages.get(stage.as_str()).copied();
                if let Some(map) = at.and_then(|at| self.maps[at].as_mut()) {
                    map.apply(&record.event);
                }
            }
            Event::WorkerRestarted { job, fruitful, .. } => {
                if let Some(id) = self.find(job).filter(|_| *fruitful) {
                    self.jobs[id.index()].failures = 1;
                }
            }
            Event::StandbysOff { .. }
            | Event::ProcessesLeft { .. }
            | Event::ProcessesStuck { .. }
            | Event::MemoryExceeded { .. }
            | Event::MpsFault { .. }
            | Event::Unknown => {}
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
        job.retry_at = None;
        if let Some(it) = self.suspected.remove(&id).filter(|it| !it.frozen) {
            *self.waited.entry(id).or_default() += it.lasted(time);
        }
        match event {
            Event::JobStarted { attempt, lane, pid, warm, .. } => {
                job.warm = *warm;
                job.attempts = job.attempts.max(attempt.told());
                job.status = JobStatus::Running { lane: *lane, pid: *pid, since: time };
            }
            Event::JobSucceeded { attempt, seconds, peak_vram, .. } => {
                self.disk_full = false;
                self.warm += u32::from(job.warm);
                job.attempts = job.attempts.max(attempt.told());
                job.status = JobStatus::Succeeded { seconds: *seconds, peak_vram: *peak_vram };
            }
            Event::JobFailed { attempt, failure, .. } => {
                job.attempts = job.attempts.max(attempt.told());
                job.alone |= failure.shared;
                let elsewhere = failure.disk_full == Some(FullDisk::Other);
                job.disk_full = job.disk_full.saturating_add(u8::from(elsewhere));
                self.disk_full |= failure.disk_full == Some(FullDisk::Run);
                if failure.counts() {
                    job.failures += 1;
                    job.status = JobStatus::Failed(Box::new(failure.clone()));
                } else {
                    job.status = JobStatus::Pending;
                }
            }
            Event::JobRetrying { delay, .. } => {
                job.status = JobStatus::Pending;
                let delay = Some(pause(*delay)).filter(|delay| *delay > Millis(0));
                job.retry_at = delay.and_then(|delay| NonZeroU64::new(time.after(delay).0));
            }
            Event::JobRequeued { .. } => {
                job.failures = 0;
                job.alone = false;
                job.disk_full = 0;
                job.status = JobStatus::Pending;
            }
            // A worker that its map did not need lacks nothing.
            Event::JobSkipped { because, .. } if because == MAP_COMPLETE => {
                job.status = JobStatus::Succeeded { seconds: 0.0, peak_vram: None };
            }
            Event::JobSkipped { because, .. } => job.status = JobStatus::Skipped(because.as_str().into()),
            _ => {}
        }
        *self.counts.slot(&job.status) += 1;
    }

    /// How many jobs' outputs wait to be published.
    pub fn kept(&self) -> u32 {
        let kept = |job: &&JobState| matches!(&job.status, JobStatus::Failed(failure) if failure.kept);
        u32::try_from(self.jobs.iter().filter(kept).count()).unwrap_or(u32::MAX)
    }

    /// The attempt number a job's next try gets.
    pub fn next_attempt(&self, id: JobId) -> Attempt {
        Attempt(self.job(id).attempts).next()
    }
}

/// Seconds of an event as a duration. What no engine writes (less than nothing, not a number) is no pause.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn pause(seconds: f64) -> Millis {
    // A cast from floating point saturates, and makes 0 of what is not a number.
    Millis((seconds * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunSettings, Stage};

    fn state() -> RunState {
        let stage = Stage { jobs: 0..1, ..Stage::named("train") };
        let job = crate::Job {
            stage: crate::StageId(0),
            name: "0".into(),
            config: crate::Config::default(),
            source: None,
        };
        let run = RunSettings::default();
        RunState::new(&Plan { format: 1, name: "test".into(), run, stages: vec![stage], jobs: vec![job] })
    }

    fn apply(state: &mut RunState, time: u64, event: Event) {
        state.apply(&Record { seq: state.last_seq + 1, time: Millis(time), event });
    }

    fn retrying(delay: f64) -> Event {
        Event::JobRetrying { job: "train/0".into(), attempt: Attempt(2), delay }
    }

    #[test]
    fn a_pause_before_a_try_is_known_until_the_try() {
        let mut state = state();
        apply(&mut state, 5000, retrying(30.5));
        assert_eq!(state.jobs[0].retry_at(), Some(Millis(35_500)));
        let gpus = vec![];
        let started = Event::JobStarted {
            job: "train/0".into(),
            attempt: Attempt(2),
            lane: LaneId(0),
            gpus,
            pid: 1,
            warm: false,
        };
        apply(&mut state, 35_501, started);
        assert_eq!(state.jobs[0].retry_at(), None);
    }

    #[test]
    fn what_is_thought_of_a_job_is_forgotten_with_its_attempt() {
        let mut state = state();
        let suspected = |frozen| Event::HangSuspected {
            job: "train/0".into(),
            attempt: Attempt(1),
            quiet: 600.0,
            frozen,
            overdue: false,
            stuck: Stuck::default(),
        };
        apply(&mut state, 1, suspected(false));
        apply(&mut state, 2, suspected(true));
        assert_eq!(state.suspected.get(&JobId(0)).map(|it| (it.time.0, it.frozen)), Some((2, true)));
        apply(&mut state, 3, retrying(0.0));
        assert!(state.suspected.is_empty());
    }

    #[test]
    fn no_pause_and_nonsense_are_none() {
        let mut state = state();
        for delay in [0.0, -3.0, f64::NAN] {
            apply(&mut state, 5000, retrying(delay));
            assert_eq!(state.jobs[0].retry_at(), None, "{delay}");
        }
    }
}
