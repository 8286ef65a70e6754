//! gpulane is killed two hundred times at random instants, and goes on every time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;
use std::time::{Duration, Instant};

use gpulane_testkit::{Gpulane, tagged, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const KILLS: u32 = 200;
const JOBS: usize = 24;

/// Short jobs that fork a child and a daemon, and write an output in two halves, so that half of one would show.
fn plan() -> String {
    let numbers: Vec<String> = (0..JOBS).map(|number| number.to_string()).collect();
    format!(
        r#"
[[stage]]
name = "s"
grace = "1s"
command = ["sh", "-c", "sleep 0.02 & (setsid sleep 0.03 &); echo first > $GPULANE_OUT/a; wait; echo second > $GPULANE_OUT/b"]
[stage.matrix]
n = [{}]
"#,
        numbers.join(", ")
    )
}

/// Randomness that can be repeated: the seed is printed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// The process a kill is aimed at: the command itself, or once there is one its engine or guardian.
fn victim(gpulane: &Gpulane, front: i32, dice: &mut Dice) -> i32 {
    if dice.roll(3) > 0 {
        return front;
    }
    let newest = gpulane.events().iter().rev().find_map(|event| {
        let kind = event["event"].as_str()?;
        ["run_started", "run_resumed"].contains(&kind).then(|| event["pid"].as_i64())?
    });
    // Only if it belongs to this front: an engine that ended may have left its number to somebody else.
    let engine = newest.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(front);
    let name = std::fs::read_to_string(format!("/proc/{engine}/comm")).unwrap_or_default();
    match (name.starts_with("gpulane-engine"), dice.roll(3)) {
        (true, 0) => parent_of(engine).unwrap_or(engine),
        (true, _) => engine,
        (false, _) => front,
    }
}

/// The engine's guardian.
fn parent_of(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

fn lock_is_free(dir: &Path) -> bool {
    let Ok(lock) = std::fs::File::open(dir.join("lock")) else { return true };
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn assert_all_published_once(gpulane: &Gpulane) {
    let succeeded = gpulane.jobs_in("job_succeeded");
    let mut distinct = succeeded.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((succeeded.len(), distinct.len()), (JOBS, JOBS), "every job succeeded exactly once");
    for number in 0..JOBS {
        let out = gpulane.dir().join(format!("jobs/s/n={number}/out"));
        for (file, text) in [("a", "first\n"), ("b", "second\n")] {
            assert_eq!(
                std::fs::read_to_string(out.join(file)).ok().as_deref(),
                Some(text),
                "the output is whole"
            );
        }
    }
}

#[test]
fn two_hundred_kills_lose_nothing_and_leave_nothing() {
    let seed =
        std::env::var("GPULANE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            u64::from(std::process::id()) << 20 | u64::from(Instant::now().elapsed().subsec_nanos()) | 1
        });
    println!("GPULANE_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let (mut kills, mut rounds) = (0, 0);
    while kills < KILLS {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        gpulane.workspace.file("plan.toml", &plan());
        rounds += 1;
        assert!(rounds < 100, "kills come to nothing: {kills} in {rounds} runs");
        while kills < KILLS {
            let begun = gpulane.dir().join("plan.json").exists();
            let args: &[&str] = if begun {
                &["resume", "r"]
            } else {
                &["run", "plan.toml", "--gpus", "sim:4x1GiB", "--run-dir", "r"]
            };
            let live = gpulane.spawn(args);
            std::thread::sleep(Duration::from_micros(dice.roll(150_000)));
            let target = victim(&gpulane, live.pid(), &mut dice);
            let hit = Pid::from_raw(target).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
            let finished = live.wait();
            let killed = finished.code == -9 || finished.code == 70;
            kills += u32::from(hit && killed);
            gpulane.assert_nothing_left();
            wait_until("the run's lock", || lock_is_free(&gpulane.dir()));
            if !begun && !gpulane.dir().join("plan.json").exists() {
                // Killed before the run was there: nothing to resume, and the half-made directory is in the way.
                let _ = std::fs::remove_dir_all(gpulane.dir());
            }
            if gpulane.events_of("run_finished").iter().any(Value::is_object) {
                break;
            }
        }
        let last = gpulane.call(&["resume", "r"]);
        assert!([0, 4].contains(&last.code), "seed {seed}: {last:?}");
        assert_all_published_once(&gpulane);
        assert!(tagged(&gpulane.dir()).is_empty());
    }
    println!("{kills} kills in {rounds} runs");
    assert_eq!(kills, KILLS);
}
