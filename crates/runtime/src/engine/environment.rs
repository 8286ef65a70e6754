//! What a job is told: its argv and its environment, as the contract lists them. What all jobs of a stage share is
//! made once.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use gpulane_core::GpuSet;
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Bytes, JobId, LaneId, Machine, Memory, Plan, Stage, env_vars};

use super::caps;
use super::torch::{self, Surroundings, Version};
use super::worker_kit;
use crate::orders::Orders;
use crate::placeholders::Placeholders;
use crate::process::image::{CStrings, find_program};

/// One start, as the core decided it.
pub(super) struct Start<'a> {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    pub(super) lane: LaneId,
    pub(super) gpus: &'a GpuSet,
    pub(super) cpus: u32,
    /// What it may take of each of its GPUs, where it shares them by memory.
    pub(super) reserve: Option<Bytes>,
    /// Variables that only this start needs.
    pub(super) extra: &'a [(String, String)],
    /// Descriptors it keeps open: the leases of its GPUs.
    pub(super) keep: &'a [RawFd],
}

/// The environment all jobs of a stage share, and what must be decided for each.
pub(super) struct StageEnvironment {
    /// Inherited and constant variables.
    pub(super) shared: CStrings,
    /// Where programs are looked up.
    pub(super) path: Option<String>,
    /// Thread limits the user has not set.
    thread_limits: Vec<&'static str>,
    /// For a stage whose jobs share GPUs: what its caps depend on.
    sharing: Option<Sharing>,
}

/// What decides how the jobs of a stage are kept to their part of a GPU.
struct Sharing {
    /// gpulane's own variables. Those that caps are added to are not among the shared ones.
    inherited: HashMap<String, String>,
    /// The torch its program would import, if that is known.
    torch: Option<Version>,
}

/// Variables given to each job anew.
const PER_JOB: [&str; 12] = [
    env_vars::ATTEMPT_DIR,
    env_vars::METRICS,
    env_vars::DONE,
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
        let worker = worker_kit::variables(dir, stage, inherited);
        let constant =
            constant.into_iter().chain(worker.iter().map(|(name, value)| (*name, value.as_os_str())));
        let constant: Vec<(&str, &OsStr)> = constant.collect();
        let mut ours: HashSet<&OsStr> = PER_JOB.iter().map(OsStr::new).collect();
        ours.extend(constant.iter().map(|(name, _)| OsStr::new(name)));
        ours.extend(stage.env.keys().map(OsStr::new));
        let sharing = Sharing::new(stage, inherited);
        if sharing.is_some() {
            ours.extend(caps::ADDED_TO.iter().map(OsStr::new));
        }
        if stage.mps {
            // Another daemon than the run's own must not be met by chance.
            ours.extend(
                [env_vars::CUDA_MPS_PIPE_DIRECTORY, env_vars::CUDA_MPS_LOG_DIRECTORY].map(OsStr::new),
            );
        }
        let mut shared = CStrings::default();
        for (name, value) in inherited {
            let private = name.to_str().is_some_and(Orders::is_private);
            if !private && !ours.contains(name.as_os_str()) {
                shared.push(entry(name, value));
            }
        }
        for (name, value) in constant {
            let is_kit = worker.iter().any(|(kit, _)| *kit == name);
            if is_kit || !stage.env.contains_key(name) {
                shared.push(entry(OsStr::new(name), value));
            }
        }
        let set =
            |name: &str| stage.env.contains_key(name) || inherited.iter().any(|(known, _)| known == name);
        if !set(env_vars::PYTHONFAULTHANDLER) {
            shared.push(entry(OsStr::new(env_vars::PYTHONFAULTHANDLER), OsStr::new("1")));
        }
        let thread_limits = env_vars::THREAD_LIMITS.into_iter().filter(|name| !set(name)).collect();
        let path = stage.env.get("PATH").cloned().or_else(|| {
            let inherited = inherited.iter().find(|(name, _)| name == "PATH");
            inherited.map(|(_, value)| value.to_string_lossy().into_owned())
        });
        Self { shared, path, thread_limits, sharing }
    }
}

