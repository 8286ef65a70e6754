//! GPUs shared by memory: who goes where, who goes first, and who is not starved.

use gpulane_core::{Core, forecast, misfits};
use gpulane_model::{Bytes, Known, Memory};

use crate::scene::{Story, packed, plan, share, stage, starts};

#[test]
fn shares_are_spread_then_stacked_as_far_as_memory_goes() {
    let plan = plan(vec![share("small", 9, 10)]);
    let (run, told) = Story::begin(&plan, packed(&[24, 24]));
    assert_eq!(starts(&told), ["small/0@0", "small/1@48", "small/2@1", "small/3@49"]);
    assert_eq!(told[0], "spawn small/0 #1 lane 0 gpus [0] cpus 4 with 10 GiB", "four at once share 16 cores");
    assert_eq!(run.waiting("small/4"), "needs 10 GiB, the GPU with most free has 4 GiB; next in line");
}

#[test]
fn beside_equally_many_jobs_a_share_goes_where_it_leaves_the_least() {
    let (_, told) = Story::begin(&plan(vec![share("fits", 1, 20)]), packed(&[80, 24, 48]));
    assert_eq!(starts(&told), ["fits/0@48"]);
}

#[test]
fn the_largest_goes_first_and_small_ones_fill_what_it_leaves() {
    let plan = plan(vec![share("small", 4, 8), share("large", 2, 16)]);
    let (_, told) = Story::begin(&plan, packed(&[24, 24]));
    assert_eq!(starts(&told), ["large/0@0", "large/1@48", "small/0@1", "small/1@49"]);
}

#[test]
fn an_exclusive_job_is_alone_on_the_smallest_gpu_that_is_empty() {
    let plan = plan(vec![stage("whole", 1, |_| {}), share("small", 9, 12)]);
    let (run, told) = Story::begin(&plan, packed(&[24, 80, 12]));
    assert_eq!(told[0], "spawn whole/0 #1 lane 96 gpus [2] cpus 8");
    assert_eq!(starts(&told).len(), 1 + 2 + 6);
    assert_eq!(run.waiting("small/8"), "needs 12 GiB, the GPU with most free has 8 GiB; next in line");
}

#[test]
fn a_large_job_is_not_starved_by_small_ones() {
    let small = share("small", 100, 8);
    let large = stage("large", 1, |stage| {
        stage.memory = Memory::Reserve(Bytes(20 << 30));
        stage.after = vec![gpulane_model::StageId(2)];
    });
    let gate = stage("gate", 1, |stage| stage.gpus = 0);
    let (mut run, told) = Story::begin(&plan(vec![small, large, gate]), packed(&[24]));
    assert_eq!(starts(&told), ["small/0@0", "small/1@1", "small/2@2", "gate/0@48"]);
    run.succeed("gate/0");
    assert_eq!(run.waiting("large/0"), "needs 20 GiB, the GPU with most free has 0 B; next in line");
    assert_eq!(starts(&run.succeed("small/0")), [""; 0], "its room is kept");
    assert_eq!(run.waiting("small/3"), "free memory is kept for large/0; 1 job before it");
    assert_eq!(starts(&run.succeed("small/1")), [""; 0]);
    assert_eq!(starts(&run.succeed("small/2")), ["large/0@0"]);
    assert_eq!(starts(&run.succeed("large/0")), ["small/3@0", "small/4@1", "small/5@2"]);
}

#[test]
fn what_a_waiting_job_will_not_need_is_used_meanwhile() {
    let large = share("large", 2, 16);
    let small = share("small", 9, 4);
    let (mut run, told) = Story::begin(&plan(vec![large, small]), packed(&[24]));
    assert_eq!(starts(&told), ["large/0@0", "small/0@1", "small/1@2"]);
    // large/1 gets the room of large/0, so the other 8 GiB go on to be used.
    assert_eq!(starts(&run.succeed("small/0")), ["small/2@1"]);
    assert_eq!(starts(&run.succeed("large/0")), ["large/1@0"]);
}

#[test]
fn a_gang_takes_its_share_of_each_gpu() {
    let gang = stage("gang", 2, |stage| {
        stage.gpus = 2;
        stage.memory = Memory::Reserve(Bytes(12 << 30));
    });
    let (run, told) = Story::begin(&plan(vec![gang, share("small", 2, 6)]), packed(&[24, 24, 8]));
    assert_eq!(
        starts(&told),
        ["gang/0@0", "gang/1@1", "small/0@96"],
        "on both large GPUs, and beside them nothing is left"
    );
    assert_eq!(run.waiting("small/1"), "needs 6 GiB, the GPU with most free has 2 GiB; next in line");
}

#[test]
fn what_no_gpu_has_room_for_is_named() {
    let gang = stage("gang", 1, |stage| {
        stage.gpus = 2;
        stage.memory = Memory::Reserve(Bytes(40 << 30));
    });
    let mut machine = packed(&[24, 80]);
    machine.gpus[1].reserved = Bytes(1 << 30);
    let plan = plan(vec![gang, share("fat", 1, 80)]);
    let texts: Vec<String> = misfits(&plan, &machine).iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "a job of stage `gang` needs 2 GPUs with 40 GiB each at once; there is 1 that large",
            "a job of stage `fat` reserves 80 GiB of GPU memory; the largest GPU has 79 GiB",
        ]
    );
}

#[test]
fn an_observer_books_what_runs() {
    let plan = plan(vec![share("small", 5, 10), stage("whole", 1, |_| {})]);
    let (mut run, told) = Story::begin(&plan, packed(&[24, 24]));
    for start in starts(&told) {
        run.spawned(start.split('@').next().unwrap(), 1);
    }
    let observer = Core::observe(plan.clone(), packed(&[24, 24]), &run.folded);
    observer.check_invariants().unwrap();
    for name in ["small/2", "small/3", "small/4", "whole/0"] {
        assert_eq!(observer.waiting(run.job(name)), run.core.waiting(run.job(name)), "{name}");
    }
}

#[test]
fn a_forecast_tells_how_long_and_how_many_at_once() {
    let plan = plan(vec![share("small", 8, 10), stage("auto", 2, |stage| stage.memory = Memory::Auto)]);
    let known = [Known { peak: None, seconds: Some(10.0) }, Known::default()];
    let told = forecast(&plan, &packed(&[24, 24]), &known, &mut |job| if job.0 < 8 { 10.0 } else { 5.0 });
    assert_eq!(told.per_stage_most, [4, 2]);
    assert_eq!(told.most_at_once, [2, 2]);
    assert_eq!(told.unfinished, 0);
    assert!((told.makespan - 25.0).abs() < 0.01, "{told:?}: two rounds of four, and the whole GPUs");
}
