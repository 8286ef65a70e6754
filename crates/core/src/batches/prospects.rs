//! Whether there is hope. A model that fails over everything it is given, or takes every worker with it, must not run through millions
//! of items first; nor a map whose items all cannot be loaded, as photographs decoded as text.

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
        /// Not one of them could be loaded: the model has seen none.
        unloaded: bool,
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
    failed: Alike,
    /// Items that could not be loaded.
    unloaded: Alike,
    /// Some could.
    loads: bool,
    /// Workers that died since anything was done.
    deaths: u32,
}

/// Failures, and whether they are of one kind.
#[derive(Clone, Debug, Default)]
struct Alike {
    count: u64,
    /// The first reason, and what it has in common with all others.
    first: Option<(String, String)>,
    /// Not all are of one kind.
    mixed: bool,
}

impl Alike {
    fn count(&mut self, reason: &str, kind: String) {
        self.count += 1;
        match &self.first {
            Some((_, common)) => self.mixed |= *common != kind,
            None => self.first = Some((reason.to_owned(), kind)),
        }
    }

    /// Whether these are enough to give up; then with the first one's reason.
    fn verdict(&self, unloaded: bool) -> Option<Hopeless> {
        let (reason, _) = self.first.as_ref().filter(|_| !self.mixed && self.count >= ALIKE)?;
        Some(Hopeless::Alike { failed: self.count, reason: reason.clone(), unloaded })
    }
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
        self.failed.count(reason, kind_of(reason));
    }

    /// An item could not be loaded.
    pub fn on_unloaded(&mut self, reason: &str) {
        self.unloaded.count(reason, kind_of_unloaded(reason));
    }

    /// An item was loaded: whatever others fail over, it is not all of them.
    pub fn on_loaded(&mut self) {
        self.loads = true;
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
        if self.proven {
            return None;
        }
        let unloaded = if self.loads { None } else { self.unloaded.verdict(true) };
        self.failed.verdict(false).or(unloaded)
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

/// What reasons of items that could not be loaded share: what is said before the item itself is spoken of, without numbers and
/// without what is quoted.
fn kind_of_unloaded(reason: &str) -> String {
    let ends = [": ", " (", ";"].iter().filter_map(|mark| reason.find(mark));
    let general = &reason[..ends.min().unwrap_or(reason.len())];
    let unquoted: String = general.split('`').step_by(2).collect();
    unquoted.chars().filter(|c| !c.is_ascii_digit()).collect()
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
        assert_eq!(
            after(errors(64)).verdict(),
            Some(Hopeless::Alike { failed: 64, reason, unloaded: false })
        );
    }

    fn unloaded(prospects: &mut Prospects, count: usize) {
        (0..count).for_each(|at| prospects.on_unloaded(&format!("not UTF-8 text (byte {at})")));
    }

    #[test]
    fn items_that_all_cannot_be_loaded_stop_the_map() {
        let mut prospects = Prospects::default();
        unloaded(&mut prospects, 63);
        assert_eq!(prospects.verdict(), None);
        unloaded(&mut prospects, 1);
        let reason = "not UTF-8 text (byte 0)".to_owned();
        assert_eq!(prospects.verdict(), Some(Hopeless::Alike { failed: 64, reason, unloaded: true }));
    }

    #[test]
    fn one_that_is_loaded_or_fails_otherwise_is_hope_for_the_others() {
        type Also = fn(&mut Prospects);
        let hopes: [Also; 3] = [Prospects::on_loaded, Prospects::on_success, |prospects| {
            prospects.on_unloaded("cannot read it: Permission denied");
        }];
        for hope in hopes {
            let mut prospects = Prospects::default();
            unloaded(&mut prospects, 40);
            hope(&mut prospects);
            unloaded(&mut prospects, 4_000);
            assert_eq!(prospects.verdict(), None);
        }
        let mut told = Prospects::new(true);
        unloaded(&mut told, 4_000);
        assert_eq!(told.verdict(), None, "how many may fail was said");
        // What the model fails over is judged by itself.
        let mut failing = after(errors(64));
        failing.on_loaded();
        unloaded(&mut failing, 1);
        assert!(matches!(failing.verdict(), Some(Hopeless::Alike { unloaded: false, .. })));
    }

    #[test]
    fn reasons_of_items_that_cannot_be_loaded_differ_by_more_than_the_item() {
        for (reason, kind) in [
            ("not UTF-8 text: byte 0xff at 12", "not UTF- text"),
            ("not an image (starts with `PAR1`)", "not an image"),
            ("needs 12 bytes; 10 are there", "needs  bytes"),
            ("`a.jpg` is not there", " is not there"),
            ("", ""),
        ] {
            assert_eq!(kind_of_unloaded(reason), kind, "{reason}");
        }
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
