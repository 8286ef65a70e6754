//! A disk that fills up: the run waits and says so; when there is space again it goes on, or is resumed.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;
use std::process::Command;

use gpulane_testkit::{Gpulane, Live, tagged, wait_until};
use rustix::process::{Pid, Signal, kill_process};

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

    /// A file system that keeps short links in their inodes and nothing else there.
    fn of_ext4(at: &'a Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let script =
            "truncate -s 8M \"$0.image\" && mkfs.ext4 -qF \"$0.image\" && mount -o loop \"$0.image\" \"$0\"";
        let mounted = Command::new("sh").args(["-c", script]).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        gpulane_testkit::skip("disk_full", "mounting an image needs root and loop devices");
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

/// Cancels an ended job, several with long names, and the rest, on a disk that is full.
fn cancel_on_a_full_disk(gpulane: &Gpulane, disk: &SmallDisk<'_>) {
    let work = gpulane.workspace.path();
    let name = "a-name-that-no-file-system-would-keep-in-the-inode-of-a-link";
    let plan = PLAN.replace("WORK", work.to_str().unwrap()).replace("parallel = 1\n", "");
    gpulane.workspace.file(
        "plan.toml",
        &plan.replace("[1, 2, 3]", "[1, 2, 3, 4, 5, 6, 7, 8]").replace("\"s\"", &format!("\"{name}\"")),
    );
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "7", "--run-dir", "disk/r"]);
    go(gpulane, 1);
    (2..=8).for_each(|job| wait_for_job(gpulane, job));
    disk.fill();
    let job = |number: u32| format!("{name}/n={number}");
    let several: Vec<String> = (1..=6).map(job).collect();
    let several: Vec<&str> =
        ["cancel", "disk/r"].into_iter().chain(several.iter().map(String::as_str)).collect();
    // The second time, those of the first that are still ending are counted again.
    for (args, least, most) in [(&several[..], 5, 5), (&["cancel", "disk/r"], 2, 7)] {
        let cancelled = gpulane.call(args);
        assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
        let jobs = cancelled.stderr.split("cancelling ").nth(1).and_then(|rest| rest.split(' ').next());
        let jobs: Option<u32> = jobs.and_then(|number| number.parse().ok());
        assert!(
            jobs.is_some_and(|jobs| (least..=most).contains(&jobs)),
            "the engine's answer: {}",
            cancelled.stderr
        );
    }
    // How the jobs ended is recorded when there is room for it.
    disk.free();
    let finished = live.wait();
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let left = std::fs::read_dir(disk.0.join("r/control")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["bell"], "no request and no draft of one is left");
}

#[test]
fn a_full_disk_does_not_keep_jobs_from_being_cancelled() {
    for ext4 in [false, true] {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        let place = gpulane.workspace.path().join("disk");
        let disk = if ext4 { SmallDisk::of_ext4(&place) } else { SmallDisk::mount(&place) };
        let Some(disk) = disk else { return };
        cancel_on_a_full_disk(&gpulane, &disk);
    }
}

/// Three jobs that each write 1.5 MB, on a disk of 8 MiB with so much left; what they say of it goes to `to`. Runs until starts are held.
fn start_without_space(gpulane: &Gpulane, disk: &str, left: u64, to: &str) -> Live {
    let ballast = std::fs::File::create(gpulane.workspace.path().join(disk).join("ballast")).unwrap();
    rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, (8 << 20) - left).unwrap();
    gpulane.workspace.file(
        &format!("{disk}.toml"),
        &format!(
            "[[stage]]\nname = \"s\"\nparallel = 1\ncommand = [\"sh\", \"-c\", \"mkdir $GPULANE_OUT/a && head -c 1500000 /dev/zero > \
             $GPULANE_OUT/a/model {to}\"]\n[stage.matrix]\nn = [1, 2, 3]\n"
        ),
    );
    let live =
        gpulane.spawn(&["run", &format!("{disk}.toml"), "--gpus", "none", "--run-dir", &format!("{disk}/r")]);
    wait_until("a hold, or the end", || {
        let journal = journal_of(gpulane, disk);
        journal.contains("\"starts_held\"") || journal.contains("\"run_finished\"")
    });
    live
}

