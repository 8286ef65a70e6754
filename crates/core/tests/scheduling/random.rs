//! Random plans on random machines in a random world, also killed at any instant and resumed. What must hold is in `oracle`.

use std::sync::Arc;

use gpulane_core::Outcome;
use gpulane_model::{
    Bytes, Cpus, Event, FailReason, Failure, Hang, HangAction, JobStatus, Machine, Memory, Millis, Plan,
    Record, RunState, Stage, StageId, Standbys, StartGate,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::scene::{gpus, no_gpus, packed, plan, stage};
use crate::world::{Choices, World};

/// A stage whose `after` and `foreach` point to any of the `at` stages before it.
fn any_stage(at: usize) -> impl Strategy<Value = Stage> {
    let links = (any::<u8>(), any::<bool>(), prop::option::of(0..at.max(1)));
    let size = (0..7_u32, select(vec![1_u32, 1, 1, 0, 2, 3, 4]), select(vec![0_u32, 0, 1, 2, 3]));
    let tries = (0..3_u32, select(vec![0_u64, 0, 1000, 5000]), prop::option::of(1..4_u32));
    let rest = (prop::option::of(Just(Millis(900))), prop::option::of(1..6_u32));
    let actions = select(vec![HangAction::Retry, HangAction::Fail, HangAction::Warn]);
    let gates = select(vec![StartGate::Auto, StartGate::Auto, StartGate::Off, StartGate::AtOnce(1)]);
    let watch = (prop::option::of(actions), gates);
    (links, size, tries, rest, watch).prop_map(move |(links, size, tries, rest, watch)| {
        let (mask, has_after, foreach) = links;
        stage(&format!("s{at}"), size.0, |stage| {
            (stage.gpus, stage.parallel) = (size.1, size.2);
            (stage.retries, stage.retry_delay, stage.max_failures) = (tries.0, Millis(tries.1), tries.2);
            (stage.timeout, stage.cpus) = (rest.0, rest.1.map_or(Cpus::Auto, Cpus::Count));
            stage.hang = watch.0.map(|action| Hang { action, ..Hang::default() });
            stage.start_gate = watch.1;
            stage.entry = (mask & 64 != 0).then(|| "train.py:main".to_owned());
            stage.standbys = if mask & 128 != 0 { Standbys::PerLane(2) } else { Standbys::Auto };
            stage.foreach = foreach.filter(|_| at > 0).map(StageId::at);
            if has_after {
                stage.after = (0..at).filter(|before| mask & (1 << before) != 0).map(StageId::at).collect();
            }
        })
    })
}

fn any_plan() -> impl Strategy<Value = Arc<Plan>> {
    let stages = (1..7_usize).prop_flat_map(|len| (0..len).map(any_stage).collect::<Vec<_>>());
    (stages, any::<bool>()).prop_map(|(mut stages, backwards)| {
        // A plan may name stages before those they wait for.
        if backwards {
            let last = stages.len() - 1;
            stages.reverse();
            for stage in &mut stages {
                for link in stage.after.iter_mut().chain(&mut stage.foreach) {
                    *link = StageId::at(last - link.index());
                }
            }
        }
        plan(stages)
    })
}

/// A machine with at least so many GPUs, or lanes that stand in.
fn any_machine(least: u32) -> impl Strategy<Value = Machine> {
    let with = (least..6, 1..4_u32, 1..9_u32)
        .prop_map(|(count, lanes, cores)| Machine { cores, ..gpus(count, lanes) });
    prop_oneof![3 => with, 1 => (least..7).prop_map(no_gpus)]
}

/// The same plan with jobs that say how much memory they take, or leave it to us.
fn with_memory(plan: &Plan, memories: &[Memory]) -> Arc<Plan> {
    let mut plan = plan.clone();
    for (stage, memory) in plan.stages.iter_mut().zip(memories) {
        stage.memory = *memory;
        stage.mps = stage.jobs.start % 2 == 0;
    }
    Arc::new(plan)
}

fn any_memories() -> impl Strategy<Value = Vec<Memory>> {
    let reserve = (1..9_u64).prop_map(|gib| Memory::Reserve(Bytes(gib << 30)));
    prop::collection::vec(prop_oneof![Just(Memory::Exclusive), Just(Memory::Auto), reserve], 6)
}

/// GPUs shared by memory, or by so many lanes.
fn any_gpus() -> impl Strategy<Value = Machine> {
    let shared = prop::collection::vec(select(vec![8_u64, 12, 24]), 4..7).prop_map(|sizes| packed(&sizes));
    prop_oneof![3 => shared, 1 => (4..6_u32, 1..3_u32).prop_map(|(count, lanes)| gpus(count, lanes))]
}

fn any_choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..500)
}

