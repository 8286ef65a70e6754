//! Going on from a journal, and looking at a run through one.

use std::sync::Arc;

use gpulane_core::Core;
use gpulane_model::{Attempt, Event, FailReason, Failure, LaneId, Millis, Plan, Record, RunState, StageId};

use crate::scene::{Story, gpus, plan, stage, starts};

fn past(plan: &Plan, events: Vec<Event>) -> RunState {
    let mut state = RunState::new(plan);
    for event in events {
        state.apply(&Record { seq: state.last_seq + 1, time: Millis(0), event });
    }
    state
}

fn started(job: &str, lane: u32) -> Event {
    Event::JobStarted {
        job: job.into(),
        attempt: Attempt(1),
        lane: LaneId(lane),
        gpus: vec![],
        pid: 1,
        warm: false,
    }
}

fn succeeded(job: &str) -> Event {
    Event::JobSucceeded { job: job.into(), attempt: Attempt(1), seconds: 1.0, peak_vram: None }
}

fn failed(job: &str, reason: FailReason) -> Event {
    Event::JobFailed { job: job.into(), attempt: Attempt(1), failure: Failure::because(reason) }
}

#[test]
fn what_has_ended_is_not_run_again_and_attempt_numbers_go_on() {
    let plan = plan(vec![stage("train", 4, |_| {})]);
    let past = past(
        &plan,
        vec![
            succeeded("train/0"),
            failed("train/1", FailReason::Exit),
            started("train/2", 0),
            failed("train/2", FailReason::Lost),
        ],
    );
    let (_, told) = Story::resume(&plan, gpus(4, 1), past);
    assert_eq!(told, ["spawn train/2 #2 lane 0 gpus [0] cpus 4", "spawn train/3 #1 lane 1 gpus [1] cpus 4"]);
}

#[test]
fn skips_that_were_due_when_the_last_engine_died_are_made_up_for() {
    let train = stage("train", 2, |stage| stage.max_failures = Some(1));
    let evaluate = stage("evaluate", 0, |stage| stage.foreach = Some(StageId(0)));
    let plan = plan(vec![train, evaluate]);
    let (_, told) = Story::resume(&plan, gpus(1, 1), past(&plan, vec![failed("train/0", FailReason::Exit)]));
    assert_eq!(
        told[..3],
        [
            "train/1 skipped: stage `train` stopped after 1 failure",
            "evaluate/0 skipped: train/0 failed",
            "evaluate/1 skipped: train/1 was skipped",
        ]
    );
    assert_eq!(told.last().unwrap(), "over: Finished");
}

#[test]
fn cancelled_jobs_do_not_stop_a_stage_on_resume_either() {
    let plan = plan(vec![stage("train", 2, |stage| stage.max_failures = Some(1))]);
    let past = past(&plan, vec![failed("train/0", FailReason::Cancelled)]);
    assert_eq!(starts(&Story::resume(&plan, gpus(1, 1), past).1), ["train/1@0"]);
}

#[test]
fn with_nothing_left_to_do_a_resumed_run_is_finished_at_once() {
    let plan = plan(vec![stage("train", 1, |_| {})]);
    let (_, told) = Story::resume(&plan, gpus(1, 1), past(&plan, vec![succeeded("train/0")]));
    assert_eq!(told, ["finished: 1 succeeded, 0 failed, 0 skipped in 0 s", "over: Finished"]);
}

#[test]
fn an_observer_sees_running_jobs_on_their_lanes() {
    let train = stage("train", 3, |_| {});
    let gang = stage("big", 2, |stage| stage.gpus = 2);
    let plan = plan(vec![gang, train]);
    let state = past(&plan, vec![started("big/0", 0), started("train/0", 2)]);
    let core = Core::observe(Arc::clone(&plan), gpus(3, 1), &state);
    core.check_invariants().unwrap();
    let why = |name: &str| core.waiting(state.find(name).unwrap()).map(|why| why.to_string());
    assert_eq!(why("big/0"), None);
    assert_eq!(why("train/0"), None);
    assert_eq!(why("big/1").unwrap(), "needs 2 GPUs at once, 0 are free; next in line");
    assert_eq!(why("train/2").unwrap(), "all 3 lanes are busy; 2 jobs before it");
}

#[test]
fn an_observer_gives_a_gang_no_lane_that_another_job_has() {
    let gang = stage("big", 1, |stage| stage.gpus = 2);
    let plan = plan(vec![gang, stage("train", 3, |_| {})]);
    let state = past(&plan, vec![started("big/0", 0), started("train/0", 1)]);
    let core = Core::observe(Arc::clone(&plan), gpus(3, 1), &state);
    core.check_invariants().unwrap();
    let why = core.waiting(state.find("train/1").unwrap()).unwrap().to_string();
    assert_eq!(why, "all 3 lanes are busy; next in line");
}

#[test]
fn an_observer_tells_of_holds_and_interruptions() {
    let plan = plan(vec![stage("train", 1, |_| {})]);
    let why = |event| {
        let state = past(&plan, vec![event]);
        let core = Core::observe(Arc::clone(&plan), gpus(1, 1), &state);
        core.waiting(state.find("train/0").unwrap()).unwrap().to_string()
    };
    assert_eq!(why(Event::StartsHeld { because: "disk full".into() }), "starts are held: disk full");
    assert_eq!(
        why(Event::RunInterrupted { because: "SIGINT".into(), exit_code: None }),
        "the run was interrupted"
    );
    assert_eq!(why(Event::Unknown), "about to start; next in line");
}

#[test]
fn an_observer_bears_with_a_journal_of_another_machine() {
    let plan = plan(vec![stage("train", 3, |_| {})]);
    let state = past(&plan, vec![started("train/0", 70), started("train/1", 0), started("train/2", 0)]);
    let core = Core::observe(Arc::clone(&plan), gpus(1, 1), &state);
    assert_eq!(core.counts().running, 3);
}

#[test]
fn an_observer_counts_down_the_pause_before_another_try() {
    let train = stage("train", 1, |stage| {
        stage.retries = 1;
        stage.retry_delay = Millis::seconds(30);
    });
    let plan = plan(vec![train]);
    let (mut run, _) = Story::begin(&plan, gpus(1, 1));
    run.now = Millis(50_000);
    run.fail("train/0");
    let why = |now| {
        let core = Core::observe_at(Arc::clone(&plan), gpus(1, 1), &run.folded, now);
        core.check_invariants().unwrap();
        core.waiting(run.job("train/0")).unwrap().to_string()
    };
    assert_eq!(why(Millis(51_000)), "tries again in 29 s");
    assert_eq!(why(Millis(80_000)), "about to start; next in line");
}
