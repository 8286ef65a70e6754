//! A world for the core: answers its effects in an order and manner that a list of choices decides, keeps a clock, cancels,
//! interrupts and repeats itself. When the choices run out everything succeeds, so that every run ends.

use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Outcome, Remains, Timer, Trouble, Verdict};
use gpulane_model::{
    Attempt, Bytes, Event, FullDisk, GpuIndex, JobId, Machine, Millis, Plan, ProcessExit, RunState, Stuck,
};

use crate::oracle::Oracle;

/// Decisions, one byte each. Zero is the kindest, so that shrinking makes a world kinder.
pub(crate) struct Choices(std::vec::IntoIter<u8>);

impl Choices {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes.into_iter())
    }

    fn next(&mut self) -> u8 {
        self.0.next().unwrap_or(0)
    }

    fn index(&mut self, len: usize) -> usize {
        usize::from(self.next()) % len
    }
}

/// An answer the world owes.
#[derive(Clone, Copy, Debug)]
enum Owed {
    Start(JobId, Attempt),
    Exit(JobId, Attempt),
    Publish(JobId, Attempt),
}

/// The GPUs of a world, where they have a life of their own.
struct Gpus {
    usable: Vec<Bytes>,
    away: Vec<bool>,
    /// How many more could be used.
    want: u32,
}

impl Gpus {
    fn new(machine: &Machine, leased: bool) -> Self {
        let usable: Vec<Bytes> = machine.gpus.iter().map(gpulane_model::Gpu::usable).collect();
        Self { away: vec![leased; usable.len()], usable, want: 0 }
    }

    fn len(&self) -> usize {
        self.usable.len()
    }

    /// A GPU that is away, if one is wanted and can be used.
    fn grant(&mut self, core: &Core) -> Option<Input> {
        let wanted = |gpu: &usize| self.want > 0 && self.away[*gpu] && core.could_use(GpuIndex::at(*gpu));
        let gpu = (0..self.len()).rev().find(wanted)?;
        self.away[gpu] = false;
        Some(Input::GpuGranted { gpu: GpuIndex::at(gpu), usable: self.usable[gpu] })
    }

    fn on_release(&mut self, gpu: GpuIndex) {
        self.away[gpu.index()] = true;
    }
}

