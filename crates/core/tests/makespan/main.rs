//! How well GPUs shared by memory are filled: on random job sets the makespan against what no schedule can beat, and against
//! first come, first served.
//!
//! Sets count whose work fills the machine for at least [`ROUNDS`] times the longest job. In shorter ones the end decides: up
//! to a job's length is lost while GPUs run dry, whatever the order, and the bound does not see it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bound;
mod first_come;
mod sets;

use gpulane_core::forecast;
use sets::JobSet;

/// How many times the longest job the bound must be.
const ROUNDS: f64 = 20.0;

/// Kinds of sets: GPUs of two sizes or one, with stages that take whole GPUs or without.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// What became of a set.
struct Outcome {
    seed: u64,
    /// Makespan against the lower bound.
    to_bound: f64,
    /// Makespan against first come, first served.
    to_first_come: f64,
    /// The bound against the longest job.
    rounds: f64,
}

#[allow(clippy::cast_precision_loss)]
fn outcome(seed: u64, (mixed, whole): (bool, bool), jitter: f64) -> Outcome {
    let set = JobSet::random(seed, mixed, whole, jitter);
    let plan = set.plan();
    let machine = set.machine();
    let forecast = forecast(&plan, &machine, &set.known(), &mut |job| set.length(job).as_seconds());
    assert_eq!(forecast.unfinished, 0);
    let bound = bound::lower_bound(&set);
    let longest = set.jobs.iter().map(|(_, millis)| *millis).max().unwrap() as f64 / 1000.0;
    Outcome {
        seed,
        to_bound: forecast.makespan / bound,
        to_first_come: forecast.makespan / first_come::first_come_first_served(&set),
        rounds: bound / longest,
    }
}

/// By how much jobs of a stage differ in length; only their average is known beforehand.
const JITTER: f64 = 0.2;

/// The first so many sets of this kind that count.
fn sets(kind: (bool, bool), count: usize) -> impl Iterator<Item = Outcome> {
    (0..).map(move |seed| outcome(seed, kind, JITTER)).filter(|outcome| outcome.rounds >= ROUNDS).take(count)
}

/// How much longer than first come, first served it may take. Where the order makes no difference, which of two equal jobs
/// happens to be the longer decides: in 37 of 1203 fresh sets it took longer, by 1.5 % at most.
const LUCK: f64 = 1.02;

/// Never faster than any schedule can be, never slower than first come, first served but for luck, and at most `most` times
/// the lower bound.
fn check(kind: (bool, bool), most: f64) {
    for Outcome { seed, to_bound, to_first_come, .. } in sets(kind, 55) {
        assert!(to_bound <= most, "set {seed} takes {to_bound:.3} times the lower bound");
        assert!(to_bound >= 1.0 - 1e-9, "set {seed} beats the bound: {to_bound:.3}");
        assert!(to_first_come <= LUCK, "set {seed} takes {to_first_come:.4} times as long as first come");
    }
}

#[test]
fn shares_of_equal_gpus() {
    check(KINDS[0], 1.10);
}

#[test]
fn shares_and_whole_gpus() {
    check(KINDS[1], 1.10);
}

#[test]
fn shares_of_gpus_of_two_sizes() {
    check(KINDS[2], 1.10);
}

/// No claim about a tenth here. Which GPU a job that takes a whole one gets is not part of the order that is looked for: in 7
/// of 322 fresh sets that cost more than a tenth, 27 % at most.
#[test]
fn shares_and_whole_gpus_of_two_sizes() {
    check(KINDS[3], f64::INFINITY);
}

/// On seeds that played no part in choosing the rules, with the short sets shown too.
#[test]
#[ignore = "a look at the figures, not a test"]
#[allow(clippy::print_stdout)]
fn distribution() {
    for kind in KINDS {
        let all: Vec<Outcome> = (10_000..10_400).map(|seed| outcome(seed, kind, JITTER)).collect();
        for rounds in [0.0, ROUNDS] {
            let sets: Vec<&Outcome> = all.iter().filter(|outcome| outcome.rounds >= rounds).collect();
            println!("mixed {}, whole {}, at least {rounds} rounds: {} sets", kind.0, kind.1, sets.len());
            tell("to the bound", 1.10, sets.iter().map(|outcome| outcome.to_bound));
            tell("to first come", 1.0, sets.iter().map(|outcome| outcome.to_first_come));
        }
    }
}

#[allow(clippy::print_stdout)]
fn tell(what: &str, limit: f64, ratios: impl Iterator<Item = f64>) {
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    let at = |percent: usize| ratios[(ratios.len() - 1) * percent / 100];
    let over = ratios.iter().filter(|ratio| **ratio > limit).count();
    println!(
        "   {what}: best {:.4}, median {:.4}, 90 % {:.4}, worst {:.4}; above {limit} in {over}",
        at(0),
        at(50),
        at(90),
        at(100)
    );
}
