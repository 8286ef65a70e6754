//! Random plans with maps in a random world: feeders crash, stop or fall silent, workers come and go. The rules are checked from the
//! outside, by inputs and effects alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Outcome, Timer};
use gpulane_model::{
    Attempt, Event, FailReason, Failure, JobId, JobStatus, Machine, MapStage, Millis, Plan, ProcessExit,
    Record, RunState, Stage, StageId,
};
use proptest::prelude::*;

use crate::scene::{no_gpus, plan, stage};

const RETRIES: u32 = 2;

/// What the world owes an answer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Start(JobId, Attempt),
    Exit(JobId, Attempt),
    Publish(JobId, Attempt),
    /// The feeder's next deed.
    Feeder(StageId),
}

/// How a map stands, as its feeder tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a thing that was done or not
struct Map {
    lives: bool,
    /// It was asked to end.
    told: bool,
    complete: bool,
    stopped: bool,
}

struct World {
    plan: Arc<Plan>,
    core: Core,
    folded: RunState,
    journal: Vec<Event>,
    now: Millis,
    owed: Vec<Owed>,
    timers: Vec<(Millis, Timer)>,
    maps: BTreeMap<StageId, Map>,
    /// Failures in a row of each worker without its model loaded.
    fruitless: BTreeMap<JobId, u32>,
    running: BTreeSet<JobId>,
    /// Workers that their feeder has called unfit: their end is no failed try.
    unfit: BTreeSet<JobId>,
    interrupted: bool,
    outcome: Option<Outcome>,
    choices: std::vec::IntoIter<u8>,
}

impl World {
    fn new(plan: &Arc<Plan>, machine: &Machine, past: RunState, choices: Vec<u8>) -> Self {
        let core = Core::new(Arc::clone(plan), machine.clone(), &past);
        let maps = plan.stages.iter().enumerate().filter(|(_, stage)| stage.map.is_some());
        let complete = |at: usize| past.maps[at].as_ref().is_some_and(|map| map.finished.is_some());
        let maps =
            maps.map(|(at, _)| (StageId::at(at), Map { complete: complete(at), ..Map::default() })).collect();
        Self {
            plan: Arc::clone(plan),
            core,
            folded: past,
            journal: vec![],
            now: Millis(0),
            owed: vec![],
            timers: vec![],
            maps,
            fruitless: BTreeMap::new(),
            running: BTreeSet::new(),
            unfit: BTreeSet::new(),
            interrupted: false,
            outcome: None,
            choices: choices.into_iter(),
        }
    }

    fn next(&mut self) -> u8 {
        self.choices.next().unwrap_or(0)
    }

    fn run(mut self) -> (Vec<Event>, RunState, Outcome) {
        self.step(Input::Begin);
        for _ in 0..20_000 {
            if let Some(outcome) = self.outcome {
                assert!(!self.maps.values().any(|map| map.lives), "over with a feeder alive");
                assert!(self.running.is_empty(), "over with a worker alive");
                return (self.journal, self.folded, outcome);
            }
            self.now = self.now.after(Millis(u64::from(self.next() % 4) * 500));
            match self.next() {
                250..=255 if !self.interrupted => {
                    self.interrupted = true;
                    let now = self.next() % 2 == 1;
                    self.step(Input::Interrupted { because: "SIGINT".into(), now });
                }
                240..=249 => {
                    let job = JobId(u32::from(self.next()) % u32::try_from(self.plan.jobs.len()).unwrap());
                    self.step(Input::CancelRequested { jobs: vec![job] });
                }
                190..=199 => self.call_unfit(),
                200..=239 if !self.timers.is_empty() => self.fire(),
                _ if !self.owed.is_empty() => self.answer(),
                _ if !self.timers.is_empty() => self.fire(),
                _ => panic!("deadlock: nothing owed, no timer set, not over"),
            }
        }
        panic!("a run without end");
    }

    /// A feeder calls one of its workers unfit, if one runs.
    fn call_unfit(&mut self) {
        let running = self.owed.iter().filter_map(|owed| match owed {
            Owed::Exit(job, attempt) if self.maps.contains_key(&self.plan.job(*job).stage) => {
                Some((*job, *attempt))
            }
            _ => None,
        });
        let running: Vec<_> = running.collect();
        if running.is_empty() {
            return;
        }
        let (job, attempt) = running[usize::from(self.next()) % running.len()];
        self.unfit.insert(job);
        let overdue = self.next().is_multiple_of(2);
        self.step(Input::WorkerUnfit { job, attempt, because: "8 items in a row failed".into(), overdue });
    }

    fn fire(&mut self) {
        let next = (0..self.timers.len()).min_by_key(|at| self.timers[*at].0).unwrap();
        let (at, timer) = self.timers.remove(next);
        self.now = self.now.max(at);
        self.step(Input::TimerFired { timer });
    }

