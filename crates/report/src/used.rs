//! Which lanes are worth a line of the frame: those this engine has used. Where GPUs are shared by memory there are many
//! more places than jobs, so only busy ones count there, and a GPU with none has one line for all its places.

use std::collections::BTreeMap;

use gpulane_model::{GpuIndex, LaneId, Machine, Millis};

/// A place that was just left keeps its line this long: the next job often takes it, and the frame stays still.
const LINGER: Millis = Millis::seconds(2);

/// A line of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// This lane, busy or not.
    Lane(LaneId),
    /// A shared GPU on which nothing runs.
    IdleGpu(GpuIndex),
}

/// The lanes used so far, each with the time since when it is free; `None`: it is busy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(BTreeMap<LaneId, Option<Millis>>);

impl Used {
    pub(crate) fn on_start(&mut self, lane: LaneId) {
        self.0.insert(lane, None);
    }

    pub(crate) fn on_end(&mut self, lane: LaneId, at: Millis) {
        self.0.insert(lane, Some(at));
    }

    /// A new engine, or none.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The lines, in the order of lanes.
    pub(crate) fn shown(&self, machine: Option<&Machine>, now: Millis) -> Vec<Shown> {
        let Some(machine) = machine.filter(|machine| machine.packing) else {
            return self.0.keys().map(|lane| Shown::Lane(*lane)).collect();
        };
        let mut shown = Vec::new();
        let mut gpu_before = None;
        let mut lanes = 0;
        for (lane, free) in &self.0 {
            let gpu = machine.gpu_of(*lane);
            if gpu != gpu_before {
                shown.extend(idle(gpu_before, lanes));
                (gpu_before, lanes) = (gpu, 0);
            }
            if free.is_none_or(|at| now.since(at) < LINGER) {
                shown.push(Shown::Lane(*lane));
                lanes += 1;
            }
        }
        shown.extend(idle(gpu_before, lanes));
        shown
    }
}

/// The line of a GPU none of whose places has one.
fn idle(gpu: Option<GpuIndex>, lanes: u32) -> Option<Shown> {
    gpu.filter(|_| lanes == 0).map(Shown::IdleGpu)
}

#[cfg(test)]
mod tests {
    use gpulane_model::{Bytes, Gpu, GpuKind};

    use super::*;

    fn machine(packing: bool) -> Machine {
        let gpu = |at| Gpu {
            uuid: format!("GPU-{at}"),
            name: "simulated".into(),
            memory: Bytes(1 << 30),
            reserved: Bytes(0),
        };
        let gpus = (0..3).map(gpu).collect();
        Machine { kind: GpuKind::Sim, gpus, lanes_per_gpu: 48, packing, cores: 4, cpu_lanes: 0 }
    }

    #[test]
    fn idle_places_of_a_shared_gpu_go_and_the_gpu_keeps_one_line() {
        let mut used = Used::default();
        for lane in [0, 1, 48, 49, 144] {
            used.on_start(LaneId(lane));
        }
        let lanes = |lanes: &[u32]| lanes.iter().map(|lane| Shown::Lane(LaneId(*lane))).collect::<Vec<_>>();
        let packed = machine(true);
        assert_eq!(used.shown(Some(&packed), Millis(0)), lanes(&[0, 1, 48, 49, 144]));
        used.on_end(LaneId(1), Millis(1000));
        used.on_end(LaneId(48), Millis(1000));
        used.on_end(LaneId(49), Millis(1000));
        used.on_end(LaneId(144), Millis(1000));
        assert_eq!(used.shown(Some(&packed), Millis(2000)), lanes(&[0, 1, 48, 49, 144]), "just left");
        let later = used.shown(Some(&packed), Millis(3000));
        assert_eq!(later, [Shown::Lane(LaneId(0)), Shown::IdleGpu(GpuIndex(1))], "GPU 2 was never used");
        let apart = used.shown(Some(&machine(false)), Millis(9000));
        assert_eq!(apart, lanes(&[0, 1, 48, 49, 144]), "lanes of one's own stay");
    }
}
