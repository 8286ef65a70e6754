//! `gpulane fit`: the arithmetic, and what becomes of a plan.

#![allow(clippy::unwrap_used)] // what helps a test fails it

mod scene;

use std::sync::Arc;

use gpulane_core::{forecast, misfits};
use gpulane_model::{Bytes, Gpu, GpuKind, Known, MOST_PER_GPU, Machine, Memory, Plan};
use gpulane_report::{
    FitMemory, FitPlan, GpuKindOf, JobTime, Look, fit_memory, fit_memory_json, fit_plan, fit_plan_json,
};
use serde_json::Value;

const GIB: u64 = 1 << 30;

fn kind(name: &str, memory: u64, reserved: u64, count: u32) -> GpuKindOf {
    GpuKindOf { name: name.into(), memory: Bytes(memory), reserved: Bytes(reserved), count }
}

fn question(model: u64, headroom: u64, gpus: Vec<GpuKindOf>) -> FitMemory {
    FitMemory { model: Bytes(model), headroom: Bytes(headroom), gpus }
}

#[test]
fn the_arithmetic_stands_line_by_line() {
    let one = question(5 * GIB, 2 * GIB, vec![kind("", 24 * GIB, 0, 1)]);
    let expected = "\x20   24 GiB  memory of a GPU
  −  2 GiB  headroom
  = 22 GiB  for workers
  22 GiB / 5 GiB for each = 4.4: 4 workers, 2 GiB left over
4 workers per GPU
";
    assert_eq!(fit_memory(&one, Look::PLAIN), expected);
    let value: Value = serde_json::from_str(&fit_memory_json(&one)).unwrap();
    assert_eq!((&value["workers"], &value["gpus"][0]["left_over"]), (&4.into(), &(2 * GIB).into()));
}

#[test]
fn each_kind_of_gpu_is_reckoned_once() {
    let mixed = vec![kind("A", 24 * GIB, GIB / 2, 2), kind("B", 80 * GIB, 0, 1)];
    let text = fit_memory(&question(5 * GIB, 0, mixed.clone()), Look::PLAIN);
    let expected = "\
2 × A
      24 GiB  memory of a GPU
  −  512 MiB  kept by the driver
  = 23.5 GiB  for workers
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("24 workers on all 3 GPUs\n4 to 16 workers per GPU\n"), "{text}");
    assert!(text.contains("80 GiB / 5 GiB for each = 16.0: nothing is left over\n"), "{text}");
    assert_eq!(question(5 * GIB, 0, mixed).workers_in_all(), 24);
}

#[test]
fn none_and_too_many_are_said() {
    let none = question(5 * GIB, 20 * GIB, vec![kind("", 24 * GIB, 0, 1)]);
    let text = fit_memory(&none, Look::PLAIN);
    assert!(text.ends_with("4 GiB / 5 GiB for each = 0.8: not even one fits\n0 workers per GPU\n"), "{text}");
    assert_eq!(none.workers_in_all(), 0);
    let negative = question(GIB, 30 * GIB, vec![kind("", 24 * GIB, 0, 1)]);
    assert_eq!(negative.workers_in_all(), 0, "more headroom than memory");
    let many = fit_memory(&question(GIB / 100, 0, vec![kind("", 24 * GIB, 0, 1)]), Look::PLAIN);
    assert!(many.contains(": 48, more cannot share a GPU\n"), "{many}");
}

/// Four small GPUs and four large ones, shared by memory.
fn mixed() -> Machine {
    let gpu = |at: u64| Gpu {
        uuid: format!("GPU-{at}"),
        name: "simulated".into(),
        memory: Bytes(if at < 4 { 24 } else { 80 } * GIB),
        reserved: Bytes(0),
    };
    Machine {
        kind: GpuKind::Sim,
        gpus: (0..8).map(gpu).collect(),
        lanes_per_gpu: MOST_PER_GPU,
        packing: true,
        cores: 16,
        cpu_lanes: 0,
    }
}

