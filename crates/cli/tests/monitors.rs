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
        ("stopped", vec!["python3", "-c", STOPPED]),
    ];
    let mut plan = stage("works", ended, &["sh", "-c", WORKS]);
    for (name, command) in &programs {
        plan += &stage(name, told, command);
        plan += &stage(&format!("{name}-ends"), ended, command);
    }
    gpulane.workspace.file("plan.toml", &plan);
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "9", "--run-dir", "r"]);
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
    let shell = gpulane.events_of("hang_suspected").into_iter().find(|event| event["job"] == "shell/main");
    let waits_for = shell.unwrap()["waits_for"].as_str().unwrap().to_owned();
    assert!(waits_for.contains("asks again and again") && waits_for.contains("sleep 1"), "{waits_for}");
    gpulane.assert_nothing_left();
}
