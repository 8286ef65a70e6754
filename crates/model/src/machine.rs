//! The machine a run uses, as the inventory saw it: which GPUs, how many lanes, how many cores.

use serde::{Deserialize, Serialize};

use crate::{Bytes, GpuIndex, LaneId};

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
}

/// What a run may use. With [`GpuKind::None`], `gpus` is empty and `cpu_lanes` lanes stand in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Where the GPUs come from.
    pub kind: GpuKind,
    /// The GPUs, in PCI order.
    pub gpus: Vec<Gpu>,
    /// Lanes on each GPU; one unless `--lanes` says otherwise.
    pub lanes_per_gpu: u32,
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
            _ => self.main_lanes() + self.cores,
        }
    }

    /// The GPU under a lane: lanes of GPU 0 come first. `None` for CPU lanes.
    pub fn gpu_of(&self, lane: LaneId) -> Option<GpuIndex> {
        (self.kind != GpuKind::None && lane.0 < self.main_lanes())
            .then(|| GpuIndex(lane.0 / self.lanes_per_gpu.max(1)))
    }

    /// Threads for a job that left it to us: its fair share of the cores.
    pub fn fair_cpus(&self) -> u32 {
        (self.cores / self.main_lanes().max(1)).max(1)
    }
}
