//! Who goes first where GPUs are shared by memory. Where they are not, the plan's order alone decides.

use gpulane_model::{Known, Memory, StageId};

use crate::demand::{Demand, Need};
use crate::line::{Kind, QueueId};
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
            slot.seconds = known.seconds;
            let measures = self.machine.packing && self.plan.stages[at].memory == Memory::Auto;
            if let Some(peak) = known.peak.filter(|_| measures && slot.measured.is_none() && slot.unended > 0)
            {
                self.set_measured(stage, peak, None);
            }
        }
        self.rank_all();
        self
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
            let queue = self.stages[stage.index()].queue(kind);
            let rank = self.rank_of(stage, queue.demand);
            let (demand, before) =
                (queue.demand, std::mem::replace(&mut self.stages[stage.index()].queue_mut(kind).rank, rank));
            let id = QueueId { stage, kind };
            if before != rank && self.line.has(id, before, demand) {
                self.line.set(id, before, demand, false);
            }
        }
        self.stand_in_line(stage);
    }

    /// What a job takes of the GPUs and for how long: the largest first, since small ones still fit beside and at the end.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    fn rank_of(&self, stage: StageId, demand: Demand) -> u64 {
        let Demand::Devices { count, need } = demand else { return 0 };
        if !self.machine.packing {
            return 0;
        }
        let share = match need {
            Need::Share(bytes) => bytes,
            Need::Whole => self.lanes.devices.largest(1),
        };
        let seconds = self.stages[stage.index()].seconds.unwrap_or(self.typical_seconds);
        // A cast from floating point saturates, and makes 0 of what is not a number.
        (share as f64 / 1_048_576.0 * f64::from(count) * seconds) as u64
    }
}
