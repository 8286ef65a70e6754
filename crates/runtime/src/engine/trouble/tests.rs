//! Wordings as the libraries print them, in the company they come in.

use std::path::PathBuf;

use super::*;

const FAILED: ProcessExit = ProcessExit::Code(1);

struct Logs {
    folder: tempfile::TempDir,
}

impl Logs {
    fn new(stdout: &str, stderr: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stdout"), stdout).unwrap();
        std::fs::write(folder.path().join("stderr"), stderr).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn recognise(&self, exit: ProcessExit, under_mps: bool, oom_kills: u64) -> Option<Sign> {
        recognise(exit, &self.path("stdout"), &self.path("stderr"), under_mps, oom_kills)
    }
}

fn from_stderr(stderr: &str) -> Option<Sign> {
    Logs::new("", stderr).recognise(FAILED, false, 0)
}

fn traceback(last: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\n{last}\n"
    )
}

const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 4.00 GiB of which 2.35 GiB is free. Of the allocated memory 825.15 MiB is allocated by PyTorch, and 24.85 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

#[test]
fn out_of_gpu_memory_in_every_library_s_words() {
    for line in [
        TORCH,
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 MiB (GPU 0; 6.00 GiB total capacity; 5.25 GiB already allocated; 0 bytes free; 5.31 GiB reserved in total by PyTorch)",
        "RuntimeError: CUDA out of memory. Tried to allocate 9.80 GiB (GPU 0; 14.76 GiB total capacity)",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "torch.AcceleratorError: CUDA error: out of memory",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 200,000,000,000 bytes (allocated so far: 4,096 bytes).",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 25,600,000 bytes (allocated so far: 3,635,267,072 bytes, limit set to: 4,000,000,000 bytes).",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 20029400304 bytes.",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,512,512] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Mul]",
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /include/rmm/cuda_memory_resource.hpp:70: cudaErrorMemoryAllocation out of memory",
        "MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/include/rmm/pool_memory_resource.hpp:196: Maximum pool size exceeded",
        "torch.distributed.DistBackendError: NCCL error: unhandled cuda error, Last error: Cuda failure 2 'out of memory'",
    ] {
        let sign = from_stderr(&traceback(line));
        assert!(matches!(sign, Some(Sign::GpuOom(_))), "{line}: {sign:?}");
    }
    for line in [
        "failed to allocate 17.79G (19104890880 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "ERROR: Out of GPU memory trying to allocate 8.000 GiB",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 2048.00 MiB on device 0: cudaMalloc failed: out of memory",
    ] {
        let sign = from_stderr(&format!("starting\n{line}\nstopping\n"));
        assert!(matches!(sign, Some(Sign::GpuOom(_))), "{line}: {sign:?}");
    }
}

#[test]
fn out_of_host_memory_is_told_apart() {
    for text in [
        traceback("MemoryError"),
        traceback("[rank1]: MemoryError"),
        traceback("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 TiB for an array with shape (1000000, 1000000) and data type float64"),
        traceback("RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 132426121216 bytes. Error code 12 (Cannot allocate memory)"),
        traceback("OSError: [Errno 12] Cannot allocate memory"),
        traceback("ResourceExhaustedError: OOM when allocating tensor with shape[9,9] and type float on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"),
        "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n".to_owned(),
        "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n".to_owned(),
        "Error [enforce fail at CPUAllocator.cpp:67] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 264896512 bytes.\nIf you encounter CUDA out of memory, try to set --tile with a smaller number.\n".to_owned(),
    ] {
        let sign = from_stderr(&text);
        assert!(matches!(sign, Some(Sign::HostOom(_))), "{text}: {sign:?}");
    }
}

#[test]
fn a_kill_is_a_lack_of_memory_only_if_the_kernel_killed() {
    let logs = Logs::new("", &traceback(TORCH));
    for exit in [ProcessExit::Signal(9), ProcessExit::Code(137)] {
        assert!(matches!(logs.recognise(exit, false, 1), Some(Sign::HostOom(_))), "{exit}");
    }
    assert_eq!(logs.recognise(ProcessExit::Signal(9), false, 0), None);
    let worker = "RuntimeError: DataLoader worker (pid 4211) is killed by signal: Killed. ";
    let logs = Logs::new("", &traceback(worker));
    assert!(matches!(logs.recognise(FAILED, false, 2), Some(Sign::HostOom(_))));
    assert_eq!(logs.recognise(FAILED, false, 0), None);
}

#[test]
fn a_gpu_that_failed() {
    for line in [
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "Internal: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1204, GPU has fallen off the bus.",
    ] {
        let more = "CUDA kernel errors might be asynchronously reported at some other API call.";
        let sign = from_stderr(&format!("{}{more}\n", traceback(line)));
        assert_eq!(sign, Some(Sign::GpuLost(line.to_owned())), "{line}");
    }
    for line in ["CUDA error: all CUDA-capable devices are busy or unavailable", "No CUDA GPUs are available"]
    {
        assert_eq!(from_stderr(&traceback(&format!("RuntimeError: {line}"))), None, "{line}");
    }
}

#[test]
fn faults_are_another_s_only_under_mps() {
    for line in [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: unspecified launch failure",
        "RuntimeError: CUDA error: device-side assert triggered",
        "INTERNAL: CUDA error: : CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    ] {
        let logs = Logs::new("", &traceback(line));
        assert!(matches!(logs.recognise(FAILED, true, 0), Some(Sign::MpsFault(_))), "{line}");
        assert_eq!(logs.recognise(FAILED, false, 0), None, "{line}");
    }
    for line in [
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 805: MPS client failed to connect to the MPS control daemon or the MPS server",
        "Error 807: MPS server is not ready to accept new MPS client requests",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMpsRpcFailure",
    ] {
        assert!(matches!(from_stderr(line), Some(Sign::MpsFault(_))), "{line}");
    }
}

