//! Looks for a good order of stages by trying some: each is run through in virtual time, the one that is done first is taken.
//!
//! No single rule is good for all mixes of sizes and lengths: what goes side by side, and what is left for the end, decides.
//! A few rules give the orders to begin with; then single stages are moved. What it costs is bounded, not what it finds.

use std::collections::BTreeSet;

use gpulane_model::{JobId, StageId};

use crate::demand::Demand;
use crate::forecast::run_through;
use crate::state::Core;

/// Most orders that are tried.
const MOST_TRIES: usize = 20;
/// Most jobs that are started in all tries together: a few hundredths of a second.
const MOST_STARTS: usize = 20_000;
/// Stages of which each makes a start dearer by about as much as it costs by itself.
const FEW_STAGES: usize = 8;
/// An order must be better by this much to be worth it.
const GAIN: f64 = 0.999;

/// The best order found for the stages of a core that has not begun. `None` if there is nothing to put in order, or too much
/// to try.
pub(crate) fn best_order(core: &Core) -> Option<Vec<StageId>> {
    let stages: Vec<StageId> =
        (0..core.stages.len()).map(StageId::at).filter(|id| takes_part(core, *id)).collect();
    let cost = (core.counts.pending as usize).saturating_mul(1 + stages.len() / FEW_STAGES).max(1);
    let tries = MOST_TRIES.min(MOST_STARTS / cost);
    if !core.machine.packing || stages.len() < 2 || tries < 2 {
        return None;
    }
    let mut search = Search { core, tries, tried: BTreeSet::new(), best: None };
    for order in rules(core, &stages) {
        search.attempt(order);
    }
    while search.move_one() {}
    search.best.map(|(_, order)| order)
}

fn takes_part(core: &Core, stage: StageId) -> bool {
    let slot = &core.stages[stage.index()];
    slot.unended > 0 && matches!(slot.plain.demand, Demand::Devices { .. })
}

/// Orders that rules give. The first is the one that would be taken without a search.
fn rules(core: &Core, stages: &[StageId]) -> Vec<Vec<StageId>> {
    let size = |stage: StageId| core.size(core.stages[stage.index()].plain.demand);
    let seconds = |stage: StageId| core.seconds(stage);
    let by = |key: &dyn Fn(StageId) -> f64| {
        let mut order = stages.to_vec();
        order.sort_by(|one, other| key(*other).total_cmp(&key(*one)));
        order
    };
    vec![
        by(&|stage| size(stage) * size(stage) * seconds(stage)),
        by(&|stage| size(stage)),
        by(&|stage| size(stage) * seconds(stage)),
        stages.to_vec(),
        by(&|stage| seconds(stage)),
    ]
}

struct Search<'a> {
    core: &'a Core,
    /// How many are left.
    tries: usize,
    tried: BTreeSet<Vec<StageId>>,
    /// The best so far, with its makespan.
    best: Option<(f64, Vec<StageId>)>,
}

impl Search<'_> {
    /// Whether the order is the best so far.
    fn attempt(&mut self, order: Vec<StageId>) -> bool {
        if self.tries == 0 || !self.tried.insert(order.clone()) {
            return false;
        }
        self.tries -= 1;
        let makespan = self.makespan(&order);
        let better = self.best.as_ref().is_none_or(|(best, _)| makespan < best * GAIN);
        if better {
            self.best = Some((makespan, order));
        }
        better
    }

    /// Moves one stage of the best order, by little before by much, until that is better. `false`: no move is, or no try
    /// is left.
    fn move_one(&mut self) -> bool {
        let Some((_, order)) = self.best.clone() else { return false };
        for gap in 1..order.len() {
            for at in 0..order.len() - gap {
                for (from, to) in [(at, at + gap), (at + gap, at)] {
                    let mut moved = order.clone();
                    let stage = moved.remove(from);
                    moved.insert(to, stage);
                    if self.attempt(moved) {
                        return true;
                    }
                    if self.tries == 0 {
                        return false;
                    }
                }
            }
        }
        false
    }

    fn makespan(&self, order: &[StageId]) -> f64 {
        let mut core = self.core.for_trial();
        core.set_order(order);
        run_through(core, &mut |job| length(self.core, job)).makespan
    }
}

/// Jobs of a stage are not all equally long. An order that is good only if they are is not good: so here each is a little
/// shorter or longer, spread evenly and always the same.
fn length(core: &Core, job: JobId) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_75;
    core.seconds(core.stage_of(job)) * (0.8 + 0.4 * (f64::from(job.0) * GOLDEN).fract())
}
