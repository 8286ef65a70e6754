//! Every environment variable gpulane gives to a job or reads itself: one registry, so that docs and code agree.

/// The job's config as JSON text.
pub const CONFIG: &str = "GPULANE_CONFIG";
/// Path of the job's config as a JSON file.
pub const CONFIG_FILE: &str = "GPULANE_CONFIG_FILE";
/// The attempt's private output directory.
pub const OUT: &str = "GPULANE_OUT";
/// The run directory, absolute. Also the tag by which processes of a run are recognised.
pub const RUN: &str = "GPULANE_RUN";
/// The stage's name.
pub const STAGE: &str = "GPULANE_STAGE";
/// `STAGE/NAME`.
pub const JOB: &str = "GPULANE_JOB";
/// Which try this is, from 1.
pub const ATTEMPT: &str = "GPULANE_ATTEMPT";
/// The lane's number.
pub const LANE: &str = "GPULANE_LANE";
/// How many GPUs the job has.
pub const GPUS: &str = "GPULANE_GPUS";
/// With `foreach`: the published output of the job this one follows.
pub const INPUT: &str = "GPULANE_INPUT";

/// For a worker of a map: the map's directory, which holds the feeder's socket.
pub const FEED: &str = "GPULANE_FEED";
/// For a worker of a map: its attempt's own directory.
pub const ATTEMPT_DIR: &str = "GPULANE_ATTEMPT_DIR";
/// For a worker or loader of a map: seconds between SIGTERM and SIGKILL, so that it ends in less.
pub const GRACE: &str = "GPULANE_GRACE";
/// Where Python looks for packages; a worker of a map finds gpulane's own there first.
pub const PYTHONPATH: &str = "PYTHONPATH";

/// For a standby, until it has read it: the descriptor through which its job comes.
pub const STANDBY: &str = "GPULANE_STANDBY";

/// A file to append metrics to, one JSON object a line; each line is a sign of life.
pub const METRICS: &str = "GPULANE_METRICS";
/// A file to make when the work is finished: a process that then does not exit is ended and has succeeded.
pub const DONE: &str = "GPULANE_DONE";

/// Read by gpulane: where the leases of GPUs are kept, for all who are to share them.
pub const LEASE_DIR: &str = "GPULANE_LEASE_DIR";
/// Read by gpulane, for tests of power cuts: added to the kernel's boot id, so that the same boot passes for another.
pub const TEST_BOOT_ID: &str = "GPULANE_TEST_BOOT_ID";
/// Read by gpulane: how long NVML may take to answer, in milliseconds.
pub const NVML_DEADLINE_MS: &str = "GPULANE_NVML_DEADLINE_MS";

/// Which GPUs CUDA shows, by UUID.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// CUDA's numbering of GPUs.
pub const CUDA_DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
/// Python's output is never held back in a buffer.
pub const PYTHONUNBUFFERED: &str = "PYTHONUNBUFFERED";

/// Python shows where each thread is when a signal ends it.
pub const PYTHONFAULTHANDLER: &str = "PYTHONFAULTHANDLER";

/// What torch's allocator is told; torch from 2.10 on can be capped with it.
pub const PYTORCH_CUDA_ALLOC_CONF: &str = "PYTORCH_CUDA_ALLOC_CONF";
/// The same under its newer name, which torch reads where the older one is not set.
pub const PYTORCH_ALLOC_CONF: &str = "PYTORCH_ALLOC_CONF";
/// The most `CuPy`'s memory pool takes, in bytes.
pub const CUPY_GPU_MEMORY_LIMIT: &str = "CUPY_GPU_MEMORY_LIMIT";
/// Directories in which a run may be although other users may write to them, separated by colons.
pub const TRUST_DIR: &str = "GPULANE_TRUST_DIR";
/// The part of a GPU's memory that JAX takes at most.
pub const XLA_PYTHON_CLIENT_MEM_FRACTION: &str = "XLA_PYTHON_CLIENT_MEM_FRACTION";
/// The same under its newer name. JAX refuses to start if both are set.
pub const XLA_CLIENT_MEM_FRACTION: &str = "XLA_CLIENT_MEM_FRACTION";
/// Whether JAX takes most of a GPU's memory at its start.
pub const XLA_PYTHON_CLIENT_PREALLOCATE: &str = "XLA_PYTHON_CLIENT_PREALLOCATE";
/// Whether `TensorFlow` takes memory as it needs it, not all at its start.
pub const TF_FORCE_GPU_ALLOW_GROWTH: &str = "TF_FORCE_GPU_ALLOW_GROWTH";

/// Where the processes of an MPS daemon and their clients meet.
pub const CUDA_MPS_PIPE_DIRECTORY: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Where an MPS daemon writes its logs.
pub const CUDA_MPS_LOG_DIRECTORY: &str = "CUDA_MPS_LOG_DIRECTORY";

/// Libraries that start one thread per core unless told otherwise. Set to the job's share of the cores where
/// the user has not set them.
pub const THREAD_LIMITS: [&str; 6] = [
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TORCHINDUCTOR_COMPILE_THREADS",
];
