//! Twenty gpulanes on four GPUs, two hundred short jobs each, killed at random and resumed: no GPU is ever used by two
//! jobs at once, which the jobs check themselves, and every run comes to its end.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpulane_testkit::{FakeNvml, Gpulane, processes};
use rustix::process::{Pid, Signal, kill_process};

const RUNS: usize = 20;
const JOBS: usize = 200;
const KILLS: usize = 30;
/// Far more than it takes, so that only what is stuck runs into it.
const DEADLINE: Duration = Duration::from_mins(8);

/// Holds a lock named after its GPU; says so if another job has it.
const JOB: &str = r#"exec 9> "locks/$CUDA_VISIBLE_DEVICES"; flock -n 9 || { echo "$GPULANE_RUN $GPULANE_JOB" >> double-booked; exit 1; }; sleep 0.005"#;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

fn is_finished(run: &Path) -> bool {
    let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
    journal.lines().last().is_some_and(|line| line.contains("\"run_finished\""))
}

fn is_live(run: &Path) -> bool {
    let Ok(lock) = std::fs::File::open(run.join("lock")) else { return false };
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err()
}

/// Kills an engine or a guardian of one of our runs.
fn kill_one(random: &mut Random, root: &Path) -> bool {
    let orders = format!("\"dir\":\"{}", root.display());
    let mut insiders = processes();
    insiders.retain(|seen| seen.command == "gpulane-engine" || seen.command == "lane-guardian");
    insiders.retain(|seen| seen.mentions(&orders));
    // A job looks like its engine until it has become its program. To kill it is no matter of ours: it would have failed.
    let engines: HashSet<i32> =
        insiders.iter().filter(|seen| seen.command == "gpulane-engine").map(|seen| seen.pid).collect();
    insiders.retain(|seen| !engines.contains(&seen.parent));
    if insiders.is_empty() {
        return false;
    }
    let pid = Pid::from_raw(insiders[random.below(insiders.len())].pid).unwrap();
    kill_process(pid, Signal::KILL).is_ok()
}

#[test]
fn no_gpu_is_ever_booked_twice() {
    let nvml = FakeNvml::new(&["24GiB"; 4]);
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane")).with(nvml.env());
    let root = gpulane.workspace.path();
    std::fs::create_dir(root.join("locks")).unwrap();
    let runs: Vec<PathBuf> = (0..RUNS).map(|run| root.join(format!("run{run}"))).collect();
    for run in &runs {
        let (run, sweep) = (run.to_str().unwrap(), format!("n=range({JOBS})"));
        let started =
            gpulane.call(&["run", "--detach", "--run-dir", run, "-s", &sweep, "--", "sh", "-c", JOB]);
        assert_eq!(started.code, 0, "{}", started.stderr);
    }
    let mut random = Random(0x5eed_1234_9876);
    let (begun, mut kills) = (Instant::now(), 0);
    while !runs.iter().all(|run| is_finished(run)) {
        assert!(
            begun.elapsed() < DEADLINE,
            "stuck: {:?}",
            runs.iter().filter(|run| !is_finished(run)).collect::<Vec<_>>()
        );
        std::thread::sleep(Duration::from_millis(20 + random.below(150) as u64));
        if kills < KILLS && kill_one(&mut random, &root) {
            kills += 1;
        }
        for run in
            runs.iter().filter(|run| run.join("plan.json").exists() && !is_finished(run) && !is_live(run))
        {
            // It may be the very moment at which its last process ends; then the next round does it.
            gpulane.call(&["resume", run.to_str().unwrap(), "--detach"]);
        }
    }
    let double = std::fs::read_to_string(root.join("double-booked")).unwrap_or_default();
    assert_eq!(double.lines().count(), 0, "double-booked, first: {:?}", double.lines().next());
    assert!(kills > KILLS / 2, "only {kills} kills came in time");
    for run in &runs {
        let done = std::fs::read_dir(run.join("jobs/run"))
            .unwrap()
            .flatten()
            .filter(|job| job.path().join("out").is_dir());
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
        let failed: Vec<&str> = journal.lines().filter(|line| line.contains("\"job_failed\"")).collect();
        assert_eq!(done.count(), JOBS, "{}: {failed:#?}", run.display());
    }
}
