//! The line: stages that have a job to start and may start one. Within a stage its own queue decides; between stages,
//! the plan's order, except that a stage which has begun to keep what is free stays first until it has had it: were it passed
//! again by an earlier one that is back from its limit, what it keeps would lie idle for nothing.

use std::collections::{BTreeMap, BTreeSet};

use gpulane_model::StageId;

use crate::demand::Demand;

/// Stages with something to start, by what their jobs take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// By the number of lanes a job takes at once. There are few such numbers, whatever the number of stages.
    lanes: BTreeMap<u32, BTreeSet<StageId>>,
    /// Stages on CPU lanes, beside GPUs.
    cores: BTreeSet<StageId>,
    /// Keeps free lanes, and so goes before all others that take lanes.
    keeps_lanes: Option<StageId>,
    /// Keeps free cores, and so goes before all others that take cores.
    keeps_cores: Option<StageId>,
}

impl Line {
    /// Puts the stage into the line, or takes it out.
    pub(crate) fn set(&mut self, stage: StageId, demand: Demand, stands: bool) {
        let stages = match demand {
            Demand::Lanes(count) => self.lanes.entry(count).or_default(),
            Demand::Cores(_) => &mut self.cores,
        };
        if stands {
            stages.insert(stage);
        } else {
            stages.remove(&stage);
            self.give_up_place(stage);
        }
    }

    /// The stage, which must be in the line, keeps what is free of what it takes: until it gives up its place or leaves the
    /// line, it is first.
    pub(crate) fn keep(&mut self, stage: StageId, demand: Demand) {
        match demand {
            Demand::Lanes(_) => self.keeps_lanes = Some(stage),
            Demand::Cores(_) => self.keeps_cores = Some(stage),
        }
    }

    /// The stage goes back to its place in the plan's order.
    pub(crate) fn give_up_place(&mut self, stage: StageId) {
        for keeps in [&mut self.keeps_lanes, &mut self.keeps_cores] {
            keeps.take_if(|keeper| *keeper == stage);
        }
    }

    /// The stage that was let stay first for what jobs like this take, if one was.
    pub(crate) fn keeper(&self, demand: Demand) -> Option<StageId> {
        match demand {
            Demand::Lanes(_) => self.keeps_lanes,
            Demand::Cores(_) => self.keeps_cores,
        }
    }

    /// Whether the stage is in the line.
    pub(crate) fn has(&self, stage: StageId, demand: Demand) -> bool {
        match demand {
            Demand::Lanes(count) => self.lanes.get(&count).is_some_and(|stages| stages.contains(&stage)),
            Demand::Cores(_) => self.cores.contains(&stage),
        }
    }

    /// The first stage for lanes.
    pub(crate) fn first_for_lanes(&self) -> Option<StageId> {
        self.keeps_lanes.or_else(|| self.first_with_at_most(u32::MAX))
    }

    /// The first stage in the plan's order whose jobs take at most so many lanes.
    pub(crate) fn first_with_at_most(&self, most: u32) -> Option<StageId> {
        self.lanes.range(..=most).filter_map(|(_, stages)| stages.first()).min().copied()
    }

    /// The first stage for cores.
    pub(crate) fn first_for_cores(&self) -> Option<StageId> {
        self.keeps_cores.or_else(|| self.cores.first().copied())
    }
}
