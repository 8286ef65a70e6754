//! What a story needs: plans and machines in a line each, and a run that is stepped by job names and tells its effects as text.

use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Manner, Remains, Timer, Trouble, Verdict};
use gpulane_model::{
    Attempt, Bytes, Config, Event, Gpu, GpuIndex, GpuKind, Job, JobId, MOST_PER_GPU, Machine, Memory, Millis,
    Plan, ProcessExit, Record, RunSettings, RunState, Stage, StageId, Stuck,
};

/// A stage with so many jobs, named `0`, `1`, …
pub(crate) fn stage(name: &str, jobs: u32, change: impl FnOnce(&mut Stage)) -> Stage {
    let mut stage = Stage { jobs: 0..jobs, ..Stage::named(name) };
    change(&mut stage);
    stage
}

/// A plan of these stages; a `foreach` stage gets one job per job of its source.
pub(crate) fn plan(mut stages: Vec<Stage>) -> Arc<Plan> {
    fn len(stages: &[Stage], at: usize) -> u32 {
        let own = u32::try_from(stages[at].jobs.len()).unwrap();
        stages[at].foreach.map_or(own, |source| len(stages, source.index()))
    }
    let lens: Vec<u32> = (0..stages.len()).map(|at| len(&stages, at)).collect();
    let mut next = 0;
    for (stage, len) in stages.iter_mut().zip(lens) {
        stage.jobs = next..next + len;
        next += len;
    }
    let mut jobs = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        for number in 0..u32::try_from(stage.jobs.len()).unwrap() {
            let source = stage.foreach.map(|source| JobId(stages[source.index()].jobs.start + number));
            let name = number.to_string().into_boxed_str();
            jobs.push(Job { stage: StageId::at(at), name, config: Config::default(), source });
        }
    }
    let plan = Plan { format: 1, name: "test".into(), run: RunSettings::default(), stages, jobs };
    assert!(plan.is_consistent());
    Arc::new(plan)
}

/// So many simulated GPUs of 24 GiB with so many lanes each, and four cores for each lane.
pub(crate) fn gpus(count: u32, lanes_per_gpu: u32) -> Machine {
    let gpu = |at| Gpu {
        uuid: format!("GPU-{at}"),
        name: "simulated".into(),
        memory: Bytes(24 << 30),
        reserved: Bytes(0),
    };
    let gpus = (0..count).map(gpu).collect();
    Machine {
        kind: GpuKind::Sim,
        gpus,
        lanes_per_gpu,
        packing: false,
        cores: 4 * count * lanes_per_gpu,
        cpu_lanes: 0,
    }
}

/// Simulated GPUs of these sizes in GiB, shared by memory, and eight cores for each.
pub(crate) fn packed(sizes: &[u64]) -> Machine {
    let one = gpus(1, 1).gpus.remove(0);
    let gpu = |(at, size): (usize, &u64)| Gpu {
        uuid: format!("GPU-{at}"),
        memory: Bytes(size << 30),
        ..one.clone()
    };
    let gpus = sizes.iter().enumerate().map(gpu).collect();
    let cores = 8 * u32::try_from(sizes.len()).unwrap();
    Machine { kind: GpuKind::Sim, gpus, lanes_per_gpu: MOST_PER_GPU, packing: true, cores, cpu_lanes: 0 }
}

/// A stage whose jobs reserve so many GiB.
pub(crate) fn share(name: &str, jobs: u32, gib: u64) -> Stage {
    stage(name, jobs, |stage| stage.memory = Memory::Reserve(Bytes(gib << 30)))
}

/// No GPUs: so many lanes stand in, with two cores each.
pub(crate) fn no_gpus(cpu_lanes: u32) -> Machine {
    Machine {
        kind: GpuKind::None,
        gpus: vec![],
        lanes_per_gpu: 1,
        packing: false,
        cores: 2 * cpu_lanes,
        cpu_lanes,
    }
}

/// What is found out at the end of a job beyond its exit.
#[derive(Default)]
pub(crate) struct End {
    pub(crate) left: u32,
    pub(crate) peak: Option<Bytes>,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) stuck: Option<Remains>,
    /// A worker of a map: it had its model loaded.
    pub(crate) fruitful: bool,
}

/// A run under a story's control. After every step the invariants hold and the fold of its records agrees with its counts.
pub(crate) struct Story {
    pub(crate) plan: Arc<Plan>,
    pub(crate) core: Core,
    /// What a journal of it would fold to.
    pub(crate) folded: RunState,
    pub(crate) now: Millis,
}

