//! Whether there is hope. A model that fails over everything it is given, or takes every worker with it, must not run through millions
//! of items first.

/// So many items must have failed alike, and none ever succeeded, before it is the model's fault and not theirs.
const ALIKE: u64 = 64;
/// Workers that died in a row with nothing done in between, after which more would die.
const DEATHS: u32 = 40;

/// Why a map should not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hopeless {
    /// Every item so far failed in the same way.
    Alike {
        /// How many.
        failed: u64,
        /// The first one's reason.
        reason: String,
    },
    /// So many workers died in a row.
    Deaths(u32),
}

/// What is known of a model by its successes and failures.
#[derive(Clone, Debug, Default)]
pub struct Prospects {
    /// It has worked, or a person said how many failures are too many: then items are judged one by one.
    proven: bool,
    /// Items it failed over.
    failed: u64,
    /// The first reason, and what it has in common with all others.
    first: Option<(String, String)>,
    /// Not all failed alike.
    mixed: bool,
    /// Workers that died since anything was done.
    deaths: u32,
}

impl Prospects {
    /// `proven`: it has worked before, or how much may fail is said elsewhere.
    pub fn new(proven: bool) -> Self {
        Self { proven, ..Self::default() }
    }

    /// Items have results.
    pub fn on_success(&mut self) {
        self.proven = true;
    }

    /// The model failed over an item.
    pub fn on_failure(&mut self, reason: &str) {
        self.failed += 1;
        let kind = kind_of(reason);
        let (_, common) = self.first.get_or_insert_with(|| (reason.to_owned(), kind.clone()));
        self.mixed |= *common != kind;
    }

    /// A worker has answered for a batch, whatever it said.
    pub fn on_answer(&mut self) {
        self.deaths = 0;
    }

    /// A worker has died.
    pub fn on_death(&mut self) {
        self.deaths += 1;
    }

    /// Why the map should not go on; `None`: it should.
    pub fn verdict(&self) -> Option<Hopeless> {
        if self.deaths >= DEATHS {
            return Some(Hopeless::Deaths(self.deaths));
        }
        let (reason, _) =
            self.first.as_ref().filter(|_| !self.proven && !self.mixed && self.failed >= ALIKE)?;
        Some(Hopeless::Alike { failed: self.failed, reason: reason.clone() })
    }
}

/// What reasons of one kind share: the exception's type, otherwise the words without their numbers.
pub(super) fn kind_of(reason: &str) -> String {
    let end = reason.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(reason.len());
    let (word, rest) = reason.split_at(end);
    if !word.is_empty() && (rest.is_empty() || rest.starts_with(": ") || rest.starts_with(" (")) {
        return word.to_owned();
    }
    reason.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reasons: impl IntoIterator<Item = String>) -> Prospects {
        let mut prospects = Prospects::default();
        reasons.into_iter().for_each(|reason| prospects.on_failure(&reason));
        prospects
    }

    fn errors(count: usize) -> impl Iterator<Item = String> {
        (0..count).map(|number| format!("ValueError: item {number} (model.py:3)"))
    }

    #[test]
    fn the_same_failure_over_everything_is_the_models() {
        assert_eq!(after(errors(63)).verdict(), None);
        let reason = "ValueError: item 0 (model.py:3)".to_owned();
        assert_eq!(after(errors(64)).verdict(), Some(Hopeless::Alike { failed: 64, reason }));
    }

    #[test]
    fn one_success_or_another_failure_is_hope() {
        let mut worked = after(errors(63));
        worked.on_success();
        errors(1000).for_each(|reason| worked.on_failure(&reason));
        assert_eq!(worked.verdict(), None);
        assert_eq!(after(errors(500).chain(["KeyError: 'x'".to_owned()])).verdict(), None);
        let mut told = Prospects::new(true);
        errors(1000).for_each(|reason| told.on_failure(&reason));
        assert_eq!(told.verdict(), None, "how many may fail was said");
    }

    #[test]
    fn deaths_in_a_row_count_also_after_a_success() {
        let mut prospects = Prospects::new(true);
        for _ in 0..39 {
            prospects.on_death();
        }
        prospects.on_answer();
        (0..39).for_each(|_| prospects.on_death());
        assert_eq!(prospects.verdict(), None);
        prospects.on_death();
        assert_eq!(prospects.verdict(), Some(Hopeless::Deaths(40)));
    }

    #[test]
    fn reasons_of_one_kind_share_their_type_or_their_words() {
        for (reason, kind) in [
            ("ValueError: a (m.py:1)", "ValueError"),
            ("torch.cuda.OutOfMemoryError: b", "torch.cuda.OutOfMemoryError"),
            ("KeyError (m.py:1)", "KeyError"),
            ("predict_batch returned 3 results for 16 items", "predict_batch returned  results for  items"),
            ("", ""),
        ] {
            assert_eq!(kind_of(reason), kind, "{reason}");
        }
    }
}
