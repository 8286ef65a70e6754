//! Commands that look at a run which another command started, or ask something of it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::process::{Command, Stdio};

use gpulane_testkit::{Finished, Gpulane, processes, tagged, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Jobs 1 and 2 side by side, each until it is let go; the second fails if told so.
const GATED: &str = r#"
[[stage]]
name = "s"
grace = "1s"
command = ["sh", "-c", "until [ -e go-{n} ]; do sleep 0.01; done; test ! -e fail-{n}"]
[stage.matrix]
n = [1, 2]
"#;

/// A run that goes on without its command, until the test ends at the latest.
struct Detached(Gpulane);

impl Deref for Detached {
    type Target = Gpulane;

    fn deref(&self) -> &Gpulane {
        &self.0
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        (1..=2).for_each(|job| let_go(self, job));
        wait_until("its end", || tagged(&self.dir()).is_empty());
    }
}

fn detached() -> Detached {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file("plan.toml", GATED);
    let started = gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r", "--detach"]);
    assert_eq!(started.code, 0, "{}", started.stderr);
    gpulane.wait_for_events("job_started", 2);
    Detached(gpulane)
}

fn let_go(gpulane: &Gpulane, job: u32) {
    gpulane.workspace.file(&format!("go-{job}"), "");
}

/// What `watch` exits with: one that looks on while this happens, one that comes afterwards.
fn watched(gpulane: &Gpulane, happens: impl FnOnce()) -> (Finished, Finished) {
    let looking_on = gpulane.spawn(&["watch", "--json", "r"]);
    happens();
    (looking_on.wait(), gpulane.call(&["watch", "r"]))
}

#[test]
fn watch_exits_with_0_where_all_succeeded() {
    let gpulane = detached();
    let (during, after) = watched(&gpulane, || (1..=2).for_each(|job| let_go(&gpulane, job)));
    assert_eq!((during.code, after.code), (0, 0), "{}", after.stderr);
}

#[test]
fn watch_exits_with_3_where_a_job_failed() {
    let gpulane = detached();
    gpulane.workspace.file("fail-2", "");
    let (during, after) = watched(&gpulane, || (1..=2).for_each(|job| let_go(&gpulane, job)));
    assert_eq!((during.code, after.code), (3, 3), "{}", after.stderr);
}

fn signal_engine(gpulane: &Gpulane, signal: Signal) {
    let pid = gpulane.events_of("run_started")[0]["pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn watch_exits_with_the_code_of_the_signal_that_ended_the_run() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, 70)] {
        let gpulane = detached();
        let (during, after) = watched(&gpulane, || signal_engine(&gpulane, signal));
        assert_eq!((during.code, after.code), (code, code), "{signal:?}: {}", after.stderr);
    }
}

#[test]
fn a_run_can_be_cancelled_from_its_first_moment() {
    for _ in 0..5 {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        let live = gpulane.start(GATED, "none");
        wait_until("the frozen plan", || gpulane.dir().join("plan.json").exists());
        let cancelled = gpulane.call(&["cancel", "r"]);
        assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
        assert_eq!(live.wait().code, 3);
    }
}

/// A `resume` that begins clears away what was left for the engine before, also what another command is just writing.
#[test]
fn a_request_that_is_cleared_away_half_written_is_left_again() {
    let over = std::sync::atomic::AtomicBool::new(false);
    for _ in 0..10 {
        let gpulane = detached();
        std::thread::scope(|scope| {
            over.store(false, std::sync::atomic::Ordering::Relaxed);
            scope.spawn(|| {
                let mut cleared = 0;
                while cleared < 3 && !over.load(std::sync::atomic::Ordering::Relaxed) {
                    let files =
                        std::fs::read_dir(gpulane.dir().join("control")).into_iter().flatten().flatten();
                    let drafts = files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"."));
                    cleared += drafts.filter(|file| std::fs::remove_file(file.path()).is_ok()).count();
                }
            });
            let cancelled = gpulane.call(&["cancel", "r"]);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
        });
        assert_eq!(gpulane.call(&["watch", "r"]).code, 3);
    }
}

