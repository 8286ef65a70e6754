//! Who runs where: lanes, gangs, CPU-only jobs, what never fits.

use gpulane_core::{Core, Timer, misfits};
use gpulane_model::{Bytes, Cpus, Memory};

use crate::scene::{Story, gpus, no_gpus, plan, stage, starts};

#[test]
fn thirteen_jobs_on_eight_gpus_fill_them_and_each_freed_lane_gets_the_next() {
    let plan = plan(vec![stage("train", 13, |_| {})]);
    let (mut run, told) = Story::begin(&plan, gpus(8, 1));
    assert_eq!(starts(&told).len(), 8);
    assert_eq!(told[3], "spawn train/3 #1 lane 3 gpus [3] cpus 4");

    for job in ["train/0", "train/5"] {
        run.spawned(job, 1);
    }
    assert_eq!(starts(&run.exited("train/5", 1, 0)), ["train/8@5"]);
    assert_eq!(starts(&run.exited("train/0", 1, 7)), ["train/9@0"]);
}

#[test]
fn two_lanes_on_a_gpu_are_used_only_when_every_gpu_has_a_job() {
    let plan = plan(vec![stage("train", 5, |_| {})]);
    let (_, told) = Story::begin(&plan, gpus(2, 2));
    assert_eq!(starts(&told), ["train/0@0", "train/1@2", "train/2@1", "train/3@3"]);
}

#[test]
fn a_gang_gets_distinct_gpus_and_their_share_of_the_cores() {
    let plan = plan(vec![stage("big", 1, |stage| stage.gpus = 3)]);
    let (mut run, told) = Story::begin(&plan, gpus(3, 2));
    assert_eq!(told, ["spawn big/0 #1 lane 0 gpus [0,1,2] cpus 12"]);
    assert_eq!(run.spawned("big/0", 1), ["big/0 started on [GPU-0,GPU-1,GPU-2]"]);
}

#[test]
fn without_gpus_a_gang_takes_as_many_lanes() {
    let gang = stage("big", 1, |stage| stage.gpus = 3);
    let cpu = stage("small", 2, |stage| stage.gpus = 0);
    let (_, told) = Story::begin(&plan(vec![gang, cpu]), no_gpus(4));
    assert_eq!(
        told,
        ["spawn big/0 #1 lane 0 gpus [] cpus 6", "spawn small/0 #1 lane 3 gpus [] cpus 2"],
        "small/1 finds no lane"
    );
}

#[test]
fn a_waiting_gang_is_not_overtaken_on_lanes_it_can_use() {
    let first = stage("a", 2, |_| {});
    let gang = stage("big", 1, |stage| stage.gpus = 2);
    let after_it = stage("z", 4, |_| {});
    let (mut run, told) = Story::begin(&plan(vec![first, gang, after_it]), gpus(2, 1));
    assert_eq!(starts(&told), ["a/0@0", "a/1@1"]);
    run.spawned("a/0", 1);
    run.spawned("a/1", 1);

    assert_eq!(starts(&run.exited("a/0", 1, 0)), [""; 0]);
    assert_eq!(run.waiting("big/0"), "needs 2 GPUs at once, 1 is free; next in line");
    assert_eq!(run.waiting("z/1"), "free lanes are kept for big/0, which needs 2 at once; 2 jobs before it");
    assert_eq!(starts(&run.exited("a/1", 1, 0)), ["big/0@0"]);
}

#[test]
fn beside_a_waiting_gang_lanes_it_cannot_use_are_used() {
    let first = stage("a", 3, |stage| stage.parallel = 3);
    let gang = stage("big", 1, |stage| stage.gpus = 2);
    let after_it = stage("z", 4, |_| {});
    let (mut run, told) = Story::begin(&plan(vec![first, gang, after_it]), gpus(2, 2));
    assert_eq!(starts(&told), ["a/0@0", "a/1@2", "a/2@1"], "big keeps lane 3, all that is free");
    for job in ["a/0", "a/1", "a/2"] {
        run.spawned(job, 1);
    }
    assert_eq!(starts(&run.exited("a/1", 1, 0)), ["z/0@2"], "big needs one lane of GPU 1, not both");
    assert_eq!(starts(&run.exited("a/0", 1, 0)), ["big/0@0"]);
}

#[test]
fn a_gang_that_keeps_a_lane_goes_before_an_earlier_stage_back_from_its_limit() {
    let a = stage("a", 8, |stage| stage.parallel = 1);
    let b = stage("b", 1, |stage| stage.gpus = 2);
    let c = stage("c", 8, |_| {});
    let (mut run, told) = Story::begin(&plan(vec![a, b, c]), gpus(2, 1));
    assert_eq!(starts(&told), ["a/0@0"], "b keeps GPU 1");
    assert_eq!(starts(&run.succeed("a/0")), ["b/0@0"], "a/1 has to wait");
    assert_eq!(starts(&run.succeed("b/0")), ["a/1@0", "c/0@1"]);
    assert_eq!(starts(&run.succeed("a/1")), ["a/2@0"]);
    assert_eq!(starts(&run.succeed("c/0")), ["c/1@1"]);
}

