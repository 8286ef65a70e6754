//! What waits for what: stages, `after`, `foreach`, `parallel`, and what is skipped.

use gpulane_core::{Effect, Input};
use gpulane_model::{Attempt, Millis, StageId};

use crate::scene::{Story, gpus, plan, stage, starts};

#[test]
fn evaluation_comes_after_training_one_at_a_time() {
    let train = stage("train", 2, |_| {});
    let evaluate = stage("evaluate", 0, |stage| {
        stage.after = vec![StageId(0)];
        stage.foreach = Some(StageId(0));
        stage.parallel = 1;
    });
    let (mut run, _) = Story::begin(&plan(vec![train, evaluate]), gpus(2, 1));
    run.succeed("train/0");
    assert_eq!(run.waiting("evaluate/0"), "waits for stage train: 1 of 2 jobs still to end");
    assert_eq!(starts(&run.succeed("train/1")), ["evaluate/0@0"]);
    assert_eq!(run.waiting("evaluate/1"), "stage runs 1 job at a time (parallel = 1)");
    assert_eq!(starts(&run.succeed("evaluate/0")), ["evaluate/1@0"]);
}

#[test]
fn foreach_without_after_starts_as_soon_as_its_own_source_succeeded() {
    let train = stage("train", 2, |_| {});
    let evaluate = stage("evaluate", 0, |stage| stage.foreach = Some(StageId(0)));
    let (mut run, _) = Story::begin(&plan(vec![train, evaluate]), gpus(2, 1));
    assert_eq!(run.waiting("evaluate/1"), "waits for train/1");
    run.spawned("train/1", 1);
    assert_eq!(run.exited("train/1", 1, 0), ["publish train/1"], "not before its output is in place");
    assert_eq!(starts(&run.published("train/1", 1)), ["evaluate/1@1"]);
}

#[test]
fn a_freed_lane_is_filled_before_anything_else_is_done() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |_| {})]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.now = Millis(1500);
    let told = run.exited("train/0", 1, 0);
    assert_eq!(told, ["spawn train/1 #1 lane 0 gpus [0] cpus 4", "publish train/0"]);
    assert_eq!(run.published("train/0", 1), ["train/0 succeeded in 1.5 s"]);
}

#[test]
fn what_follows_a_failed_job_is_skipped_and_so_on_down_the_line() {
    let train = stage("train", 2, |_| {});
    let evaluate = stage("evaluate", 0, |stage| stage.foreach = Some(StageId(0)));
    let report = stage("report", 0, |stage| stage.foreach = Some(StageId(1)));
    let summary = stage("summary", 1, |stage| stage.after = vec![StageId(2)]);
    let (mut run, _) = Story::begin(&plan(vec![train, evaluate, report, summary]), gpus(2, 1));
    assert_eq!(
        run.fail("train/0"),
        [
            "train/0 failed at #1: exit code 3 in 0 s",
            "evaluate/0 skipped: train/0 failed",
            "report/0 skipped: evaluate/0 was skipped",
        ]
    );
    run.succeed("train/1");
    run.succeed("evaluate/1");
    assert_eq!(
        run.succeed("report/1")[2..],
        [
            "summary/0 skipped: 1 of 2 jobs of stage `report` was skipped",
            "finished: 3 succeeded, 1 failed, 3 skipped in 0 s",
            "over: Finished",
        ]
    );
}

#[test]
fn a_stage_after_a_failed_one_is_skipped_when_that_has_ended() {
    let train = stage("train", 3, |_| {});
    let summary = stage("summary", 1, |stage| stage.after = vec![StageId(0)]);
    let (mut run, _) = Story::begin(&plan(vec![train, summary]), gpus(3, 1));
    run.fail("train/0");
    run.succeed("train/1");
    let told = run.fail("train/2");
    assert_eq!(told[1], "summary/0 skipped: 2 of 3 jobs of stage `train` failed");
}

