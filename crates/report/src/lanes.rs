//! What a place is called: lanes, GPUs and the machine as a person reads them.

use gpulane_model::{GpuKind, LaneId, Machine};

/// `gpu 0`, `gpu 0.1` (second lane of GPU 0), `cpu 3`, `lane 3`.
pub(crate) fn lane_label(machine: Option<&Machine>, lane: LaneId) -> String {
    let Some(machine) = machine.filter(|machine| machine.kind != GpuKind::None) else {
        return format!("lane {lane}");
    };
    match machine.gpu_of(lane) {
        Some(gpu) if machine.lanes_per_gpu > 1 => format!("gpu {gpu}.{}", lane.0 % machine.lanes_per_gpu),
        Some(gpu) => format!("gpu {gpu}"),
        None => format!("cpu {}", lane.0.saturating_sub(machine.main_lanes())),
    }
}

/// The same for a job with these GPUs: `gpu 0-3`, `gpu 0,2`.
pub(crate) fn place_label(machine: Option<&Machine>, lane: LaneId, uuids: &[String]) -> String {
    let Some(machine) = machine.filter(|_| uuids.len() > 1) else { return lane_label(machine, lane) };
    let mut gpus: Vec<usize> =
        uuids.iter().filter_map(|uuid| machine.gpus.iter().position(|gpu| gpu.uuid == *uuid)).collect();
    gpus.sort_unstable();
    match (gpus.first(), gpus.last()) {
        (Some(first), Some(last)) if gpus.len() > 1 && last - first + 1 == gpus.len() => {
            format!("gpu {first}-{last}")
        }
        (Some(_), _) => {
            format!("gpu {}", gpus.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
        }
        _ => lane_label(Some(machine), lane),
    }
}

/// `8 simulated GPUs`, `2 GPUs (NVIDIA H200), 4 lanes each`, `1 GPU (NVIDIA H200), packed by memory`, `16 CPU lanes`.
pub(crate) fn machine_text(machine: &Machine) -> String {
    let plural = |n: usize, word: &str| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    let gpus = machine.gpus.len();
    let base = match machine.kind {
        GpuKind::None => return plural(machine.cpu_lanes as usize, "CPU lane"),
        GpuKind::Sim => plural(gpus, "simulated GPU"),
        GpuKind::Nvml => {
            let name = machine.gpus.first().map_or("", |gpu| gpu.name.as_str());
            let same = !name.is_empty() && machine.gpus.iter().all(|gpu| gpu.name == name);
            if same { format!("{} ({name})", plural(gpus, "GPU")) } else { plural(gpus, "GPU") }
        }
    };
    if machine.packing {
        format!("{base}, packed by memory")
    } else if machine.lanes_per_gpu > 1 {
        format!("{base}, {} lanes each", machine.lanes_per_gpu)
    } else {
        base
    }
}

#[cfg(test)]
mod tests {
    use gpulane_model::{Bytes, Gpu};

    use super::*;

    fn sim(gpus: usize, lanes_per_gpu: u32) -> Machine {
        let gpu = |at| Gpu {
            uuid: format!("GPU-{at}"),
            name: "simulated".into(),
            memory: Bytes(1 << 30),
            reserved: Bytes(0),
        };
        Machine {
            kind: GpuKind::Sim,
            gpus: (0..gpus).map(gpu).collect(),
            lanes_per_gpu,
            cores: 4,
            cpu_lanes: 0,
            packing: false,
        }
    }

    #[test]
    fn places_have_names() {
        let uuids = |at: &[u32]| at.iter().map(|at| format!("GPU-{at}")).collect::<Vec<_>>();
        assert_eq!(lane_label(Some(&sim(4, 1)), LaneId(2)), "gpu 2");
        assert_eq!(lane_label(Some(&sim(4, 2)), LaneId(5)), "gpu 2.1");
        assert_eq!(lane_label(Some(&sim(4, 1)), LaneId(6)), "cpu 2");
        assert_eq!(lane_label(None, LaneId(6)), "lane 6");
        assert_eq!(place_label(Some(&sim(4, 1)), LaneId(0), &uuids(&[0, 1, 2])), "gpu 0-2");
        assert_eq!(place_label(Some(&sim(4, 1)), LaneId(0), &uuids(&[0, 2])), "gpu 0,2");
        assert_eq!(machine_text(&sim(8, 1)), "8 simulated GPUs");
        assert_eq!(machine_text(&sim(1, 4)), "1 simulated GPU, 4 lanes each");
        let packed = Machine { packing: true, ..sim(2, 48) };
        assert_eq!(machine_text(&packed), "2 simulated GPUs, packed by memory");
        assert_eq!(lane_label(Some(&packed), LaneId(49)), "gpu 1.1");
    }
}
