//! What a job is told: its argv and its environment, as the contract lists them. What all jobs of a stage share is
//! made once.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use gpulane_core::GpuSet;
use gpulane_journal::RunDir;
use gpulane_model::{
    Attempt, Bytes, GpuIndex, JobId, LaneId, Machine, Memory, Plan, Stage, env_vars, template,
};

use super::caps;
use super::torch::{self, Surroundings, Version};
use super::worker_kit;
use crate::orders::Orders;
use crate::placeholders::{Placeholders, in_package};
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

/// What a process gets by its stage and place alone, whichever job it is for. Of two with the same, one can stand for the other.
pub(super) struct Fit<'a> {
    pub(super) gpus: &'a [GpuIndex],
    pub(super) cpus: u32,
    pub(super) reserve: Option<Bytes>,
    pub(super) extra: &'a [(String, String)],
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

/// The kernel refuses a variable that is longer than 128 KiB.
const LONGEST_CONFIG: usize = 120 << 10;

/// Variables given to each job anew.
const PER_JOB: [&str; 13] = [
    env_vars::STANDBY,
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
        let (start, dir) = (self.start, self.dir);
        let placeholders = self.placeholders();
        let mut own = CStrings::default();
        let path = |path: PathBuf| path.into_os_string().into_vec();
        // An entry reads the file instead; a command is told that its config is too long.
        if stage.entry.is_none() || job.config.text().len() <= LONGEST_CONFIG {
            own.set(env_vars::CONFIG, job.config.text().as_bytes());
        }
        own.set(env_vars::CONFIG_FILE, &path(dir.config_file(self.plan, start.job)));
        own.set(env_vars::OUT, &path(placeholders.out()));
        own.set(env_vars::METRICS, &path(dir.metrics_file(self.plan, start.job, start.attempt)));
        own.set(env_vars::DONE, &path(dir.done_file(self.plan, start.job, start.attempt)));
        if stage.map.is_some() {
            own.set(env_vars::ATTEMPT_DIR, &path(dir.attempt_dir(self.plan, start.job, start.attempt)));
        }
        own.set(env_vars::JOB, self.plan.job_name(start.job).as_bytes());
        own.set(env_vars::ATTEMPT, start.attempt.to_string().as_bytes());
        own.set(env_vars::LANE, start.lane.to_string().as_bytes());
        if let Some(input) = placeholders.input() {
            own.set(env_vars::INPUT, &path(input));
        }
        let Start { gpus, cpus, reserve, extra, .. } = *start;
        let fit = Fit { gpus, cpus, reserve, extra };
        fit.add_to(&mut own, shared, stage, self.machine, |value| placeholders.fill(value));
        own
    }
}

impl Fit<'_> {
    /// The variables of a standby: all that its job will have, but for the job's own.
    pub(super) fn environment(
        &self,
        dir: &RunDir,
        stage: &Stage,
        machine: &Machine,
        shared: &StageEnvironment,
        tag: &str,
    ) -> CStrings {
        let mut own = CStrings::default();
        own.set(env_vars::JOB, tag.as_bytes());
        own.set(env_vars::ATTEMPT, b"0");
        self.add_to(&mut own, shared, stage, machine, |value| fill_shared(dir, stage, value));
        own
    }

    fn add_to(
        &self,
        own: &mut CStrings,
        shared: &StageEnvironment,
        stage: &Stage,
        machine: &Machine,
        fill: impl Fn(&str) -> String,
    ) {
        own.set(env_vars::GPUS, stage.gpus.to_string().as_bytes());
        own.set(env_vars::CUDA_VISIBLE_DEVICES, self.visible_devices(machine).as_bytes());
        let threads = self.cpus.to_string();
        for name in &shared.thread_limits {
            own.set(name, threads.as_bytes());
        }
        let caps = self.caps(shared, stage, machine, &fill);
        for (name, value) in &stage.env {
            if !caps.iter().any(|(cap, _)| cap == name) && !worker_kit::sets(stage, name) {
                own.set(name, fill(value).as_bytes());
            }
        }
        for (name, value) in caps {
            own.set(name, value.as_bytes());
        }
        for (name, value) in self.extra {
            own.set(name, value.as_bytes());
        }
    }

    /// What keeps the job to its part of a shared GPU, in place of what is set under the same names.
    fn caps(
        &self,
        shared: &StageEnvironment,
        stage: &Stage,
        machine: &Machine,
        fill: &impl Fn(&str) -> String,
    ) -> Vec<(&'static str, String)> {
        let Some(sharing) = &shared.sharing else { return Vec::new() };
        let set = |name: &str| {
            let own = stage.env.get(name).map(|value| fill(value));
            own.or_else(|| sharing.inherited.get(name).cloned())
        };
        let gpus = self.gpus.iter().filter_map(|gpu| machine.gpus.get(gpu.index()));
        let smallest = gpus.map(|gpu| gpu.memory).min();
        let mut caps = smallest
            .map(|total| caps::variables(self.reserve, total, set, sharing.torch))
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
    fn visible_devices(&self, machine: &Machine) -> String {
        let uuids = self.gpus.iter().filter_map(|gpu| machine.gpus.get(gpu.index()));
        uuids.map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// Fills in placeholders that stand for the same whichever job it is; others are not there where there are standbys.
pub(super) fn fill_shared(dir: &RunDir, stage: &Stage, text: &str) -> String {
    let value = |name: &str| match name {
        "run" => Some(dir.root().to_string_lossy().into_owned()),
        "gpus" => Some(stage.gpus.to_string()),
        _ => None,
    };
    in_package(dir, text).unwrap_or_else(|| template::render(text, value))
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
