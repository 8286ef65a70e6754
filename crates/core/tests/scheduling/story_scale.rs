//! Many jobs and many stages: the work per job must not grow with their number. Bounds are generous; what grows with the
//! square of the size misses them by far.

use std::time::{Duration, Instant};

use gpulane_core::{Core, Effect, Input};
use gpulane_model::{Millis, Plan, ProcessExit, RunState, StageId, StartGate};

use crate::scene::{gpus, packed, plan, share, stage};

/// Answers every effect with success until the run is over.
fn run_through(plan: &std::sync::Arc<Plan>, machine: gpulane_model::Machine) -> Core {
    let mut core = Core::new(std::sync::Arc::clone(plan), machine, &RunState::new(plan));
    run_on(&mut core);
    core
}

fn run_on(core: &mut Core) {
    let (mut effects, mut answers) = (Vec::new(), vec![Input::Begin]);
    while let Some(input) = answers.pop() {
        core.step(Millis(0), input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Spawn { job, attempt, .. } => {
                    answers.push(Input::JobExited {
                        job,
                        attempt,
                        exit: ProcessExit::Code(0),
                        left: 0,
                        ago: gpulane_model::Millis(0),
                        peak: None,
                        trouble: None,
                        who: vec![],
                        stuck: None,
                        fruitful: false,
                    });
                    answers.push(Input::JobSpawned { job, attempt, pid: 1, warm: false });
                }
                Effect::Publish { job, attempt } => answers.push(Input::JobPublished { job, attempt }),
                _ => {}
            }
        }
    }
}

#[test]
fn a_hundred_thousand_jobs_and_their_followers() {
    let train = stage("train", 50_000, |stage| stage.retries = 1);
    let evaluate = stage("evaluate", 0, |stage| {
        stage.foreach = Some(StageId(0));
        stage.parallel = 3;
    });
    let plan = plan(vec![train, evaluate]);
    let start = Instant::now();
    let core = run_through(&plan, gpus(8, 1));
    assert_eq!(core.counts().succeeded, 100_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn fifty_thousand_jobs_packed_on_eight_gpus() {
    let plan = plan(vec![share("large", 10_000, 20), share("small", 40_000, 3)]);
    let start = Instant::now();
    assert_eq!(run_through(&plan, packed(&[80; 8])).counts().succeeded, 50_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_chain_of_ten_thousand_stages() {
    let link = |at: u32| {
        stage(&format!("s{at}"), 1, |stage| {
            stage.after = at.checked_sub(1).map(StageId).into_iter().collect();
        })
    };
    let plan = plan((0..10_000).map(link).collect());
    assert_eq!(run_through(&plan, gpus(2, 1)).counts().succeeded, 10_000);
}

#[test]
fn ten_thousand_stages_at_once_behind_gangs() {
    let wide = |at: u32| stage(&format!("s{at}"), 2, |stage| stage.gpus = 1 + at % 4);
    let plan = plan((0..10_000).map(wide).collect());
    let start = Instant::now();
    assert_eq!(run_through(&plan, gpus(4, 2)).counts().succeeded, 20_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_failure_at_the_top_skips_ten_thousand_stages_without_deep_recursion() {
    let link = |at: u32| {
        stage(&format!("s{at}"), 1, |stage| {
            stage.after = at.checked_sub(1).map(StageId).into_iter().collect();
            stage.gpus = if at == 0 { 9 } else { 1 };
        })
    };
    let plan = plan((0..10_000).map(link).collect());
    assert_eq!(run_through(&plan, gpus(1, 1)).counts().skipped, 9_999);
}

#[test]
fn a_hundred_thousand_jobs_of_thousands_of_stages_behind_the_gate() {
    let gates = [StartGate::Auto, StartGate::AtOnce(1), StartGate::Off];
    let gated = |at: usize| stage(&format!("s{at}"), 20, |stage| stage.start_gate = gates[at % 3]);
    let plan = plan((0..5000).map(gated).collect());
    let start = Instant::now();
    let machine = gpulane_model::Machine { cores: 2, ..gpus(8, 4) };
    let mut core = Core::new(std::sync::Arc::clone(&plan), machine, &RunState::new(&plan));
    core.step(Millis(0), Input::Pressure { idle: 0 }, &mut vec![]);
    run_on(&mut core);
    assert_eq!(core.counts().succeeded, 100_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
