//! Items on their way from the source to the threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use gpulane_items::{Item, Place};

use super::shared::{Shared, State};
use super::streams::Turn;
use super::{Source, Told};

/// Items asked of the source at once.
const MOST: usize = 1024;
/// Items below which a thread fetches more while others work on.
const FEW: usize = 256;

impl Shared {
    /// The next item, with its turn at the compressed tar it lies in. `had_one`: the thread is through with the one before. None:
    /// there are no more for this thread.
    pub(super) fn next(&self, had_one: bool) -> Option<(Item, Option<Turn<'_>>)> {
        let mut state = self.lock();
        state.busy -= usize::from(had_one);
        loop {
            if state.is_over() {
                return None;
            }
            if let Some(source) = self.source_to_ask(&mut state) {
                drop(state);
                state = self.ask(source)?;
                continue;
            }
            if let Some(item) = state.queue.pop_front() {
                state.busy += 1;
                // With the lock: turns are in the order of the items.
                let turn = match item.place {
                    Place::Member { archive, .. } => self.streams.turn(archive),
                    _ => None,
                };
                return Some((item, turn));
            }
            if state.drained {
                self.settle(state);
                return None;
            }
            let before = Instant::now();
            state = self.items.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.rates.waiting_for_items.add_time(before.elapsed());
        }
    }

    /// The row of the item that comes behind the next `rows` ones at the latest, if it is one of a table.
    pub(super) fn row_behind(&self, rows: usize) -> Option<(u32, u64)> {
        let state = self.lock();
        let item = state.queue.get(rows)?;
        if let Place::Row { table, row } = item.place { Some((table, row)) } else { None }
    }

    fn source_to_ask(&self, state: &mut State) -> Option<Box<dyn Source>> {
        // A lone thread works on what is there before it asks: the source may wait.
        let few = state.queue.is_empty() || (self.rates.threads > 1 && state.queue.len() < FEW);
        if few && !state.drained { state.source.take() } else { None }
    }

    /// Reads from the source, without the lock. None: it failed, and it is over.
    fn ask(&self, mut source: Box<dyn Source>) -> Option<MutexGuard<'_, State>> {
        let before = Instant::now();
        let mut more = Vec::new();
        let read = catch_unwind(AssertUnwindSafe(|| source.more(MOST, &mut more)))
            .unwrap_or_else(|_| Err(io::Error::other("reading the list of items failed")));
        self.rates.waiting_for_items.add_time(before.elapsed());
        let mut state = self.lock();
        if let Err(error) = read {
            let first = !state.is_over();
            state.stopping = true;
            drop(state);
            self.wake_all();
            if first {
                (self.tell)(Told::Broken(error.to_string()));
            }
            return None;
        }
        state.drained = more.is_empty();
        state.queue.extend(more);
        state.source = Some(source);
        self.items.notify_all();
        Some(state)
    }
}
