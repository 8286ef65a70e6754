//! Files of watched processes that do not answer, are something else by now, or are made to cost time: they may cost a process the names of
//! what it waits at, and nobody anything else.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{Gpulane, skip, wait_for};

/// Freezes at once, in a lock that nobody gives back.
const LOCKED: &str = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n";

/// Waits for a semaphore in code of a file, to which a call from that file leads: `odd.py KIND`.
const ODD: &str = include_str!("odd_files/odd.py");

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// Whether the programs here, which have a few instructions of their own, can be run.
fn can_run(test: &str) -> bool {
    let can = cfg!(target_arch = "x86_64");
    if !can {
        skip(test, "its program is made for x86_64");
    }
    can
}

/// Whether a program may have mounts of its own.
fn can_mount(test: &str) -> bool {
    let can = rustix::process::geteuid().is_root()
        && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !can {
        skip(test, "needs root and mount namespaces");
    }
    can
}

fn stage(name: &str, python: &str, argument: &str) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\ngrace = \"1s\"\nhang = {{ after = \"1s\", action = \"fail\" }}\n\
         command = [\"python3\", \"-c\", '''\n{python}''', \"{argument}\"]\n"
    )
}

/// Killed and reaped when dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An odd program that has said that it waits now.
fn waiting(kind: &str) -> Guarded {
    let mut command = Command::new("python3");
    let mut child = command.args(["-c", ODD, kind]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let guarded = Guarded(child);
    assert_eq!(said, "waits\n");
    guarded
}

/// What `doctor` says of it when it has come to wait.
fn doctor_says(kind: &str) -> String {
    let (gpulane, process) = (gpulane(), waiting(kind));
    let pid = process.0.id().to_string();
    wait_for("the wait", || {
        let told = gpulane.call(&["doctor", &pid, "-v"]);
        (!told.stdout.contains("running")).then_some(told.stdout)
    })
}

/// The reasons and messages of the failed jobs, by name.
fn failed(gpulane: &Gpulane, job: &str) -> (String, String) {
    let events = gpulane.events_of("job_failed");
    let event = events.iter().find(|event| event["job"] == job).unwrap_or_else(|| panic!("{events:?}"));
    (event["reason"].as_str().unwrap().to_owned(), event["message"].to_string())
}

#[test]
fn a_pipe_at_the_path_of_a_library_blinds_nobody() {
    let test = "a_pipe_at_the_path_of_a_library_blinds_nobody";
    if !can_run(test) {
        return;
    }
    let gpulane = gpulane();
    let live = gpulane.start(&(stage("odd", ODD, "pipe") + &stage("plain", LOCKED, "")), "none");
    gpulane.wait_for_events("job_failed", 2);
    assert_eq!(live.wait().code, 3);
    assert_eq!(failed(&gpulane, "plain/main").0, "hang");
    assert_eq!(failed(&gpulane, "odd/main").0, "hang", "its wait is proven without the name as well");
    let told = doctor_says("pipe");
    assert!(
        told.contains("waits in futex for a semaphore") && !told.contains("stuck in the kernel"),
        "{told}"
    );
}

#[test]
fn a_disk_that_no_longer_answers_blinds_nobody() {
    let test = "a_disk_that_no_longer_answers_blinds_nobody";
    if !can_run(test) || !can_mount(test) {
        return;
    }
    if !std::path::Path::new("/dev/fuse").exists() {
        return skip(test, "needs /dev/fuse");
    }
    let gpulane = gpulane();
    let live = gpulane.start(&(stage("odd", ODD, "dead") + &stage("plain", LOCKED, "")), "none");
    gpulane.wait_for_events("job_failed", 2);
    assert_eq!(live.wait().code, 3);
    assert_eq!(failed(&gpulane, "plain/main").0, "hang");
    assert_eq!(failed(&gpulane, "odd/main").0, "hang");
}

#[test]
fn a_mount_over_the_c_library_costs_the_next_job_no_name() {
    let test = "a_mount_over_the_c_library_costs_the_next_job_no_name";
    if !can_run(test) || !can_mount(test) {
        return;
    }
    let gpulane = gpulane();
    let go = gpulane.workspace.path().join("go");
    let second = format!(
        "import ctypes, os, time\nwhile not os.path.exists({go:?}): time.sleep(0.05)\n\
         c = ctypes.CDLL(None)\na, b = (ctypes.create_string_buffer(256) for _ in range(2))\n\
         c.pthread_mutex_lock(a)\nc.pthread_cond_wait(b, a)\n"
    );
    let live = gpulane.start(&(stage("odd", ODD, "mount") + &stage("next", &second, "")), "none");
    gpulane.wait_for_events("job_failed", 1);
    std::fs::write(&go, "").unwrap();
    assert_eq!(live.wait().code, 3);
    assert_eq!(failed(&gpulane, "odd/main").0, "hang");
    let (reason, message) = failed(&gpulane, "next/main");
    assert!(reason == "hang" && message.contains("waiting for a condition variable"), "{message}");
}

#[test]
fn a_hundred_thousand_symbols_of_one_name_cost_no_time() {
    let test = "a_hundred_thousand_symbols_of_one_name_cost_no_time";
    if !can_run(test) {
        return;
    }
    let told = doctor_says("symbols");
    assert!(
        told.contains("waits in futex for a semaphore") && !told.contains("stuck in the kernel"),
        "{told}"
    );
}
