//! Outputs that cannot be put in place at once: what is short is waited for, off the lane; what still cannot be published is kept, and a
//! resume publishes it instead of computing it again.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::{Path, PathBuf};
use std::process::Command;

use gpulane_testkit::{Gpulane, Live, skip, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_gpulane");

/// A job with a result, which waits to be let go.
const PLAN: &str = r#"
[[stage]]
name = "s"
retries = 1
command = ["sh", "-c", "echo x >> starts; echo weights > $GPULANE_OUT/model; while [ ! -e go ]; do sleep 0.01; done"]
"#;

/// The engine of a run, and how many files it may have open.
struct Engine(u64);

impl Engine {
    fn of(gpulane: &Gpulane) -> Self {
        Self(gpulane.wait_for_events("run_started", 1)[0]["pid"].as_u64().unwrap())
    }

    /// `false`, which has been said: limits cannot be set from outside.
    fn limit(&self, files: u32) -> bool {
        let mut prlimit = Command::new("prlimit");
        prlimit.arg("--pid").arg(self.0.to_string()).arg(format!("--nofile={files}:"));
        let set = prlimit.status().is_ok_and(|status| status.success());
        if !set {
            skip("publishing", "prlimit is not installed");
        }
        set
    }

    /// Waits until a thread that publishes has nothing to do but wait, or has given up.
    fn wait_for_a_try(&self, gpulane: &Gpulane) {
        let tasks = format!("/proc/{}/task", self.0);
        wait_until("a try to publish", || {
            let mut tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
            let waits = tasks.any(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.contains("(publish) S")
            });
            waits || !gpulane.events_of("job_failed").is_empty()
        });
    }
}

/// A job that has ended while the engine could open no files.
fn short_of_files(gpulane: &Gpulane) -> Option<(Live, Engine)> {
    short_of_files_in(gpulane, PLAN)
}

fn short_of_files_in(gpulane: &Gpulane, plan: &str) -> Option<(Live, Engine)> {
    let live = gpulane.start(plan, "none");
    let engine = Engine::of(gpulane);
    gpulane.wait_for_events("job_started", 1);
    wait_until("its result", || gpulane.dir().join("jobs/s/main/attempt-1/out/model").exists());
    if !engine.limit(5) {
        return None;
    }
    gpulane.workspace.file("go", "");
    engine.wait_for_a_try(gpulane);
    Some((live, engine))
}

fn starts(gpulane: &Gpulane) -> usize {
    std::fs::read_to_string(gpulane.workspace.path().join("starts")).unwrap_or_default().lines().count()
}

fn model(run: &Path) -> String {
    std::fs::read_to_string(run.join("jobs/s/main/out/model")).unwrap_or_default()
}

#[test]
fn a_shortage_of_descriptors_that_passes_costs_nothing() {
    let gpulane = Gpulane::new(BINARY);
    let Some((live, engine)) = short_of_files(&gpulane) else { return };
    assert!(engine.limit(1024));
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 1));
}

#[test]
fn what_could_not_be_published_is_kept_and_a_resume_publishes_it() {
    let gpulane = Gpulane::new(BINARY);
    let Some((live, _)) = short_of_files(&gpulane) else { return };
    // Told to stop, it does not wait any longer for files to come free.
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 3, "every job has ended, one has failed");
    let failed = &gpulane.events_of("job_failed")[0];
    assert_eq!(
        (failed["reason"].as_str(), failed["kept"].as_bool()),
        (Some("publish"), Some(true)),
        "{failed}"
    );
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 1));
}

#[test]
fn a_kept_output_lets_those_run_that_waited_for_it() {
    let gpulane = Gpulane::new(BINARY);
    let after = "[[stage]]\nname = \"b\"\nafter = [\"s\"]\ncommand = [\"sh\", \"-c\", \"cat {run}/jobs/s/main/out/model > $GPULANE_OUT/copy\"]\n";
    let Some((live, _)) = short_of_files_in(&gpulane, &format!("{PLAN}{after}")) else { return };
    live.signal(Signal::INT);
    live.wait();
    assert!(gpulane.dir().join("jobs/s/main/attempt-1/out/model").exists(), "the output is kept");
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(starts(&gpulane), 1, "it was not computed again");
    let copy = std::fs::read_to_string(gpulane.dir().join("jobs/b/main/out/copy")).unwrap();
    assert_eq!(copy, "weights\n", "and what had been skipped for it has run");
}

#[test]
fn what_a_job_left_where_its_output_goes_is_put_aside() {
    let gpulane = Gpulane::new(BINARY);
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"echo weights > $GPULANE_OUT/model; mkdir -p {run}/jobs/s/main/out/theirs\"]\n";
    assert_eq!(gpulane.run(plan, "none").code, 0);
    assert_eq!(model(&gpulane.dir()), "weights\n");
    assert!(gpulane.dir().join("jobs/s/main/out.lost-1/theirs").is_dir());
}

