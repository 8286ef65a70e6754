//! The part of the command line that is about maps.

use std::path::PathBuf;

use clap::Args;
use gpulane_model::Bytes;

use super::{Sharing, Show};

#[derive(Debug, Clone, Args)]
pub(crate) struct Map {
    /// The model: a class or function in a Python file
    #[arg(value_name = "MODEL.py:CLASS")]
    pub(crate) model: String,
    /// Files, directories, globs, @LIST, TABLE.csv:COLUMN (also .jsonl, .parquet), tar shards; @- reads a list from stdin
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<String>,
    /// Where the results go: a new directory, which is also the run's own
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Which GPUs: all, 0,2, GPU-uuid,…, none, sim:8x24GiB
    #[arg(long, default_value = "all")]
    pub(crate) gpus: String,
    /// Workers at once on each GPU; with `--gpus none`, in all [default there: half the cores]
    #[arg(long, value_name = "N")]
    pub(crate) lanes: Option<u32>,
    /// Memory left free on each GPU
    #[arg(long, value_name = "SIZE", default_value = "0B", hide_default_value = true)]
    pub(crate) headroom: Bytes,
    /// Show how many items and workers there would be; starts nothing
    #[arg(long = "dry-run")]
    pub(crate) only_show: bool,
    #[command(flatten)]
    pub(crate) settings: MapSettings,
    #[command(flatten)]
    pub(crate) show: Show,
    #[command(flatten)]
    pub(crate) sharing: Sharing,
}

/// Settings of the map and of its workers.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "The map")]
pub(crate) struct MapSettings {
    /// How items are decoded: rgb:224x224, rgba, gray, npy, text, bytes, …; behind a size also crop, pad, short=N
    /// and a filter; srgb applies colour profiles [default: as the model says, else bytes]
    #[arg(long, value_name = "DECODE")]
    pub(crate) decode: Option<String>,
    /// Other members of its sample that an item of a tar shard brings along, by their extensions: json,txt; all: '*'
    /// [default: as the model says, else none]
    #[arg(long, value_name = "EXTENSIONS")]
    pub(crate) members: Option<String>,
    /// Items per batch [default: auto]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<String>,
    /// What results are written as: parquet, jsonl [default: parquet]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Threads that read and decode [default: auto]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<String>,
    /// Workers in all [default: auto]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<String>,
    /// Stop when more items than this fail: 100, 5% [default: any number may]
    #[arg(long, value_name = "N|P%")]
    pub(crate) max_failures: Option<String>,
    /// Results with NaN: keep them, or fail the item [default: keep]
    #[arg(long, value_name = "POLICY")]
    pub(crate) nan: Option<String>,
    /// Pictures whose data is corrupt or missing in part: fail the item, or warn, use what was decoded and count it [default: fail]
    #[arg(long, value_name = "POLICY")]
    pub(crate) damaged: Option<String>,
    /// Memory for decoded items [default: auto]
    #[arg(long, value_name = "SIZE")]
    pub(crate) ring: Option<String>,
    /// How long the model may take for an item, times the items of a batch: 30s, off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(crate) item_timeout: Option<String>,
    /// Start nothing unless every input can be listed and read to its end [default: what cannot is a failure, the rest goes on]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) strict: Option<String>,
    /// The Python that runs the model [default: that of the active environment, else python3]
    #[arg(long, value_name = "PYTHON")]
    pub(crate) python: Option<String>,
    /// An argument of the model, by name: --set threshold=0.5; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// GPU memory each worker takes: 6GiB, auto, exclusive
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Threads each worker is given
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Share GPUs through MPS: true
    #[arg(long, value_name = "BOOL")]
    pub(crate) mps: Option<String>,
    /// How often in a row a worker may fail before its model is loaded [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<String>,
    /// A worker without a sign of life for so long is frozen and replaced: 10m, off
    #[arg(long, value_name = "TIME")]
    pub(crate) hang: Option<String>,
    /// End a worker also without proof that it is frozen, once it has waited for so long: 1h, off [default: off]
    #[arg(long, value_name = "TIME")]
    pub(crate) hang_outside: Option<String>,
    /// Hold back starts while the CPUs are saturated: auto, off, or how many start at once
    #[arg(long, value_name = "N")]
    pub(crate) start_gate: Option<String>,
}

