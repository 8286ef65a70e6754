//! What no schedule can beat. Give each stage a weight: at no moment can a GPU run jobs of more weight than the heaviest set
//! that fits it, so the whole work, weighed, cannot be done faster than all GPUs together, each with its heaviest set. Any
//! weights give a bound: sizes give the plain area, 1 for more than half of a GPU and 0 for the rest counts those that cannot
//! meet, the functions of Fekete and Schepers count what cannot be filled. Here the best weights are searched for.

use std::collections::BTreeMap;

use crate::sets::{JobSet, Size};

/// Seconds below which the set cannot be done.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn lower_bound(set: &JobSet) -> f64 {
    let longest = set.jobs.iter().map(|(_, millis)| *millis).max().unwrap_or(0) as f64 / 1000.0;
    let mut work = vec![0.0; set.sizes.len()];
    for (stage, millis) in &set.jobs {
        work[*stage] += *millis as f64 / 1000.0;
    }
    starts(set).into_iter().map(|weights| improve(set, &work, weights)).fold(longest, f64::max)
}

/// Weights to begin with.
#[allow(clippy::cast_precision_loss)]
fn starts(set: &JobSet) -> Vec<Vec<f64>> {
    let smallest = *set.gpus.iter().min().unwrap();
    let mut starts = Vec::new();
    let mut capacities = set.gpus.clone();
    capacities.dedup();
    for capacity in capacities {
        let part = |size: &Size| match size {
            Size::Units(units) => *units as f64 / capacity as f64,
            Size::Whole => (smallest as f64 / capacity as f64).min(1.0),
        };
        starts.push(set.sizes.iter().map(part).collect::<Vec<_>>());
        starts.push(set.sizes.iter().map(|size| f64::from(u8::from(part(size) > 0.5))).collect());
        for k in 1..8 {
            let k = f64::from(k);
            let stepped = |part: f64| {
                let scaled = part * (k + 1.0);
                if scaled.fract() == 0.0 { part } else { scaled.floor() / k }
            };
            starts.push(set.sizes.iter().map(|size| stepped(part(size))).collect());
        }
    }
    starts
}

/// Changes one weight after the other as long as that raises the bound.
fn improve(set: &JobSet, work: &[f64], mut weights: Vec<f64>) -> f64 {
    let mut best = bound(set, work, &weights);
    let mut step = 0.3;
    while step > 0.005 {
        let mut better = false;
        for at in 0..weights.len() {
            for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                let before = weights[at];
                weights[at] = if before == 0.0 { step } else { before * factor };
                let changed = bound(set, work, &weights);
                if changed > best * 1.000_001 {
                    (best, better) = (changed, true);
                } else {
                    weights[at] = before;
                }
            }
        }
        if !better {
            step /= 2.0;
        }
    }
    best
}

fn bound(set: &JobSet, work: &[f64], weights: &[f64]) -> f64 {
    let all: f64 = work.iter().zip(weights).map(|(work, weight)| work * weight).sum();
    let mut seen: BTreeMap<u64, f64> = BTreeMap::new();
    let mut of = |gpu: &u64| *seen.entry(*gpu).or_insert_with(|| heaviest(set, *gpu, weights));
    let at_once: f64 = set.gpus.iter().map(&mut of).sum();
    if at_once > 0.0 { all / at_once } else { 0.0 }
}

/// The most weight that fits on a GPU at once.
fn heaviest(set: &JobSet, capacity: u64, weights: &[f64]) -> f64 {
    let mut most = vec![0.0_f64; usize::try_from(capacity).unwrap() + 1];
    for used in 1..most.len() {
        let mut best = most[used - 1];
        for (size, weight) in set.sizes.iter().zip(weights) {
            if let Size::Units(units) = size
                && let Some(rest) = used.checked_sub(usize::try_from(*units).unwrap())
            {
                best = best.max(most[rest] + weight);
            }
        }
        most[used] = best;
    }
    let whole = set.sizes.iter().zip(weights).filter(|(size, _)| **size == Size::Whole);
    whole.map(|(_, weight)| *weight).fold(most[most.len() - 1], f64::max)
}