#[test]
fn whom_a_gang_holds_up_is_told_so_also_by_an_observer() {
    let a = stage("a", 8, |stage| stage.parallel = 1);
    let long = stage("long", 1, |_| {});
    let b = stage("b", 2, |stage| stage.gpus = 3);
    let c = stage("c", 8, |_| {});
    let plan = plan(vec![a, long, b, c]);
    let (mut run, told) = Story::begin(&plan, gpus(3, 1));
    assert_eq!(starts(&told), ["a/0@0", "long/0@1"], "b keeps GPU 2");
    run.spawned("long/0", 1);
    assert_eq!(starts(&run.succeed("a/0")), [""; 0], "b keeps GPU 0 too");
    let observer = Core::observe(plan, gpus(3, 1), &run.folded);
    for (name, why) in [
        ("a/1", "free lanes are kept for b/0, which needs 3 at once; 1 job before it"),
        ("b/0", "needs 3 GPUs at once, 2 are free; next in line"),
        ("b/1", "needs 3 GPUs at once, 2 are free; 8 jobs before it"),
        ("c/0", "free lanes are kept for b/0, which needs 3 at once; 9 jobs before it"),
    ] {
        assert_eq!(run.waiting(name), why, "{name}");
        assert_eq!(observer.waiting(run.job(name)).unwrap().to_string(), why, "{name}, observed");
    }
}

#[test]
fn a_cancelled_gang_keeps_nothing() {
    let a = stage("a", 8, |stage| stage.parallel = 1);
    let long = stage("long", 1, |_| {});
    let b = stage("b", 1, |stage| stage.gpus = 3);
    let c = stage("c", 8, |_| {});
    let (mut run, _) = Story::begin(&plan(vec![a, long, b, c]), gpus(3, 1));
    run.succeed("a/0");
    assert_eq!(starts(&run.cancelled(&["b/0"])), ["a/1@0", "c/0@2"]);
}

#[test]
fn a_gang_that_keeps_lanes_through_a_hold_goes_first_after_it() {
    let a = stage("a", 8, |stage| stage.parallel = 1);
    let b = stage("b", 1, |stage| stage.gpus = 2);
    let (mut run, _) = Story::begin(&plan(vec![a, b]), gpus(2, 1));
    assert_eq!(starts(&run.blocked("a/0", 1)), [""; 0]);
    assert_eq!(starts(&run.fired(Timer::RetryHeld)), ["b/0@0"]);
}

#[test]
fn a_job_that_keeps_cores_goes_before_an_earlier_stage_back_from_its_limit() {
    let a = stage("a", 8, |stage| (stage.gpus, stage.parallel) = (0, 1));
    let b = stage("b", 1, |stage| (stage.gpus, stage.cpus) = (0, Cpus::Count(8)));
    let (mut run, told) = Story::begin(&plan(vec![a, b]), gpus(2, 1));
    assert_eq!(starts(&told), ["a/0@2"]);
    assert_eq!(run.waiting("b/0"), "needs 8 cores, 7 of 8 are free; next in line");
    assert_eq!(starts(&run.succeed("a/0")), ["b/0@2"]);
    assert_eq!(run.waiting("a/1"), "needs 1 core, 0 of 8 are free; next in line");
}

#[test]
fn cpu_jobs_and_gpu_jobs_do_not_wait_for_each_other() {
    let gang = stage("big", 2, |stage| stage.gpus = 2);
    let cpu = stage("cpu", 3, |stage| {
        stage.gpus = 0;
        stage.cpus = Cpus::Count(5);
    });
    let light = stage("light", 9, |stage| stage.gpus = 0);
    let (mut run, told) = Story::begin(&plan(vec![gang, cpu, light]), gpus(2, 1));
    assert_eq!(
        told,
        ["spawn big/0 #1 lane 0 gpus [0,1] cpus 8", "spawn cpu/0 #1 lane 2 gpus [] cpus 5"],
        "of 8 cores 3 are left, which cpu/1 keeps"
    );
    assert_eq!(run.waiting("cpu/1"), "needs 5 cores, 3 of 8 are free; next in line");
    assert_eq!(run.waiting("light/0"), "needs 1 core, 3 of 8 are free; 2 jobs before it");
    run.spawned("cpu/0", 1);
    assert_eq!(starts(&run.exited("cpu/0", 1, 0)), ["cpu/1@2"]);
}

#[test]
fn more_cores_than_there_are_means_all_of_them() {
    let cpu = stage("cpu", 2, |stage| {
        stage.gpus = 0;
        stage.cpus = Cpus::Count(99);
    });
    let (_, told) = Story::begin(&plan(vec![cpu]), gpus(1, 1));
    assert_eq!(told, ["spawn cpu/0 #1 lane 1 gpus [] cpus 99"]);
}

#[test]
fn what_can_never_run_is_named_with_its_numbers() {
    let plan = plan(vec![
        stage("fits", 1, |stage| stage.gpus = 2),
        stage("wide", 1, |stage| stage.gpus = 4),
        stage("fat", 1, |stage| stage.memory = Memory::Reserve(Bytes(80 << 30))),
        stage("empty", 0, |stage| stage.gpus = 9),
    ]);
    let texts = |machine| misfits(&plan, &machine).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        texts(gpus(2, 1)),
        [
            "a job of stage `wide` needs 4 GPUs at once; there are 2 GPUs",
            "a job of stage `fat` reserves 80 GiB of GPU memory; the largest GPU has 24 GiB",
        ]
    );
    assert_eq!(
        texts(no_gpus(1)),
        [
            "a job of stage `fits` needs 2 lanes at once, one for each GPU it asks for; there is 1 lane",
            "a job of stage `wide` needs 4 lanes at once, one for each GPU it asks for; there is 1 lane",
        ]
    );
}

#[test]
fn a_job_that_can_never_run_fails_instead_of_waiting_for_ever() {
    let (_, told) = Story::begin(&plan(vec![stage("wide", 1, |stage| stage.gpus = 4)]), gpus(2, 1));
    assert_eq!(
        told,
        [
            "wide/0 failed at #0: could not start: needs 4 GPUs at once; there are 2 GPUs in 0 s",
            "finished: 0 succeeded, 1 failed, 0 skipped in 0 s",
            "over: Finished",
        ]
    );
}
