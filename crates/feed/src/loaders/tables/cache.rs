//! What several threads need at once, made by one of them: footers, page indexes and pages of tables. Bounded in memory and in number.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a value counts for at least: its place among the others.
const LEAST: u64 = 4 << 10;

/// Values by their keys. Who asks first for one makes it, the others wait for that. Values that nobody holds go, the one longest unused
/// first, when there are too many or memory is needed.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    /// Memory of all values; one that alone takes more waits until it is alone.
    budget: u64,
    /// Values that nobody holds, at most.
    idle: usize,
    state: Mutex<State<K, V>>,
    /// A value was made, or memory may have come free.
    changed: Condvar,
}

#[derive(Debug)]
struct State<K, V> {
    values: HashMap<K, Entry<V>>,
    /// Memory that values have, and those that are being made.
    used: u64,
    /// Counts every use.
    clock: u64,
}

#[derive(Debug)]
enum Entry<V> {
    Coming,
    There { value: Arc<V>, bytes: u64, used_at: u64 },
}

/// A value in use: it stays where it is until this is dropped.
#[derive(Debug)]
pub(super) struct Held<'c, K, V> {
    cache: &'c Cache<K, V>,
    /// Absent only while it is being dropped.
    value: Option<Arc<V>>,
}

/// A value made, and the memory it keeps.
pub(super) type Made<V> = (V, u64);

/// Whether to wait for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    Leaves,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    pub(super) fn new(budget: u64, idle: usize) -> Self {
        let state = State { values: HashMap::new(), used: 0, clock: 0 };
        Self { budget, idle, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The value, made by `make` if it is not there; making it takes `cost` bytes. Who holds a value of this cache must not ask for
    /// another one: its memory may be what the other waits for.
    pub(super) fn get(&self, key: K, cost: u64, make: impl FnOnce() -> Made<V>) -> Held<'_, K, V> {
        let mut state = self.lock();
        loop {
            match state.values.get(&key) {
                Some(Entry::There { .. }) => return self.hold(&mut state, key),
                Some(Entry::Coming) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        let state = self.begin(state, key, cost, Patience::Waits);
        let made = state.is_some();
        debug_assert!(made, "who waits is served");
        drop(state);
        self.make(key, cost, make)
    }

    /// Makes the value if nobody has or does, and there is memory for it without waiting.
    pub(super) fn make_ahead(&self, key: K, cost: u64, make: impl FnOnce() -> Made<V>) {
        let state = self.lock();
        if state.values.contains_key(&key) {
            return;
        }
        if let Some(state) = self.begin(state, key, cost, Patience::Leaves) {
            drop(state);
            drop(self.make(key, cost, make));
        }
    }

    #[cfg(test)]
    fn has(&self, key: K) -> bool {
        self.lock().values.contains_key(&key)
    }

    /// Takes the memory for a value and marks it as coming. None: there is too little, and it was not waited for.
    fn begin<'s>(
        &'s self,
        mut state: MutexGuard<'s, State<K, V>>,
        key: K,
        cost: u64,
        patience: Patience,
    ) -> Option<MutexGuard<'s, State<K, V>>> {
        let cost = cost.max(LEAST).min(self.budget);
        // Who would have to wait lets nothing go for it.
        if patience == Patience::Leaves && state.held().saturating_add(cost) > self.budget {
            return None;
        }
        // Marked first: nobody else is to wait for the same memory.
        state.values.insert(key, Entry::Coming);
        loop {
            while state.used.saturating_add(cost) > self.budget && state.evict() {}
            if state.used.saturating_add(cost) <= self.budget {
                state.used += cost;
                return Some(state);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn make(&self, key: K, cost: u64, make: impl FnOnce() -> Made<V>) -> Held<'_, K, V> {
        let taken = cost.max(LEAST).min(self.budget);
        let unmade = Unmade { cache: self, key, taken };
        let (value, bytes) = make();
        std::mem::forget(unmade);
        let bytes = bytes.max(LEAST).min(taken);
        let mut state = self.lock();
        state.used = state.used - taken + bytes;
        let used_at = state.clock;
        state.values.insert(key, Entry::There { value: Arc::new(value), bytes, used_at });
        let held = self.hold(&mut state, key);
        while state.idle() > self.idle && state.evict() {}
        drop(state);
        self.changed.notify_all();
        held
    }

    /// Holds a value that is there.
    fn hold(&self, state: &mut State<K, V>, key: K) -> Held<'_, K, V> {
        state.clock += 1;
        let clock = state.clock;
        let value = match state.values.get_mut(&key) {
            Some(Entry::There { value, used_at, .. }) => {
                *used_at = clock;
                Some(Arc::clone(value))
            }
            _ => None,
        };
        Held { cache: self, value }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash, V> State<K, V> {
    fn idle(&self) -> usize {
        let idle =
            |entry: &&Entry<V>| matches!(entry, Entry::There { value, .. } if Arc::strong_count(value) == 1);
        self.values.values().filter(idle).count()
    }

    /// Memory of what is in use or being made: all but that of values that can go.
    fn held(&self) -> u64 {
        let free = self.values.values().map(|entry| match entry {
            Entry::There { value, bytes, .. } if Arc::strong_count(value) == 1 => *bytes,
            _ => 0,
        });
        self.used - free.sum::<u64>()
    }

    /// Lets the value go that nobody holds and that was used longest ago. False: there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.values.iter().filter_map(|(key, entry)| match entry {
            Entry::There { value, used_at, .. } if Arc::strong_count(value) == 1 => Some((*used_at, *key)),
            _ => None,
        });
        let Some((_, key)) = oldest.min_by_key(|(used_at, _)| *used_at) else { return false };
        if let Some(Entry::There { bytes, .. }) = self.values.remove(&key) {
            self.used -= bytes;
        }
        true
    }
}

