//! `map`: a stage that runs one model over many items, and what is told of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Bytes, Decode, Members, Millis};

/// Why a worker was skipped that its map did not need: it counts as succeeded.
pub const MAP_COMPLETE: &str = "the map is complete";

/// What starts a map's workers and loaders, below [`PACKAGE_DIR`]: not `-m`, so that nothing in the working directory stands in front
/// of Python's own modules.
pub const START_SCRIPT: &str = "gpulane/_start.py";

/// Where gpulane's Python package is, in a command: below the run directory, unless others may write there.
pub const PACKAGE_DIR: &str = "{run}/.python";

/// A stage's `map` table, or the command line of `gpulane map`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapStage {
    /// `FILE.py:Class`, or `FILE.py:function`.
    pub model: String,
    /// Globs, directories, list files, tables, tar shards.
    pub input: Vec<String>,
    /// How items are decoded; absent: as the model's class says, otherwise `bytes`.
    pub decode: Option<Decode>,
    /// Which other members of its sample an item of a tar shard brings along; absent: as the model's class says, otherwise none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
    /// Items per batch; decided by gpulane if absent.
    pub batch: Option<u32>,
    /// What the results are written as.
    pub format: Format,
    /// Threads that read and decode; decided by gpulane if absent.
    pub threads: Option<u32>,
    /// Workers at most; decided by gpulane if absent.
    pub workers: Option<u32>,
    /// When more items than this fail, the map stops.
    pub max_failures: Tolerance,
    /// What a result that is not a number means.
    pub nan: NanPolicy,
    /// What becomes of pictures that are damaged.
    pub damaged: DamagePolicy,
    /// Memory for the ring; decided by gpulane if absent.
    pub ring: Option<Bytes>,
    /// How long the model may take for an item; absent: as long as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_timeout: Option<Millis>,
    /// The map is not begun unless every input can be listed and read to its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    /// The Python that runs the model; absent: `python3`, or the one of an active environment.
    pub python: Option<String>,
    /// What the model is made with: keyword arguments of its class or function.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
    /// The map is all there is in this run: its parts stand in the run directory itself.
    pub lone: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Columns, compressed.
    #[default]
    Parquet,
    /// A JSON object a line.
    Jsonl,
}

impl Format {
    /// How a part file's name ends.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl",
        }
    }
}

/// `--nan`: what becomes of results with a NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NanPolicy {
    /// They are kept and counted.
    #[default]
    Keep,
    /// The item has failed.
    Fail,
}

/// `--damaged`: what becomes of pictures of which a part had to be concealed or made up, because their data is corrupt or missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DamagePolicy {
    /// The item has failed.
    #[default]
    Fail,
    /// Damaged pictures are used as they were decoded, and counted.
    Warn,
}

/// `--max-failures`: how many items may fail before the map stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// Any number.
    #[default]
    Any,
    /// So many.
    Count(u64),
    /// So much of what has been tried, in percent; judged from the hundredth item on.
    Percent(f64),
}

/// Tried items below which a share of failures says nothing.
const ENOUGH_TO_JUDGE: u64 = 100;

impl Tolerance {
    /// Whether so many failures of so many tried are too many.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn is_exceeded(self, failed: u64, tried: u64) -> bool {
        match self {
            Self::Any => false,
            Self::Count(most) => failed > most,
            Self::Percent(percent) => {
                tried >= ENOUGH_TO_JUDGE && failed as f64 * 100.0 > percent * tried as f64
            }
        }
    }
}

