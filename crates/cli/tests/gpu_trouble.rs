//! What must not confuse a run on GPUs: a driver that freezes at the worst moment, memory that is not where it should be,
//! words that mean nothing, waiting for what was never asked for.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::process::{Command, Stdio};

use gpulane_testkit::{FakeNvml, Finished, Gpulane};
use serde_json::json;

fn on(gpus: &[&str]) -> (FakeNvml, Gpulane) {
    Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), gpus)
}

/// A stage of jobs that take so much GPU memory and then run `script`.
fn plan(settings: &str, take: &str, script: &str, jobs: u32) -> String {
    let seeds: Vec<String> = (0..jobs).map(|seed| seed.to_string()).collect();
    format!(
        "[[stage]]\nname = \"s\"\n{settings}\n\
         command = [\"sh\", \"-c\", '''echo \"$CUDA_VISIBLE_DEVICES {take}\" > \"$FAKE_VRAM/$$\"; {script}''']\n\
         [stage.matrix]\nseed = [{}]\n",
        seeds.join(", ")
    )
}

fn assert_ok(finished: &Finished) {
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn a_driver_that_freezes_while_memory_is_awaited() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["late_ms"] = 3_600_000.into());
    let live = gpulane.start(&plan("", "20GiB", "sleep 0.2; touch ended", 2), "all");
    gpulane_testkit::wait_until("its end", || gpulane.workspace.path().join("ended").exists());
    std::thread::sleep(std::time::Duration::from_millis(500));
    nvml.set(|script| script["hang"] = "all".into());
    let finished = live.wait();
    assert_ok(&finished);
    assert!(finished.stderr.contains("NVML has not answered"), "{}", finished.stderr);
}

#[test]
fn a_driver_that_freezes_while_a_gpu_is_held() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["late_ms"] = 3_600_000.into());
    let live = gpulane.start(&plan("", "20GiB", "sleep 0.2", 2), "all");
    gpulane.wait_for_events("vram_held", 1);
    nvml.set(|script| script["hang"] = "all".into());
    assert_ok(&live.wait());
}

#[test]
fn a_driver_that_lists_no_process_does_not_stop_packing() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["list_processes"] = false.into());
    let script = "sleep 0.{seed}; sleep 0.5";
    let finished = gpulane.run(&plan("memory = \"4GiB\"", "3GiB", script, 6), "all");
    assert_ok(&finished);
    assert!(gpulane.events_of("vram_held").is_empty(), "neighbours were taken for ghosts");
    assert!(finished.stderr.contains("PID namespace"), "{}", finished.stderr);
}

#[test]
fn a_gpu_with_too_little_free_is_passed_over() {
    let (nvml, gpulane) = on(&["80GiB", "80GiB"]);
    let mut stranger = Command::new("sleep").arg("5911").stdout(Stdio::null()).spawn().unwrap();
    let pid = stranger.id();
    nvml.set(|script| script["gpus"][0]["processes"] = json!([{ "pid": pid, "used": "70GiB" }]));
    gpulane.workspace.file("plan.toml", &plan("memory = \"20GiB\"", "1GiB", "true", 2));
    let finished = gpulane.call(&["run", "plan.toml", "--foreign", "ignore", "--run-dir", "r"]);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_ok(&finished);
}

#[test]
fn a_job_that_nearly_fills_a_gpu_is_measured_and_runs_again() {
    let (nvml, gpulane) = on(&["80GiB", "80GiB"]);
    nvml.set(|script| script["gpus"][1]["used_extra"] = "40MiB".into());
    let plan = plan("memory = \"auto\"", "78GiB", "sleep 0.4", 2);
    assert_ok(&gpulane.run(&plan, "all"));
    assert_ok(&gpulane.call(&["run", "plan.toml", "--run-dir", "again"]));
}

#[test]
fn words_of_a_job_condemn_no_gpu() {
    let (_nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let finished = gpulane.run(&plan("", "1GiB", "echo 'CUDA error: GPU is lost' >&2; exit 1", 3), "all");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    assert!(gpulane.events_of("gpu_quarantined").is_empty());
    assert_eq!(gpulane.events_of("job_failed").len(), 3);
}

#[test]
fn a_job_that_ended_in_time_is_not_late_because_its_memory_is() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["late_ms"] = 1800.into());
    assert_ok(&gpulane.run(&plan("timeout = \"1200ms\"", "20GiB", "sleep 0.2", 1), "all"));
    let seconds = gpulane.events_of("job_succeeded")[0]["seconds"].as_f64().unwrap();
    assert!(seconds < 1.7, "{seconds} counts what it waited for its memory");
}

#[test]
fn who_asks_for_no_gpu_does_not_wait_for_one() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let mut stranger = Command::new("sleep").arg("5912").stdout(Stdio::null()).spawn().unwrap();
    let pid = stranger.id();
    nvml.set(|script| script["gpus"][0]["processes"] = json!([{ "pid": pid, "used": "2GiB" }]));
    let prep = "[[stage]]\nname = \"prep\"\ngpus = 0\ncommand = [\"sleep\", \"1.5\"]\n";
    gpulane.workspace.file("plan.toml", prep);
    let finished = gpulane.call(&["run", "plan.toml", "--wait", "500ms", "--run-dir", "r"]);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_ok(&finished);
}

#[test]
fn a_run_inside_a_job_waits_for_nobody() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let binary = env!("CARGO_BIN_EXE_gpulane");
    // The job itself holds memory on the GPU its inner run uses.
    let inner = format!("{binary} run --wait 200ms --run-dir inner -s 'n=range(3)' -- sleep 0.3");
    assert_ok(&gpulane.run(&plan("", "2GiB", &inner, 1), "all"));
    let journal = std::fs::read_to_string(gpulane.workspace.path().join("inner/journal.jsonl")).unwrap();
    assert!(!journal.contains("vram_held"), "{journal}");
}
