//! The newest wakes of one thread, and whether another is like them: in when it came, and in how much was read and written.

use std::collections::VecDeque;

use gpulane_model::Millis;

/// One wake, or some between two looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// Since the one before.
    pub(crate) gap: Millis,
    /// Since the look before: as exact as `gap` is.
    pub(crate) step: Millis,
    pub(crate) wakes: u64,
    pub(crate) io: u64,
    pub(crate) cpu: u64,
    /// Unlike the others: it was counted as work.
    pub(crate) odd: bool,
}

/// The newest wakes, as far as looks can tell them apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakes(VecDeque<Wake>);

/// The number of wakes that make a rhythm: the first, and one for each interval.
const RHYTHM: usize = 8;
/// The number of wakes that are remembered.
const REMEMBERED: usize = 16;
/// As many of those that make a rhythm may be odd: on a busy machine one takes longer, or reads more of `/proc`, now and then.
const ODD: usize = 2;
/// What I/O may differ by from wake to wake beside a quarter, in bytes.
pub(crate) const SLACK: u64 = 1024;
/// In one wake a thread may wait so often for locks and disks.
const ONE_WAKE: u64 = 4;

impl Wakes {
    /// Adds one. Where too many are odd there is no rhythm, and they are forgotten.
    pub(crate) fn add(&mut self, wake: Wake) {
        self.0.push_back(wake);
        if self.0.len() > REMEMBERED {
            self.0.pop_front();
        }
        if self.newest().filter(|wake| wake.odd).count() > ODD {
            self.0.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there were enough of them.
    pub(crate) fn are_a_rhythm(&self) -> bool {
        self.0.len() + 1 >= RHYTHM
    }

    /// Whether none of those that make a rhythm is odd.
    pub(crate) fn are_all_alike(&self) -> bool {
        !self.newest().any(|wake| wake.odd)
    }

    fn newest(&self) -> impl Iterator<Item = &Wake> {
        self.0.iter().rev().take(RHYTHM - 1)
    }

    /// Time and CPU time of all of them and one more.
    pub(crate) fn totals(&self, gap: Millis, cpu: u64) -> (u64, u64) {
        let time = self.0.iter().fold(gap.0, |time, wake| time.saturating_add(wake.gap.0));
        (time, self.0.iter().fold(cpu, |used, wake| used.saturating_add(wake.cpu)))
    }

    /// Whether these come when those of another thread do, as exactly as looks can tell. A thread that is woken may wait for a lock or two
    /// before it has what it was woken for.
    pub(crate) fn keep_time_with(&self, other: &Self) -> bool {
        let gap = |wakes: &Self| median(wakes.0.iter().map(|wake| wake.gap.0));
        let (Some(own), Some(others)) = (gap(self), gap(other)) else { return true };
        let exact = self.0.iter().chain(&other.0).map(|wake| wake.step.0).max().unwrap_or(0);
        let ((fast, slow), (others_fast, others_slow)) = (self.paces(), other.paces());
        let as_often =
            fast.saturating_mul(ONE_WAKE) >= others_slow && slow <= others_fast.saturating_mul(ONE_WAKE);
        near(own, others, exact) && as_often
    }

    /// Wakes in a thousand seconds, at most and at least.
    fn paces(&self) -> (u64, u64) {
        let (mut many, mut time, mut exact) = (0_u64, 0_u64, 0);
        for wake in &self.0 {
            (many, time) = (many.saturating_add(wake.wakes), time.saturating_add(wake.gap.0));
            exact = wake.step.0.max(exact);
        }
        (pace(many, time.saturating_sub(exact)), pace(many, time.saturating_add(exact)))
    }

    /// Whether so much was read and written in as many wakes before, by looks or by wakes.
    pub(crate) fn are_alike(&self, io: u64, wakes: u64) -> bool {
        let whole = median(self.0.iter().map(|wake| wake.io));
        let each = median(self.0.iter().map(|wake| wake.io / wake.wakes.max(1)));
        let (Some(whole), Some(each)) = (whole, each) else { return true };
        near(io, whole, SLACK) || near(io / wakes.max(1), each, SLACK)
    }

    /// Whether a thread that others wake runs when it is due, as exactly as looks can tell. How often it then waits for a lock says nothing.
    pub(crate) fn come_evenly(&self, gap: Option<Millis>, step: Millis, wakes: u64) -> bool {
        let usual = median(self.0.iter().map(|wake| wake.gap.0));
        let (Some(gap), Some(usual)) = (gap, usual) else { return true };
        let exact = self.0.iter().map(|wake| wake.step.0).max().unwrap_or(0).max(step.0);
        let (fast, slow) = self.paces();
        let own = pace(wakes, gap.0);
        let as_often = own <= fast.saturating_mul(ONE_WAKE) && own.saturating_mul(ONE_WAKE) >= slow;
        near(gap.0, usual, 2 * exact) && as_often
    }

    /// Whether wakes come when they are due, as exactly as looks can tell.
    pub(crate) fn are_regular(&self, gap: Option<Millis>, step: Millis, wakes: u64) -> bool {
        let Some(gap) = gap else { return true };
        let single = |wake: &Wake| is_single(wake.gap, wake.step, wake.wakes);
        if is_single(gap, step, wakes) && self.0.iter().all(single) {
            let usual = median(self.0.iter().map(|wake| wake.gap.0));
            let exact = self.0.iter().map(|wake| wake.step.0).max().unwrap_or(0).max(step.0);
            return usual.is_none_or(|usual| near(gap.0, usual, 2 * exact));
        }
        let usual = median(self.0.iter().map(|wake| pace(wake.wakes, wake.gap.0)));
        let Some(usual) = usual else { return true };
        if gap.0 <= step.0 + step.0 / 2
            && self.0.iter().all(|wake| wake.gap.0 <= wake.step.0 + wake.step.0 / 2)
        {
            // It runs between all looks: as often as before, give or take a wake.
            let least = self.0.iter().map(|wake| wake.wakes).min().unwrap_or(1).max(1);
            return near(pace(wakes, gap.0), usual, pace(least + least / 4, gap.0));
        }
        // When it ran is known to a look before and after, now and then.
        let (fast, slow) = self.paces();
        let (slowest, fastest) = (pace(wakes, gap.0 + step.0), pace(wakes, gap.0.saturating_sub(step.0)));
        slowest <= fast.saturating_add(fast / 4) && fastest >= slow - slow / 4
    }
}

/// Wakes in a thousand seconds.
fn pace(wakes: u64, gap: u64) -> u64 {
    wakes.saturating_mul(1_000_000) / gap.max(1)
}

/// Whether looks are close enough to see each wake by itself.
pub(crate) const fn is_single(gap: Millis, step: Millis, wakes: u64) -> bool {
    gap.0 >= 3 * step.0 && wakes <= ONE_WAKE
}

/// Within a quarter, or within so much.
fn near(value: u64, usual: u64, slack: u64) -> bool {
    value.abs_diff(usual) <= (usual / 4).saturating_add(slack)
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}
