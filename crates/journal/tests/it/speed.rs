//! How fast: run by hand with `cargo test --release -p gpulane-journal --test it speed -- --ignored --nocapture`.

use std::fs;
use std::time::{Duration, Instant};

use crate::run::sample::{self, started, succeeded};
use gpulane_journal::{Follower, Journal, Mode, RunDir};
use gpulane_model::{Job, Millis, StageId};

fn peak_memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned()
}

#[test]
#[ignore = "a measurement"]
fn three_hundred_thousand_records() {
    // A real disk: syncs count here.
    let temp = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut plan = sample::plan();
    let name = |index: u32| format!("seed={index}").into();
    let job = |index| Job { stage: StageId(0), name: name(index), ..plan.jobs[0].clone() };
    plan.jobs = (0..150_000).map(job).collect();
    plan.stages[0].jobs = 0..150_000;
    let dir = RunDir::create(&temp.path().join("run")).unwrap();

    let (journal, ..) = Journal::open(&dir, &plan, Mode::Strict, Box::new(|_| ())).unwrap();
    journal.append(Millis(1), sample::run_started());
    let events: Vec<_> = (0..150_000).flat_map(|index| [started(index, 1), succeeded(index, 1)]).collect();
    let start = Instant::now();
    for event in events {
        journal.append(Millis(1_700_000_000_000), event);
    }
    println!("append: {:?} each", start.elapsed() / 300_000);
    assert!(journal.close(Duration::from_mins(1)));
    println!("durable: {:?} in all", start.elapsed());

    println!("before {}", peak_memory());
    let start = Instant::now();
    let (journal, state, _) = Journal::open(&dir, &plan, Mode::Strict, Box::new(|_| ())).unwrap();
    println!("open and fold: {:?}, {}", start.elapsed(), peak_memory());
    assert_eq!(state.counts.succeeded, 150_000);

    let start = Instant::now();
    let mut follower = Follower::open(&dir);
    while follower.poll(None, &mut |_, _| ()).unwrap() > 0 {}
    println!("follow: {:?}, {}", start.elapsed(), peak_memory());

    let mut waits: Vec<_> = (0..50)
        .map(|index| {
            std::thread::sleep(Duration::from_millis(5));
            let start = Instant::now();
            journal.append(Millis(1), started(index, 2));
            assert!(journal.flush(Duration::from_secs(10)));
            start.elapsed()
        })
        .collect();
    waits.sort();
    println!("one event durable: median {:?}, worst {:?}", waits[25], waits[49]);
}