impl Story {
    /// A fresh run, begun, with what that told.
    pub(crate) fn begin(plan: &Arc<Plan>, machine: Machine) -> (Self, Vec<String>) {
        Self::resume(plan, machine, RunState::new(plan))
    }

    /// The same, going on from a past.
    pub(crate) fn resume(plan: &Arc<Plan>, machine: Machine, past: RunState) -> (Self, Vec<String>) {
        Self::resume_with(plan, machine, past, |core| core)
    }

    /// A fresh run whose GPUs are leased.
    pub(crate) fn leased(plan: &Arc<Plan>, machine: Machine) -> (Self, Vec<String>) {
        Self::resume_with(plan, machine, RunState::new(plan), Core::with_leases)
    }

    /// A run whose core is changed before it begins.
    pub(crate) fn resume_with(
        plan: &Arc<Plan>,
        machine: Machine,
        past: RunState,
        change: impl FnOnce(Core) -> Core,
    ) -> (Self, Vec<String>) {
        let core = change(Core::new(Arc::clone(plan), machine, &past));
        let mut story = Self { plan: Arc::clone(plan), core, folded: past, now: Millis(0) };
        let told = story.step(Input::Begin);
        (story, told)
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<String> {
        let mut effects = Vec::new();
        self.core.step(self.now, input, &mut effects);
        for effect in &effects {
            if let Effect::Record(event) = effect {
                let seq = self.folded.last_seq + 1;
                self.folded.apply(&Record { seq, time: self.now, event: event.clone() });
            }
        }
        self.core.check_invariants().unwrap();
        assert_eq!(self.core.counts(), self.folded.counts);
        effects.iter().map(|effect| self.tell(effect)).collect()
    }

    pub(crate) fn job(&self, name: &str) -> JobId {
        self.folded.find(name).unwrap_or_else(|| panic!("no job {name}"))
    }

    pub(crate) fn spawned(&mut self, name: &str, attempt: u32) -> Vec<String> {
        let job = self.job(name);
        self.step(Input::JobSpawned { job, attempt: Attempt(attempt), pid: 1000 + job.0, warm: false })
    }

    pub(crate) fn exited(&mut self, name: &str, attempt: u32, code: i32) -> Vec<String> {
        self.ended(name, attempt, ProcessExit::Code(code), |_| {})
    }

    pub(crate) fn signalled(&mut self, name: &str, attempt: u32, signal: i32) -> Vec<String> {
        self.ended(name, attempt, ProcessExit::Signal(signal), |_| {})
    }

    /// It ended, having held so many MiB.
    pub(crate) fn exited_with(&mut self, name: &str, attempt: u32, code: i32, mib: u64) -> Vec<String> {
        self.ended(name, attempt, ProcessExit::Code(code), |end| end.peak = Some(Bytes(mib << 20)))
    }

    /// It ended with an error and this trouble, having held so many GiB.
    pub(crate) fn troubled(&mut self, name: &str, attempt: u32, gib: u64, trouble: Trouble) -> Vec<String> {
        self.ended(name, attempt, ProcessExit::Code(1), |end| {
            (end.peak, end.trouble) = (Some(Bytes(gib << 30)), Some(trouble));
        })
    }

    /// Its main process was killed, but process 77 of it stays.
    pub(crate) fn stranded(&mut self, name: &str, attempt: u32) -> Vec<String> {
        self.ended(name, attempt, ProcessExit::Signal(9), |end| {
            end.stuck = Some(Remains { pids: vec![77], because: "state D in nvidia_close".into() });
        })
    }

    /// It ended so, and more was found out about that.
    pub(crate) fn ended(
        &mut self,
        name: &str,
        attempt: u32,
        exit: ProcessExit,
        change: impl FnOnce(&mut End),
    ) -> Vec<String> {
        let (job, attempt) = (self.job(name), Attempt(attempt));
        let mut end = End::default();
        change(&mut end);
        let End { left, peak, trouble, stuck, fruitful } = end;
        let (who, ago) = (vec![], Millis(0));
        self.step(Input::JobExited { job, attempt, exit, left, who, ago, peak, trouble, stuck, fruitful })
    }

    /// No life was seen of it for ten minutes.
    pub(crate) fn stuck(&mut self, name: &str, attempt: u32, verdict: Verdict) -> Vec<String> {
        let (job, attempt, quiet) = (self.job(name), Attempt(attempt), Millis::seconds(600));
        let stuck = Stuck {
            evidence: "waiting for a lock in fid.py:88".into(),
            cause: Some("a library that is not safe in threads".into()),
            remedy: Some("use processes".into()),
            ..Stuck::default()
        };
        self.step(Input::Stuck { job, attempt, quiet, verdict, stuck })
    }

    /// Its work is done.
    pub(crate) fn done(&mut self, name: &str, attempt: u32, frozen: bool) -> Vec<String> {
        let (job, attempt) = (self.job(name), Attempt(attempt));
        self.step(Input::WorkDone {
            job,
            attempt,
            because: "called gpulane.done()".into(),
            doing: None,
            frozen,
        })
    }

    /// So many cores have nothing to do.
    pub(crate) fn idle(&mut self, idle: u32) -> Vec<String> {
        self.step(Input::Pressure { idle })
    }

    /// It was seen to hold so many MiB.
    pub(crate) fn peak(&mut self, name: &str, attempt: u32, mib: u64, settled: bool) -> Vec<String> {
        let (job, peak) = (self.job(name), Bytes(mib << 20));
        self.step(Input::PeakSeen { job, attempt: Attempt(attempt), peak, settled })
    }

    /// A GPU of so many GiB is ours.
    pub(crate) fn granted(&mut self, gpu: u32, gib: u64) -> Vec<String> {
        self.step(Input::GpuGranted { gpu: GpuIndex(gpu), usable: Bytes(gib << 30) })
    }

    pub(crate) fn lost(&mut self, gpu: u32) -> Vec<String> {
        self.step(Input::GpuLost { gpu: GpuIndex(gpu), why: "fell off the bus".into() })
    }

    pub(crate) fn published(&mut self, name: &str, attempt: u32) -> Vec<String> {
        let job = self.job(name);
        self.step(Input::JobPublished { job, attempt: Attempt(attempt) })
    }

    pub(crate) fn blocked(&mut self, name: &str, attempt: u32) -> Vec<String> {
        let (job, because) = (self.job(name), "disk full".to_owned());
        self.step(Input::SpawnBlocked { job, attempt: Attempt(attempt), because })
    }

    pub(crate) fn fired(&mut self, timer: Timer) -> Vec<String> {
        self.step(Input::TimerFired { timer })
    }

    pub(crate) fn cancelled(&mut self, names: &[&str]) -> Vec<String> {
        let jobs = names.iter().map(|name| self.job(name)).collect();
        self.step(Input::CancelRequested { jobs })
    }

    pub(crate) fn interrupted(&mut self, now: bool) -> Vec<String> {
        self.step(Input::Interrupted { because: "SIGINT".into(), now })
    }

    /// The first try of a job from start to success; what the exit and the publication told.
    pub(crate) fn succeed(&mut self, name: &str) -> Vec<String> {
        let attempt = self.folded.job(self.job(name)).attempts;
        if attempt == 0 {
            self.spawned(name, 1);
        }
        let mut told = self.exited(name, attempt.max(1), 0);
        told.extend(self.published(name, attempt.max(1)));
        told
    }

    /// The first try of a job from start to a failure; what the exit told.
    pub(crate) fn fail(&mut self, name: &str) -> Vec<String> {
        self.spawned(name, 1);
        self.exited(name, 1, 3)
    }

    pub(crate) fn waiting(&self, name: &str) -> String {
        self.core.waiting(self.job(name)).map_or_else(|| "-".to_owned(), |why| why.to_string())
    }

    fn tell(&self, effect: &Effect) -> String {
        let name = |job: &JobId| self.plan.job_name(*job);
        match effect {
            Effect::Spawn { job, attempt, lane, gpus, cpus, reserve, firm } => {
                let gpus: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                let with = if *firm { " with" } else { " with about" };
                let reserve = reserve.map_or_else(String::new, |bytes| format!("{with} {bytes}"));
                format!(
                    "spawn {} #{attempt} lane {lane} gpus [{}] cpus {cpus}{reserve}",
                    name(job),
                    gpus.join(",")
                )
            }
            Effect::Feed { stage } => format!("feed {}", self.plan.stage(*stage).name),
            Effect::EndFeeder { stage, now } => {
                let how = if *now { "kill" } else { "term" };
                format!("{how} the feeder of {}", self.plan.stage(*stage).name)
            }
            Effect::Want { gpus } => format!("want {gpus}"),
            Effect::Release { gpu } => format!("release {gpu}"),
            Effect::Terminate { job, manner, .. } => {
                let how = match manner {
                    Manner::Gently => "term",
                    Manner::Frozen => "thaw",
                    Manner::Now => "kill",
                };
                format!("{how} {}", name(job))
            }
            Effect::Publish { job, .. } => format!("publish {}", name(job)),
            Effect::Record(event) => tell_event(event),
            Effect::SetTimer { timer: Timer::Timeout { job, .. }, at } => {
                format!("timeout of {} at {}", name(job), at.0)
            }
            Effect::SetTimer { timer: Timer::Retry { job }, at } => {
                format!("retry of {} at {}", name(job), at.0)
            }
            Effect::SetTimer { timer: Timer::RetryHeld, at } => format!("look again at {}", at.0),
            Effect::SetTimer { timer: Timer::Linger { job, .. }, at } => {
                format!("grace of {} until {}", name(job), at.0)
            }
            Effect::SetTimer { timer: Timer::Gate, at } => format!("gate at {}", at.0),
            Effect::Finish { outcome } => format!("over: {outcome:?}"),
        }
    }
}

fn tell_event(event: &Event) -> String {
    match event {
        Event::JobStarted { job, gpus, .. } => format!("{job} started on [{}]", gpus.join(",")),
        Event::JobSucceeded { job, seconds, .. } => format!("{job} succeeded in {seconds} s"),
        Event::JobFailed { job, attempt, failure } => {
            let shared = if failure.shared {
                " (shared)"
            } else if failure.disk_full.is_some() {
                " (disk full)"
            } else {
                ""
            };
            let why: Vec<&str> =
                [&failure.cause, &failure.remedy].into_iter().flatten().map(|text| &**text).collect();
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
            format!(
                "{job} failed at #{attempt}{shared}: {}{why} in {} s",
                failure.describe(),
                failure.seconds
            )
        }
        Event::JobRetrying { job, attempt, delay } => format!("{job} retries as #{attempt} in {delay} s"),
        Event::JobSkipped { job, because } => format!("{job} skipped: {because}"),
        Event::MemoryMeasured { stage, job, peak, reserve } => {
            let at = job.as_deref().unwrap_or("an earlier run");
            format!("{stage} takes {} as {at} shows, {} reserved", Bytes(*peak), Bytes(*reserve))
        }
        Event::MemoryExceeded { job, peak, reserved } => {
            format!("{job} holds {} of {} reserved", Bytes(*peak), Bytes(*reserved))
        }
        Event::GpuQuarantined { gpu, why } => {
            // What to do about it follows.
            let why = why.split(". See").next().unwrap_or(why);
            format!("{gpu} lost: {why}")
        }
        Event::VramHeld { gpu, because, .. } => format!("{gpu} held: {because}"),
        Event::VramBack { gpu } => format!("{gpu} back"),
        Event::MpsFault { gpu, job, because } => format!("MPS fault on {gpu} at {job}: {because}"),
        Event::ProcessesLeft { job, count, .. } => format!("{job} left {count} processes"),
        Event::ProcessesStuck { job, pids, because } => format!("{job} cannot end {pids:?}: {because}"),
        Event::HangSuspected { job, quiet, frozen, overdue, stuck, .. } => {
            let how = match (frozen, overdue) {
                (true, _) => "is frozen",
                (_, true) => "is overdue",
                _ => "is quiet",
            };
            format!("{job} {how} for {quiet} s: {}", stuck.evidence)
        }
        Event::JobRevived { job, quiet, .. } => format!("{job} lives after {quiet} s"),
        Event::JobLingered { job, because, .. } => format!("{job} lingered: {because}"),
        Event::WorkerRestarted { job, attempt, because, fruitful } => {
            let worth = if *fruitful { "fruitful" } else { "fruitless" };
            format!("{job} restarts as #{attempt} after a {worth} try: {because}")
        }
        Event::MapStopped { stage, because } => format!("{stage} stopped: {because}"),
        Event::StartsHeld { because } => format!("held: {because}"),
        Event::StartsReleased {} => "released".into(),
        Event::RunInterrupted { because, .. } => format!("interrupted: {because}"),
        Event::RunFinished { succeeded, failed, skipped, seconds, .. } => {
            format!("finished: {succeeded} succeeded, {failed} failed, {skipped} skipped in {seconds} s")
        }
        other => format!("{other:?}"),
    }
}

/// Only what is started, as `JOB@LANE`.
pub(crate) fn starts(told: &[String]) -> Vec<String> {
    let start = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0] == "spawn").then(|| format!("{}@{}", words[1], words[4]))
    };
    told.iter().filter_map(start).collect()
}
