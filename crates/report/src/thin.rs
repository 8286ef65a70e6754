//! Keeps result lines readable when jobs end by the thousand: a few a second are shown, the rest is counted and
//! said in one line.

use std::collections::BTreeMap;

use gpulane_model::Millis;

use crate::palette::Palette;
use crate::text::number;

/// Lines shown per second.
const PER_SECOND: u32 = 20;
/// Failures shown before they are only counted.
const FAILURES: u32 = 50;
/// Items shown of those that failed alike.
const ALIKE: u32 = 3;

/// What a line tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Succeeded,
    Failed,
    Retrying,
    Skipped,
    LeftProcesses,
    Requeued,
    Exceeded,
    Suspected,
    Lingered,
    ItemFailed,
    /// An item failed as others did that were shown.
    ItemAlike,
}

const KINDS: [(Kind, &str); 11] = [
    (Kind::Succeeded, "more succeeded"),
    (Kind::Failed, "more failed"),
    (Kind::Retrying, "more tried again"),
    (Kind::Skipped, "more skipped"),
    (Kind::LeftProcesses, "more left processes behind"),
    (Kind::Requeued, "tried afresh"),
    (Kind::Exceeded, "more hold more GPU memory than reserved"),
    (Kind::Suspected, "more show no life"),
    (Kind::Lingered, "more would not exit"),
    (Kind::ItemFailed, "more items failed"),
    (Kind::ItemAlike, "more failed with the same error"),
];

/// What was shown and what was not.
#[derive(Debug, Default)]
pub(crate) struct Thin {
    /// When this second began.
    since: Millis,
    /// Lines shown in it.
    shown: u32,
    /// Failures shown in all.
    failures: u32,
    /// How often items were shown that failed for a reason of this kind. Bounded, as what is shown is.
    reasons: BTreeMap<String, u32>,
    /// Not shown since the last summary, by kind.
    withheld: [u32; KINDS.len()],
}

impl Thin {
    /// Whether to show a line of this kind; if not, it is counted.
    pub(crate) fn allows(&mut self, kind: Kind) -> bool {
        let show = match kind {
            // Always shown, up to a number in all.
            Kind::Failed | Kind::ItemFailed => self.failures < FAILURES,
            Kind::Retrying => self.failures < FAILURES && self.withheld[Kind::Failed as usize] == 0,
            // Only ever counted: `resume --failed` says it of all at once.
            Kind::Requeued | Kind::ItemAlike => false,
            _ => self.shown < PER_SECOND,
        };
        match kind {
            Kind::Failed | Kind::ItemFailed => self.failures += u32::from(show),
            Kind::Retrying | Kind::Requeued | Kind::ItemAlike => {}
            _ => self.shown += u32::from(show),
        }
        self.withheld[kind as usize] += u32::from(!show);
        show
    }

    /// Whether to show that an item failed for this reason; if not, it is counted.
    pub(crate) fn allows_item(&mut self, reason: &str) -> bool {
        // What differs between items that fail alike are numbers: of the item, of bytes.
        let kind: String = reason.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        if self.reasons.get(&kind).is_some_and(|shown| *shown >= ALIKE) {
            self.withheld[Kind::ItemAlike as usize] += 1;
            return false;
        }
        let show = self.allows(Kind::ItemFailed);
        if show {
            *self.reasons.entry(kind).or_default() += 1;
        }
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
        let parts: Vec<String> = KINDS
            .iter()
            .map(|(kind, words)| (withheld[*kind as usize], words))
            .filter(|(n, _)| *n > 0)
            .map(|(n, words)| format!("{} {words}", number(n)))
            .collect();
        (!parts.is_empty()).then(|| format!("{} {}", palette.dots(), parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Look;

    #[test]
    fn kinds_stand_at_their_own_place() {
        for (at, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(at, *kind as usize);
        }
    }

    #[test]
    fn failures_are_shown_up_to_fifty_and_then_counted() {
        let palette = Palette::new(&Look::PLAIN);
        let mut thin = Thin::default();
        let shown = (0..80).filter(|_| thin.allows(Kind::Failed)).count();
        assert_eq!(shown, 50);
        assert!(!thin.allows(Kind::Retrying));
        assert_eq!(
            thin.summary(Millis(5000), false, palette).as_deref(),
            Some("… 30 more failed, 1 more tried again")
        );
        assert_eq!(thin.summary(Millis(7000), false, palette), None, "said once");
    }

    #[test]
    fn items_that_fail_alike_are_shown_three_times_and_then_counted() {
        let palette = Palette::new(&Look::PLAIN);
        let mut thin = Thin::default();
        let shown =
            (0..40).filter(|at| thin.allows_item(&format!("ValueError: item {at} (model.py:3)"))).count();
        assert_eq!(shown, 3);
        assert!(thin.allows_item("KeyError: 'x' (model.py:9)"), "another reason is shown");
        let summary = thin.summary(Millis(5000), false, palette);
        assert_eq!(summary.as_deref(), Some("… 37 more failed with the same error"));
    }

    #[test]
    fn each_second_shows_a_few_again() {
        let palette = Palette::new(&Look::PLAIN);
        let mut thin = Thin::default();
        for second in 1..4 {
            let shown = (0..100).filter(|_| thin.allows(Kind::Succeeded)).count();
            assert_eq!(shown, 20);
            let summary = thin.summary(Millis::seconds(second), false, palette);
            assert_eq!(summary.as_deref(), Some("… 80 more succeeded"));
        }
    }
}
