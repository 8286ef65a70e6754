//! Signals to gpulane, and what is left when any of its processes is killed: nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, Live, Seen, processes, skip, tagged, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Two jobs that fork a daemon each and never end by themselves.
const FOREVER: &str = r#"
[[stage]]
name = "s"
grace = "20s"
command = ["sh", "-c", "(setsid sh -c 'sleep 5711 & sleep 5712' &); sleep 5713 & sleep 5714; exit 9"]
[stage.matrix]
n = [1, 2, 3]
"#;

fn running() -> (Gpulane, Live) {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let live = gpulane.start(FOREVER, "sim:2x1GiB");
    gpulane.wait_for_events("job_started", 2);
    wait_until("all daemons", || {
        tagged(&gpulane.dir()).iter().filter(|seen| seen.command.contains("sleep 571")).count() >= 8
    });
    (gpulane, live)
}

/// The engine of this run, and its guardian.
fn insiders(gpulane: &Gpulane) -> (Seen, Seen) {
    let pid = gpulane.events_of("run_started")[0]["pid"].as_i64().unwrap();
    let all = processes();
    let engine = all.iter().find(|seen| i64::from(seen.pid) == pid).expect("the engine lives").clone();
    let guardian = all.iter().find(|seen| seen.pid == engine.parent).expect("the guardian lives").clone();
    assert_eq!(guardian.command, "lane-guardian");
    (engine, guardian)
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn assert_resumable(gpulane: &Gpulane) {
    gpulane.assert_nothing_left();
    let dir = gpulane.dir();
    wait_until("the run's lock", || !tagged_engine(&dir));
    let resumed = gpulane.call(&["status", "r", "--json"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
}

fn tagged_engine(dir: &std::path::Path) -> bool {
    let lock = std::fs::File::open(dir.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
}

#[test]
fn sigkill_of_the_front_leaves_nothing() {
    let (gpulane, live) = running();
    live.signal(Signal::KILL);
    assert_eq!(live.wait().code, -9);
    assert_resumable(&gpulane);
}

#[test]
fn sigkill_of_the_engine_leaves_nothing_and_is_said() {
    let (gpulane, live) = running();
    kill(insiders(&gpulane).0.pid, Signal::KILL);
    let finished = live.wait();
    assert_eq!(finished.code, 70);
    assert!(
        finished.stderr.contains("SIGKILL") && finished.stderr.contains("gpulane resume"),
        "{}",
        finished.stderr
    );
    assert_resumable(&gpulane);
}

#[test]
fn sigkill_of_the_guardian_leaves_nothing() {
    let (gpulane, live) = running();
    kill(insiders(&gpulane).1.pid, Signal::KILL);
    let finished = live.wait();
    assert_ne!(finished.code, 0);
    assert!(!finished.stderr.contains("engine was killed"), "it was not: {}", finished.stderr);
    assert!(finished.stderr.contains("guardian was killed (SIGKILL)"), "{}", finished.stderr);
    assert_resumable(&gpulane);
}

#[test]
fn sigkill_of_front_and_engine_together_leaves_nothing() {
    let (gpulane, live) = running();
    let engine = insiders(&gpulane).0.pid;
    kill(live.pid(), Signal::KILL);
    // The guardian may have been quicker.
    let _ = kill_process(Pid::from_raw(engine).unwrap(), Signal::KILL);
    assert_resumable(&gpulane);
}

#[test]
fn sigkill_of_the_whole_process_group_leaves_nothing() {
    use std::os::unix::process::CommandExt;
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file("plan.toml", FOREVER);
    let mut command = gpulane.command(&["run", "plan.toml", "--gpus", "sim:2x1GiB", "--run-dir", "r"]);
    let mut child = command.process_group(0).stderr(std::process::Stdio::null()).spawn().unwrap();
    gpulane.wait_for_events("job_started", 2);
    kill_process_group(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_resumable(&gpulane);
}

#[test]
fn guardian_and_engine_killed_together_are_made_up_for_by_the_next_resume() {
    let (gpulane, live) = running();
    let (engine, guardian) = insiders(&gpulane);
    kill(guardian.pid, Signal::STOP);
    kill(engine.pid, Signal::KILL);
    kill(guardian.pid, Signal::KILL);
    drop(live);
    wait_until("the run's lock", || !tagged_engine(&gpulane.dir()));
    // Daemons may live now: nobody was left to end them. Resume does, before it starts anything.
    let before = tagged(&gpulane.dir());
    let resumed = gpulane.spawn(&["resume", "r"]);
    gpulane.wait_for_events("run_resumed", 1);
    let survivors = || {
        processes()
            .into_iter()
            .any(|seen| before.iter().any(|old| old.pid == seen.pid && old.command == seen.command))
    };
    wait_until("the end of the leftovers", || !survivors());
    resumed.signal(Signal::KILL);
    drop(resumed);
    assert_resumable(&gpulane);
}

#[test]
fn one_interrupt_ends_gently_and_the_run_is_resumable() {
    let (gpulane, live) = running();
    live.signal(Signal::INT);
    let finished = live.wait();
    assert_eq!(finished.code, 130, "{}", finished.stderr);
    assert!(finished.stderr.contains("gpulane resume"), "{}", finished.stderr);
    assert_resumable(&gpulane);
    assert_eq!(gpulane.events_of("run_interrupted").len(), 1);
    let reasons: Vec<_> =
        gpulane.events_of("job_failed").iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["interrupted", "interrupted"]);
}

#[test]
fn a_term_signal_exits_with_its_own_code() {
    let (gpulane, live) = running();
    live.signal(Signal::TERM);
    assert_eq!(live.wait().code, 143);
    assert_resumable(&gpulane);
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let script =
        "trap 'touch $GPULANE_OUT/asked' TERM; touch $GPULANE_OUT/ready; while :; do sleep 0.05; done";
    let plan = format!("[[stage]]\nname = \"s\"\ngrace = \"1h\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n");
    let live = gpulane.start(&plan, "none");
    let out = gpulane.dir().join("jobs/s/main/attempt-1/out");
    wait_until("the job", || out.join("ready").exists());
    live.signal(Signal::INT);
    wait_until("TERM", || out.join("asked").exists());
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    assert_resumable(&gpulane);
}

#[test]
fn one_wish_that_comes_twice_leaves_jobs_their_grace() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let script = "trap 'sleep 1; touch saved; exit 1' TERM; touch ready; while :; do sleep 0.05; done";
    let plan = format!("[[stage]]\nname = \"s\"\ngrace = \"1h\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\n");
    let live = gpulane.start(&plan, "none");
    wait_until("the job", || gpulane.workspace.path().join("ready").exists());
    // As `timeout` does: its child, and then the whole group with the child in it.
    live.signal(Signal::TERM);
    std::thread::sleep(std::time::Duration::from_millis(20));
    live.signal(Signal::TERM);
    let finished = live.wait();
    assert_eq!(finished.code, 143);
    assert!(gpulane.workspace.path().join("saved").exists(), "{}", finished.stderr);
}

#[test]
fn under_nohup_a_hangup_is_ignored() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file(
        "plan.toml",
        "[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"until [ -e go ]; do sleep 0.01; done\"]\n",
    );
    let mut command = std::process::Command::new("nohup");
    command.arg(env!("CARGO_BIN_EXE_gpulane")).args(["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    command.current_dir(gpulane.workspace.path()).stdin(std::process::Stdio::null());
    let mut child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    gpulane.wait_for_events("job_started", 1);
    kill(i32::try_from(child.id()).unwrap(), Signal::HUP);
    gpulane.workspace.file("go", "");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_does_not_read_keeps_nobody_from_stopping_the_run() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"while :; do echo much to say, said again and again; done\"]\n";
    gpulane.workspace.file("plan.toml", plan);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    let mut child = command.stderr(writer).spawn().unwrap();
    drop(command);
    let log = gpulane.dir().join("jobs/s/main/attempt-1/stdout.log");
    wait_until("more than a pipe holds", || std::fs::metadata(&log).is_ok_and(|file| file.len() > 1 << 20));
    kill(i32::try_from(child.id()).unwrap(), Signal::TERM);
    assert_eq!(wait_for("its end", || child.try_wait().unwrap()).code(), Some(143));
    assert_resumable(&gpulane);
    drop(reader);
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"echo x >> runs-{n}; test {n} = 1 || test -e go || sleep 60\"]\n[stage.matrix]\nn = [1, 2]\n";
    let live = gpulane.start(plan, "none");
    gpulane.wait_for_events("job_succeeded", 1);
    wait_until("the second job", || gpulane.workspace.path().join("runs-2").exists());
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    gpulane.workspace.file("go", "");
    // The plan is frozen: what stands in the file now means nothing.
    gpulane.workspace.file("plan.toml", "no plan at all");
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let count = |n: u32| {
        std::fs::read_to_string(gpulane.workspace.path().join(format!("runs-{n}"))).unwrap().lines().count()
    };
    assert_eq!((count(1), count(2)), (1, 2));
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);
}

/// As a program does that starts gpulane and is killed.
#[test]
fn a_leash_that_is_let_go_ends_gently() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file("plan.toml", FOREVER);
    // Whoever else is started in this moment inherits the end that does not matter.
    let (end, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::empty()).unwrap();
    let leash = format!("--leash={}", std::os::fd::AsRawFd::as_raw_fd(&end));
    let live = gpulane.spawn(&[&leash, "run", "plan.toml", "--gpus", "sim:2x1GiB", "--run-dir", "r"]);
    gpulane.wait_for_events("job_started", 2);
    assert!(!tagged(&gpulane.dir()).is_empty(), "it lives while the other end is held");
    drop(ours);
    assert_eq!(live.wait().code, 143);
    assert_resumable(&gpulane);
    assert_eq!(gpulane.events_of("run_interrupted").len(), 1);
}

#[test]
fn a_leash_that_is_none_is_a_mistake() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    for number in ["1", "977"] {
        let refused = gpulane.call(&[&format!("--leash={number}"), "status"]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("--leash"), "{}", refused.stderr);
    }
}

#[test]
fn a_job_that_exits_0_succeeds_where_sigchld_was_ignored() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane")).after("trap '' CHLD");
    let finished = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.jobs_in("job_succeeded"), ["run/main"]);
}

