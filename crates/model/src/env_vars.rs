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

/// Which GPUs CUDA shows, by UUID.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// CUDA's numbering of GPUs.
pub const CUDA_DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
/// Python's output is never held back in a buffer.
pub const PYTHONUNBUFFERED: &str = "PYTHONUNBUFFERED";

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