fn sweep(memory: Memory) -> Arc<Plan> {
    let names: Vec<String> = (0..100).map(|seed| format!("seed={seed}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plan = scene::plan(&[("train", &names), ("eval", &["all"])]);
    plan.stages[0].memory = memory;
    plan.stages[1].gpus = 0;
    Arc::new(plan)
}

/// The answer in text and JSON.
fn fit(plan: &Arc<Plan>, machine: &Machine, known: &[Known], times: &[JobTime]) -> (String, Value) {
    let misfits = misfits(plan, machine);
    let ready = misfits.is_empty() && times.iter().all(|time| time.known().is_some());
    let mut seconds = |job| times[plan.job(job).stage.index()].known().unwrap();
    let forecast = ready.then(|| forecast(plan, machine, known, &mut seconds));
    let (forecast, misfits) = (forecast.as_ref(), misfits.as_slice());
    let of = FitPlan { plan, machine, headroom: Bytes(0), known, times, misfits, forecast };
    (fit_plan(&of, Look::PLAIN), serde_json::from_str(&fit_plan_json(&of)).unwrap())
}

const UNKNOWN: [Known; 2] = [Known { peak: None, seconds: None }; 2];

#[test]
fn a_plan_is_told_stage_by_stage() {
    let plan = sweep(Memory::Reserve(Bytes(6 * GIB)));
    let times = [JobTime::Given(600.0), JobTime::Seen(3.0)];
    let (text, value) = fit(&plan, &mixed(), &UNKNOWN, &times);
    let expected = "\
ablation: 101 jobs (train 100, eval 1) on 8 simulated GPUs, packed by memory
  4 × 24 GiB
  4 × 80 GiB

train: 100 jobs, 1 GPU each
  memory:  6 GiB reserved for each job
  per GPU: 4 on each of 4 × 24 GiB, 13 on each of 4 × 80 GiB
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\n  time:    10m 00s a job, as given\n"), "{text}");
    assert!(
        text.contains("\neval: 1 job, no GPU\n  at once: 1\n  time:    3.0 s a job, as in an earlier run\n"),
        "{text}"
    );
    assert!(text.contains("\nIt fits, and takes about "), "{text}");
    assert_eq!(value["stages"][0]["per_gpu"], serde_json::json!([4, 13]));
    assert!(value["makespan"].as_f64().unwrap() >= 600.0);
}

#[test]
fn what_was_measured_earlier_is_used_with_its_formula() {
    let plan = sweep(Memory::Auto);
    let known = [Known { peak: Some(Bytes(10 * GIB)), seconds: None }, UNKNOWN[1]];
    let (text, value) = fit(&plan, &mixed(), &known, &[JobTime::Unknown; 2]);
    let memory =
        "auto: 10 GiB at most in an earlier run; 10 GiB + 10 % + 256 MiB = 11.2 GiB reserved for each";
    assert!(text.contains(memory), "{text}");
    assert!(text.contains("2 on each of 4 × 24 GiB, 7 on each of 4 × 80 GiB"), "{text}");
    assert!(text.contains("time:    not known; say it with --job-time train=20m"), "{text}");
    assert!(text.contains("How long it takes cannot be said"), "{text}");
    assert_eq!((&value["makespan"], &value["stages"][0]["at_once"]), (&Value::Null, &36.into()));

    let (text, _) = fit(&plan, &mixed(), &UNKNOWN, &[JobTime::Given(60.0); 2]);
    assert!(text.contains("auto: will be measured by the first job"), "{text}");
    assert!(text.contains("\n  per GPU: 1 job\n"), "{text}");
    assert!(text.ends_with("that is not counted.\n"), "{text}");
}

#[test]
fn what_never_fits_says_why_and_what_fits_in_part_says_where() {
    let (text, value) =
        fit(&sweep(Memory::Reserve(Bytes(90 * GIB))), &mixed(), &UNKNOWN, &[JobTime::Unknown; 2]);
    let why = "never:   a job of stage `train` reserves 90 GiB of GPU memory; the largest GPU has 80 GiB\n";
    assert!(text.contains(why), "{text}");
    assert!(text.ends_with("✗ It does not fit: 1 stage can never run here.\n"), "{text}");
    assert_eq!(value["fits"], false);
    let (text, _) = fit(&sweep(Memory::Reserve(Bytes(30 * GIB))), &mixed(), &UNKNOWN, &[JobTime::Unknown; 2]);
    assert!(
        text.contains("none on 4 × 24 GiB: 24 GiB is less than 30 GiB, 2 on each of 4 × 80 GiB"),
        "{text}"
    );
}