    fn answer(&mut self) {
        let at = usize::from(self.next()) % self.owed.len();
        let mood = self.next();
        match self.owed.swap_remove(at) {
            Owed::Start(job, attempt) => {
                let input = match mood {
                    0..220 => Input::JobSpawned { job, attempt, pid: 7, warm: false },
                    220..235 => Input::SpawnFailed { job, attempt, message: "no such file".into() },
                    _ => Input::SpawnBlocked { job, attempt, because: "disk full".into() },
                };
                if matches!(input, Input::JobSpawned { .. }) {
                    self.owed.push(Owed::Exit(job, attempt));
                } else {
                    self.running.remove(&job);
                }
                self.step(input);
            }
            Owed::Exit(job, attempt) => self.exit(job, attempt, mood),
            Owed::Publish(job, attempt) => self.step(Input::JobPublished { job, attempt }),
            Owed::Feeder(stage) => self.feeder(stage, mood),
        }
    }

    /// A worker that exits well was sent away by its feeder, which has said before that the map is complete.
    fn send_away(&mut self, job: JobId) {
        let stage = self.plan.job(job).stage;
        let goes_on = |map: &Map| map.lives && !map.told && !map.complete && !map.stopped;
        if self.maps.get(&stage).is_some_and(goes_on) {
            self.owed.retain(|owed| !matches!(owed, Owed::Feeder(at) if *at == stage));
            self.feeder(stage, 0);
        }
    }

    fn exit(&mut self, job: JobId, attempt: Attempt, mood: u8) {
        if mood < 100 {
            self.send_away(job);
        }
        self.running.remove(&job);
        let fruitful = mood.is_multiple_of(2);
        let exit = match mood {
            0..120 => ProcessExit::Code(0),
            120..200 => ProcessExit::Code(1),
            _ => ProcessExit::Signal(11),
        };
        let input = Input::JobExited {
            job,
            attempt,
            exit,
            left: 0,
            who: vec![],
            ago: Millis(0),
            peak: None,
            trouble: None,
            stuck: None,
            fruitful,
        };
        // A worker that exits before its map is over has failed, whatever its code.
        let early = self.maps.get(&self.plan.job(job).stage).is_some_and(|map| !map.complete);
        let failed = !exit.success() || early;
        if self.unfit.remove(&job) {
            if fruitful {
                self.fruitless.remove(&job);
            }
        } else if failed && fruitful {
            self.fruitless.insert(job, 1);
        } else if failed {
            *self.fruitless.entry(job).or_default() += 1;
        }
        self.step(input);
    }

    /// A feeder says that it is over, or dies, or goes on for a while.
    fn feeder(&mut self, stage: StageId, mood: u8) {
        let map = self.maps[&stage];
        let over = map.complete || map.stopped;
        let waits = self.owed.iter().any(|owed| !matches!(owed, Owed::Feeder(_)));
        if !map.told && !over && waits && mood >= 160 {
            return self.owed.push(Owed::Feeder(stage));
        }
        if !map.told && !over {
            let good = mood < 110;
            let map = self.maps.get_mut(&stage).unwrap();
            (map.complete, map.stopped) = (good, !good);
            self.owed.push(Owed::Feeder(stage));
            if good {
                let stage = self.plan.stage(stage).name.clone();
                self.record(Event::MapFinished {
                    stage,
                    rows: 1,
                    failed: 0,
                    damaged: 0,
                    summary: String::new(),
                });
            }
            let result = if good { Ok(()) } else { Err("too many items failed".to_owned()) };
            return self.step(Input::MapEnded { stage, result });
        }
        self.maps.get_mut(&stage).unwrap().lives = false;
        self.step(Input::FeederGone { stage });
    }