#[test]
fn a_kept_output_that_is_gone_is_computed_again() {
    let gpulane = Gpulane::new(BINARY);
    let Some((live, _)) = short_of_files(&gpulane) else { return };
    live.signal(Signal::INT);
    live.wait();
    std::fs::remove_dir_all(gpulane.dir().join("jobs/s/main/attempt-1/out")).unwrap();
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 2));
}

#[test]
fn work_that_was_done_and_is_gone_is_computed_again() {
    let gpulane = Gpulane::new(BINARY);
    let command =
        "echo x >> starts; echo weights > $GPULANE_OUT/model; : > $GPULANE_DONE; [ -e go ] || sleep 5711";
    let plan =
        format!("[[stage]]\nname = \"s\"\ngrace = \"60s\"\ncommand = [\"sh\", \"-c\", \"{command}\"]\n");
    let live = gpulane.start(&plan, "none");
    let engine = Engine::of(&gpulane);
    gpulane.wait_for_events("job_done", 1);
    kill_process(Pid::from_raw(engine.0.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    live.wait();
    std::fs::remove_dir_all(gpulane.dir().join("jobs/s/main/attempt-1/out")).unwrap();
    gpulane.workspace.file("go", "");
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 2));
}

#[test]
fn an_output_that_is_no_directory_fails_its_try_and_is_not_kept() {
    let gpulane = Gpulane::new(BINARY);
    let command = "echo x >> starts; [ -e good ] || { touch good; rmdir $GPULANE_OUT; echo no > $GPULANE_OUT; exit 0; }; echo weights > $GPULANE_OUT/model";
    let plan = format!("[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"{command}\"]\n");
    assert_eq!(gpulane.run(&plan, "none").code, 3);
    let failed = &gpulane.events_of("job_failed")[0];
    assert_eq!((failed["reason"].as_str(), failed["kept"].as_bool()), (Some("publish"), None), "{failed}");
    let resumed = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 2));
}

/// A directory on a file system of its own, which cannot be renamed while it is one.
struct Mounted(PathBuf);

impl Mounted {
    fn on(directory: PathBuf) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&directory).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(directory));
        }
        skip("publishing", "nothing can be mounted here");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_kept_output_that_cannot_be_moved_is_computed_again_on_request() {
    let gpulane = Gpulane::new(BINARY);
    let Some((live, _)) = short_of_files(&gpulane) else { return };
    live.signal(Signal::INT);
    live.wait();
    let Some(_mounted) = Mounted::on(gpulane.dir().join("jobs/s/main/attempt-1/out")) else { return };
    assert_eq!(gpulane.call(&["resume", "r"]).code, 3);
    assert_eq!(starts(&gpulane), 1, "not without being told to");
    let resumed = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!((model(&gpulane.dir()).as_str(), starts(&gpulane)), ("weights\n", 2));
}

#[test]
fn after_another_boot_a_kept_output_that_was_never_synced_is_computed_again() {
    let gpulane = Gpulane::new(BINARY);
    let Some((live, _)) = short_of_files(&gpulane) else { return };
    live.signal(Signal::INT);
    live.wait();
    std::fs::write(gpulane.dir().join("jobs/s/main/attempt-1/out/model"), "").unwrap();
    let resumed = gpulane.command(&["resume", "r", "-q"]).env("GPULANE_TEST_BOOT_ID", "another").status();
    assert!(resumed.unwrap().success());
    assert_eq!(model(&gpulane.dir()), "weights\n");
}

#[test]
fn an_output_deeper_than_there_are_descriptors_is_published() {
    let gpulane = Gpulane::new(BINARY);
    gpulane.workspace.file(
        "deep.py",
        "import os\nos.chdir(os.environ['GPULANE_OUT'])\nfor _ in range(200):\n    os.mkdir('level')\n    os.chdir('level')\nopen('model', 'w').write('weights')\n",
    );
    gpulane.workspace.file("plan.toml", "[[stage]]\nname = \"s\"\ncommand = [\"python3\", \"deep.py\"]\n");
    let plain = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r", "-q"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 80; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let status = limited.current_dir(gpulane.workspace.path()).status().unwrap();
    assert_eq!(status.code(), Some(0), "{:?}", gpulane.events_of("job_failed"));
    let levels = wait_for("the output", || {
        let mut at = gpulane.dir().join("jobs/s/main/out");
        let mut levels = 0;
        while at.join("level").is_dir() {
            at.push("level");
            levels += 1;
        }
        at.join("model").exists().then_some(levels)
    });
    assert_eq!(levels, 200);
}

#[test]
fn work_that_was_done_counts_though_a_signal_came_before_anybody_looked() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let script = "echo kept > $GPULANE_OUT/model; : > $GPULANE_DONE; kill -HUP $$";
    let plan = format!("[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n");
    let finished = gpulane.start(&plan, "none").wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.jobs_in("job_lingered"), ["s/main"]);
    assert!(gpulane.dir().join("jobs/s/main/out/model").exists());
}
