//! Who waits for jobs, where, and how many.

use std::collections::HashMap;

use gpulane_core::{Core, Input, Pace, StandbysThere};
use gpulane_model::{GpuIndex, Memory, Millis, RunState, Stage, StageId, Standbys};

use crate::scene::{Story, gpus, no_gpus, packed, plan, share, stage};

fn entry(name: &str, jobs: u32, change: impl FnOnce(&mut Stage)) -> Stage {
    stage(name, jobs, |stage| {
        stage.entry = Some("train.py:main".into());
        change(stage);
    })
}

/// `stage@gpu×count`, in order of need, of jobs that take longer than an import.
fn wishes(core: &Core, there: &[StandbysThere]) -> Vec<String> {
    at_pace(core, there, Some(Pace { import: Some(Millis(1000)), work: Millis(5000), sure: true }))
}

fn at_pace(core: &Core, there: &[StandbysThere], pace: Option<Pace>) -> Vec<String> {
    let place = |gpu: Option<GpuIndex>| gpu.map_or("-".to_owned(), |gpu| gpu.0.to_string());
    let paces: HashMap<_, _> = (0..9).filter_map(|stage| Some((StageId(stage), pace?))).collect();
    let wishes = core.standbys(there, &paces);
    wishes.iter().map(|wish| format!("{}@{}×{}", wish.stage.0, place(wish.gpu), wish.count)).collect()
}

#[test]
fn one_for_each_lane_and_never_more_than_jobs_to_come() {
    let (mut run, _) = Story::begin(&plan(vec![entry("train", 4, |_| {})]), gpus(2, 1));
    assert_eq!(wishes(&run.core, &[]), ["0@0×1", "0@1×1"]);
    run.spawned("train/0", 1);
    run.exited("train/0", 1, 0);
    assert_eq!(wishes(&run.core, &[]), ["0@0×1"], "one job is left to start");
    let there = [(StageId(0), Some(GpuIndex(1)), 1)];
    assert_eq!(wishes(&run.core, &there), ["0@1×1"], "the one that is there will do");
}

#[test]
fn short_jobs_have_several_on_their_way() {
    let (run, _) = Story::begin(&plan(vec![entry("train", 40, |_| {})]), gpus(1, 1));
    let wished = |there: u32, import: Option<u64>, work: u64, sure: bool| {
        let pace = Pace { import: import.map(Millis), work: Millis(work), sure };
        at_pace(&run.core, &[(StageId(0), Some(GpuIndex(0)), there)], Some(pace))
    };
    assert_eq!(at_pace(&run.core, &[], None), ["0@0×4"], "nothing is known yet");
    assert_eq!(wished(0, None, 0, false), ["0@0×4"]);
    assert_eq!(wished(0, Some(11_000), 4000, true), ["0@0×3"], "a job every 4 s, made in 11 s");
    assert_eq!(wished(0, Some(11_000), 100, true), ["0@0×8"], "not without end");
    assert_eq!(wished(0, Some(11_000), 100, false), ["0@0×4"], "a job runs, and may go on");
    assert_eq!(wished(4, Some(11_000), 60_000, false), ["0@0×2"], "it goes on");
    assert_eq!(wished(2, Some(11_000), 12_000, true), ["0@0×2"], "a second one stays");
    assert_eq!(wished(3, Some(11_000), 12_000, true), ["0@0×2"], "but not a third");
    assert_eq!(wished(8, Some(11_000), 9000, true), ["0@0×8"], "where several are wanted they will be used");
}

#[test]
fn a_command_has_none_nor_has_a_gang_nor_who_does_not_want_any() {
    let stages = vec![
        stage("command", 3, |_| {}),
        entry("gang", 3, |stage| stage.gpus = 2),
        entry("off", 3, |stage| stage.standbys = Standbys::Off),
    ];
    let (run, _) = Story::begin(&plan(stages), gpus(2, 1));
    assert_eq!(wishes(&run.core, &[]), [""; 0]);
}

#[test]
fn lanes_without_a_gpu_are_all_alike() {
    let stages = || vec![entry("train", 9, |stage| stage.standbys = Standbys::PerLane(2))];
    let (run, _) = Story::begin(&plan(stages()), no_gpus(3));
    assert_eq!(wishes(&run.core, &[]), ["0@-×6"]);
}

#[test]
fn gpus_shared_by_memory_have_as_many_as_fit_at_once() {
    let mut train = share("train", 20, 6);
    train.entry = Some("train.py:main".into());
    let (run, _) = Story::begin(&plan(vec![train]), packed(&[25, 13]));
    assert_eq!(wishes(&run.core, &[]), ["0@0×4", "0@1×2"]);
    let auto = entry("train", 20, |stage| stage.memory = Memory::Auto);
    let (run, _) = Story::begin(&plan(vec![auto]), packed(&[25]));
    assert_eq!(wishes(&run.core, &[]), ["0@0×1"], "nothing is measured yet");
}

#[test]
fn who_is_ready_comes_before_who_waits() {
    let stages = vec![
        entry("later", 2, |stage| stage.after = vec![StageId(1)]),
        entry("first", 2, |stage| stage.parallel = 1),
    ];
    let (run, _) = Story::begin(&plan(stages), gpus(2, 1));
    assert_eq!(wishes(&run.core, &[]), ["1@0×1", "0@1×1"], "parallel = 1 has a use for one alone");
}

#[test]
fn there_are_none_once_they_are_of_no_use_or_the_run_ends() {
    let machine = gpus(1, 1);
    let (mut run, _) = Story::begin(&plan(vec![entry("train", 4, |_| {})]), machine);
    let failed = |why: &str| Input::StandbysFailed { stage: StageId(0), why: why.into() };
    let mut stopped = run.core.clone();
    stopped.step(Millis(1), Input::Interrupted { because: "SIGINT".into(), now: false }, &mut vec![]);
    assert_eq!(wishes(&stopped, &[]), [""; 0]);
    let mut told = vec![];
    for why in ["no torch", "no torch either"] {
        run.core.step(Millis(1), failed(why), &mut told);
    }
    assert_eq!(wishes(&run.core, &[]), [""; 0]);
    assert_eq!(told.len(), 1, "said once: {told:?}");
}

#[test]
fn a_gpu_that_is_lost_has_none() {
    let plan = plan(vec![entry("train", 8, |_| {})]);
    let (mut run, _) = Story::resume_with(&plan, gpus(2, 1), RunState::new(&plan), |core| core);
    run.core.step(Millis(1), Input::GpuLost { gpu: GpuIndex(0), why: "fell off".into() }, &mut vec![]);
    assert_eq!(wishes(&run.core, &[]), ["0@1×1"]);
}