    fn record(&mut self, event: Event) {
        let seq = self.folded.last_seq + 1;
        self.folded.apply(&Record { seq, time: self.now, event: event.clone() });
        self.journal.push(event);
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.core.step(self.now, input, &mut effects);
        for effect in effects {
            assert_eq!(self.outcome, None, "nothing after the end");
            self.on_effect(effect);
        }
        self.core.check_invariants().unwrap();
        assert_eq!(self.core.counts(), self.folded.counts);
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Feed { stage } => {
                let map = self.maps.get_mut(&stage).unwrap();
                assert!(!map.lives && !map.complete && !map.stopped, "a feeder too many");
                (map.lives, map.told) = (true, false);
                self.owed.push(Owed::Feeder(stage));
            }
            Effect::EndFeeder { stage, now } => {
                let map = self.maps.get_mut(&stage).unwrap();
                assert!(map.lives && (now || !map.told), "asked a feeder that is gone, or twice");
                map.told = true;
            }
            Effect::Spawn { job, attempt, .. } => {
                self.check_spawn(job);
                self.running.insert(job);
                self.owed.push(Owed::Start(job, attempt));
            }
            Effect::Publish { job, attempt } => self.owed.push(Owed::Publish(job, attempt)),
            Effect::SetTimer { timer, at } => self.timers.push((at, timer)),
            Effect::Record(event) => {
                self.check_record(&event);
                self.record(event);
            }
            Effect::Finish { outcome } => self.outcome = Some(outcome),
            Effect::Terminate { .. } | Effect::Want { .. } | Effect::Release { .. } => {}
        }
    }

    fn check_spawn(&self, job: JobId) {
        let id = self.plan.job(job).stage;
        if let Some(map) = self.maps.get(&id) {
            assert!(map.lives, "a worker without a feeder");
            assert!(!map.complete && !map.stopped, "a worker for a map that is over");
            let failures = self.fruitless.get(&job).copied().unwrap_or(0);
            assert!(failures <= RETRIES, "a worker tried {failures} times in vain");
        }
        for before in &self.plan.stage(id).after {
            if let Some(map) = self.maps.get(before) {
                assert!(map.complete, "it began before the map it needs was complete");
            }
        }
    }

    /// A worker of a complete map ends well unless a person or its own start was against it.
    fn check_record(&self, event: &Event) {
        if let Event::JobFailed { job, failure, .. } = event {
            let id = self.folded.find(job).unwrap();
            let complete = self.maps.get(&self.plan.job(id).stage).is_some_and(|map| map.complete);
            assert!(
                !complete || failure.reason == FailReason::Cancelled,
                "{event:?} though its map is complete"
            );
        }
    }
}

fn any_stage(at: usize) -> impl Strategy<Value = Stage> {
    (1..4_u32, any::<bool>(), any::<u8>(), 0..3_u32).prop_map(move |(jobs, is_map, mask, parallel)| {
        stage(&format!("s{at}"), jobs, |stage| {
            stage.map = is_map.then(MapStage::default);
            (stage.retries, stage.parallel) = (RETRIES, parallel);
            stage.after = (0..at).filter(|before| mask & (1 << before) != 0).map(StageId::at).collect();
        })
    })
}

fn any_plan() -> impl Strategy<Value = Arc<Plan>> {
    let stages = (1..5_usize).prop_flat_map(|len| (0..len).map(any_stage).collect::<Vec<_>>());
    stages.prop_map(plan)
}

/// What the next engine finds: as the runtime's recovery leaves it.
fn taken_up(plan: &Plan, past: &RunState, events: &[Event]) -> RunState {
    let mut state = past.clone();
    let apply = |state: &mut RunState, event: Event| {
        let seq = state.last_seq + 1;
        state.apply(&Record { seq, time: Millis(0), event });
    };
    for event in events {
        apply(&mut state, event.clone());
    }
    for job in plan.job_ids() {
        let name = plan.job_name(job);
        if matches!(state.job(job).status, JobStatus::Running { .. }) {
            let attempt = Attempt(state.job(job).attempts);
            let failure = Failure::because(FailReason::Lost);
            apply(&mut state, Event::JobFailed { job: name.clone(), attempt, failure });
        }
        let at = plan.job(job).stage.index();
        if state.maps[at].as_ref().is_some_and(|map| map.finished.is_none()) {
            apply(&mut state, Event::JobRequeued { job: name });
        }
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_with_maps_keeps_the_rules_and_ends(
        plan in any_plan(),
        lanes in 1..5_u32,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        World::new(&plan, &no_gpus(lanes), RunState::new(&plan), bytes).run();
    }

    #[test]
    fn a_run_with_maps_killed_at_any_instant_can_be_finished(
        plan in any_plan(),
        lanes in 1..5_u32,
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
    ) {
        let fresh = RunState::new(&plan);
        let (journal, _, _) = World::new(&plan, &no_gpus(lanes), fresh.clone(), bytes).run();
        let past = taken_up(&plan, &fresh, &journal[..cut.index(journal.len() + 1)]);
        let (_, state, outcome) = World::new(&plan, &no_gpus(lanes), past, vec![]).run();
        prop_assert_eq!(outcome, Outcome::Finished);
        prop_assert_eq!(state.counts.ended() as usize, plan.jobs.len());
    }

    #[test]
    fn a_kind_world_completes_every_map(plan in any_plan(), lanes in 1..5_u32) {
        let (_, state, outcome) = World::new(&plan, &no_gpus(lanes), RunState::new(&plan), vec![]).run();
        prop_assert_eq!(outcome, Outcome::Finished);
        prop_assert_eq!(state.counts.succeeded as usize, plan.jobs.len());
    }
}
