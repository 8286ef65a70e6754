//! The part of the command line that is about GPUs: looking at them, planning their memory, sharing them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gpulane_model::{Bytes, Foreign, Millis};

/// How a run gets along with others on the same machine.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "On a shared machine")]
pub(crate) struct Sharing {
    /// GPUs that other people use: avoid them [default], wait until they are free, ignore that
    #[arg(long, value_enum)]
    pub(crate) foreign: Option<ForeignUse>,
    /// Give up if no GPU comes free in this time, such as 30m [default: as long as it takes]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Millis>,
}

/// `--foreign`, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForeignUse {
    Avoid,
    Wait,
    Ignore,
}

impl From<ForeignUse> for Foreign {
    fn from(typed: ForeignUse) -> Self {
        match typed {
            ForeignUse::Avoid => Self::Avoid,
            ForeignUse::Wait => Self::Wait,
            ForeignUse::Ignore => Self::Ignore,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Gpus {
    /// Which GPUs: all, 0,2, GPU-uuid,…, sim:8x24GiB
    #[arg(long = "gpus", value_name = "GPUS", default_value = "all")]
    pub(crate) which: String,
    /// As JSON: one array
    #[arg(long)]
    pub(crate) json: bool,
    /// Look again every second, until Ctrl-C
    #[arg(long, short)]
    pub(crate) watch: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fit {
    /// The plan; or leave it out and give --model-memory
    #[arg(value_name = "PLAN.toml")]
    pub(crate) plan: Option<PathBuf>,
    /// How many processes that take this much fit on a GPU
    #[arg(long, value_name = "SIZE", conflicts_with = "plan")]
    pub(crate) model_memory: Option<Bytes>,
    /// On a GPU of this size, instead of those here
    #[arg(long, value_name = "SIZE", requires = "model_memory", conflicts_with = "gpus")]
    pub(crate) gpu_memory: Option<Bytes>,
    /// Memory left free on each GPU
    #[arg(long, value_name = "SIZE", default_value = "0B", hide_default_value = true)]
    pub(crate) headroom: Bytes,
    /// Which GPUs: all, 0,2, GPU-uuid,…, none, sim:8x24GiB
    #[arg(long, default_value = "all")]
    pub(crate) gpus: String,
    /// Jobs at once on each GPU; with `--gpus none`, in all
    #[arg(long, value_name = "N", conflicts_with = "model_memory")]
    pub(crate) lanes: Option<u32>,
    /// How long a job takes, of every stage or of one: 20m, train=20m
    #[arg(long, value_name = "[STAGE=]TIME", conflicts_with = "model_memory")]
    pub(crate) job_time: Vec<String>,
    /// As JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}