/// What the next engine finds: the journal up to where the last one died, and what was running recorded as lost.
fn fold(plan: &Plan, past: &RunState, events: &[Event]) -> RunState {
    let mut state = past.clone();
    let apply = |state: &mut RunState, event: Event| {
        let seq = state.last_seq + 1;
        state.apply(&Record { seq, time: Millis(0), event });
    };
    for event in events {
        apply(&mut state, event.clone());
    }
    for job in plan.job_ids() {
        if matches!(state.job(job).status, JobStatus::Running { .. }) {
            let attempt = gpulane_model::Attempt(state.job(job).attempts);
            let failure = Failure::because(FailReason::Lost);
            apply(&mut state, Event::JobFailed { job: plan.job_name(job), attempt, failure });
        }
    }
    state
}

/// Resumes until the run is finished; interruptions end with the choices. `wild`: in a world where GPUs fail; leased or not.
fn finish(
    plan: &Arc<Plan>,
    machine: &Machine,
    mut past: RunState,
    choices: &mut Choices,
    wild: Option<bool>,
) {
    for _ in 0..1000 {
        let world = match wild {
            None => World::new(plan, machine, past, choices),
            Some(leased) => World::wild(plan, machine, past, choices, leased),
        };
        let (_, state, outcome) = world.run();
        if outcome == Outcome::Finished {
            assert_eq!(state.counts.ended() as usize, plan.jobs.len());
            return;
        }
        past = state;
    }
    panic!("interrupted for ever");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_keeps_the_rules_and_ends(plan in any_plan(), machine in any_machine(1), bytes in any_choices()) {
        finish(&plan, &machine, RunState::new(&plan), &mut Choices::new(bytes), None);
    }

    #[test]
    fn a_run_killed_at_any_instant_can_be_finished(
        plan in any_plan(),
        machine in any_machine(1),
        bytes in any_choices(),
        later in any_choices(),
        cuts in prop::collection::vec(any::<Index>(), 3),
    ) {
        let fresh = RunState::new(&plan);
        let (journal, _, _) = World::new(&plan, &machine, fresh.clone(), &mut Choices::new(bytes)).run();
        for cut in cuts {
            let past = fold(&plan, &fresh, &journal[..cut.index(journal.len() + 1)]);
            finish(&plan, &machine, past, &mut Choices::new(later.clone()), None);
        }
    }

    #[test]
    fn where_gpus_are_shared_and_fail_every_run_keeps_the_rules_and_ends(
        plan in any_plan(),
        memories in any_memories(),
        machine in any_gpus(),
        bytes in any_choices(),
        leased in any::<bool>(),
    ) {
        let plan = with_memory(&plan, &memories);
        finish(&plan, &machine, RunState::new(&plan), &mut Choices::new(bytes), Some(leased));
    }

    #[test]
    fn a_run_on_shared_gpus_killed_at_any_instant_can_be_finished(
        plan in any_plan(),
        memories in any_memories(),
        machine in any_gpus(),
        bytes in any_choices(),
        later in any_choices(),
        cut in any::<Index>(),
    ) {
        let (plan, fresh) = (with_memory(&plan, &memories), RunState::new(&plan));
        let (journal, _, _) =
            World::wild(&plan, &machine, fresh.clone(), &mut Choices::new(bytes), true).run();
        let past = fold(&plan, &fresh, &journal[..cut.index(journal.len() + 1)]);
        finish(&plan, &machine, past, &mut Choices::new(later), Some(true));
    }

    #[test]
    fn a_kind_world_with_shared_gpus_succeeds_in_everything(
        plan in any_plan(),
        memories in any_memories(),
        machine in any_gpus(),
        leased in any::<bool>(),
    ) {
        let plan = with_memory(&plan, &memories);
        prop_assert_eq!(gpulane_core::misfits(&plan, &machine), []);
        let mut kind = Choices::new(vec![]);
        let (_, state, outcome) = World::wild(&plan, &machine, RunState::new(&plan), &mut kind, leased).run();
        prop_assert_eq!(outcome, Outcome::Finished);
        prop_assert_eq!(state.counts.succeeded as usize, plan.jobs.len());
    }

    #[test]
    fn a_kind_world_succeeds_in_everything(plan in any_plan(), machine in any_machine(4)) {
        prop_assert_eq!(gpulane_core::misfits(&plan, &machine), []);
        let mut kind = Choices::new(vec![]);
        let (_, state, outcome) = World::new(&plan, &machine, RunState::new(&plan), &mut kind).run();
        prop_assert_eq!(outcome, Outcome::Finished);
        prop_assert_eq!(state.counts.succeeded as usize, plan.jobs.len());
    }
}