fn journal_of(gpulane: &Gpulane, disk: &str) -> String {
    std::fs::read_to_string(gpulane.workspace.path().join(disk).join("r/journal.jsonl")).unwrap_or_default()
}

/// The failures in a journal, and those of them that do not count.
fn failures(journal: &str) -> (usize, usize) {
    let failed = || journal.lines().filter(|line| line.contains("\"job_failed\""));
    (failed().count(), failed().filter(|line| line.contains("\"disk_full\":")).count())
}

fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}

#[test]
fn jobs_on_a_full_disk_are_held_and_cost_no_try_until_there_is_space() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    // By what the file system says alone, and by what the job says, too.
    for (disk, to) in [("quiet", "2> /dev/null"), ("told", "")] {
        let place = gpulane.workspace.path().join(disk);
        let Some(small) = SmallDisk::of_size(&place, 8 << 10) else { return };
        let live = start_without_space(&gpulane, disk, 1200 << 10, to);
        let out = place.join("r/jobs/s/n=1/attempt-1/out");
        let status = gpulane.call(&["status", &format!("{disk}/r")]);
        assert!(status.stdout.contains("no space left on the disk of"), "{disk}: {}", status.stdout);
        // What the job wrote is its user's; without it there is as much space as before, which starts nobody.
        assert!(
            std::fs::metadata(out.join("a/model")).unwrap().len() > 1 << 20,
            "{disk}: nothing is removed"
        );
        std::fs::remove_dir_all(out.join("a")).unwrap();
        // Longer than until the second look.
        std::thread::sleep(std::time::Duration::from_secs(5));
        assert_eq!(failures(&journal_of(&gpulane, disk)), (1, 1), "no job is started to find out");
        small.free();
        let finished = live.wait();
        let journal = journal_of(&gpulane, disk);
        assert_eq!(finished.code, 0, "{disk}: {}", finished.stderr);
        assert_eq!(failures(&journal), (1, 1), "{disk}: {journal}");
        assert_eq!(
            (count(&journal, "\"starts_held\""), count(&journal, "\"starts_released\"")),
            (2, 1),
            "each reason once: {journal}"
        );
        assert_eq!(count(&finished.stderr, "no new starts"), 2, "{disk}: {}", finished.stderr);
        assert!(finished.stderr.contains("there is space again"), "{disk}: {}", finished.stderr);
        let kept = format!("are kept in {}", out.display());
        assert!(finished.stderr.contains(&kept), "{disk}: {}", finished.stderr);
    }
}

#[test]
fn a_run_held_for_jobs_on_a_full_disk_is_interrupted_at_once_and_resumed() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(small) = SmallDisk::of_size(&place, 8 << 10) else { return };
    let live = start_without_space(&gpulane, "disk", 400 << 10, "");
    live.signal(Signal::INT);
    let finished = live.wait();
    assert_eq!(finished.code, 130, "{}", finished.stderr);
    small.free();
    let resumed = gpulane.call(&["resume", "disk/r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("space again"), "nothing was held: {}", resumed.stderr);
}

#[test]
fn resumed_while_its_disk_is_still_full_a_run_burns_no_job() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(small) = SmallDisk::of_size(&place, 8 << 10) else { return };
    let mut live = start_without_space(&gpulane, "disk", 400 << 10, "");
    for held in 2..5 {
        live.signal(Signal::KILL);
        live.wait();
        live = gpulane.spawn(&["resume", "disk/r"]);
        wait_until("the next engine to hold starts", || {
            count(&journal_of(&gpulane, "disk"), "\"run_resumed\"") == held - 1
                && gpulane.call(&["status", "disk/r"]).stdout.contains("no space left on the disk of")
        });
        assert_eq!(failures(&journal_of(&gpulane, "disk")), (1, 1), "{}", journal_of(&gpulane, "disk"));
    }
    small.free();
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(failures(&journal_of(&gpulane, "disk")), (1, 1));
}

