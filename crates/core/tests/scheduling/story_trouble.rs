//! Out of memory, lost GPUs, faults under MPS, memory that is not back.

use gpulane_core::{Input, Timer, Trouble};
use gpulane_model::{Bytes, FullDisk, GpuIndex, Memory, ProcessExit};

use crate::scene::{End, Story, gpus, packed, plan, share, stage, starts};

fn oom() -> Trouble {
    Trouble::GpuOom("CUDA out of memory".into())
}

#[test]
fn who_runs_out_of_memory_beside_others_is_tried_alone_and_that_costs_no_try() {
    let (mut run, _) = Story::begin(&plan(vec![share("train", 4, 10)]), packed(&[24]));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    let told = run.troubled("train/1", 1, 9, oom());
    assert_eq!(
        told,
        [
            "train/1 failed at #1 (shared): out of GPU memory: held 9 GiB, 10 GiB reserved, the GPU has 24 GiB; \
             CUDA out of memory in 0 s",
            "train/1 retries as #2 in 0 s",
        ],
        "nobody else starts: the GPU comes free for it"
    );
    assert_eq!(run.waiting("train/1"), "needs a GPU to itself, none is empty; next in line");
    let told = run.succeed("train/0");
    assert_eq!(told[0], "spawn train/1 #2 lane 0 gpus [0] cpus 8");
    assert_eq!(run.folded.job(run.job("train/1")).failures, 0);

    run.spawned("train/1", 2);
    let told = run.troubled("train/1", 2, 24, oom());
    assert_eq!(starts(&told), ["train/2@0", "train/3@1"]);
    assert_eq!(
        told[2],
        "train/1 failed at #2: out of GPU memory: held 24 GiB, the GPU has 24 GiB; CUDA out of memory in 0 s",
        "alone it was its own doing"
    );
}

#[test]
fn that_it_must_be_alone_is_known_after_a_resume() {
    let plan = plan(vec![share("train", 4, 10)]);
    let (mut run, _) = Story::begin(&plan, packed(&[24]));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    run.troubled("train/1", 1, 9, oom());
    run.interrupted(true);
    run.signalled("train/0", 1, 9);
    let (_, told) = Story::resume(&plan, packed(&[24, 24]), run.folded);
    assert_eq!(starts(&told), ["train/1@0", "train/0@48", "train/2@49"]);
}

fn disk_full(disk: FullDisk) -> Trouble {
    Trouble::DiskFull { because: "no space".into(), disk }
}

#[test]
fn no_failure_on_the_full_disk_of_the_run_ever_costs_a_try() {
    let plan = plan(vec![stage("train", 1, |_| {})]);
    let (mut run, _) = Story::begin(&plan, gpus(1, 1));
    for attempt in 1..=20 {
        run.spawned("train/0", attempt);
        let told = run.troubled("train/0", attempt, 9, disk_full(FullDisk::Run));
        let failed = format!("train/0 failed at #{attempt} (disk full): exit code 1: no space in 0 s");
        assert!(told.contains(&failed), "{told:?}");
        assert_eq!(starts(&told), ["train/0@0"], "its turn at once: whether it may start is seen then");
        if attempt == 10 {
            run = Story::resume(&plan, gpus(1, 1), run.folded).0;
            assert!(run.folded.disk_full, "the next engine knows to look first");
        }
    }
    assert_eq!(run.folded.job(run.job("train/0")).failures, 0);
    run.spawned("train/0", 21);
    run.succeed("train/0");
    assert!(!run.folded.disk_full);
}

#[test]
fn a_job_that_says_it_of_another_disk_is_tried_after_10_60_and_300_seconds_before_it_counts() {
    let plan = plan(vec![stage("train", 1, |_| {})]);
    let (mut run, _) = Story::begin(&plan, gpus(1, 1));
    for (attempt, pause) in [(1, 10), (2, 60), (3, 300)] {
        run.spawned("train/0", attempt);
        let told = run.troubled("train/0", attempt, 9, disk_full(FullDisk::Other));
        let said = format!("train/0 retries as #{} in {pause} s", attempt + 1);
        assert!(told.contains(&said), "{said}: {told:?}");
        assert!(starts(&told).is_empty(), "a pause tells whether there is space again: {told:?}");
        let told = run.fired(Timer::Retry { job: run.job("train/0") });
        assert_eq!(starts(&told), ["train/0@0"]);
    }
    // Whatever it meets on the run's own disk meanwhile is another matter.
    run.spawned("train/0", 4);
    run.troubled("train/0", 4, 9, disk_full(FullDisk::Run));
    run.spawned("train/0", 5);
    let told = run.troubled("train/0", 5, 9, disk_full(FullDisk::Other));
    assert_eq!(told[0], "train/0 failed at #5: exit code 1: no space in 0 s");
    assert_eq!(run.folded.job(run.job("train/0")).failures, 1);
}

#[test]
fn two_lanes_on_a_gpu_are_sharing_too() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 3, |_| {})]), gpus(1, 2));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    assert!(run.troubled("train/0", 1, 9, oom())[0].starts_with("train/0 failed at #1 (shared)"));
    assert_eq!(starts(&run.succeed("train/1")), ["train/0@0"], "train/2 must not join");
}

#[test]
fn one_lane_is_not_sharing_and_host_memory_is_another_matter() {
    let retried = stage("train", 1, |stage| stage.retries = 1);
    let (mut run, _) = Story::begin(&plan(vec![retried]), gpus(1, 1));
    run.spawned("train/0", 1);
    let told = run.troubled("train/0", 1, 9, oom());
    assert!(told[1].starts_with("train/0 failed at #1: out of GPU memory: held 9 GiB"), "{told:?}");
    run.spawned("train/0", 2);
    let told = run.troubled("train/0", 2, 9, Trouble::HostOom("killed by the kernel".into()));
    assert_eq!(told[0], "train/0 failed at #2: out of host memory: killed by the kernel in 0 s");
}

