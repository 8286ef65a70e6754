//! One machine, several runs and other people's processes: no GPU is ever used twice, nobody waits for nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{FakeNvml, Gpulane, wait_until};
use serde_json::Value;

fn on(gpus: &[&str]) -> (FakeNvml, Gpulane) {
    Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), gpus)
}

/// Somebody else's process on GPU `gpu`, until it is killed.
struct Stranger(Child);

impl Stranger {
    fn on(nvml: &FakeNvml, gpu: usize) -> Self {
        let child = Command::new("sleep").arg("5801").stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        nvml.set(|script| {
            script["gpus"][gpu]["processes"] = serde_json::json!([{ "pid": pid, "used": "2GiB" }]);
        });
        Self(child)
    }

    fn leave(mut self, nvml: &FakeNvml, gpu: usize) {
        nvml.set(|script| script["gpus"][gpu]["processes"] = serde_json::json!([]));
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn events(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn has(run: &Path, kind: &str) -> bool {
    events(run).iter().any(|event| event["event"] == kind)
}

#[test]
fn gpus_in_use_by_others_are_avoided() {
    let (nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let stranger = Stranger::on(&nvml, 0);
    let finished = gpulane.call(&["run", "--run-dir", "r", "-s", "n=range(4)", "--", "true"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let used: Vec<Value> =
        gpulane.events_of("job_started").iter().map(|event| event["gpus"][0].clone()).collect();
    let other = &gpulane.events_of("run_started")[0]["machine"]["gpus"][1]["uuid"];
    assert!(used.iter().all(|gpu| gpu == other), "{used:?}");
    stranger.leave(&nvml, 0);
}

#[test]
fn with_no_other_gpu_the_run_does_not_start_and_says_who_is_there() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let stranger = Stranger::on(&nvml, 0);
    let finished = gpulane.call(&["run", "--run-dir", "r", "--", "true"]);
    assert_eq!(finished.code, 5);
    let pid = stranger.0.id().to_string();
    assert!(finished.stderr.contains(&pid) && finished.stderr.contains("sleep 5801"), "{}", finished.stderr);
    assert!(finished.stderr.contains("--foreign wait"), "{}", finished.stderr);
    assert!(!gpulane.dir().exists());
    let ignored = gpulane.call(&["run", "--foreign", "ignore", "--run-dir", "ignored", "--", "true"]);
    assert_eq!(ignored.code, 0, "{}", ignored.stderr);
    let waited = gpulane.call(&["run", "--wait", "1s", "--run-dir", "waited", "--", "true"]);
    assert_eq!(waited.code, 5, "{}", waited.stderr);
    assert!(waited.stderr.contains("within 1.0 s"), "{}", waited.stderr);
    let live = gpulane.spawn(&["run", "--foreign", "wait", "--run-dir", "r", "--", "true"]);
    gpulane.wait_for_events("starts_held", 1);
    // Looked at again and again, said once.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert_eq!((gpulane.events_of("starts_held").len(), gpulane.events_of("starts_released").len()), (1, 0));
    stranger.leave(&nvml, 0);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.events_of("starts_released").len(), 1);
}

#[test]
fn who_comes_while_a_job_runs_has_the_gpu_next() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let live = gpulane.spawn(&[
        "run",
        "--run-dir",
        "r",
        "-s",
        "n=range(2)",
        "--",
        "sh",
        "-c",
        "until [ -e go ]; do sleep 0.05; done",
    ]);
    gpulane.wait_for_events("job_started", 1);
    let stranger = Stranger::on(&nvml, 0);
    gpulane.workspace.file("go", "");
    let held = gpulane.wait_for_events("vram_held", 1);
    assert_eq!(held[0]["pids"], serde_json::json!([stranger.0.id()]));
    assert_eq!(gpulane.wait_for_events("job_succeeded", 1).len(), 1);
    stranger.leave(&nvml, 0);
    assert_eq!(live.wait().code, 0);
}

#[test]
fn five_detached_runs_are_a_queue() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let runs: Vec<String> = (0..5).map(|run| format!("q{run}")).collect();
    for run in &runs {
        let finished = gpulane.call(&[
            "run",
            "--detach",
            "--run-dir",
            run,
            "--",
            "sh",
            "-c",
            "echo + $GPULANE_RUN >> ticks; until [ -e go ]; do sleep 0.02; done; sleep 0.1; echo - >> ticks",
        ]);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
    }
    let path = gpulane.workspace.path();
    wait_until("the first to run and four to wait", || {
        let shown: Value = serde_json::from_str(&gpulane.call(&["gpus", "--json"]).stdout).unwrap();
        let waiting = shown[0]["waiting"].as_array().map_or(0, Vec::len);
        shown[0]["lease"]["run"].as_str().is_some_and(|run| run.ends_with("q0")) && waiting == 4
    });
    gpulane.workspace.file("go", "");
    wait_until("all runs", || runs.iter().all(|run| has(&path.join(run), "run_finished")));
    let ticks = std::fs::read_to_string(path.join("ticks")).unwrap();
    let order: String = ticks.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
    assert_eq!(order, "q0-q1-q2-q3-q4-");
}

#[test]
fn two_runs_that_need_every_gpu_do_not_block_each_other() {
    let (_nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let plan = "[[stage]]\nname = \"one\"\ncommand = [\"sleep\", \"0.2\"]\n[stage.matrix]\nn = [1, 2]\n\
                [[stage]]\nname = \"both\"\ngpus = 2\ncommand = [\"sleep\", \"0.2\"]\n[stage.matrix]\nn = [1, 2]\n";
    gpulane.workspace.file("plan.toml", plan);
    let runs: Vec<String> = (0..3).map(|run| format!("g{run}")).collect();
    for run in &runs {
        assert_eq!(gpulane.call(&["run", "plan.toml", "--detach", "--run-dir", run]).code, 0);
    }
    let path = gpulane.workspace.path();
    wait_until("all runs", || runs.iter().all(|run| has(&path.join(run), "run_finished")));
}

#[test]
fn a_run_inside_a_job_uses_the_jobs_gpu() {
    let (_nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let binary = env!("CARGO_BIN_EXE_gpulane");
    let inner = format!(
        "{binary} run --run-dir inner -- sh -c 'echo $CUDA_VISIBLE_DEVICES > inner-gpu'; echo $CUDA_VISIBLE_DEVICES > outer-gpu"
    );
    let finished = gpulane.call(&["run", "--run-dir", "r", "--", "sh", "-c", &inner]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let read = |name: &str| std::fs::read_to_string(gpulane.workspace.path().join(name)).unwrap();
    assert_eq!(read("inner-gpu"), read("outer-gpu"));
}
