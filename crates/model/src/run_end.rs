//! How a run ended, as an exit code: for commands that look at a run they did not start.

use crate::{ExitCode, RunState};

impl RunState {
    /// The exit code of the command that ran it. Where no engine works on the run, and the newest one did not say how it ended, that
    /// engine was killed.
    pub fn exit_code(&self) -> ExitCode {
        if let Some(told) = self.told_code.and_then(ExitCode::of) {
            return told;
        }
        let items_failed = self.maps.iter().flatten().any(|map| map.failed > 0 || map.finished.is_none());
        match &self.interrupted {
            _ if self.finished && (self.counts.failed + self.counts.skipped > 0 || items_failed) => {
                ExitCode::SomeFailed
            }
            _ if self.finished => ExitCode::Success,
            Some(because) if because == "SIGINT" => ExitCode::Interrupted,
            Some(_) => ExitCode::Terminated,
            None => ExitCode::Internal,
        }
    }
}
