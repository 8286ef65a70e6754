//! Who holds GPU memory: nobody that can be seen, or other people.

use gpulane_files::user_name;
use gpulane_gpu::{GpuReading, ProcessReading};
use gpulane_model::Bytes;
use rustix::process::geteuid;

use super::sight::Sight;
use crate::{Finding, proc};

const TOPIC: &str = "GPU memory";
/// Memory that the driver keeps for itself beside a process is no ghost's.
const SLACK: u64 = 256 << 20;

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    let cut: Vec<&str> = sight.readings().iter().filter_map(|gpu| gpu.slice_of.as_deref()).collect();
    // What is held on slices is counted there.
    let whole = sight.readings().iter().filter(|gpu| !cut.contains(&gpu.uuid.as_str()));
    let mut found: Vec<Finding> = whole.flat_map(|gpu| ghost(gpu).into_iter().chain(foreign(gpu))).collect();
    if found.is_empty() && !sight.readings().is_empty() {
        found.push(Finding::fine(TOPIC, "whoever holds GPU memory is known, and it is you or nobody"));
    }
    found
}

/// Memory that no visible process holds. Where the driver does not say what a process holds, nothing can be said.
fn ghost(gpu: &GpuReading) -> Option<Finding> {
    let held = gpu.processes.iter().map(|process| process.memory.map(|memory| memory.0));
    let held = held.sum::<Option<u64>>()?;
    let left = gpu.memory.used.0.saturating_sub(held);
    (left > SLACK.max(held / 50)).then(|| {
        Finding::bad(TOPIC, format!("GPU {}: {} held by nobody who can be seen", gpu.index, Bytes(left)))
            .because("a process that is stuck in the driver, or one in another container, keeps it; jobs run out of memory early")
            .then("sudo fuser -v /dev/nvidia*    # who has a GPU open, containers included")
            .then("gpulane doctor --fix    # if it is what a dead run left")
            .then(format!("sudo nvidia-smi -i {} -r    # the last resort; nobody may use it meanwhile", gpu.index))
    })
}

/// Processes that belong to another user, or to an id that means nothing here.
fn foreign(gpu: &GpuReading) -> Option<Finding> {
    let me = geteuid().as_raw();
    let others: Vec<(&ProcessReading, Option<u32>)> = gpu
        .processes
        .iter()
        .filter(|process| process.compute)
        .map(|process| (process, proc::owner(process.pid)))
        .filter(|(_, owner)| *owner != Some(me))
        .collect();
    let (first, owner) = others.first()?;
    let who = match owner {
        Some(owner) => format!("{}'s `{}` (pid {})", user_name(*owner), proc::command(first.pid), first.pid),
        None => format!("pid {} of another container", first.pid),
    };
    let more = match others.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let held: u64 = others.iter().filter_map(|(process, _)| process.memory).map(|memory| memory.0).sum();
    Some(
        Finding::warning(TOPIC, format!("GPU {}: {} held by {who}{more}", gpu.index, Bytes(held)))
            .because("runs leave this GPU alone while that lasts")
            .then("gpulane run --foreign wait plan.toml    # start when it is free")
            .then("gpulane run --foreign ignore plan.toml    # use what is free of it"),
    )
}

#[cfg(test)]
mod tests {
    use gpulane_gpu::MemoryReading;

    use super::*;

    fn gpu(used: u64, held: Option<u64>) -> GpuReading {
        let process = ProcessReading { pid: u32::MAX, memory: held.map(Bytes), compute: true };
        let memory = MemoryReading { used: Bytes(used), ..MemoryReading::default() };
        GpuReading { memory, processes: vec![process], ..GpuReading::default() }
    }

    #[test]
    fn memory_without_an_owner_is_a_ghosts() {
        assert!(ghost(&gpu(4 << 30, Some(1 << 30))).is_some());
        assert_eq!(ghost(&gpu(1 << 30, Some(1 << 30))), None);
        assert_eq!(ghost(&gpu(4 << 30, None)), None, "what the driver does not tell is no ghost");
    }

    #[test]
    fn an_id_that_means_nothing_here_is_foreign() {
        let found = foreign(&gpu(1 << 30, Some(1 << 30))).unwrap();
        assert!(found.seen.contains("1 GiB held by pid"), "{found:?}");
    }
}
