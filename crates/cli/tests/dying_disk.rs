//! File systems that die or refuse, and run directories that are taken away: said within seconds, also under `-q`; nothing is started
//! meanwhile, and nothing twice; ended at once when told to, with the documented exit code.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use gpulane_testkit::{Gpulane, processes, skip, tagged, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const BINARY: &str = env!("CARGO_BIN_EXE_gpulane");

/// Jobs one after another; each leaves a line and waits to be let go.
const PLAN: &str = r#"
[[stage]]
name = "s"
parallel = 1
command = ["sh", "-c", "echo {n} >> WORK/starts; echo {n} > $GPULANE_OUT/n; while [ ! -e WORK/go-{n} ]; do sleep 0.01; done"]
[stage.matrix]
n = [1, 2]
"#;

/// A quiet run in the background, and what it says.
struct Quiet {
    child: Child,
    said: PathBuf,
}

impl Quiet {
    fn start(gpulane: &Gpulane, run: &str) -> Self {
        let work = gpulane.workspace.path();
        gpulane.workspace.file("plan.toml", &PLAN.replace("WORK", work.to_str().unwrap()));
        Self::spawn(gpulane, gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", run, "-q"]))
    }

    fn spawn(gpulane: &Gpulane, mut command: Command) -> Self {
        let said = gpulane.workspace.path().join("said");
        let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        let quiet = Self { child, said };
        wait_until("the first job", || !started(gpulane).is_empty());
        quiet
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    fn wait_until_it_says(&self, words: &str) {
        wait_until(&format!("`{words}`"), || self.said().contains(words));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Its exit code. What does not end at once, where nothing but a signal was needed, is a failure.
    fn code(mut self) -> i32 {
        let child = &mut self.child;
        wait_for("its end", || child.try_wait().unwrap().map(|status| status.code().unwrap_or(-1)))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The jobs that were started, in order.
fn started(gpulane: &Gpulane) -> Vec<String> {
    let text = std::fs::read_to_string(gpulane.workspace.path().join("starts")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn go(gpulane: &Gpulane, job: u32) {
    gpulane.workspace.file(&format!("go-{job}"), "");
}

#[test]
fn a_removed_run_directory_is_noticed_while_nothing_is_written() {
    let gpulane = Gpulane::new(BINARY);
    let run = Quiet::start(&gpulane, "r");
    std::fs::remove_dir_all(gpulane.dir()).unwrap();
    run.wait_until_it_says("was removed while in use");
    assert_eq!(run.code(), 70);
    wait_until("nothing left", || {
        processes().iter().all(|process| !process.mentions(gpulane.dir().to_str().unwrap()))
    });
    assert_eq!(started(&gpulane), ["1"]);
}

#[test]
fn a_renamed_run_directory_holds_the_run_until_it_is_back() {
    let gpulane = Gpulane::new(BINARY);
    let away = gpulane.workspace.path().join("away");
    let run = Quiet::start(&gpulane, "r");
    std::fs::rename(gpulane.dir(), &away).unwrap();
    run.wait_until_it_says("was renamed or moved");
    go(&gpulane, 1);
    wait_until("starts to be held", || {
        std::fs::read_to_string(away.join("journal.jsonl")).unwrap().contains("\"starts_held\"")
    });
    assert_eq!(started(&gpulane), ["1"]);
    std::fs::rename(&away, gpulane.dir()).unwrap();
    go(&gpulane, 2);
    assert_eq!(run.code(), 0);
    assert_eq!(started(&gpulane), ["1", "2"]);
    for job in [1, 2] {
        assert!(gpulane.dir().join(format!("jobs/s/n={job}/out/n")).exists(), "output {job}");
    }
}

/// Two jobs in two stages: the second stage's directory is made when its job starts.
const TWO_STAGES: &str = r#"
[[stage]]
name = "s"
command = ["sh", "-c", "echo 1 >> WORK/starts; while [ ! -e WORK/go-1 ]; do sleep 0.01; done"]
[[stage]]
name = "t"
after = ["s"]
command = ["sh", "-c", "echo 2 >> WORK/starts; echo 2 > $GPULANE_OUT/n"]
"#;

fn quiet_run(gpulane: &Gpulane, plan: &str) -> Quiet {
    let work = gpulane.workspace.path();
    gpulane.workspace.file("plan.toml", &plan.replace("WORK", work.to_str().unwrap()));
    let args = ["run", "plan.toml", "--gpus", "none", "--run-dir", "r", "-q"];
    Quiet::spawn(gpulane, gpulane.command(&args))
}

#[test]
fn a_run_directory_that_was_just_moved_is_not_made_again_by_the_next_start() {
    let gpulane = Gpulane::new(BINARY);
    let away = gpulane.workspace.path().join("away");
    let run = quiet_run(&gpulane, TWO_STAGES);
    std::fs::rename(gpulane.dir(), &away).unwrap();
    // Before the next look at the directory, most of the time.
    go(&gpulane, 1);
    run.wait_until_it_says("was renamed or moved");
    wait_until("starts to be held", || {
        std::fs::read_to_string(away.join("journal.jsonl")).unwrap().contains("\"starts_held\"")
    });
    run.signal(Signal::INT);
    assert_eq!(run.code(), 130);
    assert!(!gpulane.dir().exists(), "nothing is made at the old place");
    assert_eq!(started(&gpulane), ["1"]);
    std::fs::rename(&away, gpulane.dir()).unwrap();
    assert_eq!(gpulane.call(&["resume", "r", "-q"]).code, 0);
    assert_eq!(started(&gpulane), ["1", "2"]);
    assert!(gpulane.dir().join("jobs/t/main/out/n").exists());
}

#[test]
fn a_map_whose_run_directory_was_just_moved_is_held_until_it_is_back() {
    let gpulane = Gpulane::new(BINARY);
    let away = gpulane.workspace.path().join("away");
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [len(item) for item in batch]\n");
    gpulane.workspace.file("items.txt", "a\nb\n");
    let first = TWO_STAGES.split("[[stage]]\nname = \"t\"").next().unwrap();
    let map = "map = { model = \"model.py:Model\", input = [\"@items.txt\"], decode = \"value\", format = \"jsonl\" }";
    let run = quiet_run(&gpulane, &format!("{first}[[stage]]\nname = \"m\"\nafter = [\"s\"]\n{map}\n"));
    std::fs::rename(gpulane.dir(), &away).unwrap();
    go(&gpulane, 1);
    run.wait_until_it_says("was renamed or moved");
    wait_until("starts to be held", || {
        std::fs::read_to_string(away.join("journal.jsonl")).unwrap().contains("\"starts_held\"")
    });
    assert!(!gpulane.dir().exists(), "nothing is made at the old place");
    std::fs::rename(&away, gpulane.dir()).unwrap();
    assert_eq!(run.code(), 0);
    assert_eq!(gpulane_testkit::rows(&gpulane.dir().join("maps/m")).len(), 2);
}

#[test]
fn what_a_job_writes_beside_a_moved_run_directory_is_no_success() {
    let gpulane = Gpulane::new(BINARY);
    let away = gpulane.workspace.path().join("away");
    let job = "echo 1 >> WORK/starts; while [ ! -e WORK/go-1 ]; do sleep 0.01; done; mkdir -p $GPULANE_OUT && echo 1 > $GPULANE_OUT/n";
    let run =
        quiet_run(&gpulane, &format!("[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"{job}\"]\n"));
    std::fs::rename(gpulane.dir(), &away).unwrap();
    go(&gpulane, 1);
    let said = run.said.clone();
    assert_eq!(run.code(), 3);
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("another directory"), "{said}");
    let journal = std::fs::read_to_string(away.join("journal.jsonl")).unwrap();
    assert!(!journal.contains("\"job_succeeded\""), "{journal}");
    // Put back, it is computed again.
    std::fs::remove_dir_all(gpulane.dir()).unwrap();
    std::fs::rename(&away, gpulane.dir()).unwrap();
    assert_eq!(gpulane.call(&["resume", "r", "--failed", "-q"]).code, 0);
    assert_eq!(started(&gpulane), ["1", "1"]);
}

#[test]
fn a_removed_lock_lets_nobody_else_in() {
    let gpulane = Gpulane::new(BINARY);
    let run = Quiet::start(&gpulane, "r");
    std::fs::remove_file(gpulane.dir().join("lock")).unwrap();
    let second = gpulane.call(&["resume", "r"]);
    assert_eq!(second.code, 2, "{}", second.stderr);
    assert!(second.stderr.contains("in use by another gpulane"), "{}", second.stderr);
    run.wait_until_it_says("lock was removed or replaced");
    go(&gpulane, 1);
    gpulane.wait_for_events("starts_held", 1);
    run.signal(Signal::INT);
    assert_eq!(run.code(), 130);
    go(&gpulane, 2);
    assert_eq!(gpulane.call(&["resume", "r"]).code, 0);
    assert_eq!(started(&gpulane), ["1", "2"], "each once");
}

/// The command under a limit of the size of files, in blocks of 512 bytes.
fn with_file_limit(gpulane: &Gpulane, blocks: u32, args: &[&str]) -> Command {
    let plain = gpulane.command(args);
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -f {blocks}; exec \"$@\"")).arg("sh");
    limited.arg(plain.get_program()).args(plain.get_args()).current_dir(gpulane.workspace.path());
    limited.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited
}

/// A quiet run of sixty jobs with room for its plan, but not for all of its journal; it has said so.
fn out_of_room(gpulane: &Gpulane, script: &str) -> Quiet {
    let sweep = ["run", "--gpus", "none", "--lanes", "1", "--run-dir", "r", "-q", "-s", "n=range(60)", "--"];
    let args = [&sweep[..], &["sh", "-c", script]].concat();
    let run = Quiet::spawn(gpulane, with_file_limit(gpulane, 24, &args));
    run.wait_until_it_says("ulimit -f");
    run
}

#[test]
fn a_limit_of_the_size_of_files_is_named_and_ctrl_c_ends_the_run() {
    // The journal is full while jobs are left to start, or when all have ended and only its last lines are missing.
    for script in ["echo x >> starts; sleep 0.1", "echo x >> starts"] {
        let gpulane = Gpulane::new(BINARY);
        let run = out_of_room(&gpulane, script);
        run.signal(Signal::INT);
        assert_eq!(run.code(), 130);
        assert!(tagged(&gpulane.dir()).is_empty());
        assert_eq!(gpulane.call(&["resume", "r", "-q"]).code, 0);
        assert_eq!(gpulane.jobs_in("job_succeeded").len(), 60);
    }
}

#[test]
fn a_run_that_cannot_write_its_journal_can_be_cancelled() {
    let gpulane = Gpulane::new(BINARY);
    let run = out_of_room(&gpulane, "echo x >> starts; sleep 0.1");
    assert_eq!(gpulane.call(&["cancel", "r"]).code, 0);
    assert_eq!(run.code(), 3);
    assert!(tagged(&gpulane.dir()).is_empty());
}

#[test]
fn a_plan_larger_than_a_file_may_be_is_refused_in_words() {
    let gpulane = Gpulane::new(BINARY);
    let args = ["run", "--gpus", "none", "--run-dir", "r", "-s", "n=range(99)", "--", "true"];
    let output = with_file_limit(&gpulane, 1, &args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("plan.json") && said.contains("ulimit -f"), "{said}");
}

/// A file system of its own that can be made to fail every access from now on.
struct Mortal(PathBuf);

impl Mortal {
    /// `None`, which has been said, where there are no loop devices to be had.
    fn mount(image: &Path, at: PathBuf) -> Option<Self> {
        let script = "[ -e \"$0\" ] || { truncate -s 32M \"$0\" && mkfs.ext4 -qF \"$0\"; } && mkdir -p \"$1\" && mount -o loop \"$0\" \"$1\"";
        let mounted = Command::new("sh").arg("-c").arg(script).arg(image).arg(&at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at));
        }
        skip("dying_disk", "mounting an image needs root and loop devices");
        None
    }

    /// `EXT4_IOC_SHUTDOWN`: what a disk does that was pulled out.
    fn die(&self) {
        let script = "import fcntl, os, struct, sys\nfcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";
        let status = Command::new("python3").arg("-c").arg(script).arg(&self.0).status().unwrap();
        assert!(status.success(), "the file system can be shut down");
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_file_system_that_dies_is_named_and_ctrl_c_ends_the_run() {
    let gpulane = Gpulane::new(BINARY);
    let (image, at) = (gpulane.workspace.path().join("image"), gpulane.workspace.path().join("disk"));
    let Some(disk) = Mortal::mount(&image, at.clone()) else { return };
    let run = Quiet::start(&gpulane, "disk/r");
    wait_until("a journal with the start in it", || {
        std::fs::read_to_string(at.join("r/journal.jsonl")).unwrap().contains("job_started")
    });
    disk.die();
    run.wait_until_it_says("Input/output error");
    go(&gpulane, 1);
    run.signal(Signal::INT);
    assert_eq!(run.code(), 130);
    wait_until("nothing left", || tagged(&at.join("r")).is_empty());
    assert_eq!(started(&gpulane), ["1"]);
    drop(disk);
    let Some(_disk) = Mortal::mount(&image, at.clone()) else { return };
    go(&gpulane, 2);
    let resumed = gpulane.call(&["resume", "disk/r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    for job in [1, 2] {
        assert!(at.join(format!("r/jobs/s/n={job}/out/n")).exists(), "output {job}");
    }
}

#[test]
fn an_ext4_that_a_job_fills_holds_starts_and_its_space_lets_all_go_on() {
    let gpulane = Gpulane::new(BINARY);
    let (image, at) = (gpulane.workspace.path().join("image"), gpulane.workspace.path().join("disk"));
    let Some(_disk) = Mortal::mount(&image, at.clone()) else { return };
    let ballast = std::fs::File::create(at.join("ballast")).unwrap();
    rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, 20 << 20).unwrap();
    // Gives a little back, so that there is room for the record of the hold.
    gpulane.workspace.file(
        "train.py",
        "import os, sys\nfile = open(sys.argv[1] + '/model', 'wb', 0)\ntry:\n    for _ in range(8 << 4):\n        \
         file.write(bytes(1 << 16))\n    os.fsync(file)\nexcept OSError:\n    os.truncate(file.fileno(), os.fstat(file.fileno()).st_size - (1 << 17))\n    \
         os.fsync(file)\n    raise\n",
    );
    gpulane.workspace.file(
        "plan.toml",
        "[[stage]]\nname = \"s\"\ncommand = [\"python3\", \"train.py\", \"{out}\"]\n[stage.matrix]\nn = [1, 2]\n",
    );
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "1", "--run-dir", "disk/r"]);
    let journal = || std::fs::read_to_string(at.join("r/journal.jsonl")).unwrap_or_default();
    wait_until("a hold, or the end", || {
        journal().contains("\"starts_held\"") || journal().contains("\"run_finished\"")
    });
    std::fs::remove_file(at.join("ballast")).unwrap();
    drop(ballast);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}\n{}", finished.stderr, journal());
    assert_eq!(journal().matches("\"job_failed\"").count(), 1, "{}", journal());
    assert!(journal().contains("\"disk_full\":\"run\""), "{}", journal());
}