#[test]
fn a_job_that_says_that_another_disk_is_full_is_tried_again_later_and_holds_nobody() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    // With space, whatever the machine has left.
    let Some(_disk) = SmallDisk::of_size(&place, 32 << 10) else { return };
    gpulane.workspace.file(
        "plan.toml",
        r#"
[[stage]]
name = "s"
parallel = 1
command = ["sh", "-c", "[ {n} = 2 ] || { echo \"OSError: [Errno 28] No space left on device: '/dev/shm/x'\" >&2; exit 1; }"]
[stage.matrix]
n = [1, 2]
"#,
    );
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--run-dir", "disk/r"]);
    wait_until("the other job", || {
        journal_of(&gpulane, "disk").contains("\"event\":\"job_succeeded\",\"job\":\"s/n=2\"")
    });
    let journal = journal_of(&gpulane, "disk");
    assert_eq!(failures(&journal), (1, 1), "{journal}");
    assert!(journal.contains("\"delay\":10.0"), "{journal}");
    assert!(!journal.contains("\"starts_held\""), "{journal}");
    gpulane.call(&["cancel", "disk/r"]);
    let finished = live.wait();
    assert!(finished.stderr.contains("it says that a disk is full, and 3"), "{}", finished.stderr);
    assert!(finished.stderr.contains("look at where else it writes"), "{}", finished.stderr);
}

#[test]
fn a_map_that_cannot_write_its_results_is_shown_as_held_and_goes_on_with_space() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(disk) = SmallDisk::of_size(&place, 4 << 10) else { return };
    let model = "import os, time\ndef Model(batch):\n    open('WORK/at-1', 'w').close()\n    \
                 while not os.path.exists('WORK/go-1'):\n        time.sleep(0.01)\n    return [{'n': 1} for _ in batch]\n";
    gpulane.workspace.file("model.py", &model.replace("WORK", gpulane.workspace.path().to_str().unwrap()));
    gpulane.workspace.file("items.txt", "1\n2\n3\n");
    let map = [
        "map",
        "model.py:Model",
        "@items.txt",
        "--decode",
        "value",
        "--gpus",
        "none",
        "--out",
        "disk/r",
        "-q",
    ];
    let live = gpulane.spawn(&map);
    wait_for_job(&gpulane, 1);
    disk.fill();
    go(&gpulane, 1);
    wait_until("status to say what holds it", || {
        let status = gpulane.call(&["status", "disk/r"]);
        status.stdout.contains("No space left on device (os error 28); free some space on that disk")
    });
    // A feeder that has to be started again meanwhile waits, too.
    let feeder = || {
        let all = tagged(&place.join("r"));
        all.iter().find(|process| process.command.starts_with("lane-feeder")).map(|process| process.pid)
    };
    let first = feeder().unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    wait_until("another feeder with a worker", || {
        feeder().is_some_and(|pid| pid != first) && place.join("r/live.json").exists()
    });
    std::thread::sleep(std::time::Duration::from_secs(1));
    disk.free();
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("free some space"), "said under -q, too: {}", finished.stderr);
}

#[test]
fn a_map_that_begins_on_a_full_disk_waits_for_space_and_does_not_stop() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let place = gpulane.workspace.path().join("disk");
    let Some(disk) = SmallDisk::of_size(&place, 4 << 10) else { return };
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [{'n': 1} for _ in batch]\n");
    gpulane.workspace.file("items.txt", "1\n2\n3\n");
    let map = "\n[[stage]]\nname = \"m\"\nafter = [\"s\"]\nmap = { model = \"model.py:Model\", input = [\"@items.txt\"], decode = \"value\" }\n\
               [[stage]]\nname = \"t\"\nafter = [\"m\"]\ncommand = [\"true\"]\n";
    let plan = PLAN.replace("WORK", gpulane.workspace.path().to_str().unwrap()).replace("1, 2, 3", "1");
    gpulane.workspace.file("plan.toml", &format!("{plan}{map}"));
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--run-dir", "disk/r", "-q"]);
    wait_for_job(&gpulane, 1);
    disk.fill();
    go(&gpulane, 1);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    disk.free();
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let journal = journal_of(&gpulane, "disk");
    assert!(!journal.contains("\"map_stopped\""), "{journal}");
}

