//! What a job takes while it runs. Jobs of one stage all take the same, but for those that must be alone.

use gpulane_model::{Bytes, Cpus, GpuKind, Machine, Memory, Stage};

/// From which pool, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A part of each of so many devices, all at once. A device is a GPU or, where there are none, a lane.
    Devices { count: u32, need: Need },
    /// Beside GPUs: this many cores, and one CPU lane.
    Cores(u32),
}

/// What a job takes of each of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// So much of it: bytes where GPUs are shared by memory, otherwise lanes.
    Share(u64),
    /// All of it, whatever that is: nobody else is there.
    Whole(Prefer),
}

/// Which device a job that has one to itself gets, where several are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prefer {
    /// The smallest: its author says that any will do, and others may need the large ones.
    Small,
    /// The largest: nobody knows how much it needs, and the largest cannot be the wrong one.
    Large,
}

/// Whether so much leaves enough of a GPU to speak of sharing it. What nearly fills one is better taken whole: a few MiB that
/// are in use must not make it too large for all.
fn is_share(bytes: Bytes, machine: &Machine, count: u32) -> bool {
    let mut sizes: Vec<u64> = machine.gpus.iter().map(|gpu| gpu.usable().0).collect();
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    let largest = sizes.get(count.saturating_sub(1) as usize).or(sizes.last()).copied().unwrap_or(0);
    bytes.0 <= largest - largest / 20
}

impl Demand {
    /// What a job of the stage takes on this machine. `reserve`: what is reserved for one whose stage was measured.
    pub(crate) fn of(stage: &Stage, machine: &Machine, reserve: Option<Bytes>) -> Self {
        if stage.gpus == 0 && machine.kind != GpuKind::None {
            // More cores than there are would never come free; all of them is what can be had.
            return Self::Cores(match stage.cpus {
                Cpus::Auto => 1,
                Cpus::Count(count) => count.min(machine.cores).max(1),
            });
        }
        let need = match stage.memory {
            _ if !machine.packing => Need::Share(1),
            Memory::Exclusive => Need::Whole(Prefer::Small),
            Memory::Reserve(bytes) => Need::Share(bytes.0),
            Memory::Auto => match reserve.filter(|bytes| is_share(*bytes, machine, stage.gpus)) {
                Some(bytes) => Need::Share(bytes.0),
                None => Need::Whole(Prefer::Large),
            },
        };
        Self::Devices { count: stage.gpus.max(1), need }
    }

    /// The same for a job that came to grief beside others.
    pub(crate) fn alone(self) -> Self {
        match self {
            Self::Devices { count, .. } => Self::Devices { count, need: Need::Whole(Prefer::Large) },
            Self::Cores(_) => self,
        }
    }

    /// Whether things lie idle while this comes free bit by bit, so that whoever waits for it should not be passed again. A
    /// share of one device is not so: what is kept for it serves any other as well.
    pub(crate) fn is_hard_to_gather(self) -> bool {
        !matches!(self, Self::Devices { count: 1, need: Need::Share(_) })
    }

    /// What is reserved for the job of each GPU, where GPUs are shared by memory.
    pub(crate) fn reserve(self, machine: &Machine) -> Option<Bytes> {
        match self {
            Self::Devices { need: Need::Share(bytes), .. } if machine.packing => Some(Bytes(bytes)),
            _ => None,
        }
    }

    /// Threads a job of the stage is told to use. `places`: how many such jobs the GPUs hold at once, where they are shared
    /// by memory.
    pub(crate) fn threads(self, stage: &Stage, machine: &Machine, places: u32) -> u32 {
        let cores_for = |jobs: u32| (machine.cores / jobs.max(1)).max(1);
        match (stage.cpus, self) {
            (Cpus::Count(count), _) => count.max(1),
            (Cpus::Auto, Self::Cores(cores)) => cores,
            (Cpus::Auto, Self::Devices { count, .. }) if !machine.packing => {
                machine.fair_cpus().saturating_mul(count)
            }
            (Cpus::Auto, Self::Devices { count, need: Need::Whole(_) }) => {
                cores_for(u32::try_from(machine.gpus.len()).unwrap_or(u32::MAX)).saturating_mul(count)
            }
            (Cpus::Auto, Self::Devices { need: Need::Share(_), .. }) => {
                cores_for(places.min(u32::try_from(stage.jobs.len()).unwrap_or(u32::MAX)))
            }
        }
    }
}
