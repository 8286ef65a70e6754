//! What a job is told: its argv and its environment, as the contract lists them. What all jobs of a stage share is
//! made once.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use gpulane_core::GpuSet;
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, JobId, LaneId, Machine, Plan, Stage, env_vars};

use crate::orders::Orders;
use crate::placeholders::Placeholders;
use crate::process::image::CStrings;

/// One start, as the core decided it.
pub(super) struct Start<'a> {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    pub(super) lane: LaneId,
    pub(super) gpus: &'a GpuSet,
    pub(super) cpus: u32,
}

/// The environment all jobs of a stage share, and what must be decided for each.
pub(super) struct StageEnvironment {
    /// Inherited and constant variables.
    pub(super) shared: CStrings,
    /// Where programs are looked up.
    pub(super) path: Option<String>,
    /// Thread limits the user has not set.
    thread_limits: Vec<&'static str>,
}

/// Variables given to each job anew.
const PER_JOB: [&str; 9] = [
    env_vars::CONFIG,
    env_vars::CONFIG_FILE,
    env_vars::OUT,
    env_vars::JOB,
    env_vars::ATTEMPT,
    env_vars::LANE,
    env_vars::GPUS,
    env_vars::INPUT,
    env_vars::CUDA_VISIBLE_DEVICES,
];

impl StageEnvironment {
    pub(super) fn new(dir: &RunDir, stage: &Stage, inherited: &[(OsString, OsString)]) -> Self {
        let constant = [
            (env_vars::RUN, dir.root().as_os_str()),
            (env_vars::STAGE, OsStr::new(&stage.name)),
            (env_vars::CUDA_DEVICE_ORDER, OsStr::new("PCI_BUS_ID")),
            (env_vars::PYTHONUNBUFFERED, OsStr::new("1")),
        ];
        let mut ours: HashSet<&OsStr> = PER_JOB.iter().map(OsStr::new).collect();
        ours.extend(constant.iter().map(|(name, _)| OsStr::new(name)));
        ours.extend(stage.env.keys().map(OsStr::new));
        let mut shared = CStrings::default();
        for (name, value) in inherited {
            let private = name.to_str().is_some_and(Orders::is_private);
            if !private && !ours.contains(name.as_os_str()) {
                shared.push(entry(name, value));
            }
        }
        for (name, value) in constant {
            if !stage.env.contains_key(name) {
                shared.push(entry(OsStr::new(name), value));
            }
        }
        let set =
            |name: &str| stage.env.contains_key(name) || inherited.iter().any(|(known, _)| known == name);
        let thread_limits = env_vars::THREAD_LIMITS.into_iter().filter(|name| !set(name)).collect();
        let path = stage.env.get("PATH").cloned().or_else(|| {
            let inherited = inherited.iter().find(|(name, _)| name == "PATH");
            inherited.map(|(_, value)| value.to_string_lossy().into_owned())
        });
        Self { shared, path, thread_limits }
    }
}

fn entry(name: &OsStr, value: &OsStr) -> Vec<u8> {
    [name.as_bytes(), b"=", value.as_bytes()].concat()
}

/// All that is known of one start.
pub(super) struct Briefing<'a> {
    pub(super) dir: &'a RunDir,
    pub(super) plan: &'a Plan,
    pub(super) machine: &'a Machine,
    pub(super) start: &'a Start<'a>,
}

impl Briefing<'_> {
    pub(super) fn placeholders(&self) -> Placeholders<'_> {
        let Start { job, attempt, lane, .. } = *self.start;
        Placeholders { dir: self.dir, plan: self.plan, job, attempt, lane: Some(lane) }
    }

    /// The variables that are this job's own.
    pub(super) fn environment(&self, shared: &StageEnvironment) -> CStrings {
        let (stage, job) = (self.plan.stage_of(self.start.job), self.plan.job(self.start.job));
        let placeholders = self.placeholders();
        let mut own = CStrings::default();
        let mut set = |name: &str, value: &[u8]| own.push([name.as_bytes(), b"=", value].concat());
        let path = |path: PathBuf| path.into_os_string().into_vec();
        set(env_vars::CONFIG, job.config.text().as_bytes());
        set(env_vars::CONFIG_FILE, &path(self.dir.config_file(self.plan, self.start.job)));
        set(env_vars::OUT, &path(placeholders.out()));
        set(env_vars::JOB, self.plan.job_name(self.start.job).as_bytes());
        set(env_vars::ATTEMPT, self.start.attempt.to_string().as_bytes());
        set(env_vars::LANE, self.start.lane.to_string().as_bytes());
        set(env_vars::GPUS, stage.gpus.to_string().as_bytes());
        set(env_vars::CUDA_VISIBLE_DEVICES, self.visible_devices().as_bytes());
        if let Some(input) = placeholders.input() {
            set(env_vars::INPUT, &path(input));
        }
        let threads = self.start.cpus.to_string();
        for name in &shared.thread_limits {
            set(name, threads.as_bytes());
        }
        for (name, value) in &stage.env {
            set(name, placeholders.fill(value).as_bytes());
        }
        own
    }

    /// UUIDs, so that no order of devices can be misunderstood; empty hides every GPU.
    fn visible_devices(&self) -> String {
        let uuids = self.start.gpus.iter().filter_map(|gpu| self.machine.gpus.get(gpu.index()));
        uuids.map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",")
    }
}
