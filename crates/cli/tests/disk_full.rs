//! A disk that fills up: the run waits and says so; when there is space again it goes on, or is resumed.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;
use std::process::Command;

use gpulane_testkit::{Gpulane, Live, wait_until};
use rustix::process::Signal;

/// A small file system of its own, unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// `None`, with the reason printed, where mounting is not allowed.
    fn mount(at: &'a Path) -> Option<Self> {
        Self::of_size(at, 512)
    }

    fn of_size(at: &'a Path, kib: u32) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let options = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output();
        if mounted.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        gpulane_testkit::skip("disk_full", "mounting a small file system needs root");
        None
    }

    fn fill(&self) {
        let full = Command::new("dd")
            .args(["if=/dev/zero", "bs=4k"])
            .arg(format!("of={}/ballast", self.0.display()))
            .output()
            .unwrap();
        assert!(!full.status.success(), "the disk is full");
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// Three jobs, one at a time; during the first the disk is filled from outside, and each waits to be let go.
const PLAN: &str = r#"
[[stage]]
name = "s"
parallel = 1
command = ["sh", "-c", "touch WORK/at-{n}; while [ ! -e WORK/go-{n} ]; do sleep 0.01; done"]
[stage.matrix]
n = [1, 2, 3]
"#;

fn start(gpulane: &Gpulane) -> Live {
    let work = gpulane.workspace.path();
    gpulane.workspace.file("plan.toml", &PLAN.replace("WORK", work.to_str().unwrap()));
    gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "1", "--run-dir", "disk/r"])
}

fn go(gpulane: &Gpulane, job: u32) {
    gpulane.workspace.file(&format!("go-{job}"), "");
}

fn wait_for_job(gpulane: &Gpulane, job: u32) {
    let file = gpulane.workspace.path().join(format!("at-{job}"));
    wait_until(&format!("job {job}"), || file.exists());
}

#[test]
fn a_full_disk_holds_the_run_and_space_lets_it_go_on() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(disk) = SmallDisk::mount(&place) else { return };
    let live = start(&gpulane);
    wait_for_job(&gpulane, 1);
    disk.fill();
    go(&gpulane, 1);
    // The second job cannot start: nothing of it may appear, and nothing may be called done.
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(!gpulane.workspace.path().join("at-2").exists(), "no job starts without a place for its files");
    disk.free();
    wait_for_job(&gpulane, 2);
    go(&gpulane, 2);
    go(&gpulane, 3);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("space"), "a person is told: {}", finished.stderr);
}

#[test]
fn killed_on_a_full_disk_it_is_resumed_when_there_is_space() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(disk) = SmallDisk::mount(&place) else { return };
    let live = start(&gpulane);
    wait_for_job(&gpulane, 1);
    disk.fill();
    (1..=3).for_each(|job| go(&gpulane, job));
    std::thread::sleep(std::time::Duration::from_millis(300));
    live.signal(Signal::KILL);
    live.wait();
    // Resumed before there is space it waits, whatever comes first.
    let resumed = gpulane.spawn(&["resume", "disk/r"]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    disk.free();
    let finished = resumed.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    for job in 1..=3 {
        assert!(place.join(format!("r/jobs/s/n={job}/out")).is_dir());
    }
}

#[test]
fn a_full_disk_does_not_keep_jobs_from_being_cancelled() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(disk) = SmallDisk::mount(&place) else { return };
    let live = start(&gpulane);
    wait_for_job(&gpulane, 1);
    disk.fill();
    for (args, said) in
        [(&["cancel", "disk/r", "s/n=1"][..], "cancelling 1 job"), (&["cancel", "disk/r"], "")]
    {
        let cancelled = gpulane.call(args);
        assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
        assert!(cancelled.stderr.contains(said), "the engine's answer: {}", cancelled.stderr);
    }
    // How the jobs ended is recorded when there is room for it.
    disk.free();
    let finished = live.wait();
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let left = std::fs::read_dir(place.join("r/control")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["bell"], "no request and no draft of one is left");
}

/// Starts a run of one job with an entry on a disk of this size, and interrupts it as soon as it says something. Returns its exit code
/// and what it said.
fn start_on(gpulane: &Gpulane, number: u32) -> (i32, String) {
    let (said, run) = (gpulane.workspace.path().join("said"), format!("disk-{number}/r"));
    let mut command = gpulane.command(&["run", "entry.toml", "--gpus", "none", "--run-dir", &run, "-q"]);
    let mut child = command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    let mut told = false;
    let code = gpulane_testkit::wait_for("an end", || {
        let ended = child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1));
        // A run that has begun is held, for as long as nobody ends it.
        if ended.is_none() && !told && std::fs::metadata(&said).unwrap().len() > 0 {
            told = true;
            rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
        }
        ended
    });
    (code, std::fs::read_to_string(&said).unwrap())
}

#[test]
fn a_start_that_the_disk_has_no_room_for_is_refused_whatever_file_it_was_and_leaves_nothing() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file("train.py", "def main():\n    pass\n");
    gpulane.workspace.file("entry.toml", "[[stage]]\nname = \"s\"\nentry = \"train.py:main\"\n");
    let mut refused = Vec::new();
    // From no room for the plan to room for all but the journal.
    for kib in [4, 8, 12, 20, 36, 100, 200, 300, 400] {
        let place = gpulane.workspace.path().join(format!("disk-{kib}"));
        let Some(_disk) = SmallDisk::of_size(&place, kib) else { return };
        let (code, said) = start_on(&gpulane, kib);
        assert!([0, 2, 130].contains(&code), "{kib} KiB: exit {code}: {said}");
        if code == 2 {
            assert!(said.contains("free some space"), "{kib} KiB: {said}");
            let left: Vec<_> = std::fs::read_dir(&place).unwrap().collect();
            assert!(left.is_empty(), "{kib} KiB: {left:?}: {said}");
            refused.push(said);
        }
    }
    for file in ["plan.json", ".python"] {
        assert!(refused.iter().any(|said| said.contains(file)), "{file}: {refused:?}");
    }
}
