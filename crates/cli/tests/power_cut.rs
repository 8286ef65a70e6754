//! Power cuts: what was only in memory is gone, and nothing half written is taken for a result. Simulated by what a cut leaves (empty
//! files, a lost end of the journal, another boot id), and by copying a mounted file system in the middle of a run.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::{Path, PathBuf};
use std::process::Command;

use gpulane_testkit::{Gpulane, skip, wait_until};
use rustix::process::Signal;

const BINARY: &str = env!("CARGO_BIN_EXE_gpulane");

/// A job that writes its result, says that it is finished, and does not exit until it is let go.
const PLAN: &str = r#"
[[stage]]
name = "s"
grace = "60s"
command = ["sh", "-c", "echo x >> starts; head -c 300000 /dev/zero | tr '\\0' w > $GPULANE_OUT/model; touch $GPULANE_DONE; while [ ! -e go ]; do sleep 0.01; done"]
"#;

fn starts(gpulane: &Gpulane) -> usize {
    std::fs::read_to_string(gpulane.workspace.path().join("starts")).unwrap_or_default().lines().count()
}

fn attempt(gpulane: &Gpulane) -> PathBuf {
    gpulane.dir().join("jobs/s/main/attempt-1")
}

/// Starts the plan, waits until the job has said that it is finished, and ends all of gpulane at once.
fn killed_after_its_work(gpulane: &Gpulane) {
    let live = gpulane.start(PLAN, "none");
    gpulane.wait_for_events("job_started", 1);
    wait_until("the job's word", || attempt(gpulane).join("done").exists());
    live.signal(Signal::KILL);
    live.wait();
    gpulane.assert_nothing_left();
    gpulane.workspace.file("go", "");
}

/// As a power cut leaves it: the name of the result without its bytes, and no record that was not yet durable.
fn lose_what_was_not_synced(gpulane: &Gpulane) {
    std::fs::write(attempt(gpulane).join("out/model"), "").unwrap();
    let journal = std::fs::read_to_string(gpulane.dir().join("journal.jsonl")).unwrap();
    let kept: String = journal.split_inclusive('\n').filter(|line| !line.contains("\"job_done\"")).collect();
    std::fs::write(gpulane.dir().join("journal.jsonl"), kept).unwrap();
}

fn resume(gpulane: &Gpulane, boot: Option<&str>) -> i32 {
    let mut command = gpulane.command(&["resume", "r", "-q"]);
    let boot = boot.map(|boot| ("GPULANE_TEST_BOOT_ID", boot));
    command.envs(boot).status().unwrap().code().unwrap()
}

fn model(gpulane: &Gpulane) -> usize {
    std::fs::read(gpulane.dir().join("jobs/s/main/out/model")).map_or(0, |model| model.len())
}

#[test]
fn after_another_boot_a_mark_alone_proves_nothing() {
    let gpulane = Gpulane::new(BINARY);
    killed_after_its_work(&gpulane);
    lose_what_was_not_synced(&gpulane);
    assert_eq!(resume(&gpulane, Some("another")), 0);
    assert_eq!(model(&gpulane), 300_000, "a result that a power cut emptied was published");
    assert_eq!(starts(&gpulane), 2);
}

#[test]
fn where_no_boot_was_recorded_the_job_runs_again() {
    let gpulane = Gpulane::new(BINARY);
    let journal = gpulane.dir().join("journal.jsonl");
    killed_after_its_work(&gpulane);
    lose_what_was_not_synced(&gpulane);
    // All of it lost: nothing tells under which boot the job ran.
    std::fs::write(&journal, "").unwrap();
    assert_eq!(resume(&gpulane, None), 0);
    assert_eq!(model(&gpulane), 300_000);
}

#[test]
fn under_the_same_boot_a_mark_is_enough() {
    let gpulane = Gpulane::new(BINARY);
    killed_after_its_work(&gpulane);
    assert_eq!(resume(&gpulane, None), 0);
    assert_eq!((model(&gpulane), starts(&gpulane)), (300_000, 1));
}

#[test]
fn a_recorded_end_of_work_outlasts_another_boot() {
    let gpulane = Gpulane::new(BINARY);
    let live = gpulane.start(PLAN, "none");
    let done = gpulane.wait_for_events("job_done", 1);
    assert_eq!((done[0]["job"].as_str(), done[0]["attempt"].as_u64()), (Some("s/main"), Some(1)));
    live.signal(Signal::KILL);
    live.wait();
    gpulane.assert_nothing_left();
    // The mark itself may not have reached the disk.
    std::fs::remove_file(attempt(&gpulane).join("done")).unwrap();
    assert_eq!(resume(&gpulane, Some("another")), 0);
    assert_eq!((model(&gpulane), starts(&gpulane)), (300_000, 1));
}

