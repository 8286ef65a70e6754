//! A run on disk that a test plays scene by scene, and what its audience saw.

// Each test binary uses its own part of this; a scene that cannot be set fails its test.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod vt;

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use gpulane_journal::RunDir;
use gpulane_model::{
    Attempt, Bytes, Config, Event, Failure, Gpu, GpuKind, Job, JobId, LaneId, Machine, Millis, Plan,
    ProcessExit, Record, RunSettings, RunState, Stage, StageId,
};
use gpulane_report::{Live, Look, Mode, Snapshot};

/// When every scene begins.
pub const START: u64 = 1_700_000_000_000;

/// What was written, readable while the writer lives on elsewhere.
#[derive(Clone, Default)]
pub struct Seen(Rc<RefCell<Vec<u8>>>);

impl Write for Seen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seen {
    /// Everything so far.
    pub fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }

    /// What came since the last `take`.
    pub fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.borrow_mut())).unwrap()
    }
}

/// A run directory with its plan, being written.
pub struct Scene {
    pub dir: RunDir,
    pub plan: Arc<Plan>,
    seq: u64,
    root: tempfile::TempDir,
}

/// A plan of stages with jobs of these names.
pub fn plan(stages: &[(&str, &[&str])]) -> Plan {
    let mut plan = Plan {
        format: 1,
        name: "ablation".into(),
        run: RunSettings::default(),
        stages: Vec::new(),
        jobs: Vec::new(),
    };
    for (at, (name, jobs)) in stages.iter().enumerate() {
        let from = u32::try_from(plan.jobs.len()).unwrap();
        let to = from + u32::try_from(jobs.len()).unwrap();
        plan.stages.push(Stage { jobs: from..to, ..Stage::named(name) });
        plan.jobs.extend(jobs.iter().map(|job| Job {
            stage: StageId::at(at),
            name: (*job).into(),
            config: Config::default(),
            source: None,
        }));
    }
    plan
}

/// Simulated GPUs.
pub fn machine(gpus: u32) -> Machine {
    let gpu = |at| Gpu {
        uuid: format!("GPU-sim-{at}"),
        name: "simulated".into(),
        memory: Bytes(24 << 30),
        reserved: Bytes(0),
    };
    Machine {
        kind: GpuKind::Sim,
        gpus: (0..gpus).map(gpu).collect(),
        lanes_per_gpu: 1,
        cores: 4,
        cpu_lanes: 0,
        packing: false,
    }
}

impl Scene {
    pub fn new(plan: Plan) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&root.path().join("run")).unwrap();
        dir.freeze(&plan).unwrap();
        Self { dir, plan: Arc::new(plan), seq: 0, root }
    }

    /// The run as a view gets it at `now`: it lives, and nobody asked its engine.
    pub fn snapshot<'a>(&'a self, state: &'a RunState, now: Millis) -> Snapshot<'a> {
        Snapshot { dir: &self.dir, plan: &self.plan, state, live: true, core: None, now }
    }

    /// Writes an event, `at` milliseconds after the start.
    pub fn event(&mut self, at: u64, event: Event) -> &mut Self {
        self.seq += 1;
        let record = Record { seq: self.seq, time: Millis(START + at), event };
        let mut file = OpenOptions::new().create(true).append(true).open(self.dir.journal_file()).unwrap();
        writeln!(file, "{}", gpulane_journal::encode(&record)).unwrap();
        self
    }

    pub fn started(&mut self, gpus: u32) -> &mut Self {
        let jobs = u32::try_from(self.plan.jobs.len()).unwrap();
        let machine = machine(gpus);
        let (name, gpulane) = (self.plan.name.clone(), "0.1.0".to_owned());
        self.event(0, Event::RunStarted { format: 1, name, gpulane, jobs, machine, pid: 4242, boot: None })
    }

    pub fn job_started(&mut self, at: u64, job: &str, attempt: u32, lane: u32) -> &mut Self {
        let gpus = vec![format!("GPU-sim-{lane}")];
        let (job, attempt, lane) = (job.to_owned(), Attempt(attempt), LaneId(lane));
        self.event(at, Event::JobStarted { job, attempt, lane, gpus, pid: 5000, warm: false })
    }

    pub fn job_succeeded(&mut self, at: u64, job: &str, seconds: f64) -> &mut Self {
        self.event(at, Event::JobSucceeded { job: job.into(), attempt: Attempt(1), seconds, peak_vram: None })
    }

    pub fn job_failed(&mut self, at: u64, job: &str, attempt: u32, code: i32, seconds: f64) -> &mut Self {
        let failure = Failure::from_exit(ProcessExit::Code(code), seconds);
        self.event(at, Event::JobFailed { job: job.into(), attempt: Attempt(attempt), failure })
    }

    pub fn finished(&mut self, at: u64, succeeded: u32, failed: u32, skipped: u32) -> &mut Self {
        self.event(at, Event::RunFinished { succeeded, failed, skipped, seconds: 1.0, exit_code: None })
    }

    /// A job prints.
    pub fn says(&self, job: &str, attempt: u32, stream: &str, text: &[u8]) {
        let id = self.id(job);
        let dir = self.dir.attempt_dir(&self.plan, id, Attempt(attempt));
        fs::create_dir_all(&dir).unwrap();
        let file = OpenOptions::new().create(true).append(true).open(dir.join(format!("{stream}.log")));
        file.unwrap().write_all(text).unwrap();
    }

    pub fn id(&self, job: &str) -> JobId {
        self.state().find(job).unwrap()
    }

    /// The state its journal tells.
    pub fn state(&self) -> RunState {
        let mut state = RunState::new(&self.plan);
        let mut follower = gpulane_journal::Follower::open(&self.dir);
        while follower.poll(None, &mut |record, _| state.apply(record)).unwrap() > 0 {}
        state
    }

    /// A view of it: the view, its stdout, its stderr.
    pub fn live(&self, mode: Mode, look: Look) -> (Live, Seen, Seen) {
        let (out, err) = (Seen::default(), Seen::default());
        let live = Live::new(
            self.dir.clone(),
            Arc::clone(&self.plan),
            mode,
            look,
            Box::new(out.clone()),
            Box::new(err.clone()),
        );
        (live, out, err)
    }

    /// The text with this run's directory called RUN.
    pub fn masked(&self, text: &str) -> String {
        text.replace(&self.dir.root().display().to_string(), "RUN")
    }
}

/// `at` milliseconds after the start.
pub fn at(at: u64) -> Millis {
    Millis(START + at)
}