#[test]
fn with_foreach_and_after_only_the_own_source_must_have_succeeded() {
    let train = stage("train", 2, |_| {});
    let evaluate = stage("evaluate", 0, |stage| {
        stage.after = vec![StageId(0)];
        stage.foreach = Some(StageId(0));
    });
    let (mut run, _) = Story::begin(&plan(vec![train, evaluate]), gpus(2, 1));
    assert_eq!(run.fail("train/0").last().unwrap(), "evaluate/0 skipped: train/0 failed");
    assert_eq!(starts(&run.succeed("train/1")), ["evaluate/1@0"]);
}

#[test]
fn empty_stages_have_ended_and_an_empty_plan_is_finished_at_once() {
    let empty = stage("empty", 0, |_| {});
    let next = stage("next", 1, |stage| stage.after = vec![StageId(0)]);
    let (_, told) = Story::begin(&plan(vec![empty.clone(), next]), gpus(1, 1));
    assert_eq!(starts(&told), ["next/0@0"]);
    let (_, told) = Story::begin(&plan(vec![empty]), gpus(1, 1));
    assert_eq!(told, ["finished: 0 succeeded, 0 failed, 0 skipped in 0 s", "over: Finished"]);
}

#[test]
fn the_plans_order_of_stages_goes_before_the_order_of_readiness() {
    let late = stage("first", 1, |stage| stage.after = vec![StageId(1)]);
    let quick = stage("quick", 1, |stage| stage.gpus = 0);
    let many = stage("many", 3, |_| {});
    let (mut run, told) = Story::begin(&plan(vec![late, quick, many]), gpus(1, 1));
    assert_eq!(starts(&told), ["many/0@0", "quick/0@1"]);
    run.succeed("quick/0");
    assert_eq!(run.waiting("first/0"), "the only lane is busy; next in line");
    assert_eq!(run.waiting("many/2"), "the only lane is busy; 2 jobs before it");
    run.spawned("many/0", 1);
    assert_eq!(starts(&run.exited("many/0", 1, 0)), ["first/0@0"]);
}

#[test]
fn jobs_at_their_stages_limit_block_nobody() {
    let narrow = stage("narrow", 3, |stage| {
        stage.parallel = 1;
        stage.gpus = 2;
    });
    let other = stage("other", 2, |_| {});
    let (_, told) = Story::begin(&plan(vec![narrow, other]), gpus(4, 1));
    assert_eq!(starts(&told), ["narrow/0@0", "other/0@2", "other/1@3"]);
}

#[test]
fn a_cycle_from_an_edited_plan_ends_with_a_reason() {
    let a = stage("a", 1, |stage| stage.after = vec![StageId(1)]);
    let b = stage("b", 1, |stage| stage.after = vec![StageId(0)]);
    let (_, told) = Story::begin(&plan(vec![a, b]), gpus(1, 1));
    assert_eq!(told[0], "a/0 skipped: it waits for itself: the plan has a cycle");
    assert_eq!(told.last().unwrap(), "over: Finished");
}

#[test]
fn late_and_unknown_inputs_are_ignored() {
    let plan = plan(vec![stage("train", 1, |_| {})]);
    let (mut run, _) = Story::begin(&plan, gpus(1, 1));
    let nothing = [""; 0];
    assert_eq!(run.step(Input::Begin), nothing);
    assert_eq!(run.exited("train/0", 1, 0), nothing, "not yet started");
    assert_eq!(run.spawned("train/0", 2), nothing, "no such attempt");
    run.spawned("train/0", 1);
    assert_eq!(run.spawned("train/0", 1), nothing);
    assert_eq!(run.published("train/0", 1), nothing);
    let mut effects: Vec<Effect> = vec![];
    let stranger = Input::JobPublished { job: gpulane_model::JobId(77), attempt: Attempt(1) };
    run.core.step(Millis(5), stranger, &mut effects);
    assert!(effects.is_empty());
    run.succeed("train/0");
    assert!(run.core.is_finished());
    assert_eq!(run.interrupted(true), nothing, "it is over");
}