/// Ignores and blocks every signal there is, then becomes its arguments.
const DEAF: &str = "import os, signal, sys
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.argv[1], sys.argv[1:])
";

/// The signals in one of the sets that the kernel tells of a process.
fn signals(status: &str, set: &str) -> Vec<u32> {
    let digits = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
    let bits = u64::from_str_radix(digits.trim(), 16).unwrap();
    (1..=64).filter(|signal| bits >> (signal - 1) & 1 == 1).collect()
}

#[test]
fn jobs_begin_with_every_signal_at_its_default_and_none_blocked() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let script = gpulane.workspace.file("deaf.py", DEAF);
    let gpulane = gpulane.after(&format!("set -- \"$0\" \"$@\"; exec python3 {} \"$@\"", script.display()));
    let finished =
        gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "cat", "/proc/self/status"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let status = std::fs::read_to_string(gpulane.dir().join("jobs/run/main/attempt-1/stdout.log")).unwrap();
    assert_eq!((signals(&status, "SigIgn:"), signals(&status, "SigBlk:")), (vec![], vec![]));
}

#[test]
fn of_ignored_signals_gpulane_keeps_those_of_nohup_alone() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let script = gpulane.workspace.file("deaf.py", DEAF);
    let gpulane = gpulane.after(&format!("set -- \"$0\" \"$@\"; exec python3 {} \"$@\"", script.display()));
    let live = gpulane.start(GATE, "none");
    gpulane.wait_for_events("job_started", 1);
    let (engine, guardian) = insiders(&gpulane);
    for pid in [live.pid(), engine.pid, guardian.pid] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        // SIGPIPE and SIGXFSZ are our own choice: what causes them fails, and that is told.
        let kept = [
            libc(Signal::HUP),
            libc(Signal::INT),
            libc(Signal::QUIT),
            libc(Signal::PIPE),
            libc(Signal::XFSZ),
        ];
        assert_eq!(signals(&status, "SigIgn:"), kept, "{status}");
    }
    live.signal(Signal::INT);
    live.signal(Signal::HUP);
    gpulane.workspace.file("go", "");
    assert_eq!(live.wait().code, 0);
}

