//! Jobs that have done their work and do not exit, or not as they should.

use gpulane_core::{Input, Timer, Verdict};
use gpulane_model::{Attempt, Millis, Stage};

use crate::scene::{Story, gpus, plan, stage};

fn train() -> Stage {
    stage("train", 1, |stage| {
        stage.grace = Millis::seconds(10);
        stage.timeout = Some(Millis::seconds(60));
    })
}

/// A job that said it is done.
fn done() -> Story {
    let (mut run, _) = Story::begin(&plan(vec![train()]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.now = Millis(5000);
    assert_eq!(run.done("train/0", 1, false), ["grace of train/0 until 15000"]);
    run
}

fn linger(run: &Story) -> Timer {
    Timer::Linger { job: run.job("train/0"), attempt: Attempt(1) }
}

#[test]
fn one_that_is_done_has_its_grace_and_is_then_ended_with_success() {
    let mut run = done();
    assert_eq!(run.done("train/0", 1, false), [""; 0], "said once is enough");
    assert_eq!(run.fired(linger(&run)), ["term train/0"]);
    assert_eq!(run.fired(linger(&run)), [""; 0]);
    assert_eq!(run.signalled("train/0", 1, 9), ["publish train/0"]);
    assert_eq!(
        run.published("train/0", 1)[..2],
        ["train/0 lingered: called gpulane.done(), then did not exit", "train/0 succeeded in 5 s"]
    );
}

#[test]
fn what_it_does_instead_of_exiting_is_told_too() {
    let mut run = done();
    let doing = Some("waiting for a thread in log.py:7".to_owned());
    let (job, attempt, because) = (run.job("train/0"), Attempt(1), "called gpulane.done()".to_owned());
    assert_eq!(run.step(Input::WorkDone { job, attempt, because, doing, frozen: false }), [""; 0]);
    run.fired(linger(&run));
    run.signalled("train/0", 1, 9);
    assert_eq!(
        run.published("train/0", 1)[0],
        "train/0 lingered: called gpulane.done(), then did not exit: waiting for a thread in log.py:7"
    );
}

#[test]
fn one_that_exits_in_time_is_a_plain_success() {
    let mut run = done();
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"]);
    assert_eq!(run.published("train/0", 1)[0], "train/0 succeeded in 5 s");
}

#[test]
fn one_that_is_frozen_as_well_is_ended_at_once() {
    let (mut run, _) = Story::begin(&plan(vec![train()]), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(run.done("train/0", 1, true), ["term train/0"]);
    let mut run = done();
    assert_eq!(run.done("train/0", 1, true), ["term train/0"]);
}

#[test]
fn a_crash_at_the_exit_is_a_success_but_an_error_is_not() {
    let mut run = done();
    assert_eq!(run.signalled("train/0", 1, 11), ["publish train/0"]);
    assert_eq!(
        run.published("train/0", 1)[0],
        "train/0 lingered: called gpulane.done(), then died of SIGSEGV at its exit"
    );
    let mut run = done();
    assert_eq!(run.exited("train/0", 1, 3)[0], "train/0 failed at #1: exit code 3 in 5 s");
}

#[test]
fn neither_its_time_nor_a_freeze_is_held_against_one_that_is_done() {
    let mut run = done();
    let timer = Timer::Timeout { job: run.job("train/0"), attempt: Attempt(1) };
    assert_eq!(run.fired(timer), ["term train/0"]);
    assert_eq!(run.exited("train/0", 1, 1), ["publish train/0"], "whatever it says when it is ended");

    let mut run = done();
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen)[1], "term train/0");
    run.signalled("train/0", 1, 15);
    assert_eq!(
        run.published("train/0", 1)[0],
        "train/0 lingered: called gpulane.done(), then did not exit: waiting for a lock in fid.py:88"
    );
}

#[test]
fn a_person_who_cancels_it_wins_and_an_interruption_does_not_undo_it() {
    let mut run = done();
    run.fired(linger(&run));
    run.cancelled(&["train/0"]);
    assert_eq!(run.signalled("train/0", 1, 15)[0], "train/0 failed at #1: cancelled in 5 s");

    let mut run = done();
    assert_eq!(run.interrupted(false), ["term train/0"]);
    assert_eq!(run.interrupted(true), ["kill train/0"]);
    assert_eq!(run.signalled("train/0", 1, 9), ["publish train/0"]);
    let told = run.published("train/0", 1);
    assert!(told[0].ends_with("was still there when the run was interrupted"), "{told:?}");
}

#[test]
fn one_whose_output_cannot_be_published_has_not_lingered() {
    let mut run = done();
    run.fired(linger(&run));
    run.signalled("train/0", 1, 9);
    let (job, message) = (run.job("train/0"), "disk full".to_owned());
    let told = run.step(Input::PublishFailed { job, attempt: Attempt(1), message, kept: false });
    assert_eq!(told[0], "train/0 failed at #1: output could not be published: disk full in 5 s");
}
