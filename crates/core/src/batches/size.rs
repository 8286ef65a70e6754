//! How many items a batch has, where nobody said: it grows while the model gets faster by it and memory allows.

/// What must be gained for a batch twice as large to be worth its memory and its wait.
const WORTH_IT: f64 = 1.05;
/// Batches of one size that are looked at before the next is tried; the first of them is not counted, it may have compiled something.
const ENOUGH: u32 = 4;
/// The share of a GPU's memory from which on a batch does not grow.
const NEARLY_FULL: f64 = 0.45;

/// The size of a batch.
#[derive(Clone, Debug)]
pub struct BatchSize {
    now: u32,
    most: u32,
    /// It does not change any more: it was asked for, or growing further brought nothing.
    settled: bool,
    /// At the present size: batches seen, and items and seconds of all but the first.
    seen: u32,
    items: u64,
    seconds: f64,
    /// Items a second at half this size.
    before: Option<f64>,
}

impl BatchSize {
    /// What it begins with where nobody said.
    pub const FIRST: u32 = 32;

    /// So many if asked for, otherwise found out; never more than a slot has room for.
    pub fn new(asked: Option<u32>, most: u32) -> Self {
        let most = most.max(1);
        let now = asked.unwrap_or(Self::FIRST).clamp(1, most);
        Self { now, most, settled: asked.is_some(), seen: 0, items: 0, seconds: 0.0, before: None }
    }

    /// Items in a batch from now on.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// A batch of so many items took the model so long; `full`: the share of its GPU's memory it has needed at most, where that is
    /// known; `out_of_memory`: it did not fit. Returns the new size if it changes.
    #[allow(clippy::cast_precision_loss)] // a rate
    pub fn on_batch(
        &mut self,
        items: u32,
        seconds: f64,
        full: Option<f64>,
        out_of_memory: bool,
    ) -> Option<u32> {
        if out_of_memory {
            self.settled = true;
            // Others of the old size may be under way, and say the same.
            let half = (items / 2).max(1);
            return (half < self.now).then(|| self.becomes(half));
        }
        if self.settled || items != self.now {
            return None;
        }
        self.seen += 1;
        if self.seen > 1 {
            self.items += u64::from(items);
            self.seconds += seconds.max(1e-9);
        }
        if self.seen < ENOUGH {
            return None;
        }
        let rate = self.items as f64 / self.seconds;
        if let Some(before) = self.before.filter(|before| rate < before * WORTH_IT) {
            self.settled = true;
            // Smaller batches come back sooner; a larger one that is slower gives its memory back.
            return (rate < before).then(|| self.becomes((self.now / 2).max(1)));
        }
        if self.now >= self.most || full.is_some_and(|full| full > NEARLY_FULL) {
            self.settled = true;
            return None;
        }
        self.before = Some(rate);
        Some(self.becomes(self.now.saturating_mul(2).min(self.most)))
    }

    fn becomes(&mut self, size: u32) -> u32 {
        (self.now, self.seen, self.items, self.seconds) = (size, 0, 0, 0.0);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets it see batches of a model that takes `overhead` a call and `each` an item, until it has settled.
    fn settle(size: &mut BatchSize, overhead: f64, each: f64) -> u32 {
        for _ in 0..1000 {
            let now = size.now();
            size.on_batch(now, overhead + each * f64::from(now), None, false);
        }
        size.now()
    }

    #[test]
    fn it_grows_while_calls_are_what_costs() {
        assert_eq!(settle(&mut BatchSize::new(None, 1024), 0.1, 1e-6), 1024);
    }

    #[test]
    fn it_stays_small_where_size_brings_nothing() {
        assert!(settle(&mut BatchSize::new(None, 1024), 0.0, 1e-3) <= 64);
    }

    #[test]
    fn what_was_asked_for_stays() {
        assert_eq!(settle(&mut BatchSize::new(Some(100), 1024), 0.1, 1e-6), 100);
        assert_eq!(BatchSize::new(Some(5000), 1024).now(), 1024);
    }

    #[test]
    fn memory_bounds_it() {
        let mut size = BatchSize::new(None, 1024);
        for _ in 0..100 {
            let now = size.now();
            size.on_batch(now, 0.1, Some(f64::from(now) / 200.0), false);
        }
        assert_eq!(size.now(), 128, "at 128 more than half would be needed for the next");
    }

    #[test]
    fn out_of_memory_halves_also_what_was_asked_for() {
        let mut size = BatchSize::new(Some(256), 1024);
        assert_eq!(size.on_batch(256, 0.1, None, true), Some(128));
        assert_eq!(
            size.on_batch(256, 0.1, None, true),
            None,
            "eight lanes that run out at once halve it once"
        );
        assert_eq!(size.on_batch(128, 0.1, None, true), Some(64));
        assert_eq!(BatchSize::new(Some(1), 8).on_batch(1, 0.1, None, true), None);
    }
}
