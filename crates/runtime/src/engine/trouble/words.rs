//! The wordings: which line means what. Each is one that a library is known to print; `tests.rs` has them in full.

use super::Sign;

/// How a sign is made from its line.
type Meaning = fn(String) -> Sign;

/// Out of GPU memory, whatever else the line says.
const GPU_OOM: [&str; 17] = [
    "CUDA out of memory",
    "torch.OutOfMemoryError",
    "torch.cuda.OutOfMemoryError",
    "c10::OutOfMemoryError",
    "cupy.cuda.memory.OutOfMemoryError",
    "cudaErrorMemoryAllocation",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUSPARSE_STATUS_ALLOC_FAILED",
    "CUFFT_ALLOC_FAILED",
    "Out of GPU memory",
    "RESOURCE_EXHAUSTED: Out of memory",
    "ResourceExhaustedError",
    "OOM when allocating tensor",
];

const HOST_OOM: [&str; 4] =
    ["DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory", "java.lang.OutOfMemoryError"];

/// A disk is full, or what the user may have of it. Linux says so of other tables, too: semaphores, inotify watches.
const DISK_FULL: [&str; 6] =
    ["No space left on device", "Disk quota exceeded", "[Errno 28]", "[Errno 122]", "ENOSPC", "EDQUOT"];

/// Hardware. Not here: a device that is unavailable or not there, which a mode or a setting can cause as well.
const GPU_LOST: [&str; 9] = [
    "GPU is lost",
    "fallen off the bus",
    "uncorrectable ECC error",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "cudaErrorECCUncorrectable",
    "uncorrectable NVLink error",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "cudaErrorNvlinkUncorrectable",
    "NVRM: Xid",
];

const MPS: [&str; 8] = [
    "cudaErrorMps",
    "CUDA_ERROR_MPS_",
    "MPS client failed to connect",
    "MPS server is not ready",
    "between the MPS server and the MPS client failed",
    "MPS client has been terminated",
    "required to create MPS client have been exhausted",
    "required to support device connections have been exhausted",
];

/// Faults after which a process cannot go on. Under MPS all that share the GPU get them, whoever's they are.
const STICKY: [&str; 13] = [
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "unspecified launch failure",
    "device-side assert triggered",
    "misaligned address",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "cudaErrorIllegalAddress",
    "cudaErrorLaunchFailure",
    "cudaErrorAssert",
];

/// A process of the job was killed, though not its main one. Alone this says nothing.
const CHILD_KILLED: [&str; 3] = ["is killed by signal: Killed", "(SIGKILL)", "SIGKILL received by PID"];

/// What a line means, if it means anything. `kernel_killed`: the kernel killed for want of memory meanwhile.
pub(super) fn meaning(line: &str, under_mps: bool, kernel_killed: bool) -> Option<Meaning> {
    let says = |words: &[&str]| words.iter().any(|word| line.contains(word));
    if says(&GPU_LOST) {
        return Some(Sign::GpuLost);
    }
    if says(&MPS) || under_mps && says(&STICKY) {
        return Some(Sign::MpsFault);
    }
    if !is_advice(line) {
        // TensorFlow uses the same words for both, and says which.
        let on_the_host = says(&["device:CPU", "allocator cpu"]);
        if !on_the_host && (says(&GPU_OOM) || lacks_device_memory(line) || raises(line, "OutOfMemoryError")) {
            return Some(Sign::GpuOom);
        }
        if says(&HOST_OOM) || on_the_host && says(&GPU_OOM) || raises(line, "MemoryError") {
            return Some(Sign::HostOom);
        }
        if says(&DISK_FULL) {
            return Some(Sign::DiskFull);
        }
    }
    let child = says(&CHILD_KILLED) || line.trim_end().ends_with("Killed");
    (kernel_killed && child).then_some(Sign::HostOom as Meaning)
}

/// `CUDA error: out of memory`, `Cuda failure 2 'out of memory'` and the many more ways to say it.
fn lacks_device_memory(line: &str) -> bool {
    let line = line.to_ascii_lowercase().replace('_', " ");
    let device = ["cuda", "gpu", "cudnn", "cublas", "rmm failure"];
    line.contains("out of memory") && device.iter().any(|word| line.contains(word))
}

/// "If you encounter CUDA out of memory, try …"
fn is_advice(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    line.starts_with("if you ") || line.starts_with("hint:")
}

/// Whether the line is the last of a traceback, of an exception whose name ends like this: `MemoryError`,
/// `numpy._core._exceptions._ArrayMemoryError: Unable to allocate …`, `[rank0]: MemoryError`.
fn raises(line: &str, exception: &str) -> bool {
    let line = line.trim();
    let line =
        if line.starts_with('[') { line.split_once("]: ").map_or(line, |(_, rest)| rest) } else { line };
    let name = line.split(':').next().unwrap_or(line);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    is_name && name.ends_with(exception) && !name.starts_with("java.")
}

/// Whether a line of a traceback is what Python quotes, a place or a line of the program, and not what was raised:
/// `[rank0]:     if error.errno != errno.ENOSPC:`. Python indents it, and draws a line before all of an exception group.
pub(super) fn is_quoted(line: &str) -> bool {
    let line = match line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        Some((_, rest)) => rest,
        None => line,
    };
    let line = line.trim_start().strip_prefix("| ").unwrap_or(line);
    line.starts_with(' ')
}

/// Where tracebacks begin. Those that Python joins to the one before are not counted.
pub(super) fn traceback_starts(lines: &[String]) -> Vec<usize> {
    let begins = |line: &str| line.contains("Traceback (most recent call last)");
    let joined = |line: &str| {
        line.contains("During handling of the above exception")
            || line.contains("The above exception was the direct cause")
    };
    let start =
        |at: &usize| begins(&lines[*at]) && !at.checked_sub(1).is_some_and(|above| joined(&lines[above]));
    (0..lines.len()).filter(start).collect()
}

/// Whether a traceback, with the line above it, only follows from another failure: it must not hide that one.
pub(super) fn is_aftermath(traceback: &[String]) -> bool {
    const INTRODUCED: [&str; 2] = ["Exception ignored in", "Exception in thread"];
    const FOLLOWS: [&str; 9] = [
        "ChildFailedError",
        "ProcessRaisedException",
        "ProcessExitedException",
        "CalledProcessError",
        "NCCL",
        "Connection reset by peer",
        "Connection closed by peer",
        "Broken pipe",
        "BrokenPipeError",
    ];
    let says = |line: &String, words: &[&str]| words.iter().any(|word| line.contains(word));
    let introduced = traceback.first().is_some_and(|line| says(line, &INTRODUCED));
    introduced || traceback.iter().skip(1).any(|line| says(line, &FOLLOWS))
}
