//! The vocabulary every other room speaks: ids, the resolved plan, public events, the state of a run folded
//! from them, exit codes, units. No I/O, no clock, no threads.

mod config;
mod decode;
mod event;
mod exit;
mod failure;
mod ids;
mod known;
mod machine;
mod map;
mod map_state;
mod members;
mod names;
mod plan;
mod run_end;
mod settings;
mod shell;
mod stable_hash;
mod state;
mod units;
mod workers;

pub mod env_vars;
pub mod template;

pub use config::Config;
pub use decode::{Channels, Decode, DecodeError, Filter, Fit, Image, Size};
pub use event::{Event, Record, Stuck};
pub use exit::{ExitCode, ProcessExit};
pub use failure::{FailReason, Failure, FullDisk};
pub use ids::{Attempt, GpuIndex, JobId, LaneId, StageId};
pub use known::Known;
pub use machine::{Gpu, GpuKind, MOST_PER_GPU, Machine};
pub use map::{
    DamagePolicy, FeederWord, Format, MAP_COMPLETE, MapLive, MapStage, NanPolicy, PACKAGE_DIR, START_SCRIPT,
    Tolerance,
};
pub use map_state::MapState;
pub use members::Members;
pub use names::{
    ENGINE, FEEDER, GUARDIAN, LONGEST_NAME, is_allowed_in_job, is_full_job_name, is_job_name, is_plain,
    is_stage_name,
};
pub use plan::{Job, PLAN_FORMAT, Plan, RunSettings, Stage};
pub use settings::{Cpus, Foreign, Hang, HangAction, Memory, Standbys, StartGate};
pub use shell::shell_word;
pub use stable_hash::stable_hash;
pub use state::{Counts, JobState, JobStatus, Measured, RunState, Suspicion};
pub use units::{Bytes, Millis, UnitError};
pub use workers::{worker_name, workers_for};
