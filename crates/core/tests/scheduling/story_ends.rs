//! Failures and further tries: retries, delays, timeouts, `max_failures`, outputs that cannot be published.

use gpulane_core::{Input, Timer};
use gpulane_model::{Attempt, Millis, ProcessExit};

use crate::scene::{Story, gpus, plan, stage, starts};

#[test]
fn a_failed_job_goes_to_the_end_of_its_queue_while_it_has_tries_left() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |stage| stage.retries = 1)]), gpus(1, 1));
    assert_eq!(
        run.fail("train/0"),
        [
            "spawn train/1 #1 lane 0 gpus [0] cpus 4",
            "train/0 failed at #1: exit code 3 in 0 s",
            "train/0 retries as #2 in 0 s",
        ]
    );
    run.spawned("train/1", 1);
    assert_eq!(starts(&run.exited("train/1", 1, 0)), ["train/0@0"]);
    run.published("train/1", 1);
    run.spawned("train/0", 2);
    assert_eq!(
        run.signalled("train/0", 2, 11),
        [
            "train/0 failed at #2: killed by SIGSEGV in 0 s",
            "finished: 1 succeeded, 1 failed, 0 skipped in 0 s",
            "over: Finished",
        ]
    );
}

#[test]
fn a_delayed_retry_blocks_nobody_and_comes_when_its_timer_does() {
    let train = stage("train", 2, |stage| {
        stage.retries = 1;
        stage.retry_delay = Millis::seconds(5);
    });
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(1, 1));
    run.now = Millis(1000);
    assert_eq!(
        run.fail("train/0"),
        [
            "spawn train/1 #1 lane 0 gpus [0] cpus 4",
            "train/0 failed at #1: exit code 3 in 0 s",
            "train/0 retries as #2 in 5 s",
            "retry of train/0 at 6000",
        ]
    );
    run.now = Millis(2000);
    run.succeed("train/1");
    assert_eq!(run.waiting("train/0"), "tries again in 4.0 s");
    run.now = Millis(6000);
    let job = run.job("train/0");
    assert_eq!(run.fired(Timer::Retry { job }), ["spawn train/0 #2 lane 0 gpus [0] cpus 4"]);
    assert_eq!(run.fired(Timer::Retry { job }), [""; 0], "a second firing means nothing");
}

#[test]
fn a_job_over_its_time_is_ended_and_fails_whatever_its_exit() {
    let train = stage("train", 1, |stage| stage.timeout = Some(Millis(2000)));
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(1, 1));
    run.now = Millis(100);
    assert_eq!(run.spawned("train/0", 1)[1], "timeout of train/0 at 2100");
    run.now = Millis(2100);
    let timer = Timer::Timeout { job: run.job("train/0"), attempt: Attempt(1) };
    assert_eq!(run.fired(timer), ["term train/0"]);
    assert_eq!(run.fired(timer), [""; 0]);
    run.now = Millis(3100);
    assert_eq!(
        run.exited("train/0", 1, 0)[0],
        "train/0 failed at #1: timeout: took longer than 2.0 s in 3 s"
    );
}

#[test]
fn the_timeout_of_an_earlier_try_does_not_touch_the_next() {
    let train = stage("train", 1, |stage| {
        stage.timeout = Some(Millis(2000));
        stage.retries = 1;
    });
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(1, 1));
    run.fail("train/0");
    run.spawned("train/0", 2);
    let timer = Timer::Timeout { job: run.job("train/0"), attempt: Attempt(1) };
    assert_eq!(run.fired(timer), [""; 0]);
}

#[test]
fn a_stage_with_too_many_failures_stops_but_lets_its_running_jobs_end() {
    let train = stage("train", 5, |stage| {
        stage.max_failures = Some(2);
        stage.retries = 1;
        stage.retry_delay = Millis(1000);
    });
    let (mut run, _) = Story::begin(&plan(vec![train]), gpus(4, 1));
    for job in ["train/0", "train/1", "train/2", "train/3"] {
        run.spawned(job, 1);
    }
    run.exited("train/2", 1, 1);
    for job in ["train/0", "train/1"] {
        run.exited(job, 1, 1);
        let job = run.job(job);
        run.fired(Timer::Retry { job });
    }
    run.spawned("train/0", 2);
    run.spawned("train/1", 2);
    run.exited("train/0", 2, 1);
    assert_eq!(
        run.exited("train/1", 2, 1),
        [
            "train/1 failed at #2: exit code 1 in 0 s",
            "train/2 skipped: stage `train` stopped after 2 failures"
        ],
        "train/2 waited for another try; train/3 and train/4 run on"
    );
    let told = run.exited("train/3", 1, 1);
    assert_eq!(told, ["train/3 failed at #1: exit code 1 in 0 s"], "no further try in a stopped stage");
}

#[test]
fn an_output_that_cannot_be_published_is_a_failed_try() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |stage| stage.retries = 1)]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.exited("train/0", 1, 0);
    let (job, message) = (run.job("train/0"), "disk full".to_owned());
    assert_eq!(
        run.step(Input::PublishFailed { job, attempt: Attempt(1), message, kept: false }),
        [
            "spawn train/0 #2 lane 0 gpus [0] cpus 4",
            "train/0 failed at #1: output could not be published: disk full in 0 s",
            "train/0 retries as #2 in 0 s",
        ]
    );
}

#[test]
fn a_kept_output_is_not_computed_again() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |stage| stage.retries = 1)]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.exited("train/0", 1, 0);
    let (job, message) = (run.job("train/0"), "too many open files".to_owned());
    let told = run.step(Input::PublishFailed { job, attempt: Attempt(1), message, kept: true });
    assert_eq!(
        told[0], "train/0 failed at #1: output could not be published: too many open files in 0 s",
        "{told:?}"
    );
    assert!(!told.iter().any(|line| line.contains("spawn")), "{told:?}");
}

#[test]
fn processes_a_job_leaves_behind_are_told() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(1, 1));
    run.spawned("train/0", 1);
    let told = run.ended("train/0", 1, ProcessExit::Code(0), |end| end.left = 3);
    assert_eq!(told, ["train/0 left 3 processes", "publish train/0"]);
}