/// A flag, the key it stands for, and its value.
type Given<'a> = (&'static str, &'static str, &'a str);

impl MapSettings {
    /// What was given of the map's own keys.
    pub(crate) fn of_map(&self) -> Vec<Given<'_>> {
        given([
            ("--decode", "decode", &self.decode),
            ("--members", "members", &self.members),
            ("--batch", "batch", &self.batch),
            ("--format", "format", &self.format),
            ("--threads", "threads", &self.threads),
            ("--workers", "workers", &self.workers),
            ("--max-failures", "max_failures", &self.max_failures),
            ("--nan", "nan", &self.nan),
            ("--damaged", "damaged", &self.damaged),
            ("--ring", "ring", &self.ring),
            ("--item-timeout", "item_timeout", &self.item_timeout),
            ("--strict", "strict", &self.strict),
            ("--python", "python", &self.python),
        ])
    }

    /// What was given of its stage's keys.
    pub(crate) fn of_stage(&self) -> Vec<Given<'_>> {
        given([
            ("--memory", "memory", &self.memory),
            ("--cpus", "cpus", &self.cpus),
            ("--mps", "mps", &self.mps),
            ("--retries", "retries", &self.retries),
            ("--hang", "hang", &self.hang),
            ("--hang-outside", gpulane_plan::HANG_OUTSIDE, &self.hang_outside),
            ("--start-gate", "start_gate", &self.start_gate),
        ])
    }
}

/// Settings of a map that may change when it is resumed, because results do not depend on them; and, hidden, those that may not.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings of a map, from now on")]
pub(crate) struct MapChanges {
    /// Items per batch: N, auto
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<String>,
    /// Threads that read and decode: N, auto
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<String>,
    /// Workers in all: N, auto
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<String>,
    /// Stop when more items than this fail: 100, 5%
    #[arg(long, value_name = "N|P%")]
    pub(crate) max_failures: Option<String>,
    /// Memory for decoded items
    #[arg(long, value_name = "SIZE")]
    pub(crate) ring: Option<String>,
    /// How long the model may take for an item, times the items of a batch: 30s, off
    #[arg(long, value_name = "TIME")]
    pub(crate) item_timeout: Option<String>,
    /// The Python that runs the model
    #[arg(long, value_name = "PYTHON")]
    pub(crate) python: Option<String>,
    #[arg(long, hide = true)]
    decode: Option<String>,
    #[arg(long, hide = true)]
    members: Option<String>,
    #[arg(long, hide = true)]
    format: Option<String>,
    #[arg(long, hide = true)]
    nan: Option<String>,
    #[arg(long, hide = true)]
    damaged: Option<String>,
    #[arg(long, hide = true)]
    set: Vec<String>,
}

impl MapChanges {
    /// What was given.
    pub(crate) fn given(&self) -> Vec<Given<'_>> {
        given([
            ("--batch", "batch", &self.batch),
            ("--threads", "threads", &self.threads),
            ("--workers", "workers", &self.workers),
            ("--max-failures", "max_failures", &self.max_failures),
            ("--ring", "ring", &self.ring),
            ("--item-timeout", "item_timeout", &self.item_timeout),
            ("--python", "python", &self.python),
        ])
    }

    /// What was given and cannot change, each with the reason.
    pub(crate) fn fixed(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            (
                self.decode.is_some(),
                "--decode",
                "results that are there were made from items decoded otherwise",
            ),
            (
                self.members.is_some(),
                "--members",
                "results that are there were made from items with the members of before",
            ),
            (self.format.is_some(), "--format", "parts that are there are written in the other"),
            (self.nan.is_some(), "--nan", "items that are done were judged by it"),
            (self.damaged.is_some(), "--damaged", "items that are done were judged by it"),
            (
                !self.set.is_empty(),
                "--set",
                "results that are there were made with the model's arguments of before",
            ),
        ];
        all.into_iter().filter(|(given, ..)| *given).map(|(_, flag, why)| (flag, why)).collect()
    }
}

fn given<'a, const N: usize>(all: [(&'static str, &'static str, &'a Option<String>); N]) -> Vec<Given<'a>> {
    all.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value.as_deref()?))).collect()
}
