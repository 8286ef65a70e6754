//! Stages with a map: workers come and go, and the map's own word decides.

use std::sync::Arc;

use gpulane_core::{Input, Verdict};
use gpulane_model::{Event, MapStage, Millis, Plan, ProcessExit, Record, RunState, Stage, StageId};

use crate::scene::{Story, no_gpus, plan, stage, starts};

const MAP: StageId = StageId(0);

fn map(workers: u32) -> Stage {
    stage("map", workers, |stage| {
        stage.map = Some(MapStage::default());
        stage.retries = 1;
    })
}

/// A map with so many workers, and a stage after it.
fn two_stages(workers: u32) -> Arc<Plan> {
    plan(vec![map(workers), stage("after", 1, |stage| stage.after = vec![MAP])])
}

/// All its workers run.
fn running(plan: &Arc<Plan>, workers: u32) -> Story {
    let (mut story, _) = Story::begin(plan, no_gpus(workers));
    for at in 0..workers {
        story.spawned(&format!("map/{at}"), 1);
    }
    story
}

fn ended(story: &mut Story, result: Result<(), &str>) -> Vec<String> {
    story.step(Input::MapEnded { stage: MAP, result: result.map_err(str::to_owned) })
}

fn feeder_gone(story: &mut Story) -> Vec<String> {
    story.step(Input::FeederGone { stage: MAP })
}

fn crashed(story: &mut Story, name: &str, attempt: u32, fruitful: bool) -> Vec<String> {
    story.ended(name, attempt, ProcessExit::Signal(11), |end| end.fruitful = fruitful)
}

#[test]
fn the_feeder_comes_before_its_first_worker_and_only_once() {
    let (_, told) = Story::begin(&two_stages(3), no_gpus(2));
    let order: Vec<&str> = told.iter().filter_map(|line| line.split(" lane").next()).collect();
    assert_eq!(order, ["feed map", "spawn map/0 #1", "spawn map/1 #1"]);
}

#[test]
fn a_complete_map_needs_no_more_workers_and_lets_others_start() {
    let plan = two_stages(3);
    let (mut story, _) = Story::begin(&plan, no_gpus(2));
    story.spawned("map/0", 1);
    story.spawned("map/1", 1);
    let told = ended(&mut story, Ok(()));
    assert_eq!(
        told,
        ["grace of map/0 until 10000", "grace of map/1 until 10000", "map/2 skipped: the map is complete"]
    );
    // However they exit now, they have done their work.
    assert_eq!(story.exited("map/0", 1, 1), ["publish map/0"]);
    assert_eq!(story.signalled("map/1", 1, 9), ["publish map/1"]);
    let published = |job| Input::JobPublished { job, attempt: gpulane_model::Attempt(1) };
    story.step(published(story.job("map/0")));
    let told = story.step(published(story.job("map/1")));
    assert_eq!(starts(&told), ["after/0@0"]);
    feeder_gone(&mut story);
    story.spawned("after/0", 1);
    story.exited("after/0", 1, 0);
    let told = story.step(published(story.job("after/0")));
    assert_eq!(told.last().unwrap(), "over: Finished");
    assert_eq!((story.folded.counts.succeeded, story.core.maps_are_complete()), (4, true));
}

#[test]
fn who_stays_after_its_map_is_complete_is_ended_and_has_succeeded() {
    let mut story = running(&plan(vec![map(1)]), 1);
    ended(&mut story, Ok(()));
    feeder_gone(&mut story);
    story.now = Millis(10_000);
    let timer = gpulane_core::Timer::Linger { job: story.job("map/0"), attempt: gpulane_model::Attempt(1) };
    assert_eq!(story.step(Input::TimerFired { timer }), ["term map/0"]);
    assert_eq!(story.signalled("map/0", 1, 9), ["publish map/0"]);
}

