//! Stopping: a person cancels jobs, the run is interrupted once or twice, and starts are under way meanwhile.

use gpulane_core::Timer;
use gpulane_model::{Attempt, Millis, StageId};

use crate::scene::{Story, gpus, plan, stage, starts};

#[test]
fn cancelling_ends_what_runs_and_fails_what_waits() {
    let train = stage("train", 3, |stage| stage.retries = 3);
    let evaluate = stage("evaluate", 0, |stage| stage.foreach = Some(StageId(0)));
    let (mut run, _) = Story::begin(&plan(vec![train, evaluate]), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(
        run.cancelled(&["train/0", "train/1"]),
        ["term train/0", "train/1 failed at #0: cancelled in 0 s", "evaluate/1 skipped: train/1 failed"]
    );
    assert_eq!(run.cancelled(&["train/0", "train/1"]), [""; 0]);
    assert_eq!(
        run.exited("train/0", 1, 0),
        [
            "spawn train/2 #1 lane 0 gpus [0] cpus 4",
            "train/0 failed at #1: cancelled in 0 s",
            "evaluate/0 skipped: train/0 failed",
        ],
        "it exited with 0, but a person wanted it gone"
    );
}

#[test]
fn cancelling_everything_leaves_only_what_is_being_published() {
    let train = stage("train", 3, |stage| stage.max_failures = Some(1));
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(2, 1));
    run.spawned("train/0", 1);
    run.exited("train/0", 1, 0);
    run.spawned("train/1", 1);
    assert_eq!(run.cancelled(&[]), ["term train/1"], "train/2 is being started");
    assert_eq!(run.spawned("train/2", 1), ["train/2 started on [GPU-0]", "term train/2"]);
    run.signalled("train/1", 1, 15);
    assert_eq!(run.signalled("train/2", 1, 15), ["train/2 failed at #1: cancelled in 0 s"]);
    assert_eq!(run.published("train/0", 1)[0], "train/0 succeeded in 0 s");
    assert!(run.core.is_finished());
}

#[test]
fn a_cancelled_job_whose_start_is_blocked_never_ran() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |_| {})]), gpus(1, 1));
    run.cancelled(&["train/0"]);
    assert_eq!(run.blocked("train/0", 1)[0], "train/0 failed at #0: cancelled in 0 s");
}

#[test]
fn a_cancelled_job_that_had_timed_out_gets_no_further_try() {
    let train = stage("train", 1, |stage| {
        stage.timeout = Some(Millis(10));
        stage.retries = 1;
    });
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(1, 1));
    run.spawned("train/0", 1);
    let job = run.job("train/0");
    run.fired(Timer::Timeout { job, attempt: Attempt(1) });
    assert_eq!(run.cancelled(&["train/0"]), [""; 0], "it is being ended already");
    assert_eq!(run.signalled("train/0", 1, 15)[0], "train/0 failed at #1: cancelled in 0 s");
    assert!(run.core.is_finished());
}

#[test]
fn an_interrupted_run_ends_what_runs_starts_nothing_and_stays_resumable() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 5, |_| {})]), gpus(3, 1));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    assert_eq!(run.interrupted(false), ["term train/0", "term train/1"]);
    assert_eq!(run.waiting("train/4"), "the run was interrupted");
    assert_eq!(run.spawned("train/2", 1), ["train/2 started on [GPU-2]", "term train/2"]);
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"], "it had just finished");
    assert_eq!(run.interrupted(true), ["kill train/1", "kill train/2"], "a second time: at once");
    assert_eq!(run.signalled("train/1", 1, 9), ["train/1 failed at #1: interrupted in 0 s"]);
    assert_eq!(run.published("train/0", 1), ["train/0 succeeded in 0 s"]);
    assert_eq!(
        run.signalled("train/2", 1, 9),
        ["train/2 failed at #1: interrupted in 0 s", "interrupted: SIGINT", "over: Interrupted"]
    );
    let counts = run.core.counts();
    assert_eq!((counts.succeeded, counts.pending, counts.failed), (1, 4, 0));
}

#[test]
fn an_interruption_with_nothing_running_ends_the_run_at_once() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(1, 1));
    run.blocked("train/0", 1);
    assert_eq!(run.interrupted(false), ["interrupted: SIGINT", "over: Interrupted"]);
}

#[test]
fn an_interrupted_run_whose_last_job_still_succeeds_is_finished() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.interrupted(false);
    run.exited("train/0", 1, 0);
    assert_eq!(run.published("train/0", 1).last().unwrap(), "over: Finished");
}

#[test]
fn a_job_that_times_out_during_an_interruption_keeps_its_next_try_for_the_resume() {
    let train = stage("train", 1, |stage| {
        stage.timeout = Some(Millis(10));
        stage.retries = 1;
    });
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(1, 1));
    run.spawned("train/0", 1);
    let job = run.job("train/0");
    run.fired(Timer::Timeout { job, attempt: Attempt(1) });
    assert_eq!(run.interrupted(false), [""; 0]);
    let told = run.signalled("train/0", 1, 15);
    assert_eq!(starts(&told), [""; 0]);
    assert_eq!(told.last().unwrap(), "over: Interrupted");
    assert_eq!(run.core.counts().pending, 1);
}
