//! The plainest schedule: jobs in the plan's order, and whoever is first and finds no room holds up all others. Written apart
//! from the core, to be compared with.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::sets::{JobSet, Size};

/// How long it takes, in seconds.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn first_come_first_served(set: &JobSet) -> f64 {
    let mut free = set.gpus.clone();
    let mut jobs_on = vec![0_u64; free.len()];
    let mut running: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
    let mut now = 0;
    let mut end = 0;
    for (stage, millis) in &set.jobs {
        let (gpu, units) = loop {
            let fits = |gpu: &usize| match set.sizes[*stage] {
                Size::Units(units) => free[*gpu] >= units,
                Size::Whole => jobs_on[*gpu] == 0,
            };
            let left = |gpu: &usize| match set.sizes[*stage] {
                Size::Units(units) => free[*gpu] - units,
                Size::Whole => u64::MAX - free[*gpu],
            };
            if let Some(gpu) = (0..free.len()).filter(fits).min_by_key(|gpu| (jobs_on[*gpu], left(gpu))) {
                let units = match set.sizes[*stage] {
                    Size::Units(units) => units,
                    Size::Whole => set.gpus[gpu],
                };
                break (gpu, units);
            }
            let Reverse((at, gpu, units)) = running.pop().unwrap();
            now = at;
            free[gpu] += units;
            jobs_on[gpu] -= 1;
        };
        free[gpu] -= units;
        jobs_on[gpu] += 1;
        end = end.max(now + millis);
        running.push(Reverse((now + millis, gpu, units)));
    }
    end as f64 / 1000.0
}