impl FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no limit; write a count such as 100, or a share such as 5%");
        match text.strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err(wrong()),
            },
            None => text.parse().map(Self::Count).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Count(count) => count.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What the feeder tells the engine, a JSON object a line on its standard output; told only of what is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum FeederWord {
    /// The list of items is known.
    Opened {
        /// How many there are.
        items: u64,
        /// How many of them were settled before, in results or failed.
        settled: u64,
        /// How many of them fail by the list alone.
        #[serde(default)]
        lacking: u64,
    },
    /// An item failed; told before the commit it belongs to.
    ItemFailed {
        /// The item, as given.
        item: String,
        /// Why, for a person.
        reason: String,
    },
    /// A part of the results is durable.
    Committed {
        /// Counts from 0.
        commit: u64,
        /// The part's file name; absent: only failures.
        part: Option<String>,
        /// Rows in it.
        rows: u64,
        /// Items that failed with it.
        failed: u64,
        /// Rows of pictures that are damaged.
        #[serde(default)]
        damaged: u64,
    },
    /// Everything is settled and durable.
    Finished {
        /// Items in results.
        rows: u64,
        /// Items that failed.
        failed: u64,
        /// Items in results whose picture is damaged.
        #[serde(default)]
        damaged: u64,
        /// One line for a person: rates, the bottleneck and how close the run was to it.
        summary: String,
        /// Workers that are connected and told to leave, by job and attempt. Others would look for the feeder in vain.
        #[serde(default)]
        told: Vec<(String, u32)>,
    },
    /// It cannot or must not go on.
    Stopped {
        /// Why and what to do, for a person.
        because: String,
        /// Before any item was given to a worker.
        refused: bool,
    },
    /// A worker is broken, or does not come back from what it was given: a fresh one is to take its place.
    Unfit {
        /// `STAGE/worker-0`.
        job: String,
        /// Its attempt.
        attempt: u32,
        /// Why, for a person.
        because: String,
        /// The worker has exceeded its time.
        overdue: bool,
    },
    /// Something holds the map, or does no longer: a person is told whatever else is shown.
    Trouble {
        /// For a person.
        text: String,
    },
    /// Something a person should know.
    Note {
        /// For a person.
        text: String,
    },
}

/// How a map does just now: `live.json` beside its parts, rewritten several times a second, read by views. Not durable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapLive {
    /// Milliseconds of the Unix epoch when this was written.
    pub time: u64,
    /// Items in all.
    pub items: u64,
    /// Items with a result, durable or not.
    pub done: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items with a result whose picture is damaged.
    pub damaged: u64,
    /// Items that are settled durably.
    pub committed: u64,
    /// Items settled a second, of late.
    pub rate: f64,
    /// Seconds to go at that rate.
    pub eta: Option<f64>,
    /// What it is doing before it gets going: `listing items`, `waiting for the model`.
    pub phase: String,
    /// Why its results cannot be written now, and what to do; empty: they can.
    pub held: String,
    /// What limits the rate: `reading`, `decoding`, `copying`, `GPU`, `model`, `writing`.
    pub bottleneck: String,
    /// How busy that is, from 0 to 1.
    pub pressed: f64,
    /// The line for a person: rates and shares of each step.
    pub detail: String,
    /// Items per batch now.
    pub batch: u32,
    /// Threads that load.
    pub threads: u32,
    /// Workers that are ready.
    pub workers: u32,
    /// The share of loaded items that were decoded on the GPU, from 0 to 1, where it can.
    pub on_gpu: Option<f64>,
    /// The memory of the ring.
    pub ring: u64,
    /// Bytes that workers copied from the ring to their GPUs.
    pub to_device: u64,
    /// Bytes that they copied within the host's memory.
    pub on_host: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerance_counts_and_shares() {
        assert_eq!("100".parse(), Ok(Tolerance::Count(100)));
        assert_eq!("2.5%".parse(), Ok(Tolerance::Percent(2.5)));
        for wrong in ["", "%", "-1", "101%", "few", "nan%"] {
            assert!(wrong.parse::<Tolerance>().is_err(), "{wrong}");
        }
        assert!(!Tolerance::Count(3).is_exceeded(3, 3));
        assert!(Tolerance::Count(3).is_exceeded(4, 9));
        assert!(!Tolerance::Percent(5.0).is_exceeded(50, 99), "too early to judge");
        assert!(Tolerance::Percent(5.0).is_exceeded(6, 100));
        assert!(!Tolerance::Percent(5.0).is_exceeded(5, 100));
        assert!(!Tolerance::Any.is_exceeded(u64::MAX, u64::MAX));
    }
}
