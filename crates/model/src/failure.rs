//! How an attempt at a job fails: the class of the cause, and what is known of it.

use serde::{Deserialize, Serialize};

use crate::ProcessExit;

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The class of the cause.
    pub reason: FailReason,
    /// The exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal, if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// More for a person: the error at the start, the limit that was passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it froze, where that is a known cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to do about that cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// From start to end.
    #[serde(default)]
    pub seconds: f64,
    /// Most VRAM it held, in bytes, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_vram: Option<u64>,
    /// It came to grief because it shared its GPU: out of memory, or a fault of another under MPS. Sharing was our
    /// choice: the try does not count, the next one is alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// A disk was full, and the try does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_full: Option<FullDisk>,
    /// Its output could not be published but is whole and kept: `resume` publishes it instead of running the job again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// Which disk was full when a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullDisk {
    /// That of the run directory, as gpulane has seen itself. Such failures never count.
    Run,
    /// Another, or one that was full for a moment: the job says so, and the run's has space. A few such failures do not count.
    Other,
}

/// Classes of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// Exit code other than 0.
    Exit,
    /// Ended by a signal that gpulane did not send.
    Signal,
    /// Out of GPU memory.
    Oom,
    /// Out of host memory.
    HostOom,
    /// Took longer than its `timeout`.
    Timeout,
    /// Frozen.
    Hang,
    /// Could not be started.
    Start,
    /// gpulane or its GPU went away under it; does not count as a try.
    Lost,
    /// A person cancelled it.
    Cancelled,
    /// Ended because the run was interrupted; does not count as a try.
    Interrupted,
    /// It exited with 0 but its output could not be published.
    Publish,
    /// The map it worked for cannot or must not go on.
    Stopped,
}

impl FailReason {
    /// Whether the job's own try was used up. What gpulane or the machine did to it is not the job's fault.
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Lost | Self::Interrupted)
    }

    /// The word used in events.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Oom => "oom",
            Self::HostOom => "host_oom",
            Self::Timeout => "timeout",
            Self::Hang => "hang",
            Self::Start => "start",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Publish => "publish",
            Self::Stopped => "stopped",
        }
    }
}

impl Failure {
    /// A failure of this class, with nothing more known yet.
    pub const fn because(reason: FailReason) -> Self {
        Self {
            reason,
            code: None,
            signal: None,
            message: None,
            cause: None,
            remedy: None,
            seconds: 0.0,
            peak_vram: None,
            shared: false,
            disk_full: None,
            kept: false,
        }
    }

    /// The failure of a process that ended like this.
    pub fn from_exit(exit: ProcessExit, seconds: f64) -> Self {
        let (reason, code, signal) = match exit {
            ProcessExit::Code(code) => (FailReason::Exit, Some(code), None),
            ProcessExit::Signal(signal) => (FailReason::Signal, None, Some(signal)),
        };
        Self { code, signal, seconds, ..Self::because(reason) }
    }

    /// Whether the job's own try was used up.
    pub const fn counts(&self) -> bool {
        self.reason.counts() && !self.shared && self.disk_full.is_none()
    }

    /// One line for a person: `exit code 3`, `timeout after 2.0 s`, `could not start: …`.
    pub fn describe(&self) -> String {
        let base = match (self.reason, self.code, self.signal) {
            (FailReason::Exit, Some(code), _) => ProcessExit::Code(code).to_string(),
            (FailReason::Signal, _, Some(signal)) => format!("killed by {}", ProcessExit::Signal(signal)),
            (FailReason::Start, ..) => "could not start".to_owned(),
            (FailReason::Oom, ..) => "out of GPU memory".to_owned(),
            (FailReason::HostOom, ..) => "out of host memory".to_owned(),
            (FailReason::Publish, ..) => "output could not be published".to_owned(),
            (reason, ..) => reason.word().replace('_', " "),
        };
        match &self.message {
            Some(message) => format!("{base}: {message}"),
            None => base,
        }
    }
}