fn libc(signal: Signal) -> u32 {
    u32::try_from(signal.as_raw()).unwrap()
}

/// One job that runs until it is let go.
const GATE: &str =
    "[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"until [ -e go ]; do sleep 0.01; done\"]\n";

/// An orphan with a session of its own and an empty environment bears no sign of the run.
#[test]
fn sigkill_of_the_guardian_leaves_no_orphan_without_a_mark() {
    for round in 0..3 {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        // A command that no other test has.
        let orphan = format!("sleep {}{round}", 100_000 + std::process::id());
        let orphans = || processes().into_iter().filter(|seen| seen.command == orphan);
        let plan = format!(
            "[[stage]]\nname = \"s\"\ncommand = [\"bash\", \"-c\", \"(env -i setsid {orphan} &); sleep 5721\"]\n"
        );
        let live = gpulane.start(&plan, "none");
        wait_until("the orphan", || orphans().count() > 0);
        kill(insiders(&gpulane).1.pid, Signal::KILL);
        assert_ne!(live.wait().code, 0);
        let left: Vec<Seen> = orphans().collect();
        for seen in &left {
            kill(seen.pid, Signal::KILL);
        }
        assert_eq!(left, [], "it outlived the run");
        assert_resumable(&gpulane);
    }
}

/// A process that is stopped, until the test ends at the latest.
struct Stopped(i32);