impl Sharing {
    /// `None`: the stage's jobs have their GPUs to themselves, or use none.
    fn new(stage: &Stage, inherited: &[(OsString, OsString)]) -> Option<Self> {
        if stage.gpus == 0 || stage.memory == Memory::Exclusive {
            return None;
        }
        let text = |value: &OsString| value.to_string_lossy().into_owned();
        let inherited: HashMap<_, _> =
            inherited.iter().map(|(name, value)| (text(name), text(value))).collect();
        let value = |name: &str| stage.env.get(name).or_else(|| inherited.get(name)).map(String::as_str);
        let around =
            Surroundings { path: value("PATH"), python_path: value("PYTHONPATH"), home: value("HOME") };
        let program = stage.command.first().filter(|word| !word.contains(['{', '}']));
        let program = program.and_then(|word| find_program(word, around.path));
        let torch = program.and_then(|program| torch::of(&program, &around));
        Some(Self { inherited, torch })
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
        let (start, dir) = (self.start, self.dir);
        set(env_vars::METRICS, &path(dir.metrics_file(self.plan, start.job, start.attempt)));
        set(env_vars::DONE, &path(dir.done_file(self.plan, start.job, start.attempt)));
        if stage.map.is_some() {
            set(env_vars::ATTEMPT_DIR, &path(dir.attempt_dir(self.plan, start.job, start.attempt)));
        }
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
        let caps = self.caps(shared, &placeholders);
        let is_kit = |name: &str| stage.map.is_some() && worker_kit::NAMES.contains(&name);
        for (name, value) in &stage.env {
            if !caps.iter().any(|(cap, _)| cap == name) && !is_kit(name) {
                set(name, placeholders.fill(value).as_bytes());
            }
        }
        for (name, value) in caps {
            set(name, value.as_bytes());
        }
        for (name, value) in self.start.extra {
            set(name, value.as_bytes());
        }
        own
    }

    /// What keeps the job to its part of a shared GPU, in place of what is set under the same names.
    fn caps(
        &self,
        shared: &StageEnvironment,
        placeholders: &Placeholders<'_>,
    ) -> Vec<(&'static str, String)> {
        let Some(sharing) = &shared.sharing else { return Vec::new() };
        let stage = self.plan.stage_of(self.start.job);
        let set = |name: &str| {
            let own = stage.env.get(name).map(|value| placeholders.fill(value));
            own.or_else(|| sharing.inherited.get(name).cloned())
        };
        let gpus = self.start.gpus.iter().filter_map(|gpu| self.machine.gpus.get(gpu.index()));
        let smallest = gpus.map(|gpu| gpu.memory).min();
        let mut caps = smallest
            .map(|total| caps::variables(self.start.reserve, total, set, sharing.torch))
            .unwrap_or_default();
        // Kept from the shared ones, so given here also where nothing is added.
        for name in caps::ADDED_TO {
            if !caps.iter().any(|(known, _)| *known == name) {
                caps.extend(set(name).map(|value| (name, value)));
            }
        }
        caps
    }