#[test]
fn configs_that_a_cut_emptied_are_written_again() {
    let gpulane = Gpulane::new(BINARY);
    let plan = r#"
[[stage]]
name = "s"
command = ["sh", "-c", "test {n} = 1 || test -e go"]
[stage.matrix]
n = [1, 2]
"#;
    assert_eq!(gpulane.run(plan, "none").code, 3);
    let config = gpulane.dir().join("jobs/s/n=1/config.json");
    let before = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, "").unwrap();
    gpulane.workspace.file("go", "");
    let mut again = gpulane.command(&["resume", "r", "--failed", "-q"]);
    assert!(again.env("GPULANE_TEST_BOOT_ID", "another").status().unwrap().success());
    assert_eq!(
        std::fs::read_to_string(&config).unwrap(),
        before,
        "of a job that had succeeded before the cut"
    );
    std::fs::write(&config, "").unwrap();
    assert_eq!(resume(&gpulane, Some("a third")), 4, "nothing to do");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), before, "of a run that had finished");
}

#[test]
fn the_output_is_on_the_disk_before_the_record_of_it() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return skip("power_cut", "strace is not installed");
    }
    let gpulane = Gpulane::new(BINARY);
    gpulane.workspace.file("plan.toml", PLAN);
    let plain = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r", "-q"]);
    let calls = gpulane.workspace.path().join("calls");
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-y", "-s", "20000", "-e", "trace=fsync,fdatasync,syncfs,pwrite64"])
        .arg("-o")
        .arg(&calls);
    traced.arg(plain.get_program()).args(plain.get_args()).current_dir(gpulane.workspace.path());
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = traced.spawn().unwrap();
    gpulane.wait_for_events("job_done", 1);
    gpulane.workspace.file("go", "");
    assert!(child.wait().unwrap().success());
    let calls = std::fs::read_to_string(calls).unwrap();
    let recorded = calls.find("job_done").expect("the record is written");
    let synced = calls.find("/attempt-1/out/model>").expect("the result is synced");
    assert!(synced < recorded, "the record went first:\n{calls}");
    let folder = calls.find("/attempt-1/out>").expect("so is the directory with its name");
    assert!(folder < recorded, "the record went before the name:\n{calls}");
}

/// A file system in an image, as a disk that can lose its power.
struct Image {
    file: PathBuf,
    at: PathBuf,
}

impl Image {
    /// `None`, which has been said, where there are no loop devices to be had.
    fn mount(file: PathBuf, at: PathBuf) -> Option<Self> {
        let sh = |script: &str| {
            let status = Command::new("sh").arg("-c").arg(script).arg(&file).arg(&at).output();
            status.is_ok_and(|output| output.status.success())
        };
        let fresh = file.exists() || sh("truncate -s 64M \"$0\" && mkfs.ext4 -qF \"$0\"");
        // Names reach the disk every second; bytes that nobody syncs only after half a minute.
        if !fresh || !sh("mkdir -p \"$1\" && mount -o loop,commit=1 \"$0\" \"$1\"") {
            skip("power_cut", "mounting an image needs root and loop devices");
            return None;
        }
        Some(Self { file, at })
    }

    /// What is on the disk now, and nothing that is only in memory.
    fn copy(&self, to: &Path) {
        assert!(
            Command::new("cp").arg("--sparse=always").arg(&self.file).arg(to).status().unwrap().success()
        );
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // A run that was killed may take a moment to let go of it.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

#[test]
fn a_disk_without_power_after_done_has_the_whole_result() {
    let gpulane = Gpulane::new(BINARY);
    let work = gpulane.workspace.path();
    let Some(disk) = Image::mount(work.join("image"), work.join("disk")) else { return };
    gpulane.workspace.file("plan.toml", PLAN);
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--run-dir", "disk/r"]);
    let run = work.join("disk/r");
    wait_until("the job's word", || run.join("jobs/s/main/attempt-1/done").exists());
    // The cut comes when the disk knows of the mark.
    let (cut, side) = (work.join("cut"), work.join("side"));
    wait_until("the mark on the disk", || {
        disk.copy(&cut);
        let seen = Image::mount(cut.clone(), side.clone());
        seen.is_none() || side.join("r/jobs/s/main/attempt-1/done").exists()
    });
    live.signal(Signal::KILL);
    live.wait();
    wait_until("nothing left", || gpulane_testkit::tagged(&run).is_empty());
    drop(disk);
    let Some(_disk) = Image::mount(cut, work.join("disk")) else { return };
    gpulane.workspace.file("go", "");
    let resumed = gpulane.command(&["resume", "disk/r", "-q"]).env("GPULANE_TEST_BOOT_ID", "b").status();
    assert!(resumed.unwrap().success());
    let model = std::fs::read(run.join("jobs/s/main/out/model")).unwrap();
    assert_eq!(model.len(), 300_000, "published after the cut");
}
