//! Jobs that freeze, and processes that nothing ends.

use gpulane_core::{Timer, Verdict};
use gpulane_model::{Attempt, FailReason, Hang, HangAction, JobStatus, Millis, Stage};

use crate::scene::{Story, gpus, no_gpus, packed, plan, share, stage, starts};

fn watched(jobs: u32, action: HangAction) -> Stage {
    stage("train", jobs, |stage| stage.hang = Some(Hang { action, ..Hang::default() }))
}

const FROZEN: &str = "train/0 is frozen for 600 s: waiting for a lock in fid.py:88";
const FAILED: &str =
    "hang: waiting for a lock in fid.py:88 (a library that is not safe in threads, use processes)";

#[test]
fn a_suspicion_is_told_and_changes_nothing() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(
        run.stuck("train/0", 1, Verdict::Told),
        ["train/0 is quiet for 600 s: waiting for a lock in fid.py:88"]
    );
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"]);
}

#[test]
fn a_suspicion_that_lasts_too_long_ends_the_job_in_words_of_its_own() {
    let outside = |action| {
        let hang = Hang { action, outside: Some(Millis::seconds(3600)), ..Hang::default() };
        plan(vec![stage("train", 1, |stage| stage.hang = Some(hang))])
    };
    let overdue = "train/0 is overdue for 600 s: waiting for a lock in fid.py:88";
    let (mut run, _) = Story::begin(&outside(HangAction::Fail), gpus(1, 1));
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Told);
    assert_eq!(run.stuck("train/0", 1, Verdict::Overdue), [overdue, "thaw train/0"]);
    let told = run.signalled("train/0", 1, 15);
    let words =
        "hang: waited for longer than its limit `hang.outside` of 1h 00m: waiting for a lock in fid.py:88";
    assert!(told[0].starts_with(&format!("train/0 failed at #1: {words}")), "{told:?}");

    let (mut run, _) = Story::begin(&outside(HangAction::Warn), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(run.stuck("train/0", 1, Verdict::Overdue), [overdue], "a warning ends nothing");
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"]);
}

#[test]
fn a_frozen_job_is_ended_and_tried_once_more_even_without_retries() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen), [FROZEN, "thaw train/0"]);
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen), [""; 0], "it is being ended already");
    let told = run.exited("train/0", 1, 0);
    assert_eq!(
        told,
        [
            "spawn train/0 #2 lane 0 gpus [0] cpus 4",
            &format!("train/0 failed at #1: {FAILED} in 0 s"),
            "train/0 retries as #2 in 0 s",
        ],
        "that it exits with 0 when asked to end is no success"
    );
    run.spawned("train/0", 2);
    run.stuck("train/0", 2, Verdict::Frozen);
    let told = run.signalled("train/0", 2, 6);
    assert_eq!(told[0], format!("train/0 failed at #2: {FAILED} in 0 s"));
    assert_eq!(told[1], "finished: 0 succeeded, 1 failed, 0 skipped in 0 s");
}

#[test]
fn a_hang_then_another_failure_is_the_end_where_there_are_no_retries() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    run.signalled("train/0", 1, 15);
    run.spawned("train/0", 2);
    assert_eq!(run.exited("train/0", 2, 3)[1], "finished: 0 succeeded, 1 failed, 0 skipped in 0 s");
}

#[test]
fn with_fail_there_is_no_further_try_and_with_warn_it_is_left_alone() {
    let retried = |action| {
        let mut stage = watched(1, action);
        stage.retries = 3;
        plan(vec![stage])
    };
    let (mut run, _) = Story::begin(&retried(HangAction::Fail), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen)[1], "thaw train/0");
    assert_eq!(run.signalled("train/0", 1, 9).last().unwrap(), "over: Finished");
    let status = &run.folded.job(run.job("train/0")).status;
    assert!(matches!(status, JobStatus::Failed(how) if how.reason == FailReason::Hang), "{status:?}");

    let (mut run, _) = Story::begin(&retried(HangAction::Warn), gpus(1, 1));
    run.spawned("train/0", 1);
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen), [FROZEN]);
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"]);
}

