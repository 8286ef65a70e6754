//! gpulane as the first process of a container: its parent, session and process group are outside, and have number 0 inside.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, processes, skip, wait_for};
use rustix::process::{Pid, Signal, kill_process};

const ROOT: &[&str] = &["unshare", "--pid", "--fork", "--mount-proc"];
const USER: &[&str] = &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];

/// A gpulane whose every call is a container of its own, as far as processes go. `None` where this is not allowed, which has been
/// said.
fn contained(test: &str) -> Option<Gpulane> {
    let unshare = if rustix::process::geteuid().is_root() { ROOT } else { USER };
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane")).through(unshare);
    let allowed = gpulane.command(&["--version"]).output().is_ok_and(|output| output.status.success());
    if !allowed {
        skip(test, "no process namespace can be made here");
    }
    allowed.then_some(gpulane)
}

#[test]
fn daemons_are_found_and_ended() {
    let Some(gpulane) = contained("daemons in a container") else { return };
    let finished = gpulane.run(
        r#"
[[stage]]
name = "s"
grace = "1s"
command = ["sh", "-c", "(setsid sh -c 'sleep 6711 & sleep 6712' &); sleep 0.1"]
[stage.matrix]
n = [1, 2, 3]
"#,
        "sim:2x1GiB",
    );
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let left = gpulane.events_of("processes_left");
    assert_eq!(left.len(), 3, "{left:?}");
    gpulane.assert_nothing_left();
}

#[test]
fn a_signal_to_the_first_process_ends_all_in_order() {
    let Some(gpulane) = contained("signals in a container") else { return };
    let live = gpulane.start("[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"6713\"]\n", "sim:2x1GiB");
    gpulane.wait_for_events("job_started", 1);
    let first =
        wait_for("its first process", || processes().into_iter().find(|seen| seen.parent == live.pid()));
    kill_process(Pid::from_raw(first.pid).unwrap(), Signal::TERM).unwrap();
    let finished = live.wait();
    assert_eq!(finished.code, 143, "{}", finished.stderr);
    assert_eq!(gpulane.events_of("run_interrupted").len(), 1);
    gpulane.assert_nothing_left();
}

#[test]
fn standbys_serve() {
    let Some(gpulane) = contained("standbys in a container") else { return };
    gpulane.workspace.file("train.py", "import time\ndef main(config, out):\n    time.sleep(0.3)\n");
    let plan = "[[stage]]\nname = \"s\"\nentry = \"train.py:main\"\n[stage.matrix]\nn = [1, 2, 3, 4]\n";
    let finished = gpulane.run(plan, "sim:1x1GiB");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let warm = gpulane.events_of("job_started").iter().filter(|event| event["warm"] == true).count();
    assert!(warm > 0, "{:?}", gpulane.events());
    gpulane.assert_nothing_left();
}
