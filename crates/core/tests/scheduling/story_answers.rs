//! When a start does not work: a program that cannot be executed, and a machine on which nothing can be started now.

use gpulane_core::{Input, Timer};
use gpulane_model::{Attempt, Millis};

use crate::scene::{Story, gpus, plan, stage, starts};

#[test]
fn a_program_that_cannot_be_executed_is_not_tried_again() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |stage| stage.retries = 5)]), gpus(1, 1));
    let (job, message) = (run.job("train/0"), "no such file".to_owned());
    assert_eq!(
        run.step(Input::SpawnFailed { job, attempt: Attempt(1), message }),
        [
            "spawn train/1 #1 lane 0 gpus [0] cpus 4",
            "train/0 failed at #1: could not start: no such file in 0 s",
        ]
    );
}

#[test]
fn while_starts_are_held_nothing_starts_and_one_job_tries_whether_it_works_again() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 4, |_| {})]), gpus(2, 1));
    run.now = Millis(500);
    assert_eq!(run.blocked("train/0", 1), ["held: disk full", "look again at 2500"]);
    assert_eq!(run.blocked("train/1", 1), [""; 0], "said once");
    assert_eq!(run.waiting("train/0"), "starts are held: disk full");

    run.now = Millis(2500);
    assert_eq!(starts(&run.fired(Timer::RetryHeld)), ["train/1@0"], "one, with the same attempt number");
    assert_eq!(run.blocked("train/1", 1), ["look again at 4500"]);

    run.now = Millis(4500);
    assert_eq!(starts(&run.fired(Timer::RetryHeld)), ["train/1@0"]);
    assert_eq!(
        run.spawned("train/1", 1),
        ["spawn train/0 #1 lane 1 gpus [1] cpus 4", "train/1 started on [GPU-0]", "released"]
    );
}

#[test]
fn a_job_asked_before_the_hold_may_start_without_releasing_it() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 3, |_| {})]), gpus(2, 1));
    run.blocked("train/0", 1);
    assert_eq!(run.spawned("train/1", 1), ["train/1 started on [GPU-1]"]);
    assert_eq!(starts(&run.exited("train/1", 1, 0)), [""; 0]);
}

#[test]
fn a_trial_that_cannot_be_executed_lets_the_next_job_try() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |_| {})]), gpus(1, 1));
    run.blocked("train/0", 1);
    run.fired(Timer::RetryHeld);
    let (job, message) = (run.job("train/0"), "no such file".to_owned());
    let told = run.step(Input::SpawnFailed { job, attempt: Attempt(1), message });
    assert_eq!(starts(&told), ["train/1@0"]);
    assert_eq!(run.spawned("train/1", 1)[1], "released");
}
