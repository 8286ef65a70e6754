//! The line: stages that have a job to start and may start one. Within a stage its own queue decides; between stages,
//! the plan's order.

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
        }
    }

    /// Whether the stage is in the line.
    pub(crate) fn has(&self, stage: StageId, demand: Demand) -> bool {
        match demand {
            Demand::Lanes(count) => self.lanes.get(&count).is_some_and(|stages| stages.contains(&stage)),
            Demand::Cores(_) => self.cores.contains(&stage),
        }
    }

    /// The first stage for lanes whose jobs take at most `most`.
    pub(crate) fn first_for_lanes(&self, most: u32) -> Option<StageId> {
        self.lanes.range(..=most).filter_map(|(_, stages)| stages.first()).min().copied()
    }

    /// The first stage for cores.
    pub(crate) fn first_for_cores(&self) -> Option<StageId> {
        self.cores.first().copied()
    }
}