#[test]
fn the_run_is_not_over_while_a_feeder_lives() {
    let mut story = running(&plan(vec![map(1)]), 1);
    ended(&mut story, Ok(()));
    story.exited("map/0", 1, 0);
    let told =
        story.step(Input::JobPublished { job: story.job("map/0"), attempt: gpulane_model::Attempt(1) });
    assert_eq!(told, ["map/0 succeeded in 0 s"]);
    assert_eq!(feeder_gone(&mut story).last().unwrap(), "over: Finished");
}

#[test]
fn a_worker_that_exits_well_before_the_map_is_done_is_replaced_like_any_other() {
    let mut story = running(&two_stages(1), 1);
    for attempt in 1..60 {
        let next = attempt + 1;
        let told = story.ended("map/0", attempt, ProcessExit::Code(0), |end| end.fruitful = true);
        let why = "exit code 0: ended by itself before the map was done";
        assert!(told.contains(&format!("map/0 restarts as #{next} after a fruitful try: {why}")), "{told:?}");
        story.spawned("map/0", next);
    }
    // Without a model in between, it is tried as often as any that fails.
    let told = story.exited("map/0", 60, 0);
    assert!(told[0].starts_with("map/0 failed at #60: exit code 0: ended by itself"), "{told:?}");
    assert!(told.contains(&"term the feeder of map".to_owned()), "{told:?}");
}

#[test]
fn a_feeder_without_workers_is_ended_and_its_map_is_not_complete() {
    let mut story = running(&two_stages(1), 1);
    story.exited("map/0", 1, 0);
    story.step(Input::TimerFired { timer: gpulane_core::Timer::Retry { job: story.job("map/0") } });
    story.spawned("map/0", 2);
    let told = story.exited("map/0", 2, 0);
    assert_eq!(told.last().unwrap(), "term the feeder of map");
    let told = feeder_gone(&mut story);
    assert_eq!(told[0], "after/0 skipped: the map of stage `map` is not complete and has no worker left");
    assert!(!story.core.maps_are_complete());
}

#[test]
fn a_map_that_stops_ends_its_workers_and_says_why_once() {
    let plan = two_stages(3);
    let (mut story, _) = Story::begin(&plan, no_gpus(2));
    story.spawned("map/0", 1);
    let told = ended(&mut story, Err("101 items failed"));
    assert_eq!(
        told,
        [
            "map stopped: 101 items failed",
            "term map/0",
            "map/2 failed at #0: stopped: 101 items failed in 0 s"
        ]
    );
    // One that was being started is ended as soon as it runs.
    assert_eq!(story.spawned("map/1", 1)[1], "term map/1");
    feeder_gone(&mut story);
    let told = story.signalled("map/0", 1, 15);
    assert_eq!(told[1], "map/0 skipped: 101 items failed");
    let told = story.exited("map/1", 1, 0);
    assert_eq!(told[1], "map/1 skipped: 101 items failed");
    assert_eq!(told[2], "after/0 skipped: the map of stage `map` stopped: 101 items failed");
}

#[test]
fn a_stop_is_seen_even_if_all_workers_run() {
    let mut story = running(&plan(vec![map(1)]), 1);
    ended(&mut story, Err("the inputs have changed"));
    feeder_gone(&mut story);
    let told = story.signalled("map/0", 1, 15);
    assert_eq!(told[0], "map/0 failed at #1: stopped: the inputs have changed in 0 s");
    assert_eq!(told.last().unwrap(), "over: Finished");
}

#[test]
fn only_failures_in_a_row_before_the_model_is_loaded_are_counted() {
    let mut story = running(&plan(vec![map(1)]), 1);
    for attempt in 1..20 {
        let told = crashed(&mut story, "map/0", attempt, true);
        let next = attempt + 1;
        assert_eq!(starts(&told), ["map/0@0"], "at once");
        assert_eq!(told[2], format!("map/0 restarts as #{next} after a fruitful try: killed by SIGSEGV"));
        story.spawned("map/0", next);
        assert_eq!(story.folded.jobs[0].failures, 1);
    }
    // Fruitless: one more try is left after the last fruitful one, with a pause.
    let told = crashed(&mut story, "map/0", 20, false);
    assert_eq!(told[0], "map/0 failed at #20: killed by SIGSEGV in 0 s", "{told:?}");
    assert_eq!(told.last().unwrap(), "term the feeder of map");
    assert_eq!(feeder_gone(&mut story).last().unwrap(), "over: Finished");
}

