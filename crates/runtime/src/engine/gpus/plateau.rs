//! When a job's memory has settled: it computes, and holds no more than it did a while ago. Long before its end we
//! then know what the jobs beside it will take.

use gpulane_model::Millis;

/// The shortest while.
const LEAST: Millis = Millis(1000);
/// A job that took long to come this far is given as much longer: the while is at least this part of its age. Beside others
/// it may be they who keep the GPU busy, so more is asked for.
const PART: u64 = 5;
const PART_BESIDE_OTHERS: u64 = 2;
/// Growth below this part (one in …) is noise of the allocator.
const NOISE: u64 = 50;

/// The height of a job's memory and how long it has been that high.
pub(super) struct Plateau {
    begun: Millis,
    height: u64,
    grew: Millis,
    /// Looks since it grew, and how many of them found the GPU busy.
    looks: u32,
    busy: u32,
}

impl Plateau {
    pub(super) fn new(now: Millis) -> Self {
        Self { begun: now, height: 0, grew: now, looks: 0, busy: 0 }
    }

    pub(super) fn age(&self, now: Millis) -> Millis {
        now.since(self.begun)
    }

    /// Takes in a look; `load`: how busy its GPU was; `alone`: nobody else is on it. Whether it has settled.
    pub(super) fn look(&mut self, now: Millis, held: u64, load: Option<u32>, alone: bool) -> bool {
        if held > self.height + self.height / NOISE {
            (self.height, self.grew, self.looks, self.busy) = (held, now, 0, 0);
            return false;
        }
        self.looks += 1;
        self.busy += u32::from(load.is_none_or(|percent| percent > 0));
        let part = if alone { PART } else { PART_BESIDE_OTHERS };
        let while_ = Millis((now.since(self.begun).0 / part).max(LEAST.0));
        // Holding memory is not enough: weights may be loaded long before the first step, which takes the most.
        self.height > 0 && now.since(self.grew) >= while_ && self.busy * 2 > self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms; returns when it settled.
    fn settles(held: impl Fn(u64) -> u64, load: impl Fn(u64) -> u32) -> Option<u64> {
        let mut plateau = Plateau::new(Millis(0));
        (0..600).map(|at| at * 100).find(|at| plateau.look(Millis(*at), held(*at), Some(load(*at)), true))
    }

    #[test]
    fn a_job_that_computes_and_grows_no_more_has_settled() {
        let at = settles(|at| if at < 5000 { 0 } else { 900 << 20 }, |at| if at < 5500 { 0 } else { 80 });
        assert!(at.is_some_and(|at| (6000..8000).contains(&at)), "{at:?}");
    }

    #[test]
    fn weights_that_wait_for_data_have_not() {
        assert_eq!(settles(|_| 5 << 30, |_| 0), None);
    }

    #[test]
    fn growth_begins_it_anew() {
        let at = settles(|at| (1 + at / 1000) << 30, |_| 100);
        assert_eq!(at, None);
    }
}
