//! A world for the core: answers its effects in an order and manner that a list of choices decides, keeps a clock, cancels,
//! interrupts and repeats itself. When the choices run out everything succeeds, so that every run ends.

use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Outcome, Timer};
use gpulane_model::{Attempt, Event, JobId, Machine, Millis, Plan, ProcessExit, RunState};

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
}

impl<'a> World<'a> {
    pub(crate) fn new(
        plan: &'a Arc<Plan>,
        machine: &Machine,
        past: RunState,
        choices: &'a mut Choices,
    ) -> Self {
        let core = Core::new(Arc::clone(plan), machine.clone(), &past);
        core.check_invariants().unwrap();
        let oracle = Oracle::new(plan, machine, past);
        let (owed, timers, journal, old) = (vec![], vec![], vec![], vec![]);
        Self { plan, core, oracle, now: Millis(7), owed, timers, journal, choices, old }
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
                200..=229 if !self.timers.is_empty() => self.fire(),
                _ if !self.owed.is_empty() => self.answer(),
                _ if !self.timers.is_empty() => self.fire(),
                _ => panic!("deadlock: nothing owed, no timer set, not over"),
            }
        }
        panic!("a run without end");
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.oracle.on_input(&input);
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
                Effect::Terminate { .. }
                | Effect::Want { .. }
                | Effect::Release { .. }
                | Effect::Finish { .. } => {}
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
                    Input::JobSpawned { job, attempt, pid: 1 + job.0 }
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
                Input::JobExited {
                    job,
                    attempt,
                    exit,
                    left: u32::from(mood % 3 == 1),
                    peak: None,
                    trouble: None,
                }
            }
            Owed::Publish(job, attempt) => match mood {
                0..220 => Input::JobPublished { job, attempt },
                _ => Input::PublishFailed { job, attempt, message: "disk full".into() },
            },
        };
        // A blocked start uses its attempt's number again, so only these are stale for certain.
        if matches!(input, Input::JobExited { .. } | Input::JobPublished { .. } | Input::PublishFailed { .. })
        {
            self.old.push(input.clone());
        }
        self.step(input);
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
        let mut effects = Vec::new();
        let stranger = JobId::at(self.plan.jobs.len());
        let stale = self.old.get(self.choices.index(self.old.len().max(1))).cloned();
        let nonsense = [
            Input::JobSpawned { job: stranger, attempt: Attempt(1), pid: 1 },
            Input::TimerFired { timer: Timer::Retry { job: stranger } },
            Input::CancelRequested { jobs: vec![stranger] },
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
