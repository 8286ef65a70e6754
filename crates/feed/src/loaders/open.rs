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
    /// What nobody has taken yet. Names go to its end.
    rest: Piece,
    /// Bytes of every item, where all have the same.
    fixed: Option<u64>,
    /// Items it is to have.
    batch: u32,
    /// Parts that were taken and given back. Of one size: places for the next items. Otherwise they come back to `rest`
    /// when they touch it.
    holes: Vec<Piece>,
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

    /// Bytes promised to names, which stand at the slot's end.
    pub(super) const fn names(&self) -> u64 {
        self.names
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

    /// A part for an item with a name of so many bytes. None: there is no room for both.
    pub(super) fn reserve(&mut self, bytes: u64, name: u64) -> Option<Piece> {
        let names = self.names.checked_add(name)?;
        let piece = if self.fixed.is_some() { self.place(bytes, names)? } else { self.cut(bytes, names)? };
        self.in_flight += 1;
        self.names = names;
        self.last = Some(bytes);
        Some(piece)
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
        piece: Piece,
        (form, flaw): (Form, Option<String>),
        now: Instant,
    ) {
        self.in_flight -= 1;
        self.first.get_or_insert(now);
        self.items.push(Loaded { number, name, piece, form, flaw });
    }

    /// The item did not come about: its part is free again.
    pub(super) fn release(&mut self, piece: Piece, name: u64) {
        self.in_flight -= 1;
        self.names -= name;
        self.give(piece);
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
        self.items.sort_unstable_by_key(|item| item.piece.start());
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
            row.copy_from_slice(&entry(item.number, item.piece.start(), &item.form, lies));
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
mod tests {
    use std::sync::Arc;

    use gpulane_decode::Element;
    use proptest::prelude::*;

    use super::*;
    use crate::ring::Geometry;

    const GEOMETRY: Geometry = Geometry { slots: 1, slot_bytes: 64 << 10, capacity: 64 };

    fn ring() -> Arc<Ring> {
        Arc::new(Ring::new(GEOMETRY).unwrap())
    }

    fn open(ring: &Arc<Ring>, fixed: Option<u64>) -> Open {
        Open::new(1, ring.claim(0).unwrap(), GEOMETRY.data_start(), fixed, 64).unwrap()
    }

    fn array(bytes: u64) -> Form {
        let dims = [u32::try_from(bytes).unwrap(), 0, 0, 0];
        Form {
            kind: Kind::Array,
            element: Element::U8,
            orientation: 1,
            chroma: 0,
            dims,
            ndim: 1,
            bytes,
            damaged: false,
        }
    }

    fn put(open: &mut Open, number: u8, mut piece: Piece) {
        piece.bytes_mut().fill(number);
        let form = array(piece.len());
        open.keep((number.into(), number.to_string()), piece, (form, None), Instant::now());
    }

    #[test]
    fn places_of_one_size_that_failed_are_taken_by_the_next() {
        let ring = ring();
        let mut open = open(&ring, Some(100));
        let pieces: Vec<_> = (0..3).map(|_| open.reserve(100, 1).unwrap()).collect();
        let [first, second, third] = pieces.try_into().unwrap();
        put(&mut open, 0, first);
        put(&mut open, 2, third);
        let place = second.start();
        open.release(second, 1);
        let again = open.reserve(100, 1).unwrap();
        assert_eq!(again.start(), place);
        put(&mut open, 3, again);
        let (filled, _) = open.into_filled(&ring);
        assert_eq!(filled.items.iter().map(|item| item.0).collect::<Vec<_>>(), [0, 3, 2]);
        assert!(filled.packed && ring.counters().copied_in == 0);
    }

    #[test]
    fn a_hole_that_stays_is_closed_by_the_last_item_and_counted() {
        let ring = ring();
        let mut open = open(&ring, Some(100));
        let pieces: Vec<_> = (0..4).map(|_| open.reserve(100, 1).unwrap()).collect();
        for (number, piece) in (0..).zip(pieces) {
            if number == 1 { open.release(piece, 1) } else { put(&mut open, number, piece) }
        }
        let (filled, _) = open.into_filled(&ring);
        assert_eq!(filled.items.iter().map(|item| item.0).collect::<Vec<_>>(), [0, 3, 2]);
        assert_eq!((filled.packed, filled.data.end - filled.data.start), (true, 300));
        assert_eq!(ring.counters().copied_in, 100);
    }

    #[test]
    fn what_is_given_back_at_the_end_is_there_for_the_next() {
        let ring = ring();
        let mut open = open(&ring, None);
        let whole = open.rest.len();
        let mut first = open.reserve(1000, 3).unwrap();
        let second = open.reserve(77, 3).unwrap();
        open.release(second, 3);
        open.trim(&mut first, 10);
        let start = first.start();
        let next = open.reserve(500, 3).unwrap();
        assert_eq!(next.start(), start + 64, "right behind what was kept, aligned");
        open.release(next, 3);
        open.release(first, 3);
        assert_eq!((open.rest.len(), open.names, open.holes.len()), (whole, 0, 0));
    }

    #[test]
    fn arrays_of_one_length_are_back_to_back_where_elements_stay_aligned() {
        for (bytes, packed) in [(4000, true), (64, true), (4001, false)] {
            let ring = ring();
            let mut open = open(&ring, None);
            for number in 0..3 {
                let piece = open.reserve(bytes, 1).unwrap();
                put(&mut open, number, piece);
            }
            assert_eq!(open.into_filled(&ring).0.packed, packed, "{bytes}");
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Reserve(u64, u64),
        Keep(prop::sample::Index),
        Release(prop::sample::Index),
        Trim(prop::sample::Index, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..5000_u64, 0..400_u64).prop_map(|(bytes, name)| Step::Reserve(bytes, name)),
            3 => any::<prop::sample::Index>().prop_map(Step::Keep),
            1 => any::<prop::sample::Index>().prop_map(Step::Release),
            1 => (any::<prop::sample::Index>(), 0..5000_u64).prop_map(|(at, bytes)| Step::Trim(at, bytes)),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Content tells whether two parts overlapped: each is filled with its own number, and all are checked at the end.
        #[test]
        fn whatever_order_things_come_in_all_that_was_kept_is_there(steps in steps(), fixed in any::<bool>()) {
            let ring = ring();
            let size = fixed.then_some(700);
            let mut open = open(&ring, size);
            let (mut hands, mut number) = (Vec::new(), 0_u8);
            let mut kept = std::collections::BTreeMap::new();
            for step in steps {
                match step {
                    Step::Reserve(bytes, name) if open.takes_more() => {
                        if let Some(piece) = open.reserve(size.unwrap_or(bytes), name) {
                            prop_assert_eq!(piece.len(), size.unwrap_or(bytes));
                            hands.push((piece, name));
                        }
                    }
                    Step::Keep(at) if !hands.is_empty() => {
                        let (mut piece, name) = hands.swap_remove(at.index(hands.len()));
                        number += 1;
                        piece.bytes_mut().fill(number);
                        kept.insert(u64::from(number), (piece.len(), name));
                        let (form, name) = (array(piece.len()), "x".repeat(usize::try_from(name).unwrap()));
                        open.keep((number.into(), name), piece, (form, None), Instant::now());
                    }
                    Step::Release(at) if !hands.is_empty() => {
                        let (piece, name) = hands.swap_remove(at.index(hands.len()));
                        open.release(piece, name);
                    }
                    Step::Trim(at, bytes) if !hands.is_empty() && !fixed => {
                        let at = at.index(hands.len());
                        open.trim(&mut hands[at].0, bytes);
                    }
                    _ => {}
                }
            }
            for (piece, name) in hands {
                open.release(piece, name);
            }
            let (filled, hold) = open.into_filled(&ring);
            prop_assert_eq!(filled.items.len(), kept.len());
            prop_assert!(!fixed || kept.is_empty() || filled.packed, "one size is always one array");
            prop_assert!(ring.claim(0).is_none());
            let table = hold.bytes().to_vec();
            drop(hold);
            let slot = ring.claim(0).expect("nothing of it is left");
            for (row, (number, name)) in table.chunks(ENTRY).zip(&filled.items) {
                let word = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().unwrap());
                let (start, bytes) = (usize::try_from(word(8)).unwrap(), usize::try_from(word(16)).unwrap());
                let (right, name_len) = kept[number];
                prop_assert_eq!((word(0), word(16), name.len() as u64), (*number, right, name_len));
                let data = &slot.bytes()[start..start + bytes];
                prop_assert!(data.iter().all(|byte| u64::from(*byte) == *number));
                let (at, len) = (usize::try_from(word(48) & 0xFFFF_FFFF).unwrap(), name.len());
                prop_assert_eq!(&slot.bytes()[at..at + len], name.as_bytes());
            }
        }
    }
}
