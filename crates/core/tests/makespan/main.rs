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

/// At most a tenth longer than any schedule must take, and no longer than first come, first served.
fn check(kind: (bool, bool), most: f64) {
    for Outcome { seed, to_bound, to_first_come, .. } in sets(kind, 55) {
        assert!(to_bound <= most, "set {seed} takes {to_bound:.3} times the lower bound");
        assert!(to_bound >= 1.0 - 1e-9, "set {seed} beats the bound: {to_bound:.3}");
        // Where the order makes no difference, which of two equal jobs happens to be the longer decides.
        assert!(to_first_come <= 1.005, "set {seed} takes {to_first_come:.4} times as long as first come");
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

/// Which GPU a job that takes a whole one gets is not part of the order that is looked for: in one of three hundred such sets
/// that costs a fifth. None of these here.
#[test]
fn shares_and_whole_gpus_of_two_sizes() {
    check(KINDS[3], 1.10);
}

#[test]
#[ignore = "a look at the figures, not a test"]
#[allow(clippy::print_stdout)]
fn distribution() {
    for jitter in [0.2, 0.0] {
        for kind in KINDS {
            let mut outcomes: Vec<Outcome> = (0..400).map(|seed| outcome(seed, kind, jitter)).collect();
            outcomes.retain(|outcome| outcome.rounds >= ROUNDS);
            let mut sorted: Vec<f64> = outcomes.iter().map(|outcome| outcome.to_bound).collect();
            sorted.sort_by(f64::total_cmp);
            let mut first: Vec<f64> = outcomes.iter().map(|outcome| outcome.to_first_come).collect();
            first.sort_by(f64::total_cmp);
            let at = |sorted: &[f64], percent: usize| sorted[(sorted.len() - 1) * percent / 100];
            println!(
                "jitter {jitter}, mixed {}, whole {}: {} sets; to bound: median {:.4}, 90 % {:.4}, worst {:.4}; \
                 to first come: best {:.3}, median {:.3}, worst {:.4}, worse in {}",
                kind.0,
                kind.1,
                sorted.len(),
                at(&sorted, 50),
                at(&sorted, 90),
                at(&sorted, 100),
                at(&first, 0),
                at(&first, 50),
                at(&first, 100),
                first.iter().filter(|ratio| **ratio > 1.0).count(),
            );
            outcomes.sort_by(|one, other| other.to_bound.total_cmp(&one.to_bound));
            for outcome in &outcomes[..3] {
                println!("   seed {}: {:.3} at {:.0} rounds", outcome.seed, outcome.to_bound, outcome.rounds);
            }
        }
    }
}
