//! Leases and processes that are killed. Each test starts itself again as the processes that hold and wait.

// A test fails by panicking, and its processes speak to it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use gpulane_gpu::{Leases, Take, survey};
use gpulane_testkit::wait_until;
use rustix::fs::{FlockOperation, flock};

/// Set in the processes a test starts: what they are to do.
const ROLE: &str = "LEASE_TEST_ROLE";
/// Where they do it.
const ROOT: &str = "LEASE_TEST_ROOT";

fn role() -> Option<(String, PathBuf)> {
    Some((std::env::var(ROLE).ok()?, std::env::var_os(ROOT)?.into()))
}

/// A process that ends with the test, however that ends.
struct Started(Child);

impl Started {
    fn out(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().unwrap())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Most have been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Likewise for a process that another started.
struct Job(rustix::process::Pid);

impl Drop for Job {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
    }
}

/// This test once more, as a process with a role.
fn start(test: &str, role: &str, root: &Path) -> Started {
    Started(command(test, role, root).spawn().unwrap())
}

fn command(test: &str, role: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env(ROOT, root)
        .env("GPULANE_LEASE_DIR", root.join("leases"))
        .stdout(Stdio::piped());
    command
}

/// Waits until the process has said `word`.
fn heard(out: &mut BufReader<ChildStdout>, word: &str) {
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        if line.trim_end().ends_with(word) {
            return;
        }
        line.clear();
    }
    panic!("it ended without `{word}`");
}

fn take(leases: &mut Leases, uuid: &str) -> Option<gpulane_gpu::Lease> {
    match leases.try_take(uuid).unwrap() {
        Take::Taken(lease) => Some(lease),
        _ => None,
    }
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_holder_and_a_killed_waiter_let_go() {
    const TEST: &str = "a_killed_holder_and_a_killed_waiter_let_go";
    match role() {
        Some((role, root)) if role == "holder" => {
            let mut leases = Leases::open(&root).unwrap();
            let _lease = take(&mut leases, "GPU-1").unwrap();
            println!("held");
            sleep_for_ever();
        }
        Some((_, root)) => {
            let mut leases = Leases::open(&root).unwrap();
            leases.want(&["GPU-1".into()]).unwrap();
            println!("waiting");
            sleep_for_ever();
        }
        None => {}
    }
    let root = tempfile::tempdir().unwrap();
    let mut holder = start(TEST, "holder", root.path());
    heard(&mut holder.out(), "held");
    let mut waiter = start(TEST, "waiter", root.path());
    heard(&mut waiter.out(), "waiting");
    let seen = as_seen_in(root.path());
    assert_eq!(seen, (1, 1));
    holder.kill();
    assert_eq!(as_seen_in(root.path()), (0, 1));
    waiter.kill();
    assert_eq!(as_seen_in(root.path()), (0, 0));
}

/// How many leases and waiters a process with that directory sees.
fn as_seen_in(root: &Path) -> (usize, usize) {
    let test = "a_survey_is_of_the_directory_in_the_environment";
    let output = command(test, "looker", root).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let counts = said.lines().find_map(|line| line.split_once("seen ")).expect("it looked").1;
    let (leases, waiting) = counts.split_once(' ').unwrap();
    (leases.parse().unwrap(), waiting.parse().unwrap())
}

#[test]
fn a_survey_is_of_the_directory_in_the_environment() {
    if role().is_some() {
        let seen = survey();
        return println!("seen {} {}", seen.leases.len(), seen.waiting.len());
    }
    let root = tempfile::tempdir().unwrap();
    assert_eq!(as_seen_in(root.path()), (0, 0));
}

#[test]
fn a_gpu_stays_leased_until_the_last_process_of_its_job_is_dead() {
    const TEST: &str = "a_gpu_stays_leased_until_the_last_process_of_its_job_is_dead";
    if let Some((role, root)) = role() {
        let mut leases = Leases::open(&root).unwrap();
        let lease = take(&mut leases, "GPU-1");
        if role == "asker" {
            return println!("asked {}", lease.is_some());
        }
        let lock = lease.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
        let mut job = Command::new("sleep");
        job.arg("600").stdin(lock).stdout(Stdio::null()).process_group(0);
        println!("job {}", job.spawn().unwrap().id());
        sleep_for_ever();
    }
    let root = tempfile::tempdir().unwrap();
    let mut engine = start(TEST, "engine", root.path());
    let mut out = engine.out();
    let mut line = String::new();
    let job: i32 = loop {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "it ended early");
        if let Some((_, pid)) = line.trim_end().split_once("job ") {
            break pid.parse().unwrap();
        }
    };
    let job = Job(rustix::process::Pid::from_raw(job).unwrap());
    let can_have_it = || {
        let output = command(TEST, "asker", root.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains("asked true")
    };
    engine.kill();
    assert!(!can_have_it(), "the job still lives");
    drop(job);
    wait_until("the lease of a dead job", can_have_it);
}

#[test]
fn killed_at_random_no_two_ever_have_a_gpu_and_none_is_stuck() {
    const TEST: &str = "killed_at_random_no_two_ever_have_a_gpu_and_none_is_stuck";
    const UUIDS: [&str; 3] = ["GPU-1", "GPU-2", "GPU-3"];
    if let Some((_, root)) = role() {
        let mut leases = Leases::open(&root).unwrap();
        let wanted = UUIDS.map(str::to_owned);
        for turn in 0_u32.. {
            leases.want(&wanted).unwrap();
            for uuid in UUIDS {
                let Some(lease) = take(&mut leases, uuid) else { continue };
                // The proof does not lean on what is proved: another lock, on another file.
                let proof = std::fs::File::create(root.join(uuid)).unwrap();
                if flock(&proof, FlockOperation::NonBlockingLockExclusive).is_err() {
                    std::fs::write(root.join("used-twice"), uuid).unwrap();
                }
                // Few enough for a pipe that nobody reads yet.
                if turn < 100 {
                    println!("turn");
                }
                drop(proof);
                drop(lease);
            }
            // To the end of the queue, as a new run would be.
            if turn % 3 == 0 {
                leases = Leases::open(&root).unwrap();
            }
        }
    }
    let root = tempfile::tempdir().unwrap();
    let mut runs: Vec<Started> = (0..4).map(|_| start(TEST, "run", root.path())).collect();
    for round in 0..40 {
        let mut run = runs.remove(round % 3);
        let mut out = run.out();
        // Each comes to its turn, however many were killed before it.
        for _ in 0..=round % 4 {
            heard(&mut out, "turn");
        }
        run.kill();
        runs.push(start(TEST, "run", root.path()));
    }
    runs.into_iter().for_each(Started::kill);
    assert!(!root.path().join("used-twice").exists());
    assert_eq!(as_seen_in(root.path()), (0, 0));
}
