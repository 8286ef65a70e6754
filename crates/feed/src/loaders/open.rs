//! A slot while it is being filled: who has which part of it, and how it becomes a batch.
//!
//! Knows no lock and no clock but the instant it is handed.

use std::time::Instant;

use gpulane_decode::{Form, Kind};

use super::Filled;
use crate::ring::{ENTRY, Piece, Ring, entry};

/// Where an item of unknown size begins: good for any element and for copies to a device.
const ALIGN: u64 = 64;
/// Alignment that is enough for any element.
const LARGEST_ELEMENT: u64 = 8;

/// A slot that items go into.
#[derive(Debug)]
pub(super) struct Open {
    /// Tells it from a later opening of the same slot.
    pub(super) serial: u64,
    /// The slot's table; written when it is closed, and kept to hold the slot afterwards.
    table: Piece,
    /// What nobody has taken yet. Names go to its end, as members that go with items do.
    rest: Piece,
    /// Bytes of every item, where all have the same.
    fixed: Option<u64>,
    /// Items it is to have.
    batch: u32,
    /// Parts that were taken and given back. Of one size: places for the next items. Otherwise they come back to `rest`
    /// when they touch it.
    holes: Vec<Piece>,
    /// Parts for members that were given back and do not touch `rest`.
    back_holes: Vec<Piece>,
    /// Items that are in it.
    items: Vec<Loaded>,
    /// Parts that are taken and being written.
    in_flight: u32,
    /// Bytes promised to names.
    names: u64,
    /// Length of the part taken last.
    last: Option<u64>,
    /// No more parts are given out.
    closed: bool,
    /// When its first item was done.
    first: Option<Instant>,
}

/// An item in a slot.
#[derive(Debug)]
struct Loaded {
    number: u64,
    name: String,
    piece: Piece,
    /// The members that go with it.
    beside: Option<Piece>,
    form: Form,
    /// What is damaged of its picture.
    flaw: Option<String>,
}

impl Open {
    /// Begins with a whole slot. None: it is too small for its table.
    pub(super) fn new(
        serial: u64,
        mut slot: Piece,
        table: u64,
        fixed: Option<u64>,
        batch: u32,
    ) -> Option<Self> {
        let table = slot.cut_front(table)?;
        Some(Self {
            serial,
            table,
            rest: slot,
            fixed,
            batch,
            holes: Vec::new(),
            back_holes: Vec::new(),
            items: Vec::new(),
            in_flight: 0,
            names: 0,
            last: None,
            closed: false,
            first: None,
        })
    }

    pub(super) fn slot(&self) -> u32 {
        self.table.slot()
    }

    /// Bytes at the end of the slot that are taken by members, or promised to names.
    pub(super) const fn back(&self, slot_bytes: u64) -> u64 {
        slot_bytes.saturating_sub(self.rest.end()) + self.names
    }

    /// Whether another item may come in, its size aside.
    pub(super) fn takes_more(&self) -> bool {
        !self.closed && self.items.len() + (self.in_flight as usize) < self.batch as usize
    }

