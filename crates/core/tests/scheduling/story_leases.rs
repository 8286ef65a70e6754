//! GPUs that are asked for, granted and given back.

use gpulane_core::Input;
use gpulane_model::{GpuIndex, Memory};

use crate::scene::{Story, gpus, packed, plan, share, stage, starts};

fn awaited(because: Option<&str>) -> Input {
    Input::GpusAwaited { because: because.map(ToOwned::to_owned) }
}

#[test]
fn gpus_are_asked_for_used_and_given_back() {
    let (mut run, told) = Story::leased(&plan(vec![stage("train", 3, |_| {})]), gpus(8, 1));
    assert_eq!(told, ["want 3"]);
    assert_eq!(run.granted(5, 24), ["spawn train/0 #1 lane 5 gpus [5] cpus 4", "want 2"]);
    assert_eq!(run.granted(6, 24), ["spawn train/1 #1 lane 6 gpus [6] cpus 4", "want 1"]);
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    assert_eq!(
        run.exited("train/0", 1, 0),
        ["spawn train/2 #1 lane 5 gpus [5] cpus 4", "publish train/0", "want 0"]
    );
    assert_eq!(run.granted(7, 24), ["release 7"], "it comes too late");
    assert_eq!(run.exited("train/1", 1, 0), ["publish train/1", "release 6"]);
}

#[test]
fn a_stage_at_its_limit_wants_no_more() {
    let one = stage("train", 9, |stage| stage.parallel = 1);
    let (mut run, told) = Story::leased(&plan(vec![one]), gpus(8, 1));
    assert_eq!(told, ["want 1"]);
    assert_eq!(run.granted(0, 24), ["spawn train/0 #1 lane 0 gpus [0] cpus 4", "want 0"]);
}

#[test]
fn all_that_fits_is_packed_on_the_first_gpu_that_comes() {
    let (mut run, told) = Story::leased(&plan(vec![share("train", 3, 6)]), packed(&[24, 24]));
    assert_eq!(told, ["want 2"]);
    let told = run.granted(1, 24);
    assert_eq!(starts(&told), ["train/0@48", "train/1@49", "train/2@50"]);
    assert_eq!(told[3], "want 0");
}

#[test]
fn a_gang_keeps_what_it_has_until_an_older_run_waits() {
    let (mut run, told) = Story::leased(&plan(vec![stage("pair", 1, |stage| stage.gpus = 2)]), gpus(2, 1));
    assert_eq!(told, ["want 2"]);
    assert_eq!(run.granted(0, 24), ["want 1"]);
    assert_eq!(run.step(Input::GiveWay), ["release 0", "want 2"]);
    run.granted(1, 24);
    assert_eq!(starts(&run.granted(0, 24)), ["pair/0@0"]);
    assert_eq!(run.step(Input::GiveWay), [""; 0], "what runs goes on");
}

#[test]
fn that_none_can_be_had_is_said_once_while_nothing_runs() {
    let (mut run, _) = Story::leased(&plan(vec![stage("train", 2, |_| {})]), gpus(2, 1));
    assert_eq!(
        run.step(awaited(Some("all GPUs are leased by run x"))),
        ["held: all GPUs are leased by run x"]
    );
    assert_eq!(run.step(awaited(Some("all GPUs are leased by run x"))), [""; 0]);
    assert_eq!(run.waiting("train/0"), "waits for GPUs: all GPUs are leased by run x");
    assert_eq!(run.granted(0, 24)[1..], ["released", "want 1"]);
    assert_eq!(run.step(awaited(Some("one is busy"))), [""; 0], "something runs");
    assert_eq!(run.step(awaited(None)), [""; 0]);
}

#[test]
fn a_full_disk_and_missing_gpus_do_not_get_in_each_others_way() {
    let cpu = stage("cpu", 1, |stage| stage.gpus = 0);
    let (mut run, told) = Story::leased(&plan(vec![stage("train", 1, |_| {}), cpu]), gpus(1, 1));
    assert_eq!(starts(&told), ["cpu/0@1"]);
    run.step(awaited(Some("in use by others")));
    let told = run.blocked("cpu/0", 1);
    assert_eq!(told, ["held: disk full", "look again at 2000", "want 0"]);
    assert_eq!(run.granted(0, 24), [""; 0], "no word that starts go on: they do not");
    let told = run.fired(gpulane_core::Timer::RetryHeld);
    assert_eq!(starts(&told), ["train/0@0"]);
    assert_eq!(run.spawned("train/0", 1)[1..], ["train/0 started on [GPU-0]", "released"]);
}

#[test]
fn a_gpu_with_too_little_left_is_given_back_and_not_asked_for_again() {
    let (mut run, told) = Story::leased(&plan(vec![share("train", 2, 20)]), packed(&[24, 24]));
    assert_eq!(told, ["want 2"]);
    assert_eq!(run.granted(0, 12), ["release 0", "want 1"]);
    assert_eq!(starts(&run.granted(1, 24)), ["train/0@48"]);
}

#[test]
fn an_interrupted_run_gives_back_what_is_idle() {
    let pair = stage("pair", 1, |stage| stage.gpus = 2);
    let (mut run, _) = Story::leased(&plan(vec![pair, stage("z", 1, |_| {})]), gpus(2, 1));
    run.granted(0, 24);
    let told = run.interrupted(false);
    assert_eq!(told[..2], ["release 0", "want 0"]);
}

#[test]
fn a_lost_gpu_is_neither_used_nor_given_back() {
    let auto = stage("train", 2, |stage| stage.memory = Memory::Auto);
    let (mut run, _) = Story::leased(&plan(vec![auto]), packed(&[24, 24]));
    run.granted(0, 24);
    run.spawned("train/0", 1);
    run.lost(0);
    assert_eq!(run.signalled("train/0", 1, 9).len(), 1, "recorded as lost, and no word about the GPU");
    assert_eq!(run.step(Input::GpuGranted { gpu: GpuIndex(0), usable: gpulane_model::Bytes(1) }), [""; 0]);
    assert_eq!(starts(&run.granted(1, 24)), ["train/0@48"]);
}