#[test]
fn success_has_no_sign() {
    let logs = Logs::new(TORCH, TORCH);
    assert_eq!(logs.recognise(ProcessExit::Code(0), true, 3), None);
}

#[test]
fn an_oom_that_was_caught_is_not_why_it_failed_later() {
    let caught = format!("batch size 64 is too large\n{}trying with 32\n", traceback(TORCH));
    assert_eq!(from_stderr(&format!("{caught}{}", traceback("ValueError: loss is nan"))), None);
    let silent = "step 1 loss 0.5\n".repeat(TRACEBACK_LINES);
    assert_eq!(from_stderr(&format!("{caught}{silent}")), None);
    let logs = Logs::new(TORCH, &traceback("KeyError: 'lr'"));
    assert_eq!(logs.recognise(FAILED, false, 0), None);
}

#[test]
fn one_that_another_exception_was_raised_over_is() {
    let text = format!(
        "{}\nDuring handling of the above exception, another exception occurred:\n\n{}",
        traceback(TORCH),
        traceback("RuntimeError: No executable batch size found, reached zero.")
    );
    assert!(matches!(from_stderr(&text), Some(Sign::GpuOom(_))));
}

#[test]
fn what_only_follows_does_not_hide_the_cause() {
    let oom = traceback(TORCH);
    for after in [
        traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        traceback(
            "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
        ),
        format!("Exception ignored in: <function Pool.__del__ at 0x7f>\n{}", traceback("OSError: closed")),
        format!("Exception in thread Thread-1:\n{}", traceback("EOFError")),
        traceback("[rank1]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1."),
    ] {
        let sign = from_stderr(&format!("{oom}{after}"));
        assert!(matches!(sign, Some(Sign::GpuOom(_))), "{after}: {sign:?}");
    }
}

#[test]
fn tables_after_the_exception_do_not_hide_it() {
    let table = "        Buffer 1:\n                Size: 6.00MiB\n                Shape: f32[4096,128,3]\n";
    let line = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.";
    let text = format!("{}BufferAssignment OOM Debugging.\n{}", traceback(line), table.repeat(20));
    assert_eq!(from_stderr(&text), Some(Sign::GpuOom(line.to_owned())));
}

#[test]
fn stdout_speaks_where_stderr_says_nothing() {
    let logs = Logs::new(&traceback(TORCH), "\u{1b}[33mwarning\u{1b}[0m: slow\n");
    assert!(matches!(logs.recognise(FAILED, false, 0), Some(Sign::GpuOom(_))));
    let nowhere = Path::new("/nowhere");
    assert_eq!(recognise(FAILED, nowhere, nowhere, false, 0), None);
}

#[test]
fn the_line_is_clean_and_short() {
    let colourful = "\u{1b}[31;1mRuntimeError\u{1b}[0m: CUDA error: out of memory\u{7}";
    let progress = format!(" 10%|#         |\r 20%|##        |\r{colourful}\r\n");
    assert_eq!(from_stderr(&progress), Some(Sign::GpuOom("RuntimeError: CUDA error: out of memory".into())));
    let Some(Sign::GpuOom(line)) = from_stderr(&traceback(TORCH)) else { panic!("not recognised") };
    assert_eq!(line.chars().count(), LONGEST);
    assert!(line.starts_with("torch.OutOfMemoryError: CUDA out of memory. Tried"), "{line}");
}

#[test]
fn only_the_end_of_a_long_log_is_read() {
    let filler = "é".repeat(usize::try_from(TAIL).unwrap());
    assert_eq!(from_stderr(&format!("{TORCH}\n{filler}\n")), None);
    assert!(from_stderr(&format!("{filler}\n{TORCH}\n")).is_some());
}

#[test]
fn a_full_disk_in_the_words_of_programs() {
    for line in [
        "OSError: [Errno 28] No space left on device: '/data/model.pt'",
        "RuntimeError: unable to write to file </torch_7_1>: No space left on device (28)",
        "dd: error writing 'model': No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
        "Error: ENOSPC: no space left on device, write",
    ] {
        for text in [traceback(line), format!("{line}\n")] {
            assert!(matches!(from_stderr(&text), Some(Sign::DiskFull(words)) if words == line), "{text}");
        }
    }
    let recovered = format!("OSError: [Errno 28] No space left on device\n{}", traceback("ValueError: 3"));
    assert_eq!(from_stderr(&recovered), None, "the last traceback tells");
    for (before, raised) in [("", ""), ("[rank0]: ", "[rank0]: "), ("  | ", "  | ")] {
        let quoting = format!(
            "{before}Traceback (most recent call last):\n{before}  File \"a.py\", line 3, in save\n\
             {before}    if error.errno != errno.ENOSPC: raise\n{raised}PermissionError: [Errno 13] Permission denied: 'x'\n"
        );
        assert_eq!(from_stderr(&quoting), None, "a line of the program is not what it failed for: {quoting}");
        let telling = quoting.replace("PermissionError: [Errno 13]", "OSError: [Errno 28]");
        assert!(matches!(from_stderr(&telling), Some(Sign::DiskFull(_))), "{telling}");
    }
    let caused = "Error: cannot save\n\nCaused by:\n    No space left on device (os error 28)\n";
    assert!(matches!(from_stderr(caused), Some(Sign::DiskFull(_))));
}
