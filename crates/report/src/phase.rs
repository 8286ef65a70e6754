//! Where a whole run stands, in a word.

use gpulane_core::Core;
use gpulane_journal::RunDir;
use gpulane_model::{Counts, Millis, Plan, RunState};

use crate::map_words::items_failed;
use crate::palette::Style;

/// A run at one moment, for `status`.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    /// Its directory.
    pub dir: &'a RunDir,
    /// Its plan.
    pub plan: &'a Plan,
    /// What its journal tells.
    pub state: &'a RunState,
    /// Whether an engine works on it now.
    pub live: bool,
    /// Knows why jobs wait. `None` where no engine works on the run.
    pub core: Option<&'a Core>,
    /// Unix time.
    pub now: Millis,
}

/// The counts as they are true now: where no engine works, nothing runs, and what ran is to be done again.
pub(crate) const fn counts_now(counts: Counts, live: bool) -> Counts {
    if live { counts } else { Counts { pending: counts.pending + counts.running, running: 0, ..counts } }
}

/// How long the whole run took, or takes so far: from its first event on, whatever engines worked on it.
pub(crate) fn took(
    phase: Phase,
    started: Option<Millis>,
    last: Option<Millis>,
    now: Millis,
) -> Option<Millis> {
    let until = if matches!(phase, Phase::Running | Phase::Waiting) { now } else { last? };
    Some(until.since(started?))
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// An engine works on it but nothing has happened yet.
    Starting,
    /// An engine works on it.
    Running,
    /// An engine works on it, but something outside keeps all of its jobs from starting.
    Waiting,
    /// Every job has ended and none failed.
    Succeeded,
    /// Every job has ended and some failed, or items of a map did.
    Failed,
    /// Stopped on request; can be resumed.
    Interrupted,
    /// No engine works on it and none said goodbye; can be resumed.
    Stopped,
}

impl Phase {
    /// Where the run stands.
    pub fn of(state: &RunState, live: bool) -> Self {
        match (live, state.finished, state.interrupted.is_some()) {
            (_, true, _) if state.counts.failed > 0 || items_failed(state) > 0 => Self::Failed,
            (_, true, _) => Self::Succeeded,
            (true, ..) if state.started.is_none() => Self::Starting,
            (true, ..) if state.held.is_some() && state.counts.running == 0 => Self::Waiting,
            (true, ..) => Self::Running,
            (false, _, true) => Self::Interrupted,
            (false, _, false) => Self::Stopped,
        }
    }

    /// The word used in tables and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
        }
    }

    pub(crate) const fn style(self) -> Style {
        match self {
            Self::Starting | Self::Running | Self::Waiting => Style::Bold,
            Self::Succeeded => Style::Good,
            Self::Failed => Style::Bad,
            Self::Interrupted | Self::Stopped => Style::Warn,
        }
    }

    /// Whether `resume` would go on with it.
    pub(crate) const fn can_resume(self) -> bool {
        matches!(self, Self::Interrupted | Self::Stopped)
    }
}
