//! What goes on beside a freeze and is no life of it, seen from outside: loops that ask again and again, heartbeats on event loops,
//! processes that somebody has stopped. All of it is told; nothing but `outside` ends it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, wait_until};

/// A stage that runs this command under these limits.
fn stage(name: &str, hang: &str, command: &[&str]) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\ngrace = \"1s\"\nhang = {{ {hang}, action = \"fail\" }}\ncommand = {command:?}\n"
    )
}

/// Asks every second for a file that nobody makes.
const SHELL: &str = "until [ -e never ]; do sleep 1; done";
/// Writes 4 KiB every second, by a child that is gone before anybody looks.
const WORKS: &str =
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/zero of=out bs=4k count=1 status=none; sleep 1; done";
/// Reads every half second whose a lock file is.
const READS: &str =
    "import time\nopen('a.lock', 'w').write('31337')\nwhile open('a.lock').read():\n    time.sleep(0.5)\n";
/// A task of an event loop writes a heartbeat beside another that waits.
const LOOP: &str = "import asyncio\nasync def beat():\n    while True:\n        open('beat.txt', 'w').write('beat')\n        await asyncio.sleep(0.4)\nasync def main():\n    task = asyncio.create_task(beat())\n    await asyncio.Event().wait()\nasyncio.run(main())\n";
/// Pings another thread of its own, which nothing else wakes, beside a semaphore that was not given back.
const PINGS: &str = "import socket, threading, time\nends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\ndef collect():\n    while True:\n        ends[1].recv(512)\ndef ping():\n    while True:\n        ends[0].send(b'alive')\n        time.sleep(0.4)\nfor target in (collect, ping):\n    threading.Thread(target=target, daemon=True).start()\nthreading.Semaphore(0).acquire()\n";
/// Tries again and again, at two places, to write to a database that a transaction of its own keeps locked.
const RETRIES: &str = "import os, sqlite3, time\npath = os.environ['GPULANE_OUT'] + '/trials.db'\nbook = sqlite3.connect(path)\nbook.execute('create table trials (id)')\nbook.execute('insert into trials values (1)')\ndef write():\n    while True:\n        other = sqlite3.connect(path, timeout=0.7)\n        try:\n            return other.execute('insert into trials values (2)')\n        except sqlite3.OperationalError:\n            other.close()\n            time.sleep(0.5)\nwrite()\n";
/// Waits for a child that has stopped itself.
const STOPPED: &str = "import subprocess\nsubprocess.run(['sh', '-c', 'kill -STOP $$'])\n";

#[test]
fn what_only_asks_or_beats_beside_a_wait_is_told_and_ended_by_outside_alone() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let (told, ended) = ("after = \"2s\"", "after = \"2s\", outside = \"12s\"");
    let programs = [
        ("shell", vec!["sh", "-c", SHELL]),
        ("reads", vec!["python3", "-c", READS]),
        ("loop", vec!["python3", "-c", LOOP]),
        ("pings", vec!["python3", "-c", PINGS]),
        ("retries", vec!["python3", "retries.py"]),
        ("stopped", vec!["python3", "-c", STOPPED]),
    ];
    let mut plan = stage("works", ended, &["sh", "-c", WORKS]);
    for (name, command) in &programs {
        plan += &stage(name, told, command);
        plan += &stage(&format!("{name}-ends"), ended, command);
    }
    gpulane.workspace.file("plan.toml", &plan);
    gpulane.workspace.file("retries.py", RETRIES);
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "13", "--run-dir", "r"]);
    wait_until("all to be told, and half of them ended", || {
        let (suspected, failed) = (gpulane.jobs_in("hang_suspected"), gpulane.jobs_in("job_failed"));
        let is_in = |jobs: &[String], name: &str| jobs.contains(&format!("{name}/main"));
        programs.iter().all(|(name, _)| is_in(&suspected, name) && is_in(&failed, &format!("{name}-ends")))
            && is_in(&gpulane.jobs_in("job_succeeded"), "works")
    });
    gpulane.call(&["cancel", "r"]);
    live.wait();
    for event in gpulane.events_of("hang_suspected") {
        assert_eq!(event["frozen"], false, "{event}");
        assert_ne!(event["job"], "works/main", "what children write is work: {event}");
    }
    for event in gpulane.events_of("job_failed").iter().filter(|event| event["reason"] == "hang") {
        assert!(event["job"].as_str().unwrap().ends_with("-ends/main"), "{event}");
        assert!(event["message"].as_str().unwrap().starts_with("waited for longer"), "{event}");
    }
    let told = gpulane.events_of("hang_suspected");
    for (job, key, words) in [
        ("shell/main", "waits_for", ["asks again and again", "sleep 1"]),
        ("pings/main", "evidence", ["waiting for a semaphore", ""]),
        ("retries/main", "waits_for", ["in the loop `while True:`", "locked by this job itself"]),
    ] {
        let event = told.iter().find(|event| event["job"] == job).unwrap();
        let said = event[key].as_str().unwrap();
        assert!(words.iter().all(|word| said.contains(word)), "{event}");
    }
    gpulane.assert_nothing_left();
}

/// Programs of the zoo that wait for what only a loop, a child or a signal handler of their own job will give.
const MAY_COME: [&str; 7] = [
    "accepts_below_forkserver",
    "collects_until_deadline",
    "continued_by_signal",
    "epolls_within_epolls",
    "lock_kept_by_child",
    "semaphore_released_by_loop",
    "shared_event_set_by_loop",
];

#[test]
fn what_a_loop_a_child_or_a_signal_may_still_give_is_left_alone() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let zoo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/zoo/alive");
    let program = |name: &str| zoo.join(format!("{name}.py")).to_str().unwrap().to_owned();
    let stages = MAY_COME.map(|name| stage(name, "after = \"2s\"", &["python3", &program(name)]));
    let env = "[defaults]\nenv = { PYTHONDONTWRITEBYTECODE = \"1\", ZOO_SECONDS = \"7\" }\n";
    gpulane.workspace.file("plan.toml", &format!("{env}{}", stages.concat()));
    let run = ["run", "plan.toml", "--gpus", "none", "--lanes", "7", "--run-dir", "r"];
    let finished = gpulane.call(&run);
    let failed = gpulane.events_of("job_failed");
    assert!(finished.code == 0 && failed.is_empty(), "{failed:?}\n{}", finished.stderr);
    gpulane.assert_nothing_left();
}

#[test]
fn why_a_job_cannot_go_on_is_told_with_its_end() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let locked = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n";
    let plan = stage("locked", "after = \"1s\"", &["python3", "-c", locked]);
    gpulane.workspace.file("plan.toml", &plan);
    gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    let told = gpulane.events_of("hang_suspected").pop().expect("it is frozen");
    let proof = told["proof"].as_str().expect("a proof");
    assert!(proof.starts_with("its only thread waits without a limit for what only the job"), "{told}");
    let stacks = gpulane.dir().join("jobs/locked/main/attempt-1/stacks.txt");
    let stacks = std::fs::read_to_string(stacks).unwrap();
    assert!(stacks.contains("==== why it cannot go on ====") && stacks.contains(proof), "{stacks}");
}