#[test]
fn who_cancels_a_frozen_job_wants_no_other_try() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    assert_eq!(run.cancelled(&["train/0"]), [""; 0], "it is being ended already");
    assert_eq!(run.signalled("train/0", 1, 9)[0], "train/0 failed at #1: cancelled in 0 s");
}

#[test]
fn a_frozen_job_keeps_its_next_try_through_an_interruption() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    assert_eq!(run.interrupted(false), [""; 0]);
    assert_eq!(run.interrupted(true), ["kill train/0"]);
    let told = run.signalled("train/0", 1, 9);
    assert_eq!(told[0], format!("train/0 failed at #1: {FAILED} in 0 s"));
    assert_eq!(told.last().unwrap(), "over: Interrupted");
    assert_eq!(run.core.counts().pending, 1);
}

#[test]
fn what_is_told_of_another_try_means_nothing() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Retry)]), gpus(1, 1));
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen), [""; 0], "it is only being started");
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    run.signalled("train/0", 1, 9);
    run.spawned("train/0", 2);
    assert_eq!(run.stuck("train/0", 1, Verdict::Frozen), [""; 0]);
    assert_eq!(run.done("train/0", 1, true), [""; 0]);
}

#[test]
fn a_process_that_outlives_kill_takes_its_gpu_with_it_and_the_job_runs_elsewhere() {
    let (mut run, _) = Story::begin(&plan(vec![watched(2, HangAction::Fail)]), gpus(2, 1));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    assert_eq!(
        run.stranded("train/0", 1),
        [
            "train/0 cannot end [77]: state D in nvidia_close",
            "GPU-0 lost: holds process 77 of train/0, which outlived SIGKILL (state D in nvidia_close)",
            "train/0 failed at #1: lost: its processes outlived SIGKILL and hold its GPU in 0 s",
        ],
        "whatever `hang` says: nobody knows what it would have done on a sound GPU"
    );
    assert_eq!(starts(&run.succeed("train/1")), ["train/0@1"]);
    assert_eq!(run.folded.job(run.job("train/0")).failures, 0);
}

#[test]
fn those_beside_it_on_that_gpu_go_on() {
    let train = stage("train", 2, |stage| {
        *stage = Stage { memory: share("", 0, 10).memory, ..stage.clone() };
        stage.timeout = Some(Millis(1000));
    });
    let (mut run, _) = Story::begin(&plan(vec![train, share("next", 1, 10)]), packed(&[24]));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    let job = run.job("train/0");
    run.fired(Timer::Timeout { job, attempt: Attempt(1) });
    let told = run.stranded("train/0", 1);
    assert!(!told.iter().any(|line| line.contains("train/1")), "{told:?}");
    let told = run.succeed("train/1");
    assert_eq!(starts(&told), [""; 0]);
    assert_eq!(told.last().unwrap(), "over: NoGpus", "no other GPU is left, and that is said");
}

#[test]
fn without_gpus_and_for_jobs_nobody_ended_it_is_only_told() {
    let (mut run, _) = Story::begin(&plan(vec![watched(1, HangAction::Fail)]), no_gpus(1));
    run.spawned("train/0", 1);
    run.stuck("train/0", 1, Verdict::Frozen);
    let told = run.stranded("train/0", 1);
    assert_eq!(told[0], "train/0 cannot end [77]: state D in nvidia_close");
    assert_eq!(told[1], format!("train/0 failed at #1: {FAILED} in 0 s"));

    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(2, 1));
    run.spawned("train/0", 1);
    let told = run.stranded("train/0", 1);
    assert_eq!(told[2], "train/0 failed at #1: killed by SIGKILL in 0 s", "its own doing");
}