/// One engine's life in that world.
pub(crate) struct World<'a> {
    plan: &'a Arc<Plan>,
    core: Core,
    oracle: Oracle,
    now: Millis,
    owed: Vec<Owed>,
    timers: Vec<(Millis, Timer)>,
    /// Everything recorded, for other lives to go on from.
    journal: Vec<Event>,
    choices: &'a mut Choices,
    /// Inputs that were current once, to be repeated when they no longer are.
    old: Vec<Input>,
    /// The world's GPUs, where they have a life of their own.
    gpus: Option<Gpus>,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        plan: &'a Arc<Plan>,
        machine: &Machine,
        past: RunState,
        choices: &'a mut Choices,
    ) -> Self {
        Self::with(plan, machine, past, choices, None)
    }

    /// A world in which GPUs fail, are leased if so said, and jobs run out of memory.
    pub(crate) fn wild(
        plan: &'a Arc<Plan>,
        machine: &Machine,
        past: RunState,
        choices: &'a mut Choices,
        leased: bool,
    ) -> Self {
        Self::with(plan, machine, past, choices, Some(leased))
    }

    fn with(
        plan: &'a Arc<Plan>,
        machine: &Machine,
        past: RunState,
        choices: &'a mut Choices,
        wild: Option<bool>,
    ) -> Self {
        let core = Core::new(Arc::clone(plan), machine.clone(), &past);
        let core = if wild == Some(true) { core.with_leases() } else { core };
        core.check_invariants().unwrap();
        let oracle = Oracle::new(plan, machine, past, wild);
        let (owed, timers, journal, old) = (vec![], vec![], vec![], vec![]);
        let gpus = wild.map(|leased| Gpus::new(machine, leased));
        Self { plan, core, oracle, now: Millis(7), owed, timers, journal, choices, old, gpus }
    }

    /// Lives it through; what it recorded, what that folds to, and how it ended.
    pub(crate) fn run(mut self) -> (Vec<Event>, RunState, Outcome) {
        self.step(Input::Begin);
        for _ in 0..20_000 {
            if let Some(outcome) = self.oracle.outcome {
                self.say_again(true);
                return (self.journal, self.oracle.folded, outcome);
            }
            self.now = self.now.after(Millis(u64::from(self.choices.next() % 4) * 400));
            match self.choices.next() {
                230..=239 => self.cancel(),
                240..=243 => {
                    let now = self.choices.next() % 2 == 1;
                    self.step(Input::Interrupted { because: "SIGINT".into(), now });
                }
                244..=255 => self.say_again(false),
                110..=149 => self.watch(),
                150..=199 if self.gpus.is_some() => self.shake(),
                200..=229 if !self.timers.is_empty() => self.fire(),
                _ if !self.owed.is_empty() => self.answer(),
                _ if !self.timers.is_empty() => self.fire(),
                _ if self.relieve() => {}
                _ => panic!("deadlock: nothing owed, no timer set, not over"),
            }
        }
        panic!("a run without end");
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.oracle.on_input(self.now, &input);
        self.core.step(self.now, input, &mut effects);
        self.oracle.on_effects(&effects);
        self.core.check_invariants().unwrap();
        self.oracle.check(&self.core);
        for effect in effects {
            match effect {
                Effect::Spawn { job, attempt, .. } => self.owed.push(Owed::Start(job, attempt)),
                Effect::Publish { job, attempt } => self.owed.push(Owed::Publish(job, attempt)),
                Effect::SetTimer { timer, at } => self.timers.push((at, timer)),
                Effect::Record(event) => self.journal.push(event),
                Effect::Want { gpus } => self.gpus.as_mut().unwrap().want = gpus,
                Effect::Release { gpu } => self.gpus.as_mut().unwrap().on_release(gpu),
                Effect::Feed { .. } | Effect::EndFeeder { .. } => panic!("these plans have no maps"),
                Effect::Terminate { .. } | Effect::Finish { .. } => {}
            }
        }
    }

    fn answer(&mut self) {
        let at = self.choices.index(self.owed.len());
        let mood = self.choices.next();
        let input = match self.owed.swap_remove(at) {
            Owed::Start(job, attempt) => match mood {
                0..200 => {
                    self.owed.push(Owed::Exit(job, attempt));
                    Input::JobSpawned { job, attempt, pid: 1 + job.0, warm: false }
                }
                200..215 => Input::SpawnFailed { job, attempt, message: "no such file".into() },
                _ => Input::SpawnBlocked { job, attempt, because: "disk full".into() },
            },
            Owed::Exit(job, attempt) => {
                let exit = match mood {
                    0..140 => ProcessExit::Code(0),
                    140..220 => ProcessExit::Code(3),
                    _ => ProcessExit::Signal(9),
                };
                let (peak, trouble) = self.wounds(mood);
                Input::JobExited {
                    job,
                    attempt,
                    exit,
                    left: u32::from(mood % 3 == 1),
                    ago: gpulane_model::Millis(0),
                    peak,
                    trouble,
                    who: vec![],
                    stuck: self.remains(mood),
                    fruitful: false,
                }
            }
            Owed::Publish(job, attempt) => match mood {
                0..220 => Input::JobPublished { job, attempt },
                _ => Input::PublishFailed { job, attempt, message: "disk full".into(), kept: mood % 2 == 1 },
            },
        };
        // A blocked start uses its attempt's number again, so only these are stale for certain.
        if matches!(input, Input::JobExited { .. } | Input::JobPublished { .. } | Input::PublishFailed { .. })
        {
            self.old.push(input.clone());
        }
        if let Input::JobExited { job, attempt, .. } = input {
            let (quiet, stuck) = (Millis(1), Stuck::default());
            self.old.push(Input::Stuck { job, attempt, quiet, verdict: Verdict::Frozen, stuck });
            self.old.push(Input::WorkDone {
                job,
                attempt,
                because: "late".into(),
                doing: None,
                frozen: true,
            });
        }
        self.step(input);
    }

    /// What an exit tells beyond itself.
    fn wounds(&mut self, mood: u8) -> (Option<Bytes>, Option<Trouble>) {
        // With an exit code of 0, and by a signal.
        if matches!(mood, 130..138 | 240..248) {
            return (None, Some(Trouble::NeverBegun("its standby was gone".to_owned())));
        }
        if self.gpus.is_none() {
            return (None, None);
        }
        let size = u64::from(self.choices.next());
        let peak = (size > 0).then_some(Bytes(size << 25));
        let words = || "words".to_owned();
        let trouble = match mood {
            150..170 => Some(Trouble::GpuOom(words())),
            170..180 => Some(Trouble::HostOom(words())),
            180..190 => Some(Trouble::MpsFault(words())),
            190..200 => Some(Trouble::DiskFull {
                because: words(),
                disk: if mood < 195 { FullDisk::Run } else { FullDisk::Other },
            }),
            _ => None,
        };
        (peak, trouble)
    }

    /// Processes that stay for ever, where GPUs may be lost.
    fn remains(&self, mood: u8) -> Option<Remains> {
        let stays = self.gpus.is_some() && mood % 16 == 15;
        stays.then(|| Remains { pids: vec![77], because: "state D".into() })
    }

    /// A job that runs.
    fn live(&mut self) -> Option<(JobId, Attempt)> {
        let live = self.owed.iter().filter_map(|owed| match owed {
            Owed::Exit(job, attempt) => Some((*job, *attempt)),
            _ => None,
        });
        let live: Vec<_> = live.collect();
        if live.is_empty() { None } else { Some(live[self.choices.index(live.len())]) }
    }

    /// The CPUs are busy or not, or a watch tells of a job that is frozen or done.
    fn watch(&mut self) {
        let mood = self.choices.next();
        if mood < 100 {
            return self.step(Input::Pressure { idle: u32::from(mood % 4) });
        }
        let Some((job, attempt)) = self.live() else { return };
        let frozen = mood % 2 == 1;
        let input = if mood < 180 {
            let verdict = [Verdict::Told, Verdict::Frozen, Verdict::Overdue][usize::from(mood % 3)];
            Input::Stuck { job, attempt, quiet: Millis(1), verdict, stuck: Stuck::default() }
        } else {
            Input::WorkDone { job, attempt, because: "said so".into(), doing: None, frozen }
        };
        self.step(input);
    }

    /// Something happens to a GPU, or is seen of a job.
    fn shake(&mut self) {
        let gpus = self.gpus.as_mut().unwrap();
        let gpu = GpuIndex::at(self.choices.index(gpus.len()));
        let size = Bytes(u64::from(self.choices.next()) << 25);
        let input = match self.choices.next() {
            0..60 => match gpus.grant(&self.core) {
                Some(granted) => granted,
                None => return,
            },
            60..80 => Input::GiveWay,
            80..90 => Input::GpusAwaited { because: Some("in use".into()) },
            90..100 => Input::GpusAwaited { because: None },
            100..120 => {
                Input::GpuHeld { gpu, pids: vec![], bytes: size, because: format!("held {}", size.0 % 2) }
            }
            120..140 => Input::GpuClear { gpu },
            140..146 => Input::GpuLost { gpu, why: "gone".into() },
            settled => {
                let Some((job, attempt)) = self.live() else { return };
                Input::PeakSeen { job, attempt, peak: size, settled: settled % 2 == 0 }
            }
        };
        self.step(input);
    }

    /// Nothing would ever happen by itself: a GPU that is wanted is granted, one that is held comes free.
    fn relieve(&mut self) -> bool {
        let Some(gpus) = &mut self.gpus else { return false };
        if let Some(granted) = gpus.grant(&self.core) {
            self.step(granted);
            return true;
        }
        let all = gpus.len();
        let before = self.journal.len();
        for gpu in (0..all).map(GpuIndex::at) {
            self.step(Input::GpuClear { gpu });
        }
        self.journal.len() > before
    }

    fn fire(&mut self) {
        let at = self.choices.index(self.timers.len());
        let (due, timer) = self.timers.swap_remove(at);
        self.now = self.now.max(due);
        self.step(Input::TimerFired { timer });
    }

    fn cancel(&mut self) {
        let all = self.choices.next() > 240;
        let jobs = self.plan.jobs.len();
        if jobs > 0 {
            let job = JobId::at(self.choices.index(jobs));
            self.step(Input::CancelRequested { jobs: if all { vec![] } else { vec![job, job] } });
        }
    }

    /// What was said and done with is said again, and means nothing.
    fn say_again(&mut self, over: bool) {
        if !over {
            // Time has passed, and somebody may have grown up.
            self.step(Input::Begin);
        }
        let mut effects = Vec::new();
        let stranger = JobId::at(self.plan.jobs.len());
        let stale = self.old.get(self.choices.index(self.old.len().max(1))).cloned();
        let nonsense = [
            Input::JobSpawned { job: stranger, attempt: Attempt(1), pid: 1, warm: false },
            Input::TimerFired { timer: Timer::Retry { job: stranger } },
            Input::CancelRequested { jobs: vec![stranger] },
            Input::PeakSeen { job: stranger, attempt: Attempt(1), peak: Bytes(1), settled: true },
            Input::GpuGranted { gpu: GpuIndex(999), usable: Bytes(1) },
            Input::GpuClear { gpu: GpuIndex(999) },
            Input::GpuLost { gpu: GpuIndex(999), why: "nonsense".into() },
            Input::Begin,
        ];
        let early = self.plan.job_ids().filter(|job| !self.oracle.is_delayed(*job));
        let early = early.map(|job| Input::TimerFired { timer: Timer::Retry { job } });
        for input in stale.into_iter().chain(nonsense).chain(early) {
            self.core.step(self.now, input, &mut effects);
        }
        if over {
            self.core.step(self.now, Input::Interrupted { because: "late".into(), now: true }, &mut effects);
            self.core.step(self.now, Input::CancelRequested { jobs: vec![] }, &mut effects);
        }
        assert_eq!(effects, []);
        self.core.check_invariants().unwrap();
    }
}
