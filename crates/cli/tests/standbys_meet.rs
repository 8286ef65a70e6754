//! Standbys where they meet the rest: the watchdog, MPS, a host with little memory.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::PathBuf;

use gpulane_testkit::{Gpulane, skip, wait_until};

/// A stage of jobs of `train.py`, and before it one that lasts until the file `go` is there.
fn plan(settings: &str, jobs: usize) -> String {
    let numbers: Vec<String> = (0..jobs).map(|number| number.to_string()).collect();
    format!(
        "[[stage]]\nname = \"gate\"\ncommand = [\"sh\", \"-c\", \"until test -e go; do sleep 0.02; done\"]\n\
         [[stage]]\nname = \"s\"\nafter = [\"gate\"]\nentry = \"train.py:main\"\ngrace = \"1s\"\n{settings}\n\
         [stage.matrix]\nn = [{}]\n",
        numbers.join(", ")
    )
}

/// Says when a standby has imported it.
const IMPORT: &str =
    "import os, threading, time\nif os.environ['GPULANE_ATTEMPT'] == '0': open('imported', 'w').close()\n";

fn warm(gpulane: &Gpulane) -> usize {
    gpulane.events_of("job_started").iter().filter(|event| event["warm"] == true).count()
}

fn exists(gpulane: &Gpulane, file: &str) -> bool {
    gpulane.workspace.path().join(file).exists()
}

#[test]
fn a_warm_job_that_freezes_is_named_ended_and_tried_again() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let train = format!(
        "{IMPORT}def wait_for_ever():\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()\n\
         def main(config, out):\n    if os.environ['GPULANE_ATTEMPT'] == '1': wait_for_ever()\n    (out / 'done').touch()\n"
    );
    gpulane.workspace.file("train.py", &train);
    let live = gpulane.start(&plan("hang = \"1s\"", 1), "none");
    wait_until("a standby", || exists(&gpulane, "imported"));
    gpulane.workspace.file("go", "");
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed.iter().map(|event| &event["reason"]).collect::<Vec<_>>(), ["hang"], "{failed:?}");
    let first = gpulane.events_of("job_started").into_iter().find(|event| event["job"] == "s/n=0").unwrap();
    assert_eq!(first["warm"], true, "{first}");
    let stacks = std::fs::read_to_string(gpulane.dir().join("jobs/s/n=0/attempt-1/stacks.txt")).unwrap();
    assert!(stacks.contains("in wait_for_ever") && stacks.contains("waits in futex"), "{stacks}");
    assert!(finished.stderr.contains("train.py:6 (wait_for_ever)"), "{}", finished.stderr);
    gpulane.assert_nothing_left();
}

#[test]
fn warm_jobs_that_share_a_gpu_meet_in_the_same_daemon_as_cold_ones() {
    let (_nvml, gpulane) = Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), &["24GiB"]);
    let gpulane = gpulane.with_mps();
    let train = format!(
        "{IMPORT}def main(config, out):\n    \
         (out / 'pipe').write_text(os.environ.get('CUDA_MPS_PIPE_DIRECTORY', 'none') + '\\n')\n"
    );
    gpulane.workspace.file("train.py", &train);
    // Two commands keep GPU and daemon until the entry's job, which a standby made beside them has become, is done.
    let settings = "memory = \"6GiB\"\nmps = true\nstart_gate = \"off\"";
    let plan = format!(
        "[[stage]]\nname = \"cold\"\n{settings}\n\
         command = [\"sh\", \"-c\", \"echo $CUDA_MPS_PIPE_DIRECTORY > $GPULANE_OUT/pipe; until test -e over; do sleep 0.02; done\"]\n\
         [stage.matrix]\nn = [0, 1]\n{}",
        plan(settings, 1).replace("name = \"gate\"", &format!("name = \"gate\"\n{settings}"))
    );
    let live = gpulane.start(&plan, "all");
    wait_until("a standby", || exists(&gpulane, "imported"));
    gpulane.workspace.file("go", "");
    wait_until("the entry's job", || gpulane.jobs_in("job_succeeded").iter().any(|job| job == "s/n=0"));
    gpulane.workspace.file("over", "");
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(warm(&gpulane), 1, "{:?}", gpulane.events_of("job_started"));
    let pipe =
        |job: &str| std::fs::read_to_string(gpulane.dir().join(format!("jobs/{job}/out/pipe"))).unwrap();
    assert!(!["\n", "none\n"].contains(&pipe("cold/n=0").as_str()));
    assert_eq!(pipe("s/n=0"), pipe("cold/n=0"));
    gpulane.assert_nothing_left();
}

/// The memory of a host, in percent of 100 GiB.
fn meminfo(free: u64) -> String {
    format!("MemTotal: 104857600 kB\nMemFree: 1024 kB\nMemAvailable: {} kB\n", free * 1_048_576)
}

/// A gpulane that sees a host with so much free memory; what it sees can be written anew.
fn with_memory(test: &str, free: u64) -> Option<(Gpulane, PathBuf)> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "not root: on busy cores, standbys are then tried for only every few seconds");
        return None;
    }
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let seen = gpulane.workspace.file("meminfo", &meminfo(free));
    let within = format!("mount --bind '{}' /proc/meminfo && exec \"$0\" \"$@\"", seen.display());
    let gpulane = gpulane.unshare(test, &["--mount", "sh", "-c", &within])?;
    gpulane.workspace.file("train.py", &format!("{IMPORT}def main(config, out):\n    time.sleep(0.2)\n"));
    Some((gpulane, seen))
}

#[test]
fn on_a_host_with_little_memory_jobs_start_cold_and_that_is_said_once() {
    let Some((gpulane, _seen)) = with_memory("standbys on a host with little memory", 14) else { return };
    gpulane.workspace.file("go", "");
    let finished = gpulane.run(&plan("", 3), "sim:1x1GiB");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(warm(&gpulane), 0);
    assert!(!exists(&gpulane, "imported"), "none was started");
    let said =
        finished.stderr.matches("no more standbys for now: less than 15% of the memory is free").count();
    assert_eq!(said, 1, "{}", finished.stderr);
    let off = gpulane.events_of("standbys_off");
    assert!(off.is_empty(), "for now is not for good: {off:?}");
}

#[test]
fn when_the_memory_is_back_so_are_they() {
    let Some((gpulane, seen)) = with_memory("standbys when memory is back", 14) else { return };
    let live = gpulane.start(&plan("", 3), "sim:1x1GiB");
    gpulane.wait_for_events("job_started", 1);
    std::fs::write(&seen, meminfo(50)).unwrap();
    wait_until("a standby", || exists(&gpulane, "imported"));
    gpulane.workspace.file("go", "");
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("no more standbys for now"), "{}", finished.stderr);
    assert!(warm(&gpulane) > 0, "{:?}", gpulane.events_of("job_started"));
}