    /// UUIDs, so that no order of devices can be misunderstood; empty hides every GPU.
    fn visible_devices(&self) -> String {
        let uuids = self.start.gpus.iter().filter_map(|gpu| self.machine.gpus.get(gpu.index()));
        uuids.map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gpulane_model::{Config, Gpu, GpuIndex, GpuKind, Job, RunSettings, StageId};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine() -> Machine {
        let gpu = Gpu {
            uuid: "SIM-0".into(),
            name: "simulated".into(),
            memory: Bytes(80 * GIB),
            reserved: Bytes(0),
        };
        let (kind, gpus) = (GpuKind::Sim, vec![gpu]);
        Machine { kind, gpus, lanes_per_gpu: 4, packing: true, cores: 8, cpu_lanes: 0 }
    }

    /// Every variable of a job of `stage` with 8.5 GiB reserved, sorted.
    fn environment(stage: Stage, inherited: &[(&str, &str)], reserve: Option<Bytes>) -> Vec<String> {
        let dir = RunDir::planned(Path::new("/runs/test")).unwrap();
        let job = Job { stage: StageId(0), name: "0".into(), config: Config::default(), source: None };
        let stages = vec![Stage { jobs: 0..1, ..stage }];
        let plan =
            Plan { format: 1, name: "test".into(), run: RunSettings::default(), stages, jobs: vec![job] };
        let inherited: Vec<_> =
            inherited.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let shared = StageEnvironment::new(&dir, &plan.stages[0], &inherited);
        let gpus: GpuSet = [GpuIndex(0)].into_iter().collect();
        let start = Start {
            job: JobId(0),
            attempt: Attempt(1),
            lane: LaneId(0),
            gpus: &gpus,
            cpus: 2,
            reserve,
            extra: &[],
            keep: &[],
        };
        let own =
            Briefing { dir: &dir, plan: &plan, machine: &machine(), start: &start }.environment(&shared);
        let mut all: Vec<_> = shared.shared.texts().chain(own.texts()).map(str::to_owned).collect();
        all.sort();
        all
    }

    /// A Python with a torch that can be capped.
    fn python(root: &Path) -> String {
        let packages = root.join("lib/python3.12/site-packages/torch");
        std::fs::create_dir_all(&packages).unwrap();
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::write(packages.join("version.py"), "__version__ = '2.10.0'\n").unwrap();
        std::fs::write(root.join("bin/python3.12"), "").unwrap();
        root.join("bin/python3.12").to_string_lossy().into_owned()
    }

    fn named(variables: &[String], name: &str) -> Vec<String> {
        variables
            .iter()
            .filter_map(|one| one.strip_prefix(name)?.strip_prefix('='))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_cap_joins_what_was_set_and_every_name_stands_once() {
        let root = tempfile::tempdir().unwrap();
        let stage = || Stage {
            command: vec![python(root.path())],
            memory: Memory::Reserve(Bytes(8 * GIB)),
            ..Stage::named("train")
        };
        let inherited = [("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64"), ("HOME", "/home/a")];
        let reserve = Some(Bytes(8 * GIB + GIB / 2));
        let variables = environment(stage(), &inherited, reserve);
        assert_eq!(
            named(&variables, "PYTORCH_CUDA_ALLOC_CONF"),
            ["max_split_size_mb:64,per_process_memory_fraction:0.1000"]
        );
        let env = [("PYTORCH_CUDA_ALLOC_CONF".to_owned(), "backend:native".to_owned())].into();
        let variables = environment(Stage { env, ..stage() }, &inherited, reserve);
        assert_eq!(
            named(&variables, "PYTORCH_CUDA_ALLOC_CONF"),
            ["backend:native,per_process_memory_fraction:0.1000"]
        );
        let names: Vec<_> = variables.iter().map(|one| one.split('=').next()).collect();
        assert_eq!(names.len(), names.iter().collect::<HashSet<_>>().len(), "{variables:?}");
    }

    #[test]
    fn nothing_is_lost_where_nothing_is_capped() {
        let inherited = [("PYTORCH_ALLOC_CONF", "expandable_segments:True")];
        for memory in [Memory::Exclusive, Memory::Auto] {
            let variables = environment(Stage { memory, ..Stage::named("train") }, &inherited, None);
            assert_eq!(named(&variables, "PYTORCH_ALLOC_CONF"), ["expandable_segments:True"]);
            let growth = named(&variables, env_vars::XLA_PYTHON_CLIENT_PREALLOCATE);
            assert_eq!(growth.is_empty(), memory == Memory::Exclusive);
        }
    }
}
