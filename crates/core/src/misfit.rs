//! Stages that can never run on a machine, and why. Asked before a run starts; the core itself fails such jobs instead of
//! waiting for ever.

use std::cmp::Reverse;
use std::fmt;

use gpulane_model::{Bytes, Gpu, GpuKind, Machine, Memory, Plan, Stage, StageId};

/// A stage whose jobs can never run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Which.
    pub stage: StageId,
    /// Its name.
    pub name: String,
    /// What is missing.
    pub lack: Lack,
}

/// What a machine does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Enough GPUs.
    Gpus {
        /// What each job takes at once.
        asked: u32,
        /// What the run may use.
        there: u32,
    },
    /// Enough lanes, where lanes stand in for GPUs.
    Lanes {
        /// What each job takes at once.
        asked: u32,
        /// What the run may use.
        there: u32,
    },
    /// A GPU with enough memory.
    Memory {
        /// What each job reserves.
        asked: Bytes,
        /// The most a GPU has for jobs.
        largest: Bytes,
    },
    /// Enough GPUs with enough memory.
    LargeGpus {
        /// What each job takes at once.
        gpus: u32,
        /// What it reserves on each.
        asked: Bytes,
        /// How many have that much.
        there: u32,
    },
    /// Any core for CPU-only jobs.
    Cores,
}

/// Every stage with jobs that can never run on this machine.
pub fn misfits(plan: &Plan, machine: &Machine) -> Vec<Misfit> {
    let misfit = |(at, stage): (usize, &Stage)| {
        let lack = Lack::of(stage, machine)?;
        Some(Misfit { stage: StageId::at(at), name: stage.name.clone(), lack })
    };
    plan.stages.iter().enumerate().filter(|(_, stage)| !stage.jobs.is_empty()).filter_map(misfit).collect()
}

impl Lack {
    /// What the machine lacks for this stage's jobs.
    pub(crate) fn of(stage: &Stage, machine: &Machine) -> Option<Self> {
        if machine.kind == GpuKind::None {
            let (asked, there) = (stage.gpus.max(1), machine.main_lanes());
            return (asked > there).then_some(Self::Lanes { asked, there });
        }
        if stage.gpus == 0 {
            return (machine.cores == 0).then_some(Self::Cores);
        }
        let usable = if machine.lanes_per_gpu == 0 { 0 } else { machine.gpus.len() };
        let (asked, there) = (stage.gpus, u32::try_from(usable).unwrap_or(u32::MAX));
        if asked > there {
            return Some(Self::Gpus { asked, there });
        }
        let Memory::Reserve(asked) = stage.memory else { return None };
        let mut usable: Vec<Bytes> = machine.gpus.iter().map(Gpu::usable).collect();
        usable.sort_unstable_by_key(|usable| Reverse(*usable));
        let enough = usable.get(stage.gpus as usize - 1).is_some_and(|least| asked <= *least);
        let largest = *usable.first()?;
        if enough {
            None
        } else if asked > largest {
            Some(Self::Memory { asked, largest })
        } else {
            let there = usable.iter().filter(|usable| asked <= **usable).count();
            let there = u32::try_from(there).unwrap_or(u32::MAX);
            Some(Self::LargeGpus { gpus: stage.gpus, asked, there })
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a job of stage `{}` {}", self.name, self.lack)
    }
}

impl fmt::Display for Lack {
    /// Continues "a job …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Gpus { asked, there } => {
                write!(f, "needs {} at once; {}", counted(asked, "GPU"), there_are(there, "GPU"))
            }
            Self::Lanes { asked, there } => write!(
                f,
                "needs {} at once, one for each GPU it asks for; {}",
                counted(asked, "lane"),
                there_are(there, "lane")
            ),
            Self::Memory { asked, largest } => {
                write!(f, "reserves {asked} of GPU memory; the largest GPU has {largest}")
            }
            Self::LargeGpus { gpus, asked, there } => write!(
                f,
                "needs {} with {asked} each at once; there {} {there} that large",
                counted(gpus, "GPU"),
                if there == 1 { "is" } else { "are" },
            ),
            Self::Cores => f.write_str("needs a CPU core; there are 0 cores"),
        }
    }
}

fn counted(count: u32, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn there_are(count: u32, thing: &str) -> String {
    format!("there {} {}", if count == 1 { "is" } else { "are" }, counted(count, thing))
}
