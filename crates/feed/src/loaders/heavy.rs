//! A bound on the memory that large items take while they are read and decoded: few at a time, however many threads there are.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What is too little to be counted. Each thread may have that much beside the budget.
pub(super) const LIGHT: u64 = 16 << 20;

/// Memory that heavy items share. Who asks first is served first, so that a giant is not passed over for ever.
#[derive(Debug)]
pub(super) struct Heavy {
    /// What all have together.
    budget: u64,
    state: Mutex<State>,
    /// Something was given back, or somebody was served.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What nobody has.
    left: u64,
    /// How many have asked.
    asked: u64,
    /// How many of them have been served.
    served: u64,
}

/// A part of it, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Load<'h> {
    of: &'h Heavy,
    bytes: u64,
}

impl Heavy {
    pub(super) const fn new(budget: u64) -> Self {
        let state = State { left: budget, asked: 0, served: 0 };
        Self { budget, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until so much may be used. What is light passes; what is more than all there is waits to be alone. Those who
    /// hold a part never wait for anything that waits for this, so it comes free.
    pub(super) fn take(&self, bytes: u64) -> Option<Load<'_>> {
        if bytes <= LIGHT {
            return None;
        }
        let bytes = bytes.min(self.budget);
        let mut state = self.lock();
        let turn = state.asked;
        state.asked += 1;
        let mut state = self
            .changed
            .wait_while(state, |state| state.served != turn || state.left < bytes)
            .unwrap_or_else(PoisonError::into_inner);
        state.left -= bytes;
        state.served += 1;
        drop(state);
        self.changed.notify_all();
        Some(Load { of: self, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.of.lock().left += self.bytes;
        self.of.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const BUDGET: u64 = 1 << 30;

    #[test]
    fn giants_go_one_by_one_and_all_get_their_turn() {
        let (heavy, inside, most) = (Heavy::new(BUDGET), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _load = heavy.take(u64::MAX);
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((most.into_inner(), heavy.lock().left), (1, BUDGET));
    }

    #[test]
    fn never_more_than_the_budget_is_out() {
        let (heavy, out) = (Heavy::new(BUDGET), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 1..9 {
                let (heavy, out) = (&heavy, &out);
                scope.spawn(move || {
                    for round in 0..200 {
                        let bytes = LIGHT + 1 + thread * round * (1 << 19);
                        let _load = heavy.take(bytes);
                        let now = out.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(now <= BUDGET, "{now}");
                        out.fetch_sub(bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(heavy.lock().left, BUDGET);
    }

    #[test]
    fn what_is_light_passes() {
        let heavy = Heavy::new(BUDGET);
        let _all = heavy.take(BUDGET);
        assert!(heavy.take(LIGHT).is_none());
    }
}
