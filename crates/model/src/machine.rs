//! The machine a run uses, as the inventory saw it: which GPUs, how many lanes, how many cores.

use serde::{Deserialize, Serialize};

use crate::{Bytes, GpuIndex, LaneId, Memory, Plan};

/// Most jobs at once on a GPU that is shared by memory: what MPS allows, and more than any GPU has use for.
pub const MOST_PER_GPU: u32 = 48;

/// Where the GPUs of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuKind {
    /// Real devices, seen through NVML.
    Nvml,
    /// Simulated devices: same interface, no hardware.
    Sim,
    /// No GPUs: CPU lanes stand in for them.
    None,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// What goes into `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// The product's name, or `simulated`.
    pub name: String,
    /// All of its memory.
    pub memory: Bytes,
    /// What of it no job can have: the driver's own part, and the headroom a person asked for.
    #[serde(default)]
    pub reserved: Bytes,
}

impl Gpu {
    /// What jobs can have.
    pub fn usable(&self) -> Bytes {
        Bytes(self.memory.0.saturating_sub(self.reserved.0))
    }
}

/// What a run may use. With [`GpuKind::None`], `gpus` is empty and `cpu_lanes` lanes stand in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Where the GPUs come from.
    pub kind: GpuKind,
    /// The GPUs, in PCI order.
    pub gpus: Vec<Gpu>,
    /// Lanes on each GPU; one unless `--lanes` says otherwise or jobs are packed.
    pub lanes_per_gpu: u32,
    /// Jobs share GPUs by the memory they reserve; a lane is then a place, and there are more than will be taken.
    #[serde(default)]
    pub packing: bool,
    /// Cores of this machine: the limit for CPU-only jobs beside GPUs.
    pub cores: u32,
    /// With no GPUs: how many lanes stand in for them.
    pub cpu_lanes: u32,
}

impl Machine {
    /// Lanes that GPU jobs run on (with no GPUs: that every job runs on).
    pub fn main_lanes(&self) -> u32 {
        match self.kind {
            GpuKind::None => self.cpu_lanes,
            _ => u32::try_from(self.gpus.len()).unwrap_or(u32::MAX).saturating_mul(self.lanes_per_gpu),
        }
    }

    /// All lanes: beside GPUs, CPU-only jobs have one lane per core of their own.
    pub fn all_lanes(&self) -> u32 {
        match self.kind {
            GpuKind::None => self.cpu_lanes,
            _ => self.main_lanes().saturating_add(self.cores),
        }
    }

    /// The GPU under a lane: lanes of GPU 0 come first. `None` for CPU lanes.
    pub fn gpu_of(&self, lane: LaneId) -> Option<GpuIndex> {
        (self.kind != GpuKind::None && lane.0 < self.main_lanes())
            .then(|| GpuIndex(lane.0 / self.lanes_per_gpu.max(1)))
    }

    /// Shares GPUs by memory if the plan has jobs that say how much they take. For a machine whose number of lanes was
    /// left to us.
    #[must_use]
    pub fn packed_for(self, plan: &Plan) -> Self {
        let shares = plan.stages.iter().any(|stage| stage.gpus > 0 && stage.memory != Memory::Exclusive);
        if self.kind == GpuKind::None || !shares {
            return self;
        }
        Self { packing: true, lanes_per_gpu: MOST_PER_GPU, ..self }
    }

    /// Threads for a job that left it to us: its fair share of the cores, where lanes are not packed.
    pub fn fair_cpus(&self) -> u32 {
        (self.cores / self.main_lanes().max(1)).max(1)
    }
}
