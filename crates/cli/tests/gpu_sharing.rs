//! One machine, several runs and other people's processes: no GPU is ever used twice, nobody waits for nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{FakeNvml, Gpulane, processes, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
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

/// A run that has the only GPU until the file `go` is there.
fn holder(gpulane: &Gpulane) -> gpulane_testkit::Live {
    let live =
        gpulane.spawn(&["run", "--run-dir", "r", "--", "sh", "-c", "until [ -e go ]; do sleep 0.02; done"]);
    gpulane.wait_for_events("job_started", 1);
    live
}

fn wait_for_waiters(gpulane: &Gpulane, count: usize) {
    wait_until("runs in the queue", || {
        let shown: Value = serde_json::from_str(&gpulane.call(&["gpus", "--json"]).stdout).unwrap();
        shown[0]["waiting"].as_array().map_or(0, Vec::len) == count
    });
}

#[test]
fn a_stopped_waiter_keeps_its_place_but_no_free_gpu() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let path = gpulane.workspace.path();
    let first = holder(&gpulane);
    let stopped = gpulane.spawn(&["run", "--run-dir", "stopped", "--", "true"]);
    wait_for_waiters(&gpulane, 1);
    let last = gpulane.spawn(&["run", "--run-dir", "last", "--", "true"]);
    wait_for_waiters(&gpulane, 2);
    let engine = std::fs::read_to_string(path.join("stopped/lock")).unwrap();
    let engine = rustix::process::Pid::from_raw(engine.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(engine, rustix::process::Signal::STOP).unwrap();
    gpulane.workspace.file("go", "");
    wait_until("the run behind the stopped one", || has(&path.join("last"), "run_finished"));
    assert!(!has(&path.join("stopped"), "job_started"));
    rustix::process::kill_process(engine, rustix::process::Signal::CONT).unwrap();
    assert_eq!((first.wait().code, last.wait().code, stopped.wait().code), (0, 0, 0));
}

#[test]
fn a_lease_whose_lock_is_removed_is_taken_again_by_its_holder() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let first = holder(&gpulane);
    let lock = nvml.lease_dir().join(format!("{}.lock", FakeNvml::uuid(0)));
    std::fs::remove_file(&lock).unwrap();
    wait_until("another lock", || lock.exists());
    let second = gpulane.call(&["run", "--run-dir", "second", "--wait", "1s", "--", "true"]);
    assert_eq!(second.code, 5, "the GPU is used twice: {}", second.stderr);
    gpulane.workspace.file("go", "");
    let first = first.wait();
    assert_eq!(first.code, 0);
    assert!(first.stderr.contains("somebody removed its lease"), "{}", first.stderr);
}

#[test]
fn a_variable_that_a_run_left_behind_does_not_switch_leases_off() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let first = holder(&gpulane);
    // The run it names may be gone, or live without being ours to share.
    for run in ["/gone/run".to_owned(), gpulane.dir().display().to_string()] {
        let mut second = gpulane.command(&["run", "--run-dir", "second", "--wait", "1s", "--", "true"]);
        let second = second.env("GPULANE_RUN", &run).output().unwrap();
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(5), "with GPULANE_RUN={run} the GPU is used twice: {said}");
        let _ = std::fs::remove_dir_all(gpulane.workspace.path().join("second"));
    }
    gpulane.workspace.file("go", "");
    assert_eq!(first.wait().code, 0);
}

#[test]
fn a_lock_is_for_its_owner_to_write_and_for_all_to_take() {
    use std::os::unix::fs::MetadataExt;
    let (nvml, gpulane) = on(&["24GiB"]);
    assert_eq!(gpulane.call(&["run", "--run-dir", "r", "--", "true"]).code, 0);
    let lock = nvml.lease_dir().join(format!("{}.lock", FakeNvml::uuid(0)));
    assert_eq!(std::fs::metadata(lock).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn nobody_gets_ahead_by_claiming_to_have_come_earlier() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let first = holder(&gpulane);
    let second = gpulane.spawn(&["run", "--run-dir", "second", "--", "true"]);
    wait_for_waiters(&gpulane, 1);
    // As old as can be, of a process that lives and shows so: what anybody can write.
    let queue = nvml.lease_dir().join("queue");
    let text =
        serde_json::json!({"pid": 7, "user": "ada", "run": "/r", "gpus": [FakeNvml::uuid(0)], "since": 1});
    // Locked before it has its name: whoever meets one that is not removes it.
    std::fs::write(queue.join("aside"), text.to_string()).unwrap();
    let file = std::fs::File::options().write(true).open(queue.join("aside")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    std::fs::rename(queue.join("aside"), queue.join("00000000000000000001-7-1.ticket")).unwrap();
    let shown: Value = serde_json::from_str(&gpulane.call(&["gpus", "--json"]).stdout).unwrap();
    let users: Vec<&Value> =
        shown[0]["waiting"].as_array().unwrap().iter().map(|waiter| &waiter["user"]).collect();
    assert!(users.len() == 2 && users[0] == users[1], "whose it is, the file says: {users:?}");
    gpulane.workspace.file("go", "");
    let path = gpulane.workspace.path().join("second");
    wait_until("the run that waited longest", || {
        file.set_modified(std::time::SystemTime::now()).unwrap();
        has(&path, "run_finished")
    });
    assert_eq!((first.wait().code, second.wait().code), (0, 0));
}

#[test]
fn an_orphan_that_keeps_the_lease_of_a_dead_run_is_found_and_ended() {
    for by_doctor in [true, false] {
        let (_nvml, gpulane) = on(&["24GiB"]);
        // It leaves its session and its environment: nothing but the lock shows whose it is.
        let script = "test -e once && exit 0; touch once; env -i setsid sleep 5803 & sleep 5804";
        let live = gpulane.spawn(&["run", "--run-dir", "r", "--", "sh", "-c", script]);
        let started = gpulane.wait_for_events("job_started", 1);
        let main = i32::try_from(started[0]["pid"].as_i64().unwrap()).unwrap();
        let own = |seen: &gpulane_testkit::Seen| seen.command == "sleep 5803" && seen.parent == main;
        let orphan = wait_for("the orphan", || processes().into_iter().find(own)).pid;
        let all = processes();
        let parent = |pid: i32| all.iter().find(|seen| seen.pid == pid).unwrap().parent;
        let (engine, guardian) = (parent(main), parent(parent(main)));
        for (pid, signal) in [(guardian, Signal::STOP), (engine, Signal::KILL), (guardian, Signal::KILL)] {
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
        assert_ne!(live.wait().code, 0);
        let lives = |pid: i32| processes().iter().any(|seen| seen.pid == pid && seen.command == "sleep 5803");
        wait_until("the job's end", || {
            !processes().iter().any(|seen| seen.pid == main && !seen.command.is_empty())
        });
        assert!(lives(orphan), "nobody was left to end it");
        if by_doctor {
            let fixed = gpulane.call(&["doctor", "--fix"]);
            assert!(fixed.stdout.contains(&orphan.to_string()), "{fixed:?}");
            assert!(!lives(orphan), "{fixed:?}");
        }
        let resumed = gpulane.call(&["resume", "r"]);
        assert_eq!(resumed.code, 0, "{resumed:?}");
        assert!(!lives(orphan));
    }
}
