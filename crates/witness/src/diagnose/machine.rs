//! Causes that lie with the machine or with what was done to the processes from outside.

use super::doing::Doing;
use super::scene::{Finding, Scene};
use crate::ProcessEvidence;

/// A signal, a debugger or a terminal holds it.
pub(crate) fn stopped(scene: &Scene) -> Option<Finding> {
    let held = |process: &&ProcessEvidence| matches!(process.state, 'T' | 't');
    let process = scene.evidence.processes.iter().find(held)?;
    Finding::new(
        format!("process {} is stopped by a signal or a debugger, not frozen", process.pid),
        format!("let it go on with `kill -CONT {}`, or leave the debugger", process.pid),
    )
}

/// State D.
pub(crate) fn uninterruptible(scene: &Scene) -> Option<Finding> {
    let step = scene.here_doing(&[Doing::Uninterruptible])?;
    let on = step.thread.wait.as_ref().and_then(|wait| wait.on.as_deref());
    if on.is_some_and(|on| on.starts_with("/dev/nvidia")) {
        return Finding::new(
            "it waits inside the GPU driver, where not even KILL reaches it",
            "look for `Xid` in `dmesg`; reset the GPU with `nvidia-smi --gpu-reset -i N` or restart the \
             machine",
        );
    }
    Finding::new(
        "it waits for a disk, network file system or device that does not answer; not even KILL reaches \
         it there",
        "look at `dmesg` and at the mounts it uses (`df` hangs on a dead one); it ends when the device \
         answers or is unmounted",
    )
}

/// No descriptor is left to open anything.
pub(crate) fn descriptors(scene: &Scene) -> Option<Finding> {
    // Some are needed for an instant only, so the last few count as used.
    let full = |process: &&ProcessEvidence| {
        process.descriptors.limit.is_some_and(|limit| u64::from(process.descriptors.open) + 4 >= limit)
    };
    let process = scene.evidence.processes.iter().find(full)?;
    let (open, limit) = (process.descriptors.open, process.descriptors.limit.unwrap_or(0));
    Finding::new(
        format!("process {} has {open} of {limit} file descriptors open", process.pid),
        "raise the limit with `ulimit -n 65536`; for a DataLoader call \
         `torch.multiprocessing.set_sharing_strategy(\"file_system\")`",
    )
}

/// The main process is gone and what it started waits for it.
pub(crate) fn orphaned(scene: &Scene) -> Option<Finding> {
    let here = scene.here()?;
    let main_gone = scene.around.main != 0 && scene.evidence.process(scene.around.main).is_none();
    let adopted =
        here.process.parent == 1 && here.process.descriptors.gpus > 0 && waits_for_parent(here.doing);
    if !main_gone && !adopted {
        return None;
    }
    let pids: Vec<String> = scene.evidence.processes.iter().map(|process| process.pid.to_string()).collect();
    Finding::new(
        "the process that started it is gone; nobody will read what it sends or give it work",
        format!(
            "end what is left with `kill {}`; daemonic workers (`daemon=True`) end with their parent",
            pids.join(" ")
        ),
    )
}

const fn waits_for_parent(doing: Doing) -> bool {
    matches!(
        doing,
        Doing::PipeRead
            | Doing::PipeWrite
            | Doing::QueueGet
            | Doing::QueuePut
            | Doing::Idle
            | Doing::SharedLock
    )
}

/// A kernel of NCCL spins: all load, no power.
pub(crate) fn collective(scene: &Scene) -> Option<Finding> {
    let spinning = scene.around.gpu.is_some_and(|gpu| {
        gpu.load >= 90 && gpu.power > 0.0 && gpu.power_limit > 0.0 && gpu.power < 0.4 * gpu.power_limit
    });
    let process = scene.here()?.process;
    let in_frames = scene.trail.iter().flat_map(|step| &step.thread.frames).any(|frame| {
        frame.file.contains("/torch/distributed/")
            || frame.file.contains("/horovod/")
            || frame.function.contains("all_reduce")
    });
    let has_threads = process.threads.iter().any(|thread| thread.name.to_ascii_lowercase().contains("nccl"));
    if !(in_frames || spinning && has_threads) {
        return None;
    }
    let seen = if spinning { " (the GPU shows full load at little power: it only spins)" } else { "" };
    Finding::new(
        format!("a collective (NCCL) waits for a rank that does not take part{seen}"),
        "all ranks must make the same calls in the same order; find the one that does not with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, \
         and set `init_process_group(timeout=timedelta(minutes=10))`",
    )
}