/// Starts a run of one job with an entry on a disk of this size, and interrupts it as soon as it says something. Returns its exit code
/// and what it said.
fn start_on(gpulane: &Gpulane, number: u32) -> (i32, String) {
    let (said, run) = (gpulane.workspace.path().join("said"), format!("disk-{number}/r"));
    let journal = gpulane.workspace.path().join(&run).join("journal.jsonl");
    let mut command = gpulane.command(&["run", "entry.toml", "--gpus", "none", "--run-dir", &run, "-q"]);
    let mut child = command.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    let mut told = false;
    let code = gpulane_testkit::wait_for("an end", || {
        let ended = child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1));
        // A run that has begun is held, for as long as nobody ends it; one that is refused has said so and ends by itself.
        let begun = journal.exists() && std::fs::metadata(&said).unwrap().len() > 0;
        if ended.is_none() && !told && begun {
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

/// A run whose jobs wait, on a disk on which nothing is left but what gpulane has set aside.
fn start_and_fill(gpulane: &Gpulane, disk: &SmallDisk<'_>) -> Live {
    let jobs = (1..=100).map(|job| job.to_string()).collect::<Vec<_>>().join(", ");
    gpulane.workspace.file(
        "plan.toml",
        &format!("[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"100\"]\n[stage.matrix]\nn = [{jobs}]\n"),
    );
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "1", "--run-dir", "disk/r"]);
    wait_until("the first job", || journal_of(gpulane, "disk").contains("\"job_started\""));
    disk.fill();
    live
}

#[test]
fn what_is_cancelled_on_a_full_disk_is_recorded_and_stays_cancelled() {
    for ext4 in [false, true] {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        let place = gpulane.workspace.path().join("disk");
        let disk = if ext4 { SmallDisk::of_ext4(&place) } else { SmallDisk::mount(&place) };
        let Some(disk) = disk else { return };
        let live = start_and_fill(&gpulane, &disk);
        let cancelled = gpulane.call(&["cancel", "disk/r"]);
        assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
        // The disk stays full.
        let finished = live.wait();
        assert_eq!(finished.code, 3, "{}", finished.stderr);
        assert_eq!(count(&journal_of(&gpulane, "disk"), "\"cancelled\""), 100, "{}", finished.stderr);
        assert_eq!(gpulane.call(&["watch", "disk/r"]).code, 3, "whoever looks sees the same end");
        disk.free();
        let resumed = gpulane.call(&["resume", "disk/r"]);
        assert_eq!(resumed.code, 4, "nothing is left to do: {}", resumed.stderr);
    }
}

#[test]
fn a_job_that_did_not_fail_on_a_nearly_full_disk_holds_nobody() {
    // One that is cancelled, and one that dies when its work is done.
    for (script, cancelled) in [("sleep 100", true), (": > $GPULANE_DONE; kill -SEGV $$", false)] {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        let place = gpulane.workspace.path().join("disk");
        let Some(_disk) = SmallDisk::of_size(&place, 32 << 10) else { return };
        let ballast = std::fs::File::create(place.join("ballast")).unwrap();
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, 31 << 20).unwrap();
        gpulane.workspace.file(
            "plan.toml",
            &format!("[[stage]]\nname = \"s\"\nparallel = 1\ncommand = [\"sh\", \"-c\", \"[ {{n}} = 2 ] || {{{{ {script}; }}}}\"]\n[stage.matrix]\nn = [1, 2]\n"),
        );
        let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--run-dir", "disk/r"]);
        wait_until("the first job", || journal_of(&gpulane, "disk").contains("\"job_started\""));
        if cancelled {
            assert_eq!(gpulane.call(&["cancel", "disk/r", "s/n=1"]).code, 0);
        }
        let finished = live.wait();
        assert_eq!(finished.code, if cancelled { 3 } else { 0 }, "{}", finished.stderr);
        let journal = journal_of(&gpulane, "disk");
        assert!(!journal.contains("\"starts_held\"") && journal.contains("\"job_succeeded\""), "{journal}");
    }
}
