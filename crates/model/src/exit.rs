//! How things end: gpulane's own exit codes, and the end of a job's process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// gpulane's exit codes, a documented promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything succeeded.
    Success = 0,
    /// Bad input: nothing was started.
    BadInput = 2,
    /// Finished, some jobs or items failed.
    SomeFailed = 3,
    /// Nothing to do.
    NothingToDo = 4,
    /// The resources asked for are not here.
    NoResources = 5,
    /// A bug in gpulane, or gpulane itself could not go on.
    Internal = 70,
    /// Interrupted by SIGINT; everything it started has ended; `resume` continues.
    Interrupted = 130,
    /// Ended by SIGTERM; likewise.
    Terminated = 143,
}

impl ExitCode {
    /// The number given to the operating system.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The one with this number.
    pub fn of(code: u8) -> Option<Self> {
        const ALL: [ExitCode; 8] = [
            ExitCode::Success,
            ExitCode::BadInput,
            ExitCode::SomeFailed,
            ExitCode::NothingToDo,
            ExitCode::NoResources,
            ExitCode::Internal,
            ExitCode::Interrupted,
            ExitCode::Terminated,
        ];
        ALL.into_iter().find(|known| known.code() == code)
    }
}

/// How a job's main process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessExit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl ProcessExit {
    /// Exit code 0.
    pub const fn success(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "{name}"),
                None => write!(f, "signal {signal}"),
            },
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    const NAMES: [(i32, &str); 12] = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (15, "SIGTERM"),
        (24, "SIGXCPU"),
    ];
    NAMES.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}
