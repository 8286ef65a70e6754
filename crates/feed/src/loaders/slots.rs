//! Places in slots: given out, filled, given back; and slots told of when they are full.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpulane_decode::Form;

use super::open::Open;
use super::shared::{Shared, State};
use super::{Told, Unloaded};
use crate::ring::Piece;

/// Failures that are told at once, without waiting for a slot to tell them with.
const MANY_FAILED: usize = 256;

/// A part of an open slot that one thread writes to.
#[derive(Debug)]
pub(super) struct Reserved {
    /// The opening it is of.
    serial: u64,
    /// The part.
    pub(super) piece: Piece,
    /// The part for the members that go with the item, if there are any.
    pub(super) beside: Option<Piece>,
    /// Bytes promised to the item's name.
    name: u64,
}

/// Why there is no place for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No slot is large enough, even empty.
    TooLarge {
        /// What it could have.
        most: u64,
    },
    /// Items are to have one size, and this has another.
    Odd,
    /// It is over.
    Stopping,
}

enum Search {
    /// A place, and what is promised at the end of its slot.
    Found(Reserved, u64),
    /// This slot is full and done: tell it, then look again.
    Full(Open),
    Nothing,
}

impl Shared {
    /// A place for an item, in the oldest slot that has one. Waits for a free slot, and adds how long to `waited`.
    pub(super) fn reserve(
        &self,
        bytes: u64,
        name: u64,
        beside: u64,
        waited: &mut Duration,
    ) -> Result<Reserved, NoPlace> {
        let most = self.ring.geometry().most_item().saturating_sub(name);
        if bytes.saturating_add(beside) > most {
            return Err(NoPlace::TooLarge { most });
        }
        if self.fixed.is_some_and(|fixed| fixed != bytes) {
            return Err(NoPlace::Odd);
        }
        let mut state = self.lock();
        loop {
            if state.stopping {
                return Err(NoPlace::Stopping);
            }
            match self.search(&mut state, bytes, name, beside) {
                Search::Found(reserved, back) => {
                    drop(state);
                    return self.with_memory(reserved, back);
                }
                Search::Full(open) => {
                    drop(state);
                    self.complete(open);
                    state = self.lock();
                }
                Search::Nothing => {
                    let before = Instant::now();
                    state = self.slots.wait(state).unwrap_or_else(PoisonError::into_inner);
                    let time = before.elapsed();
                    *waited += time;
                    self.rates.waiting_for_slots.add_time(time);
                }
            }
        }
    }

    /// A place whose memory is there. Without it the map cannot go on.
    fn with_memory(&self, reserved: Reserved, back: u64) -> Result<Reserved, NoPlace> {
        let piece = &reserved.piece;
        let Err(error) = self.ring.get(piece.slot(), piece.end(), back) else { return Ok(reserved) };
        let told = std::mem::replace(&mut self.lock().stopping, true);
        if !told {
            (self.tell)(Told::Broken(error.to_string()));
        }
        self.wake_all();
        Err(NoPlace::Stopping)
    }

    fn search(&self, state: &mut State, bytes: u64, name: u64, beside: u64) -> Search {
        loop {
            let Some(at) = state.open.iter().position(Open::takes_more) else {
                if self.open_slot(state) {
                    continue;
                }
                return Search::Nothing;
            };
            let open = &mut state.open[at];
            if let Some((piece, beside)) = open.reserve(bytes, name, beside) {
                let back = open.back(self.ring.geometry().slot_bytes);
                return Search::Found(Reserved { serial: open.serial, piece, beside, name }, back);
            }
            open.close();
            if !open.is_quiet() {
                continue;
            }
            let open = state.open.remove(at);
            if !open.is_empty() {
                return Search::Full(open);
            }
            // Only holes: as good as new once it is opened again.
            Self::free(state, open);
        }
    }

    /// Opens a free slot. False: there is none.
    fn open_slot(&self, state: &mut State) -> bool {
        while let Some(slot) = state.free.pop() {
            state.serial += 1;
            let (serial, table) = (state.serial, self.ring.geometry().data_start());
            let open = self.ring.claim(slot);
            let open = open.and_then(|piece| Open::new(serial, piece, table, self.fixed, state.batch));
            if let Some(open) = open {
                state.open.push(open);
                return true;
            }
        }
        false
    }

