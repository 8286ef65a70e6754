//! A map over twenty thousand items, its processes killed a hundred times at random: every item once, nothing left running.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpulane_testkit::{Gpulane, Live, processes, tagged, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const KILLS: u32 = 100;
const ITEMS: usize = 20_000;

/// So slow that it cannot be complete before the last kill, then as fast as it can.
const MODEL: &str = r#"
import os, time
import gpulane

class Model(gpulane.Model):
    decode = "value"
    batch = 20

    def predict_batch(self, batch):
        if not os.path.exists("hurry"):
            time.sleep(0.25)
        return [{"twice": item * 2} for item in batch]
"#;

/// Randomness that can be repeated: the seed is printed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// Everything a kill may be aimed at: front, guardian, engine, feeder, workers.
fn targets(gpulane: &Gpulane, live: &Live) -> Vec<i32> {
    let front = live.pid();
    let mut targets = vec![front];
    let all = processes();
    // Guardian and engine bear no tag, but descend from the front.
    for _ in 0..2 {
        let own = ["lane-guardian", "gpulane-engine"];
        let below = all.iter().filter(|one| targets.contains(&one.parent));
        let below =
            below.filter(|one| own.iter().any(|name| one.command.starts_with(name))).map(|one| one.pid);
        let below: Vec<i32> = below.filter(|pid| !targets.contains(pid)).collect();
        targets.extend(below);
    }
    targets.extend(tagged(&gpulane.dir()).iter().map(|process| process.pid));
    targets
}

fn start(gpulane: &Gpulane) -> Live {
    if gpulane.dir().join("plan.json").exists() {
        return gpulane.spawn(&["resume", "r"]);
    }
    let _ = std::fs::remove_dir_all(gpulane.dir());
    gpulane.start_map(MODEL, &["@items.txt"], &["--workers", "2"])
}

/// Until the next commit is being made, or the run will hardly make one.
fn wait_for_a_commit(gpulane: &Gpulane) {
    let look = || {
        let names = std::fs::read_dir(gpulane.dir()).into_iter().flatten().flatten();
        let parts = names.filter(|entry| entry.file_name().to_string_lossy().contains("part-")).count();
        let ledger = std::fs::metadata(gpulane.dir().join("commits.jsonl")).map_or(0, |file| file.len());
        (parts, ledger)
    };
    let (before, begun) = (look(), Instant::now());
    while look() == before && begun.elapsed() < Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn has_ended(live: &Live) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", live.pid())).unwrap_or_default();
    status.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}

#[test]
fn a_hundred_kills_lose_no_item_and_double_none() {
    let seed = std::env::var("GPULANE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        u64::from(std::process::id()) << 20 | u64::from(Instant::now().elapsed().subsec_nanos()) | 1
    });
    println!("GPULANE_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let items: Vec<String> = (0..ITEMS).map(|number| format!("item-{number}")).collect();
    gpulane.workspace.file("items.txt", &(items.join("\n") + "\n"));
    let (mut kills, mut lives) = (0, 0);
    while kills < KILLS {
        lives += 1;
        assert!(lives < 400, "seed {seed}: kills come to nothing");
        let live = start(&gpulane);
        // Not a wait for anything: the instant of the kill is what is tried.
        while kills < KILLS && !has_ended(&live) {
            if dice.roll(2) == 0 {
                std::thread::sleep(Duration::from_millis(dice.roll(900) as u64));
            } else {
                wait_for_a_commit(&gpulane);
                std::thread::sleep(Duration::from_millis(dice.roll(15) as u64));
            }
            let targets = targets(&gpulane, &live);
            let target = Pid::from_raw(targets[dice.roll(targets.len())]).unwrap();
            kills += u32::from(kill_process(target, Signal::KILL).is_ok());
        }
        if kills < KILLS {
            live.wait();
            gpulane.assert_nothing_left();
        } else {
            println!("{kills} kills in {lives} lives; {} rows by then", gpulane.rows().len());
            gpulane.workspace.file("hurry", "");
            live.wait();
        }
    }
    let last = gpulane.call(&["resume", "r"]);
    assert!([0, 4].contains(&last.code), "seed {seed}: {last:?}");
    let rows = gpulane.rows();
    let there: BTreeSet<&str> = rows.iter().map(|row| row["item"].as_str().unwrap()).collect();
    let failed = gpulane.failed_items();
    assert_eq!(failed, [], "seed {seed}: a kill from outside is no fault of an item");
    assert_eq!(rows.len(), ITEMS, "seed {seed}: each once");
    assert_eq!(there, items.iter().map(String::as_str).collect(), "seed {seed}");
    wait_until("nothing left", || tagged(&gpulane.dir()).is_empty());
}