#[test]
fn a_job_that_has_ended_is_not_cancelled() {
    let gpulane = detached();
    let_go(&gpulane, 1);
    gpulane.wait_for_events("job_succeeded", 1);
    let both = gpulane.call(&["cancel", "r", "s/n=1"]);
    assert_eq!(both.code, 4, "{}", both.stderr);
    assert!(both.stderr.contains("nothing to cancel: s/n=1 has ended already"), "{}", both.stderr);
    let both = gpulane.call(&["cancel", "r", "s/n=1", "s/n=2"]);
    assert_eq!(both.code, 0, "{}", both.stderr);
    assert!(both.stderr.contains("cancelling 1 job (s/n=1 has ended already)"), "{}", both.stderr);
    assert_eq!(gpulane.call(&["watch", "r"]).code, 3);
    assert_eq!(gpulane.jobs_in("job_failed"), ["s/n=2"]);
}

/// The guardian of this run, stopped: nobody is there to let it go on when the engine ends.
fn stop_guardian(gpulane: &Gpulane) {
    let engine = gpulane.events_of("run_started")[0]["pid"].as_i64().unwrap();
    let parent = processes().iter().find(|seen| i64::from(seen.pid) == engine).unwrap().parent;
    kill_process(Pid::from_raw(parent).unwrap(), Signal::STOP).unwrap();
}

#[test]
fn a_detached_run_ends_although_its_guardian_was_stopped() {
    let gpulane = detached();
    stop_guardian(&gpulane);
    let (during, after) = watched(&gpulane, || (1..=2).for_each(|job| let_go(&gpulane, job)));
    assert_eq!((during.code, after.code), (0, 0), "{}", after.stderr);
}

#[test]
fn a_run_whose_engine_was_killed_can_be_resumed_although_its_guardian_was_stopped() {
    for command in ["watch", "cancel", "resume"] {
        let gpulane = detached();
        stop_guardian(&gpulane);
        signal_engine(&gpulane, Signal::KILL);
        if command != "resume" {
            let code = if command == "watch" { 70 } else { 4 };
            assert_eq!(gpulane.call(&[command, "r"]).code, code, "{command}");
        }
        (1..=2).for_each(|job| let_go(&gpulane, job));
        let resumed = gpulane.call(&["resume", "r"]);
        assert_eq!(resumed.code, 0, "{command}: {}", resumed.stderr);
    }
}

/// A job that waits to be let go.
const GATE: &str = r#"
[[stage]]
name = "s"
command = ["sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"]
"#;

#[test]
fn a_run_whose_journal_cannot_be_shown_any_more_says_how_it_ended() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let live = gpulane.start(GATE, "none");
    gpulane.wait_for_events("job_started", 1);
    let (journal, aside) = (gpulane.dir().join("journal.jsonl"), gpulane.dir().join("aside"));
    std::fs::rename(&journal, &aside).unwrap();
    std::fs::create_dir(&journal).unwrap();
    gpulane.workspace.file("go", "");
    let finished = live.wait();
    let last = finished.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("the run has ended"), "{}", finished.stderr);
}

/// Holds a process so that SIGCONT does not let it go on, until this is dropped.
struct Held(std::process::Child);

impl Held {
    /// `None`, which has been said: this may not be done here.
    fn new(pid: u64) -> Option<Self> {
        let script = "import ctypes, os, sys, time\n\
            libc = ctypes.CDLL(None, use_errno=True)\n\
            held = libc.ptrace(16, int(sys.argv[1]), None, None) == 0 and os.waitpid(int(sys.argv[1]), 0x40000000)\n\
            print('held' if held else 'refused', flush=True)\n\
            time.sleep(120)\n";
        let mut holder = Command::new("python3");
        holder.arg("-c").arg(script).arg(pid.to_string()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let held = Self(holder);
        if said.trim() == "held" {
            return Some(held);
        }
        gpulane_testkit::skip("live_run", "another process may not be traced here");
        None
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_guardian_that_is_held_does_not_spoil_a_good_end() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let live = gpulane.start(GATE, "none");
    gpulane.wait_for_events("job_started", 1);
    let engine = gpulane.events_of("run_started")[0]["pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{engine}/status")).unwrap();
    let guardian =
        status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    let Some(_held) = Held::new(guardian) else { return };
    gpulane.workspace.file("go", "");
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains(&format!("guardian (pid {guardian})")), "{}", finished.stderr);
}
