//! What the front tells guardian and engine. They are this same program, started anew under other names: a fresh
//! address space, nothing inherited but the descriptors named here. The orders travel in the environment, so that
//! a command-line search such as `pkill -f gpulane` does not find the guardian by the run's path.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gpulane_model::{Foreign, Millis};
use serde::{Deserialize, Serialize};

/// Where the orders stand; removed from the environment jobs see.
const VARIABLE: &str = "GPULANE_ORDERS";

/// What is read from and written to where there is nothing to say.
const NOTHING: &str = "/dev/null";

/// How to run what is in a run directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of the command line
pub struct StartRequest {
    /// The front goes away; the run goes on without it.
    pub detached: bool,
    /// Go on with what can be read of a damaged journal.
    pub salvage: bool,
    /// Also run again what failed.
    pub failed: bool,
    /// Go on with maps whose inputs or model have changed since they began.
    pub accept_changes: bool,
    /// `--gpus`, where it differs from the frozen plan's.
    pub gpus: Option<String>,
    /// `--lanes`, likewise.
    pub lanes: Option<u32>,
    /// `--foreign`, likewise.
    pub foreign: Option<Foreign>,
    /// `--wait`, likewise.
    pub wait: Option<Millis>,
    /// `--trust-dir`: directories that others may write to all the same.
    pub trusted: Vec<PathBuf>,
}

/// The request with everything the other processes inherit.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) dir: PathBuf,
    pub(crate) request: StartRequest,
    /// The run's lock: held by all three, so that it is free only when all have ended.
    pub(crate) lock: RawFd,
    /// The run directory, locked likewise; `None` where that cannot be.
    pub(crate) directory: Option<RawFd>,
    /// The engine's end of its connection to the front.
    pub(crate) link: RawFd,
    /// Where the engine writes how far the journal is durable.
    pub(crate) durable: RawFd,
    /// Closes when the front ends. `None`: detached.
    pub(crate) lifeline: Option<RawFd>,
    /// The umask that jobs get, where it is not the engine's.
    #[serde(default)]
    pub(crate) umask: Option<u32>,
    /// The guardian's process, once there is one: the engine must not outlive it.
    pub(crate) guardian: Option<i32>,
}

impl Orders {
    /// Reads the orders this process was started with.
    pub(crate) fn take() -> io::Result<Self> {
        let text = std::env::var(VARIABLE)
            .map_err(|_| io::Error::other("started without orders; use `gpulane run` or `gpulane resume`"))?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// The orders of another process, if it has any that we may read.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        serde_json::from_str(&gpulane_witness::variable_of(pid, VARIABLE)?).ok()
    }

    /// This program under another name, with these orders; stdio from and to nothing but the log.
    pub(crate) fn command(&self, name: &str, log: Stdio) -> io::Result<Command> {
        let nothing = OpenOptions::new().read(true).write(true).open(NOTHING).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open {NOTHING}, which every process needs: {error}"))
        })?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(name)
            .env(VARIABLE, serde_json::to_string(self)?)
            .stdin(nothing.try_clone()?)
            .stdout(nothing)
            .stderr(log);
        Ok(command)
    }

    /// Whether an environment variable is between us and must not reach a job.
    pub(crate) fn is_private(variable: &str) -> bool {
        variable == VARIABLE
    }
}
