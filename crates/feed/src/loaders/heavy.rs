//! A bound on what large items cost while they are decoded: few at a time, however many threads there are.

use std::sync::{Condvar, Mutex, PoisonError};

/// What all heavy items may have at once.
const BUDGET: u64 = 1 << 30;
/// What is too little to be counted.
const LIGHT: u64 = 64 << 20;

/// Memory that heavy items share.
#[derive(Debug)]
pub(super) struct Heavy {
    /// What nobody has.
    left: Mutex<u64>,
    /// Something was given back.
    freed: Condvar,
}

/// A part of it, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Load<'h> {
    of: &'h Heavy,
    bytes: u64,
}

impl Heavy {
    pub(super) const fn new() -> Self {
        Self { left: Mutex::new(BUDGET), freed: Condvar::new() }
    }

    /// Waits until so much may be used. What is light passes; what is more than all there is waits to be alone. Those who
    /// hold a part never wait for anything that waits for this, so it comes free.
    pub(super) fn take(&self, bytes: u64) -> Option<Load<'_>> {
        if bytes <= LIGHT {
            return None;
        }
        let bytes = bytes.min(BUDGET);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left =
            self.freed.wait_while(left, |left| *left < bytes).unwrap_or_else(PoisonError::into_inner);
        *left -= bytes;
        Some(Load { of: self, bytes })
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        *self.of.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.of.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn giants_go_one_by_one_and_all_get_their_turn() {
        let (heavy, inside, most) = (Heavy::new(), AtomicU64::new(0), AtomicU64::new(0));
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
        assert_eq!((most.into_inner(), *heavy.left.lock().unwrap()), (1, BUDGET));
    }

    #[test]
    fn what_is_light_passes() {
        let heavy = Heavy::new();
        let _all = heavy.take(BUDGET);
        assert!(heavy.take(LIGHT).is_none());
    }
}