#[test]
fn a_lost_gpu_is_not_used_again_and_its_jobs_run_elsewhere() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 4, |_| {})]), gpus(2, 1));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    assert_eq!(run.lost(1), ["GPU-1 lost: fell off the bus", "kill train/1"]);
    assert_eq!(run.lost(1), [""; 0], "once");
    assert_eq!(run.signalled("train/1", 1, 9), ["train/1 failed at #1: lost: GPU 1 fell off the bus in 0 s"]);
    assert_eq!(starts(&run.succeed("train/0")), ["train/1@0"], "it goes first, and GPU 1 stays idle");
    assert_eq!(run.folded.job(run.job("train/1")).failures, 0);
    assert_eq!(run.waiting("train/2"), "the only lane is busy; next in line");
}

#[test]
fn one_that_succeeded_on_a_lost_gpu_has_succeeded() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(1, 1));
    run.spawned("train/0", 1);
    run.lost(0);
    assert_eq!(run.exited("train/0", 1, 0), ["publish train/0"]);
}

#[test]
fn one_being_started_on_a_gpu_that_is_lost_is_ended_as_soon_as_it_runs() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 1, |_| {})]), gpus(2, 1));
    run.lost(0);
    assert_eq!(run.spawned("train/0", 1), ["train/0 started on [GPU-0]", "kill train/0"]);
    assert_eq!(starts(&run.signalled("train/0", 1, 9)), ["train/0@1"]);
}

#[test]
fn when_no_gpu_is_left_the_run_says_so_and_can_be_resumed() {
    let plan = plan(vec![stage("pair", 1, |stage| stage.gpus = 2), stage("one", 1, |_| {})]);
    let (mut run, _) = Story::begin(&plan, gpus(2, 1));
    run.spawned("pair/0", 1);
    run.lost(1);
    let told = run.signalled("pair/0", 1, 9);
    assert_eq!(starts(&told), ["one/0@0"], "others go on");
    assert_eq!(run.waiting("pair/0"), "a job of stage `pair` needs 2 GPUs, 1 left");
    let told = run.succeed("one/0");
    assert_eq!(
        told[2..],
        ["interrupted: a job of stage `pair` needs 2 GPUs, 1 left; GPU 1 fell off the bus", "over: NoGpus",]
    );
}

#[test]
fn a_fault_under_mps_restarts_all_on_the_gpu_and_the_culprit_is_alone_next() {
    let mps = |name| {
        stage(name, 2, |stage| {
            (stage.memory, stage.mps) = (Memory::Reserve(Bytes(6 << 30)), true);
        })
    };
    let bystander = share("plain", 1, 2);
    let (mut run, _) = Story::begin(&plan(vec![mps("a"), bystander]), packed(&[24]));
    for job in ["a/0", "a/1", "plain/0"] {
        run.spawned(job, 1);
    }
    let told = run.troubled("a/0", 1, 1, Trouble::MpsFault("illegal address".into()));
    assert_eq!(
        told,
        [
            "MPS fault on GPU-0 at a/0: illegal address",
            "kill a/1",
            "a/0 failed at #1 (shared): exit code 1: illegal address in 0 s",
            "a/0 retries as #2 in 0 s",
        ]
    );
    let told = run.signalled("a/1", 1, 9);
    assert_eq!(told, ["a/1 failed at #1: lost: restarted after an MPS fault in 0 s"]);
    assert_eq!(starts(&run.succeed("plain/0")), ["a/0@0"]);
}

#[test]
fn a_gpu_whose_memory_is_not_back_waits() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 3, |_| {})]), gpus(1, 1));
    run.spawned("train/0", 1);
    let held = |because: &str| Input::GpuHeld {
        gpu: GpuIndex(0),
        pids: vec![7],
        bytes: Bytes(1 << 30),
        because: because.into(),
    };
    assert_eq!(run.step(held("process 7 holds 1 GiB")), ["GPU-0 held: process 7 holds 1 GiB"]);
    assert_eq!(run.step(held("process 7 holds 1 GiB")), [""; 0], "said once");
    assert_eq!(starts(&run.succeed("train/0")), [""; 0]);
    assert_eq!(run.waiting("train/1"), "waits for GPUs: GPU 0: process 7 holds 1 GiB");
    assert_eq!(starts(&run.step(Input::GpuClear { gpu: GpuIndex(0) })), ["train/1@0"]);
    assert_eq!(run.step(Input::GpuClear { gpu: GpuIndex(0) }), [""; 0]);
}

#[test]
fn a_job_whose_standby_was_gone_is_done_again_and_nothing_counts() {
    let (mut run, _) = Story::begin(&plan(vec![stage("train", 2, |_| {})]), gpus(1, 1));
    for (attempt, exit) in [(1, ProcessExit::Signal(9)), (2, ProcessExit::Code(0)), (3, ProcessExit::Code(1))]
    {
        run.spawned("train/0", attempt);
        let gone = |end: &mut End| end.trouble = Some(Trouble::NeverBegun("its standby was gone".into()));
        let told = run.ended("train/0", attempt, exit, gone);
        let failed = format!("train/0 failed at #{attempt}: lost: its standby was gone in 0 s");
        assert!(told.contains(&failed), "{told:?}");
        assert_eq!(starts(&told), ["train/0@0"], "it goes first");
        assert_eq!(run.folded.job(run.job("train/0")).failures, 0);
    }
}