/// Takes back the mark of a value whose making panicked, so that nobody waits for it.
struct Unmade<'c, K: Copy + Eq + Hash, V> {
    cache: &'c Cache<K, V>,
    key: K,
    taken: u64,
}

impl<K: Copy + Eq + Hash, V> Drop for Unmade<'_, K, V> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        state.values.remove(&self.key);
        state.used -= self.taken;
        drop(state);
        self.cache.changed.notify_all();
    }
}

impl<K, V> std::ops::Deref for Held<'_, K, V> {
    type Target = V;

    fn deref(&self) -> &V {
        // Only its drop takes the value out, and nothing can be asked of it then.
        match &self.value {
            Some(value) => value,
            None => unreachable!("a value in use is there"),
        }
    }
}

impl<K, V> Drop for Held<'_, K, V> {
    fn drop(&mut self) {
        // With the lock: who looks for memory sees it held, or not held and is woken.
        let state = self.cache.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.value = None;
        drop(state);
        self.cache.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const PAGE: u64 = 1 << 20;

    #[test]
    fn a_value_is_made_once_for_all_who_ask() {
        let (cache, made) = (Cache::new(8 * PAGE, 4), AtomicU64::new(0));
        let (all, cache, made) = (&std::sync::Barrier::new(8), &cache, &made);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    for key in 0..50_u64 {
                        all.wait();
                        let held = cache.get(key, PAGE, || {
                            made.fetch_add(1, Ordering::SeqCst);
                            (key * 3, PAGE)
                        });
                        assert_eq!(*held, key * 3);
                    }
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 50);
    }

    #[test]
    fn values_never_take_more_than_the_budget_and_giants_go_alone() {
        let (cache, out) = (Cache::new(4 * PAGE, 100), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..6_u64 {
                let (cache, out) = (&cache, &out);
                scope.spawn(move || {
                    for round in 0..60 {
                        let bytes = if round % 7 == 0 { 100 * PAGE } else { PAGE };
                        let counted = bytes.min(4 * PAGE);
                        let held = cache.get(thread * 1000 + round, bytes, || {
                            let now = out.fetch_add(counted, Ordering::SeqCst) + counted;
                            assert!(now <= 4 * PAGE, "{now}");
                            out.fetch_sub(counted, Ordering::SeqCst);
                            ((), bytes)
                        });
                        drop(held);
                    }
                });
            }
        });
        assert!(cache.lock().used <= 4 * PAGE);
    }

    #[test]
    fn what_is_held_stays_and_what_is_ahead_does_not_wait() {
        let cache = Cache::new(2 * PAGE, 1);
        let held = cache.get(1, PAGE, || ("one", PAGE));
        drop(cache.get(2, PAGE, || ("two", PAGE)));
        cache.make_ahead(3, 2 * PAGE, || unreachable!("one is held"));
        assert!(!cache.has(3) && cache.has(2) && *held == "one", "nothing goes for what does not fit");
        cache.make_ahead(4, PAGE, || ("four", PAGE));
        assert!(cache.has(4) && !cache.has(2) && cache.has(1));
    }

    #[test]
    fn a_making_that_panics_leaves_nobody_waiting() {
        let cache = Cache::<u32, u32>::new(PAGE, 1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(cache.get(1, PAGE, || panic!("damaged")));
        }));
        assert!(panicked.is_err());
        assert_eq!(*cache.get(1, PAGE, || (7, PAGE)), 7);
    }
}
