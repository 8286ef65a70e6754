//! Starts that wait while others start up.

use gpulane_core::{Core, Timer};
use gpulane_model::{Machine, Millis, RunState, Stage, StartGate};

use crate::scene::{Story, gpus, no_gpus, plan, stage, starts};

/// A machine with so many cores and more GPUs.
fn small(cores: u32, count: u32) -> Machine {
    Machine { cores, ..gpus(count, 1) }
}

fn gated(name: &str, jobs: u32, gate: StartGate) -> Stage {
    stage(name, jobs, |stage| stage.start_gate = gate)
}

/// A run in which the CPUs are saturated from the first.
fn pressed(stages: Vec<Stage>, machine: Machine) -> (Story, Vec<String>) {
    let press = |mut core: Core| {
        core.step(Millis(0), gpulane_core::Input::Pressure { idle: 0 }, &mut vec![]);
        core
    };
    let plan = plan(stages);
    Story::resume_with(&plan, machine, RunState::new(&plan), press)
}

#[test]
fn with_nothing_known_of_the_cpus_everything_starts_at_once() {
    let (_, told) = Story::begin(&plan(vec![gated("train", 4, StartGate::Auto)]), small(2, 4));
    assert_eq!(starts(&told).len(), 4);
}

#[test]
fn on_saturated_cpus_as_many_start_up_as_there_are_cores() {
    let (mut run, told) = pressed(vec![gated("train", 4, StartGate::Auto)], small(2, 4));
    assert_eq!(starts(&told), ["train/0@0", "train/1@1"]);
    assert_eq!(told.last().unwrap(), "gate at 10000", "a person hears of it then");
    assert_eq!(run.waiting("train/3"), "the CPUs are saturated, 2 jobs start up (start_gate = \"auto\")");
    run.spawned("train/0", 1);
    run.now = Millis(10_000);
    let held =
        "held: the CPUs are saturated (2 jobs are starting up); start_gate = \"off\" starts them anyway";
    assert_eq!(run.fired(Timer::Gate), [held, "gate at 30000"]);
    run.now = Millis(30_000);
    assert_eq!(starts(&run.fired(Timer::Gate)), ["train/2@2", "train/3@3"], "the others have grown up");
    assert_eq!(run.folded.held, None);
}

#[test]
fn the_gate_opens_when_the_cpus_are_free_and_when_one_ends() {
    let (mut run, _) = pressed(vec![gated("train", 4, StartGate::Auto)], small(1, 4));
    run.spawned("train/0", 1);
    assert_eq!(starts(&run.exited("train/0", 1, 3)), ["train/1@0"]);
    assert_eq!(starts(&run.idle(9)), ["train/2@1", "train/3@2"]);
}

#[test]
fn with_nothing_running_it_is_open() {
    let (_, told) = pressed(vec![gated("train", 2, StartGate::Auto)], small(0, 2));
    assert_eq!(starts(&told), ["train/0@0"]);
}

#[test]
fn a_short_wait_is_not_worth_a_word() {
    let (mut run, _) = pressed(vec![gated("train", 2, StartGate::Auto)], small(1, 2));
    run.now = Millis(9999);
    assert_eq!(starts(&run.idle(9)), ["train/1@1"]);
    run.now = Millis(10_000);
    assert_eq!(run.fired(Timer::Gate), [""; 0]);
    assert_eq!(run.folded.held, None);
}

#[test]
fn what_else_holds_starts_is_said_in_its_place() {
    let (mut run, _) = pressed(vec![gated("train", 3, StartGate::Auto)], small(1, 3));
    run.now = Millis(10_000);
    assert!(run.fired(Timer::Gate)[0].starts_with("held: the CPUs"));
    assert_eq!(run.blocked("train/0", 1), ["held: disk full", "look again at 12000"]);
    assert_eq!(run.waiting("train/1"), "starts are held: disk full");
    run.now = Millis(12_000);
    assert_eq!(starts(&run.fired(Timer::RetryHeld)), ["train/0@0"], "one to try");
    assert_eq!(run.spawned("train/0", 1)[1], "released");
    assert_eq!(run.folded.held, None, "the gate has not held anything for long since");
}