impl Stopped {
    fn new(pid: i32) -> Self {
        kill(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It has ended, or goes on to do so.
        let _ = kill_process(Pid::from_raw(self.0).unwrap(), Signal::CONT);
    }
}

#[test]
fn a_run_ends_although_its_guardian_was_stopped() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let live = gpulane.start(GATE, "none");
    gpulane.wait_for_events("job_started", 1);
    let _guardian = Stopped::new(insiders(&gpulane).1.pid);
    gpulane.workspace.file("go", "");
    assert_eq!(live.wait().code, 0);
}

#[test]
fn sigkill_of_the_engine_is_said_although_the_guardian_was_stopped() {
    let (gpulane, live) = running();
    let (engine, guardian) = insiders(&gpulane);
    let _guardian = Stopped::new(guardian.pid);
    kill(engine.pid, Signal::KILL);
    assert_eq!(live.wait().code, 70);
    assert_resumable(&gpulane);
}

#[test]
fn sigkill_of_the_front_leaves_nothing_although_the_guardian_was_stopped() {
    let (gpulane, live) = running();
    let _guardian = Stopped::new(insiders(&gpulane).1.pid);
    live.signal(Signal::KILL);
    assert_eq!(live.wait().code, -9);
    assert_resumable(&gpulane);
}

#[test]
fn a_second_interrupt_ends_a_run_whose_engine_and_guardian_were_stopped() {
    let (gpulane, live) = running();
    let (engine, guardian) = insiders(&gpulane);
    let _both = [Stopped::new(engine.pid), Stopped::new(guardian.pid)];
    live.signal(Signal::INT);
    // Two signals of one kind that are not read in between are one.
    wait_until("the first to be read", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", live.pid())).unwrap();
        signals(&status, "ShdPnd:").is_empty()
    });
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    assert_resumable(&gpulane);
}

fn is_ignored(signal: Signal) -> bool {
    signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "SigIgn:")
        .contains(&signal.as_raw().cast_unsigned())
}

#[test]
fn a_signal_before_the_run_has_begun_gives_the_documented_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 143)] {
        if is_ignored(signal) {
            skip(
                "signals",
                "this test was started with a signal ignored, as by nohup, which gpulane respects",
            );
            continue;
        }
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        gpulane.workspace.file("model.py", "def Model(batch):\n    return batch\n");
        let args = ["map", "model.py:Model", "@-", "--decode", "value", "--out", "r", "--gpus", "none"];
        // It waits for a list of items that does not come.
        let mut child =
            gpulane.command(&args).stdin(std::process::Stdio::piped()).spawn().expect("gpulane starts");
        wait_until("the list's file", || gpulane.dir().join("stdin.list").exists());
        kill(i32::try_from(child.id()).unwrap(), signal);
        let status = wait_for("its end", || child.try_wait().unwrap());
        assert_eq!(status.code(), Some(code), "{signal:?}: {status:?}");
    }
}
