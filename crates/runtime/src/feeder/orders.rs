//! What the engine tells a feeder. It is this same program, started anew under another name; the orders travel in the
//! environment, as those of guardian and engine do.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use gpulane_model::{FEEDER, StageId};
use serde::{Deserialize, Serialize};

/// Where the orders stand.
const VARIABLE: &str = "GPULANE_ORDERS_FEED";

/// Which map to feed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FeederOrders {
    /// The run directory, absolute.
    pub(crate) dir: PathBuf,
    /// Where gpulane's Python package is.
    pub(crate) python: PathBuf,
    /// The map's stage in the frozen plan.
    pub(crate) stage: StageId,
    /// How many commits the journal knows of: those after them are told again.
    pub(crate) announced: u64,
    /// Items that failed are tried again.
    pub(crate) failed_again: bool,
    /// Go on although inputs, model or parts have changed since the map began: a person said so.
    pub(crate) accept_changes: bool,
    /// Another feeder of this engine has just looked: inputs and model are not asked about again.
    pub(crate) opened: bool,
}

impl FeederOrders {
    /// Reads the orders this process was started with.
    pub(crate) fn take() -> io::Result<Self> {
        let text = std::env::var(VARIABLE)
            .map_err(|_| io::Error::other("started without orders; use `gpulane map` or `gpulane resume`"))?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// This program as a feeder with these orders. The caller says where its output goes.
    pub(crate) fn command(&self) -> io::Result<Command> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(FEEDER).env(VARIABLE, serde_json::to_string(self)?);
        Ok(command)
    }
}
