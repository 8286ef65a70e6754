//! What the fake is told: a JSON file, read at every call. All of it may be left out but `uuid` and `total`.
//!
//! ```text
//! {"init": "ok" | "no_driver" | "error",
//!  "hang": ["nvmlDeviceGetMemoryInfo_v2", …] or "all",     while it stands there, such calls do not return
//!  "gpus": [{"uuid": …, "name": …, "total": "24GiB", "reserved": "300MiB",
//!            "used_extra": "1GiB",                         held by nobody who can be seen
//!            "load": 37, "power": 210.5, "temperature": 41, "compute_mode": "default", "ecc": 0,
//!            "rows": "pending" | "failed",                 memory rows to be replaced
//!            "lost": true | "gone" | "reset",              no answer; not even a handle; wants a reset
//!            "xid": [79], "events": false,                 events to come; false: refuses to tell of them
//!            "mig": [{"uuid": …, "name": …, "total": …}],
//!            "processes": [{"pid": …, "used": "2GiB", "graphics": false, "mps": false}]}],
//!  "claims": "DIR", "late_ms": 0,                           see claims.rs
//!  "hide_processes": false,                                 pids are those of another namespace
//!  "list_processes": true}                                  false: none is ever named
//! ```

use std::path::PathBuf;
use std::time::Duration;

use gpulane_model::Bytes;
use nvml_wrapper_sys::bindings::nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED;
use serde::{Deserialize, Deserializer, de::Error};

use crate::raw::Answer;

/// Names the script.
const VARIABLE: &str = "FAKE_NVML";

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Script {
    pub(crate) init: Init,
    pub(crate) hang: Hang,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) claims: Option<PathBuf>,
    pub(crate) late_ms: u64,
    pub(crate) hide_processes: bool,
    #[serde(default = "yes")]
    pub(crate) list_processes: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Init {
    #[default]
    Ok,
    NoDriver,
    Error,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Hang {
    These(Vec<String>),
    All(All),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum All {
    All,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gpu {
    pub(crate) uuid: String,
    #[serde(default = "fake")]
    pub(crate) name: String,
    pub(crate) total: Size,
    #[serde(default)]
    pub(crate) reserved: Size,
    #[serde(default)]
    pub(crate) used_extra: Size,
    #[serde(default)]
    pub(crate) load: Option<u32>,
    #[serde(default)]
    pub(crate) power: Option<f64>,
    #[serde(default)]
    pub(crate) power_limit: Option<f64>,
    #[serde(default)]
    pub(crate) temperature: Option<u32>,
    #[serde(default)]
    pub(crate) compute_mode: ComputeMode,
    #[serde(default)]
    pub(crate) ecc: Option<u64>,
    #[serde(default)]
    pub(crate) rows: Option<Rows>,
    #[serde(default)]
    pub(crate) lost: Lost,
    #[serde(default)]
    pub(crate) xid: Vec<u64>,
    #[serde(default = "yes")]
    pub(crate) events: bool,
    #[serde(default)]
    pub(crate) mig: Option<Vec<Slice>>,
    #[serde(default)]
    pub(crate) processes: Vec<Process>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Slice {
    pub(crate) uuid: String,
    #[serde(default = "fake")]
    pub(crate) name: String,
    pub(crate) total: Size,
    #[serde(default)]
    pub(crate) processes: Vec<Process>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Absent: the driver does not say.
    #[serde(default)]
    pub(crate) used: Option<Size>,
    #[serde(default)]
    pub(crate) graphics: bool,
    #[serde(default)]
    pub(crate) mps: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComputeMode {
    #[default]
    Default = 0,
    Prohibited = 2,
    ExclusiveProcess = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rows {
    Pending,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Lost {
    Plainly(bool),
    How(How),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Gone,
    Reset,
}

/// A size as people write it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size(pub(crate) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(|bytes: Bytes| Self(bytes.0)).map_err(D::Error::custom)
    }
}

impl Default for Hang {
    fn default() -> Self {
        Self::These(Vec::new())
    }
}

impl Default for Lost {
    fn default() -> Self {
        Self::Plainly(false)
    }
}

fn fake() -> String {
    "Fake GPU".to_owned()
}

fn yes() -> bool {
    true
}

/// The script as it stands now. One that cannot be read ends the process with the reason: the test is wrong.
pub(crate) fn read() -> Answer<Script> {
    let path = std::env::var_os(VARIABLE).ok_or(DRIVER_NOT_LOADED)?;
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{VARIABLE}={}: {error}", path.display()));
    Ok(serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{VARIABLE}={}: {error}", path.display())))
}

/// Does not return as long as the script says that this call hangs.
pub(crate) fn hang_if_told(call: &str) {
    while read().is_ok_and(|script| script.hangs(call)) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Script {
    fn hangs(&self, call: &str) -> bool {
        match &self.hang {
            Hang::All(All::All) => true,
            Hang::These(calls) => calls.iter().any(|each| each == call),
        }
    }
}
