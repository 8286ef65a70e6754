//! Keeps result lines readable when jobs end by the thousand: a few a second are shown, the rest is counted and
//! said in one line.

use gpulane_model::{Counts, Millis};

use crate::palette::Palette;
use crate::text::number;

/// Lines of succeeded and skipped jobs shown per second.
const PER_SECOND: u32 = 20;
/// Failures shown before they are only counted.
const FAILURES: u32 = 50;

/// What was shown and what was not.
#[derive(Debug, Default)]
pub(crate) struct Thin {
    /// When this second began.
    since: Millis,
    /// Lines shown in it.
    shown: u32,
    /// Failures shown in all.
    failures: u32,
    /// Not shown since the last summary.
    withheld: Counts,
}

impl Thin {
    /// Whether to show a job that succeeded.
    pub(crate) fn succeeded(&mut self) -> bool {
        let show = self.room();
        self.withheld.succeeded += u32::from(!show);
        show
    }

    /// Whether to show a job that was skipped.
    pub(crate) fn skipped(&mut self) -> bool {
        let show = self.room();
        self.withheld.skipped += u32::from(!show);
        show
    }

    /// Whether to show a failure.
    pub(crate) fn failed(&mut self) -> bool {
        let show = self.failures < FAILURES;
        self.failures += u32::from(show);
        self.withheld.failed += u32::from(!show);
        show
    }

    /// Once a second, or when `over`: the line that tells what was not shown.
    pub(crate) fn summary(&mut self, now: Millis, over: bool, palette: Palette) -> Option<String> {
        if !over && now.since(self.since).0 < 1000 {
            return None;
        }
        self.since = now;
        self.shown = 0;
        let withheld = std::mem::take(&mut self.withheld);
        let parts: Vec<String> =
            [(withheld.succeeded, "succeeded"), (withheld.failed, "failed"), (withheld.skipped, "skipped")]
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, word)| format!("{} more {word}", number(*n)))
                .collect();
        (!parts.is_empty()).then(|| format!("{} {}", palette.dots(), parts.join(", ")))
    }

    fn room(&mut self) -> bool {
        let room = self.shown < PER_SECOND;
        self.shown += u32::from(room);
        room
    }
}