    fn free(state: &mut State, open: Open) {
        let slot = open.slot();
        // First the claim ends, then the slot is free.
        drop(open);
        state.free.push(slot);
    }

    /// The item is in its place.
    pub(super) fn finish(&self, reserved: Reserved, item: (u64, String), form: Form, flaw: Option<String>) {
        self.ring.count_in_place(form.bytes);
        self.rates.items.add(1);
        self.rates.bytes_in.add(form.bytes);
        let mut state = self.lock();
        let Some(at) = state.open.iter().position(|open| open.serial == reserved.serial) else { return };
        let open = &mut state.open[at];
        let first = open.is_empty();
        open.keep(item, (reserved.piece, reserved.beside), (form, flaw), Instant::now());
        let done = open.is_done().then(|| state.open.remove(at));
        drop(state);
        match done {
            Some(open) => self.complete(open),
            None if first => self.keeper.notify_one(),
            None => {}
        }
    }

    /// The place has come free again, its item not in it.
    pub(super) fn release(&self, reserved: Reserved) {
        let mut state = self.lock();
        let Some(at) = state.open.iter().position(|open| open.serial == reserved.serial) else { return };
        let open = &mut state.open[at];
        open.release((reserved.piece, reserved.beside), reserved.name);
        if !open.is_done() {
            drop(state);
            // It has a place again that others may wait for.
            self.slots.notify_all();
            return;
        }
        let open = state.open.remove(at);
        if open.is_empty() {
            Self::free(&mut state, open);
            drop(state);
            self.slots.notify_all();
        } else {
            drop(state);
            self.complete(open);
        }
    }

    /// The item needs only the first `bytes` of its place.
    pub(super) fn trim(&self, reserved: &mut Reserved, bytes: u64) {
        let mut state = self.lock();
        if let Some(open) = state.open.iter_mut().find(|open| open.serial == reserved.serial) {
            open.trim(&mut reserved.piece, bytes);
        }
    }

    /// The item cannot be loaded.
    pub(super) fn fail(&self, failed: Unloaded) {
        self.rates.failed.add(1);
        let mut state = self.lock();
        state.failed.push(failed);
        if state.failed.len() >= MANY_FAILED {
            self.tell_failed(state);
        } else if state.failed_since.is_none() {
            state.failed_since = Some(Instant::now());
            drop(state);
            self.keeper.notify_one();
        }
    }

    /// Tells of failures that have not been told.
    pub(super) fn tell_failed(&self, mut state: MutexGuard<'_, State>) {
        let (failed, stopping) = (take_failed(&mut state), state.stopping);
        drop(state);
        if !failed.is_empty() && !stopping {
            (self.tell)(Told::Failed(failed));
        }
    }

    /// Makes a batch of a slot that is done, and tells it. Called by who is counted as busy.
    pub(super) fn complete(&self, open: Open) {
        let (mut filled, hold) = open.into_filled(&self.ring);
        let mut state = self.lock();
        if state.stopping {
            return;
        }
        state.out[filled.slot as usize] = Some(hold);
        filled.failed = take_failed(&mut state);
        drop(state);
        (self.tell)(Told::Filled(filled));
    }

    /// When nobody is busy and nothing is left: closes what is open, tells it and that this was all. Called after every
    /// end of being busy, and done by the one who comes last.
    pub(super) fn settle(&self, mut state: MutexGuard<'_, State>) {
        let all = state.drained && state.queue.is_empty() && state.busy == 0;
        if !all || state.is_over() {
            return;
        }
        state.finished = true;
        let open = std::mem::take(&mut state.open);
        drop(state);
        for open in open {
            if !open.is_empty() {
                self.complete(open);
            }
        }
        self.tell_failed(self.lock());
        let stopping = self.lock().stopping;
        if !stopping {
            (self.tell)(Told::Drained);
        }
        self.wake_all();
    }
}

fn take_failed(state: &mut State) -> Vec<Unloaded> {
    state.failed_since = None;
    std::mem::take(&mut state.failed)
}
