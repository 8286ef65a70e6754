//! The resolved plan: what `plan.json` holds. Everything a run needs is in it; the TOML is never read again.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::names::{is_job_name, is_stage_name};
use crate::{
    Bytes, Config, Cpus, Foreign, Hang, JobId, MapStage, Memory, Millis, StageId, Standbys, StartGate,
};

/// The version of `plan.json`'s shape that this gpulane writes.
pub const PLAN_FORMAT: u32 = 1;

/// A whole run, resolved: stages with their settings, and every job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_FORMAT`] when written.
    pub format: u32,
    /// The run's name; the run directory is named after it.
    pub name: String,
    /// How the run was started; `resume` does the same.
    pub run: RunSettings,
    /// Stages, in the plan's order.
    pub stages: Vec<Stage>,
    /// All jobs; those of a stage stand together, in order.
    pub jobs: Vec<Job>,
}

/// What the command line said, kept so that `resume` needs to say nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The directory jobs run in, absolute.
    pub cwd: String,
    /// `--gpus`, as written.
    pub gpus: String,
    /// `--lanes`.
    pub lanes: Option<u32>,
    /// `--headroom`: memory left free on each GPU.
    #[serde(default)]
    pub headroom: Bytes,
    /// `--foreign`.
    #[serde(default)]
    pub foreign: Foreign,
    /// `--wait`: how long to wait for the first GPU; `None`: as long as it takes.
    #[serde(default)]
    pub wait: Option<Millis>,
    /// The plan's file, as it was named there; `None`: the plan came from no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
}

/// A stage: jobs that share a command and settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Unique in the plan.
    pub name: String,
    /// argv with placeholders.
    pub command: Vec<String>,
    /// Extra environment; values may hold placeholders.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// GPUs a job takes, all at once.
    pub gpus: u32,
    /// VRAM a job takes.
    pub memory: Memory,
    /// Threads a job is given.
    pub cpus: Cpus,
    /// Most jobs of this stage at once; 0: no limit.
    pub parallel: u32,
    /// A job that takes longer is ended.
    pub timeout: Option<Millis>,
    /// Time between TERM and KILL.
    pub grace: Millis,
    /// How often a failed job is tried again.
    pub retries: u32,
    /// The pause before such a try.
    pub retry_delay: Millis,
    /// After this many failed jobs the rest of the stage is skipped; `None`: never.
    pub max_failures: Option<u32>,
    /// Stages that must have ended before this one starts.
    pub after: Vec<StageId>,
    /// One job here per succeeded job there.
    pub foreach: Option<StageId>,
    /// Watchdog; `None`: off.
    pub hang: Option<Hang>,
    /// Files under `out` that mean the work is done.
    #[serde(default)]
    pub result: Vec<String>,
    /// A Python function instead of a command: `FILE.py:NAME`. Then `command` is what runs it.
    pub entry: Option<String>,
    /// The Python that runs `entry`; `None`: the active one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
    /// Warm processes for `entry`, and for the workers of a map.
    pub standbys: Standbys,
    /// Hold back starts while the CPUs are saturated.
    pub start_gate: StartGate,
    /// Share GPUs through MPS.
    pub mps: bool,
    /// A map over items instead of jobs.
    pub map: Option<MapStage>,
    /// This stage's jobs: indices into [`Plan::jobs`].
    pub jobs: Range<u32>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The stage it belongs to.
    pub stage: StageId,
    /// Unique in its stage, safe as a file name.
    pub name: Box<str>,
    /// What it is told to do.
    pub config: Config,
    /// With `foreach`: the job whose output is this one's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<JobId>,
}

impl Stage {
    /// A stage with every key at its default, no command and no jobs.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            command: Vec::new(),
            env: BTreeMap::new(),
            gpus: 1,
            memory: Memory::default(),
            cpus: Cpus::default(),
            parallel: 0,
            timeout: None,
            grace: Millis::seconds(10),
            retries: 0,
            retry_delay: Millis(0),
            max_failures: None,
            after: Vec::new(),
            foreach: None,
            hang: Some(Hang::default()),
            result: Vec::new(),
            entry: None,
            python: None,
            standbys: Standbys::default(),
            start_gate: StartGate::default(),
            mps: false,
            map: None,
            jobs: 0..0,
        }
    }

    /// The ids of this stage's jobs.
    pub fn job_ids(&self) -> impl ExactSizeIterator<Item = JobId> + use<> {
        (self.jobs.start..self.jobs.end).map(JobId)
    }
}

impl Plan {
    /// The job's data.
    pub fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.index()]
    }

    /// The stage's settings.
    pub fn stage(&self, id: StageId) -> &Stage {
        &self.stages[id.index()]
    }

    /// The stage a job belongs to.
    pub fn stage_of(&self, id: JobId) -> &Stage {
        self.stage(self.job(id).stage)
    }

    /// `STAGE/NAME`, the name people and events use.
    pub fn job_name(&self, id: JobId) -> String {
        format!("{}/{}", self.stage_of(id).name, self.job(id).name)
    }

    /// Every job's id.
    pub fn job_ids(&self) -> impl ExactSizeIterator<Item = JobId> + use<> {
        (0..u32::try_from(self.jobs.len()).unwrap_or(u32::MAX)).map(JobId)
    }

    /// The first name inside that no plan of ours has. Names become paths and stand on terminals; a `plan.json` may be anybody's.
    pub fn wrong_name(&self) -> Option<&str> {
        let plan =
            Some(self.name.as_str()).filter(|name| name.contains('/') || name.chars().any(char::is_control));
        let mut stages =
            self.stages.iter().map(|stage| stage.name.as_str()).filter(|name| !is_stage_name(name));
        let mut jobs = self.jobs.iter().map(|job| &*job.name).filter(|name| !is_job_name(name));
        plan.or_else(|| stages.next()).or_else(|| jobs.next())
    }

    /// Whether the indices inside hold together. A `plan.json` edited by hand must not make us panic.
    pub fn is_consistent(&self) -> bool {
        let stages = self.stages.len();
        let jobs = self.jobs.len();
        let mut next = 0;
        let stages_ok = self.stages.iter().enumerate().all(|(index, stage)| {
            let contiguous = stage.jobs.start == next && stage.jobs.end >= next;
            next = stage.jobs.end;
            contiguous
                && stage.jobs.end as usize <= jobs
                && stage
                    .after
                    .iter()
                    .chain(&stage.foreach)
                    .all(|dep| dep.index() < stages && dep.index() != index)
        });
        stages_ok
            && next as usize == jobs
            && self.stages.iter().enumerate().all(|(index, stage)| {
                let range = stage.jobs.start as usize..stage.jobs.end as usize;
                self.jobs[range].iter().all(|job| {
                    job.stage.index() == index && job.source.is_none_or(|source| source.index() < jobs)
                })
            })
    }
}
