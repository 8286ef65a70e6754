//! What the tree holds on GPUs, by the driver's word.

use std::time::Duration;

use gpulane_gpu::{GpuReading, readings};
use gpulane_model::Bytes;
use gpulane_witness::{Evidence, GpuSight};

use crate::Finding;

const TOPIC: &str = "GPU";
const DEADLINE: Duration = Duration::from_secs(5);

/// What is known of its GPUs.
pub(super) struct OnGpus {
    pub(super) findings: Vec<Finding>,
    /// The first of them, for the diagnosis.
    pub(super) sight: Option<GpuSight>,
}

pub(super) fn of(evidence: &Evidence) -> OnGpus {
    // Without a driver there is nothing to say here; `gpulane doctor` says why.
    let readings = readings(DEADLINE).unwrap_or_default();
    let pids: Vec<u32> = evidence.processes.iter().map(|process| process.pid).collect();
    let held: Vec<(&GpuReading, u64)> =
        readings.iter().filter_map(|gpu| Some((gpu, held(gpu, &pids)?))).collect();
    let mut findings: Vec<Finding> = held.iter().map(|(gpu, bytes)| told(gpu, *bytes)).collect();
    let open: u32 = evidence.processes.iter().map(|process| process.descriptors.gpus).sum();
    if findings.is_empty() && open > 0 {
        findings.push(Finding::fine(TOPIC, "it has a GPU open, but the driver lists no memory for it"));
    }
    OnGpus { findings, sight: held.first().map(|(gpu, _)| sight(gpu)) }
}

/// What these processes hold on this GPU; `None`: they are not on it.
fn held(gpu: &GpuReading, pids: &[u32]) -> Option<u64> {
    let mut ours = gpu.processes.iter().filter(|process| pids.contains(&process.pid)).peekable();
    ours.peek()?;
    Some(ours.filter_map(|process| process.memory).map(|memory| memory.0).sum())
}

fn told(gpu: &GpuReading, bytes: u64) -> Finding {
    let load = gpu.load.map_or_else(String::new, |load| format!(", which is {load}% busy"));
    let power = match (gpu.power, gpu.power_limit) {
        (Some(power), Some(limit)) => format!(" at {power:.0} of {limit:.0} W"),
        _ => String::new(),
    };
    Finding::fine(TOPIC, format!("holds {} on GPU {}{load}{power}", Bytes(bytes), gpu.index))
}

fn sight(gpu: &GpuReading) -> GpuSight {
    GpuSight {
        load: gpu.load.unwrap_or(0),
        power: gpu.power.unwrap_or(0.0),
        power_limit: gpu.power_limit.unwrap_or(0.0),
    }
}