#[test]
fn who_is_not_held_goes_first_and_cpu_jobs_go_as_ever() {
    let on_cores = stage("prepare", 1, |stage| stage.gpus = 0);
    let stages = vec![gated("train", 3, StartGate::Auto), gated("free", 1, StartGate::Off), on_cores];
    let (mut run, told) = pressed(stages, small(1, 4));
    assert_eq!(starts(&told), ["train/0@0", "free/0@1", "prepare/0@4"]);
    assert_eq!(run.waiting("train/1"), "the CPUs are saturated, 2 jobs start up (start_gate = \"auto\")");
    run.spawned("train/0", 1);
    run.spawned("free/0", 1);
    assert_eq!(starts(&run.exited("train/0", 1, 3)), [""; 0], "one is still young");
    assert_eq!(starts(&run.exited("free/0", 1, 3)), ["train/1@0"]);
}

#[test]
fn a_number_counts_the_jobs_of_the_stage_whatever_the_cpus_do() {
    let stages = vec![gated("train", 4, StartGate::AtOnce(2)), gated("other", 1, StartGate::Auto)];
    let (mut run, told) = Story::begin(&plan(stages), small(9, 4));
    assert_eq!(starts(&told), ["train/0@0", "train/1@1", "other/0@2"]);
    assert_eq!(told.last().unwrap(), "gate at 30000");
    assert_eq!(run.waiting("train/2"), "2 of its stage start up; more when they run (start_gate = 2)");
    run.now = Millis(30_000);
    assert_eq!(starts(&run.fired(Timer::Gate)), ["train/2@3"]);
}

#[test]
fn a_gang_that_does_not_fit_keeps_its_room_behind_the_gate() {
    let gang = stage("gang", 1, |stage| stage.gpus = 3);
    let stages = vec![gated("train", 2, StartGate::Auto), gang, gated("free", 2, StartGate::Off)];
    let (mut run, told) = pressed(stages, small(2, 4));
    assert_eq!(starts(&told), ["train/0@0", "train/1@1"], "free/0 would take what the gang waits for");
    run.spawned("train/0", 1);
    assert_eq!(starts(&run.exited("train/0", 1, 3)), ["gang/0@0"]);
}

#[test]
fn each_idle_core_lets_one_more_start() {
    let (mut run, told) = pressed(vec![gated("train", 6, StartGate::Auto)], small(2, 6));
    assert_eq!(starts(&told), ["train/0@0", "train/1@1"]);
    assert_eq!(starts(&run.idle(1)), ["train/2@2"]);
    assert_eq!(starts(&run.idle(0)), [""; 0]);
    assert_eq!(starts(&run.idle(2)), ["train/3@3", "train/4@4"]);
}

#[test]
fn where_lanes_stand_in_for_gpus_only_a_number_holds_starts() {
    let (_, told) = pressed(vec![gated("train", 4, StartGate::Auto)], no_gpus(4));
    assert_eq!(starts(&told).len(), 4);
    let (_, told) = pressed(vec![gated("train", 4, StartGate::AtOnce(1))], no_gpus(4));
    assert_eq!(starts(&told).len(), 1);
}

#[test]
fn an_observer_tells_of_the_gate_too() {
    let (mut run, _) = pressed(vec![gated("train", 4, StartGate::Auto)], small(2, 4));
    run.spawned("train/0", 1);
    run.spawned("train/1", 1);
    let plan = plan(vec![gated("train", 4, StartGate::Auto)]);
    let observer = Core::observe(plan, small(2, 4), &run.folded);
    observer.check_invariants().unwrap();
    assert_eq!(observer.waiting(run.job("train/2")), run.core.waiting(run.job("train/2")));
    let later = run.folded.last.unwrap().after(Millis::seconds(31));
    let plan = self::plan(vec![gated("train", 4, StartGate::Auto)]);
    let observer = Core::observe_at(plan, small(2, 4), &run.folded, later);
    assert_eq!(observer.waiting(run.job("train/2")).unwrap().to_string(), "about to start; next in line");
}
