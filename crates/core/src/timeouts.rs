//! Time limits of waits, and whether a wait was over before its own. A thread that waits with a limit of 30 s and runs every 0.3 s is
//! woken by others, not by the clock. Pure: whoever reads `/proc` has the clock.

use gpulane_model::Millis;

/// The time limit of the wait in which a thread was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The time limit counts from the begin of the wait.
    Whole(Millis),
    /// The time limit counts from the look that met the wait.
    Left(Millis),
}

/// The part of a limit, and the number of looks, by which a wait must be over before its limit to have been ended by others: a busy machine is
/// late with looks.
const EARLY_PART: u64 = 4;
const EARLY_LOOKS: u64 = 1;

impl Timeout {
    /// When a wait that was met at `met` ends by the clock at the earliest; the look before that was at `before`, and it began later.
    /// Wakes before the time told here were made by others.
    pub(crate) fn earliest(self, before: Option<Millis>, met: Millis, step: Millis) -> Option<Millis> {
        let (from, limit) = match self {
            Self::Whole(limit) => (before?, limit),
            Self::Left(limit) => (met, limit),
        };
        let slack = (limit.0 / EARLY_PART).max(step.0.saturating_mul(EARLY_LOOKS));
        Some(Millis(from.0.saturating_add(limit.0.saturating_sub(slack))))
    }
}