    /// Takes no more items from now on.
    pub(super) const fn close(&mut self) {
        self.closed = true;
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether nothing is being written and nothing more will be.
    pub(super) fn is_done(&self) -> bool {
        self.in_flight == 0 && (self.closed || self.items.len() >= self.batch as usize)
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.in_flight == 0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Since when an item has been waiting in it.
    pub(super) const fn waits_since(&self) -> Option<Instant> {
        self.first
    }

    /// A part for an item with a name of so many bytes, and one for the members beside it. None: there is no room for all.
    pub(super) fn reserve(&mut self, bytes: u64, name: u64, beside: u64) -> Option<(Piece, Option<Piece>)> {
        let names = self.names.checked_add(name)?;
        let back = names.checked_add(beside)?;
        let piece = if self.fixed.is_some() { self.place(bytes, back)? } else { self.cut(bytes, back)? };
        // There is room for it: it was asked for with the names.
        let beside = if beside > 0 { self.rest.cut_back(beside) } else { None };
        self.in_flight += 1;
        self.names = names;
        self.last = Some(bytes);
        Some((piece, beside))
    }

    /// One size: a place that was given back, or the next.
    fn place(&mut self, bytes: u64, names: u64) -> Option<Piece> {
        if self.rest.len() < names {
            return None;
        }
        let lowest = (0..self.holes.len()).min_by_key(|at| self.holes[*at].start());
        if let Some(at) = lowest {
            return Some(self.holes.swap_remove(at));
        }
        (self.rest.len() - names >= bytes).then(|| self.rest.cut_front(bytes))?
    }

    /// Any size: the next bytes, aligned.
    fn cut(&mut self, bytes: u64, names: u64) -> Option<Piece> {
        let start = self.rest.start();
        // Items of one length stay back to back where that leaves every element aligned, so that they can be one array.
        let follows = self.last == Some(bytes) && bytes.is_multiple_of(LARGEST_ELEMENT);
        let gap = if follows { 0 } else { start.next_multiple_of(ALIGN) - start };
        let needed = gap.checked_add(bytes)?.checked_add(names)?;
        if self.rest.len() < needed {
            return None;
        }
        if gap > 0 {
            self.holes.extend(self.rest.cut_front(gap));
        }
        self.rest.cut_front(bytes)
    }

    /// The item in this part is done.
    pub(super) fn keep(
        &mut self,
        (number, name): (u64, String),
        (piece, beside): (Piece, Option<Piece>),
        (form, flaw): (Form, Option<String>),
        now: Instant,
    ) {
        self.in_flight -= 1;
        self.first.get_or_insert(now);
        self.items.push(Loaded { number, name, piece, beside, form, flaw });
    }

    /// The item did not come about: its part is free again.
    pub(super) fn release(&mut self, (piece, beside): (Piece, Option<Piece>), name: u64) {
        self.in_flight -= 1;
        self.names -= name;
        self.give(piece);
        self.back_holes.extend(beside);
        while let Some(at) = self.back_holes.iter().position(|hole| hole.start() == self.rest.end()) {
            if let Err(hole) = self.rest.join_back(self.back_holes.swap_remove(at)) {
                self.back_holes.push(hole);
                return;
            }
        }
    }

    /// A part that turned out longer than its item needs gives its end back. The item may be longer than the next is given, so
    /// that one starts aligned.
    pub(super) fn trim(&mut self, piece: &mut Piece, bytes: u64) {
        if let Some(tail) = piece.len().checked_sub(bytes).and_then(|excess| piece.cut_back(excess)) {
            self.last = None;
            self.give(tail);
        }
    }

    fn give(&mut self, piece: Piece) {
        self.holes.push(piece);
        if self.fixed.is_some() {
            return;
        }
        while let Some(at) = self.holes.iter().position(|hole| hole.end() == self.rest.start()) {
            if let Err(hole) = self.rest.join_front(self.holes.swap_remove(at)) {
                self.holes.push(hole);
                return;
            }
            self.last = None;
        }
    }

    /// Makes a batch of it: holes closed, table and names written. The piece keeps the slot until it is given back.
    pub(super) fn into_filled(mut self, ring: &Ring) -> (Filled, Piece) {
        if let Some(bytes) = self.fixed {
            self.close_holes(ring, bytes);
        }
        // An item without data lies where the next one begins, and comes before it.
        self.items.sort_unstable_by_key(|item| (item.piece.start(), item.form.bytes));
        let names: u64 = self.items.iter().map(|item| item.name.len() as u64).sum();
        // Every name had its room promised.
        let mut names = self.rest.cut_back(names);
        let (mut at, mut copied) = (names.as_ref().map_or(0, Piece::start), 0);
        let table = self.table.bytes_mut();
        for (row, item) in table.chunks_exact_mut(ENTRY).zip(&self.items) {
            let name = item.name.as_bytes();
            if let Some(to) =
                names.as_mut().and_then(|names| names.bytes_mut().get_mut(copied..copied + name.len()))
            {
                to.copy_from_slice(name);
            }
            let lies = (low_half(at), low_half(name.len() as u64));
            let beside = item.beside.as_ref().map_or((0, 0), |beside| (beside.start(), beside.len()));
            let beside = (low_half(beside.0), low_half(beside.1));
            row.copy_from_slice(&entry(item.number, item.piece.start(), &item.form, lies, beside));
            at += name.len() as u64;
            copied += name.len();
        }
        let start = self.items.first().map_or(self.table.end(), |item| item.piece.start());
        let end = self.items.last().map_or(start, |item| item.piece.start() + item.form.bytes);
        let flaws = self.items.iter_mut().filter_map(|item| Some((item.number, item.flaw.take()?)));
        let mut damaged: Vec<(u64, String)> = flaws.collect();
        damaged.sort_unstable();
        let filled = Filled {
            slot: self.table.slot(),
            packed: is_packed(&self.items),
            items: self.items.into_iter().map(|item| (item.number, item.name)).collect(),
            data: start..end,
            failed: Vec::new(),
            damaged,
        };
        (filled, self.table)
    }

    /// One size: moves the last items into places that stayed empty before them.
    fn close_holes(&mut self, ring: &Ring, bytes: u64) {
        let end = self.table.end() + bytes * self.items.len() as u64;
        for mut hole in self.holes.drain(..) {
            if hole.start() >= end {
                continue;
            }
            if let Some(last) = self.items.iter_mut().max_by_key(|item| item.piece.start()) {
                ring.copy_in(&last.piece, &mut hole);
                last.piece = hole;
            }
        }
    }
}

/// Offsets in a slot have 32 bits, because a slot is below 4 GiB.
fn low_half(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether the items, in order of their places, are one array.
fn is_packed(items: &[Loaded]) -> bool {
    let Some(first) = items.first() else { return false };
    first.form.kind == Kind::Array
        && items.iter().all(|item| item.form == first.form)
        && items.windows(2).all(|two| two[0].piece.start() + first.form.bytes == two[1].piece.start())
}

#[cfg(test)]
mod tests;
