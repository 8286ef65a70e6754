//! What a job of a stage takes while it runs. Jobs of one stage all take the same.

use gpulane_model::{Cpus, GpuKind, Machine, Stage};

/// From which pool, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// One lane on each of this many GPUs (with no GPUs: this many lanes), all at once.
    Lanes(u32),
    /// Beside GPUs: this many cores, and one CPU lane.
    Cores(u32),
}

impl Demand {
    /// What each job of the stage takes on this machine.
    pub(crate) fn of(stage: &Stage, machine: &Machine) -> Self {
        if stage.gpus > 0 || machine.kind == GpuKind::None {
            return Self::Lanes(stage.gpus.max(1));
        }
        // More cores than there are would never come free; all of them is what can be had.
        Self::Cores(match stage.cpus {
            Cpus::Auto => 1,
            Cpus::Count(count) => count.min(machine.cores).max(1),
        })
    }

    /// Threads each job of the stage is told to use.
    pub(crate) fn threads(self, stage: &Stage, machine: &Machine) -> u32 {
        match (stage.cpus, self) {
            (Cpus::Count(count), _) => count.max(1),
            (Cpus::Auto, Self::Lanes(lanes)) => machine.fair_cpus().saturating_mul(lanes),
            (Cpus::Auto, Self::Cores(cores)) => cores,
        }
    }
}
