//! Why a job failed, so that jobs with the same cause meet.

use gpulane_model::{FailReason, Failure, JobId, StageId};

use super::story::Story;
use super::telling;

/// A cause. Equal causes are one finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// Out of GPU memory; what is reserved is a matter of the stage. `alone`: again when it had a whole GPU to itself.
    GpuMemory { stage: StageId, alone: bool },
    /// Out of host memory.
    HostMemory,
    /// Took longer than its stage allows.
    Timeout(StageId),
    /// Could not be started, and why.
    Start(String),
    /// Exited with this code; the last telling line, numbers aside.
    Exit(i32, String),
    /// Ended by this signal.
    Signal(i32),
    /// A person cancelled it.
    Cancelled,
    /// Its output could not be published, and why.
    Publish(String),
    /// Any other, in its own words.
    Other(String),
}

/// The cause of a job's last failure; `None` for hangs, which are told with their evidence.
pub(super) fn of(story: &Story, job: JobId, failure: &Failure) -> Option<Cause> {
    let stage = story.plan.job(job).stage;
    let message = || telling::normal(failure.message.as_deref().unwrap_or_default());
    Some(match failure.reason {
        FailReason::Hang => return None,
        FailReason::Oom => Cause::GpuMemory { stage, alone: story.state.job(job).alone },
        FailReason::HostOom => Cause::HostMemory,
        FailReason::Timeout => Cause::Timeout(stage),
        FailReason::Start => Cause::Start(message()),
        FailReason::Cancelled => Cause::Cancelled,
        FailReason::Publish => Cause::Publish(message()),
        FailReason::Signal => Cause::Signal(failure.signal.unwrap_or(0)),
        FailReason::Exit => {
            let line = last_words(story, job).unwrap_or_default();
            Cause::Exit(failure.code.unwrap_or(0), telling::normal(&line))
        }
        FailReason::Lost | FailReason::Interrupted | FailReason::Stopped => {
            Cause::Other(telling::normal(&failure.describe()))
        }
    })
}

/// The telling line of what a job's newest attempt printed.
pub(super) fn last_words(story: &Story, job: JobId) -> Option<String> {
    let attempt = gpulane_model::Attempt(story.state.job(job).attempts);
    let stderr = story.dir.stderr_log(&story.plan, job, attempt);
    telling::line(&stderr).or_else(|| telling::line(&story.dir.stdout_log(&story.plan, job, attempt)))
}
