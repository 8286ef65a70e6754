//! Who goes first where GPUs are shared by memory. Where they are not, the plan's order alone decides.

use gpulane_model::{Known, Memory, StageId};

use crate::demand::{Demand, Need};
use crate::line::{Kind, QueueId};
use crate::order::best_order;
use crate::state::Core;

impl Core {
    /// With what earlier runs tell of the stages, by stage. To be said before `Begin`.
    #[must_use]
    pub fn with_known(mut self, known: &[Known]) -> Self {
        let times = known.iter().filter_map(|known| known.seconds).filter(|seconds| *seconds > 0.0);
        let times: Vec<f64> = times.collect();
        if !times.is_empty() {
            #[allow(clippy::cast_precision_loss)] // stages are not that many
            let count = times.len() as f64;
            self.typical_seconds = times.iter().sum::<f64>() / count;
        }
        for (at, known) in known.iter().enumerate().take(self.stages.len()) {
            let (stage, slot) = (StageId::at(at), &mut self.stages[at]);
            slot.seconds = known.seconds.filter(|seconds| *seconds > 0.0);
            let measures = self.machine.packing && self.plan.stages[at].memory == Memory::Auto;
            let news = slot.measured.is_none() && slot.unended > 0;
            if let Some(peak) = known.peak.filter(|_| measures && news) {
                self.stages[at].confirmed = true;
                self.set_measured(stage, peak, None);
            }
        }
        self.rank_all();
        if !times.is_empty()
            && let Some(order) = best_order(&self)
        {
            self.set_order(&order);
        }
        self
    }

    /// Stages go in this order from now on, whatever their jobs take.
    pub(crate) fn set_order(&mut self, order: &[StageId]) {
        for (turn, stage) in (0..).zip(order) {
            self.stages[stage.index()].turn = Some(turn);
        }
        self.rank_all();
    }

    /// Gives every stage its rank.
    pub(crate) fn rank_all(&mut self) {
        for at in 0..self.stages.len() {
            self.rank(StageId::at(at));
        }
    }

    /// Gives the stage's queues their rank, and their place in the line.
    pub(crate) fn rank(&mut self, stage: StageId) {
        for kind in Kind::BOTH {
            let demand = self.stages[stage.index()].queue(kind).demand;
            let rank = self.rank_of(stage, demand);
            let queue = self.stages[stage.index()].queue_mut(kind);
            let before = std::mem::replace(&mut queue.rank, rank);
            let id = QueueId { stage, kind };
            if before != rank && self.line.has(id, before, demand) {
                self.line.set(id, before, demand, false);
            }
        }
        self.stand_in_line(stage);
    }

    /// The highest is first. Without an order that was found: the largest first, since small ones still fit beside it and
    /// at the end, and of two that differ little the longer, since what is long and late makes the run long.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn rank_of(&self, stage: StageId, demand: Demand) -> u64 {
        let Demand::Devices { .. } = demand else { return 0 };
        if !self.machine.packing {
            return 0;
        }
        if let Some(turn) = self.stages[stage.index()].turn {
            return u64::MAX - u64::from(turn);
        }
        let size = self.size(demand);
        // A cast from floating point saturates, and makes 0 of what is not a number.
        (size * size * self.seconds(stage)) as u64
    }

    /// What a job takes of all its GPUs, in MiB.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn size(&self, demand: Demand) -> f64 {
        match demand {
            Demand::Cores(_) => 0.0,
            Demand::Devices { count, need } => {
                let share = match need {
                    Need::Share(bytes) => bytes,
                    Need::Whole(_) => self.lanes.devices.largest(1),
                };
                (share >> 20) as f64 * f64::from(count)
            }
        }
    }

    /// How long a job of the stage takes, as far as is known.
    pub(crate) fn seconds(&self, stage: StageId) -> f64 {
        self.stages[stage.index()].seconds.unwrap_or(self.typical_seconds)
    }
}