#[test]
fn a_fruitless_try_is_followed_by_a_pause() {
    let mut story = running(&plan(vec![map(1)]), 1);
    let told = crashed(&mut story, "map/0", 1, false);
    assert_eq!(told.last().unwrap(), "retry of map/0 at 1000");
}

#[test]
fn a_frozen_worker_is_replaced_however_often_if_its_model_was_loaded() {
    let mut story = running(&plan(vec![map(1)]), 1);
    for attempt in 1..10 {
        assert_eq!(story.stuck("map/0", attempt, Verdict::Frozen)[1], "thaw map/0");
        assert_eq!(starts(&crashed(&mut story, "map/0", attempt, true)), ["map/0@0"]);
        story.spawned("map/0", attempt + 1);
    }
}

#[test]
fn one_worker_that_fails_for_good_does_not_stop_the_map() {
    let mut story = running(&two_stages(2), 2);
    for attempt in 1..3 {
        crashed(&mut story, "map/0", attempt, false);
        story.now = Millis(story.now.0 + 1000);
        let timer = gpulane_core::Timer::Retry { job: story.job("map/0") };
        story.step(Input::TimerFired { timer });
        story.spawned("map/0", attempt + 1);
    }
    assert_eq!(story.folded.counts.failed, 1);
    ended(&mut story, Ok(()));
    story.exited("map/1", 1, 0);
    let told =
        story.step(Input::JobPublished { job: story.job("map/1"), attempt: gpulane_model::Attempt(1) });
    assert_eq!(starts(&told), ["after/0@0"], "the map is complete all the same");
}

#[test]
fn an_interruption_ends_feeder_and_workers_and_waits_for_both() {
    let mut story = running(&plan(vec![map(1)]), 1);
    let told = story.step(Input::Interrupted { because: "SIGINT".into(), now: false });
    assert_eq!(told, ["term the feeder of map", "term map/0"]);
    let told = story.signalled("map/0", 1, 15);
    assert_eq!(told, ["map/0 failed at #1: interrupted in 0 s"]);
    assert_eq!(feeder_gone(&mut story), ["interrupted: SIGINT", "over: Interrupted"]);
}

#[test]
fn an_urgent_interruption_kills_the_feeder_too() {
    let mut story = running(&plan(vec![map(1)]), 1);
    story.step(Input::Interrupted { because: "SIGINT".into(), now: false });
    let told = story.step(Input::Interrupted { because: "SIGINT".into(), now: true });
    assert_eq!(told, ["kill the feeder of map", "kill map/0"]);
}

#[test]
fn a_cancelled_map_takes_its_feeder_with_it() {
    let mut story = running(&plan(vec![map(2)]), 2);
    story.step(Input::CancelRequested { jobs: vec![] });
    story.signalled("map/0", 1, 15);
    let told = story.signalled("map/1", 1, 15);
    assert_eq!(told.last().unwrap(), "term the feeder of map");
    assert_eq!(feeder_gone(&mut story).last().unwrap(), "over: Finished");
}

#[test]
fn a_map_that_was_complete_is_not_begun_again() {
    let plan = two_stages(2);
    let mut past = RunState::new(&plan);
    let event =
        Event::MapFinished { stage: "map".into(), rows: 5, failed: 0, damaged: 0, summary: String::new() };
    past.apply(&Record { seq: 1, time: Millis(0), event });
    let (_, told) = Story::resume(&plan, no_gpus(2), past);
    assert_eq!(starts(&told), ["after/0@0"]);
    assert!(!told.iter().any(|line| line.starts_with("feed")), "{told:?}");
}
