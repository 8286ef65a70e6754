//! How many jobs a GPU holds at once when they share it by memory. Arithmetic only; who runs where is the core's.

use gpulane_model::{Bytes, GpuKind, MOST_PER_GPU, Machine, Memory, Stage};

/// Jobs that reserve this much and fit beside each other into so much memory.
pub(crate) fn places(usable: Bytes, reserve: Bytes) -> u32 {
    let count = usable.0 / reserve.0.max(1);
    u32::try_from(count).unwrap_or(u32::MAX).min(MOST_PER_GPU)
}

/// What a job of this stage reserves on each of its GPUs; `None`: the whole GPU. `measured`: what was found out.
pub(crate) fn reserve_of(stage: &Stage, measured: Option<Bytes>) -> Option<Bytes> {
    match stage.memory {
        Memory::Exclusive => None,
        Memory::Auto => measured,
        Memory::Reserve(bytes) => Some(bytes),
    }
}

/// How many jobs of this stage can run at once, whatever others do.
pub(crate) fn at_once(stage: &Stage, machine: &Machine, measured: Option<Bytes>) -> u32 {
    let reserve = reserve_of(stage, measured).filter(|_| machine.packing);
    let lanes = match (machine.kind, stage.gpus, reserve) {
        (GpuKind::None, gpus, _) => machine.main_lanes() / gpus.max(1),
        (_, 0, _) => machine.cores,
        (_, gpus, Some(reserve)) => {
            let places = machine.gpus.iter().map(|gpu| places(gpu.usable(), reserve));
            places.fold(0, u32::saturating_add) / gpus
        }
        (_, gpus, None) if machine.packing => u32::try_from(machine.gpus.len()).unwrap_or(u32::MAX) / gpus,
        (_, gpus, None) => machine.main_lanes() / gpus,
    };
    let limit = if stage.parallel == 0 { u32::MAX } else { stage.parallel };
    lanes.min(limit).max(1)
}

#[cfg(test)]
mod tests {
    use gpulane_model::Gpu;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn packed(sizes: &[u64]) -> Machine {
        let gpu = |size: &u64| Gpu {
            uuid: size.to_string(),
            name: "simulated".into(),
            memory: Bytes(size * GIB),
            reserved: Bytes(0),
        };
        Machine {
            kind: GpuKind::Sim,
            gpus: sizes.iter().map(gpu).collect(),
            lanes_per_gpu: MOST_PER_GPU,
            packing: true,
            cores: 8,
            cpu_lanes: 0,
        }
    }

    #[test]
    fn memory_decides_how_many_share_a_gpu() {
        assert_eq!(places(Bytes(22 * GIB), Bytes(5 * GIB)), 4);
        assert_eq!(places(Bytes(22 * GIB), Bytes(23 * GIB)), 0);
        assert_eq!(places(Bytes(22 * GIB), Bytes(1)), MOST_PER_GPU, "no more than have a place");
        let stage = |memory| Stage { memory, ..Stage::named("train") };
        let machine = packed(&[24, 80]);
        let at_once = |stage: &Stage, measured| at_once(stage, &machine, measured);
        assert_eq!(at_once(&stage(Memory::Reserve(Bytes(6 * GIB))), None), 4 + 13);
        assert_eq!(at_once(&stage(Memory::Exclusive), Some(Bytes(GIB))), 2);
        assert_eq!(at_once(&stage(Memory::Auto), None), 2, "until it is measured");
        assert_eq!(at_once(&stage(Memory::Auto), Some(Bytes(8 * GIB))), 3 + 10);
        assert_eq!(at_once(&Stage { parallel: 3, ..stage(Memory::Auto) }, Some(Bytes(GIB))), 3);
    }
}
