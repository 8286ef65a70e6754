//! How a run ended, as an exit code, for commands that look at a run they did not start; and which of its maps have not ended.

use crate::{ExitCode, JobStatus, Plan, RunState};

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

    /// Whether a resume takes up the map at this place among the stages. A complete one is taken up for its failed items only, and one
    /// that was skipped because of what it follows only together with that: both with `failed_too`.
    pub fn is_map_due(&self, plan: &Plan, at: usize, failed_too: bool) -> bool {
        let Some(map) = self.maps.get(at).and_then(Option::as_ref) else { return false };
        let mut workers = plan.stages[at].job_ids().map(|job| &self.job(job).status);
        if map.finished.is_some() {
            return failed_too && map.failed > 0;
        }
        let began = map.items.is_some() || map.stopped.is_some();
        failed_too || began || !workers.all(|status| matches!(status, JobStatus::Skipped(_)))
    }
}
