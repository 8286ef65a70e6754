//! Processes that left their job's tree (double fork, `setsid`), seen from outside: as long as one of them can let a job go on, that job
//! is not ended for a freeze.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, wait_until};

/// Starts a child that never ends by itself.
const STUCK: &str = "import os, subprocess, sys\nstuck = subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'])\n";
/// Runs something with no environment but this.
const BARE: &str = "'env', '-i', 'PATH=' + os.environ['PATH'], ";
/// Ends that child when a file is there.
const GUARD: &str = "until [ -e go ]; do sleep 1; done; kill $0";

fn plan(name: &str, python: &str) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\nhang = {{ after = \"2s\", action = \"fail\" }}\ncommand = {:?}\n",
        ["python3", "-c", &format!("{STUCK}{python}print('ended by', stuck.wait())\n")]
    )
}

/// `files`: what it does with those of its job.
fn daemon(before: &str, files: &str) -> String {
    format!("subprocess.run([{before}'setsid', '-f', 'sh', '-c', {GUARD:?}, str(stuck.pid)]{files})\n")
}

#[test]
fn a_daemon_keeps_its_job_and_one_of_nobody_keeps_every_job() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let stages = [
        plan("own", &daemon("", "")),
        plan("writes", &daemon(BARE, "")),
        plan(
            "bare",
            &(daemon(BARE, ", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL")
                + "open('left', 'w').close()\n"),
        ),
        plan("frozen", "import time\nwhile not os.path.exists('left'): time.sleep(0.1)\n"),
    ];
    gpulane.workspace.file("plan.toml", &stages.concat());
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "4", "--run-dir", "r"]);
    let is_told = |job: &str| gpulane.jobs_in("hang_suspected").contains(&format!("{job}/main"));
    wait_until("all to be told", || ["own", "writes", "bare", "frozen"].into_iter().all(is_told));
    assert!(
        gpulane.jobs_in("job_failed").is_empty(),
        "nothing is proven while one lives that may be anybody's"
    );
    let events = gpulane.events_of("hang_suspected");
    let frozen = events.iter().find(|event| event["job"] == "frozen/main").unwrap();
    assert_eq!(frozen["frozen"], false, "{frozen}");
    assert!(frozen["waits_for"].as_str().unwrap().contains("may belong to this job"), "{frozen}");

    gpulane.workspace.file("go", "");
    let finished = live.wait();
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let mut succeeded = gpulane.jobs_in("job_succeeded");
    succeeded.sort();
    assert_eq!(succeeded, ["bare/main", "own/main", "writes/main"]);
    assert_eq!(
        gpulane.jobs_in("job_failed"),
        ["frozen/main"],
        "what was nobody's is gone, so the proof holds"
    );
    gpulane.assert_nothing_left();
}

/// A freeze beside what another job left, which nothing but its logs tells whose it was.
#[test]
fn what_another_job_left_keeps_no_frozen_one() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let left = "[[stage]]\nname = \"left\"\ncommand = [\"sh\", \"-c\", \"env -i setsid -f sleep 100\"]\n";
    let wait = "import time\nwhile not os.path.exists('left'): time.sleep(0.1)\n";
    gpulane.workspace.file("plan.toml", &(left.to_owned() + &plan("frozen", wait)));
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "2", "--run-dir", "r"]);
    wait_until("the first to end", || gpulane.jobs_in("job_succeeded") == ["left/main"]);
    gpulane.workspace.file("left", "");
    let finished = live.wait();
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    assert_eq!(gpulane.jobs_in("job_failed"), ["frozen/main"]);
    gpulane.assert_nothing_left();
}
