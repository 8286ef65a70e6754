//! Parts of an open slot: never over each other, whatever order they are taken, kept and given back in.

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

/// A part for an item without members.
fn part(open: &mut Open, bytes: u64, name: u64) -> Piece {
    open.reserve(bytes, name, 0).unwrap().0
}

fn put(open: &mut Open, number: u8, mut piece: Piece) {
    piece.bytes_mut().fill(number);
    let form = array(piece.len());
    open.keep((number.into(), number.to_string()), (piece, None), (form, None), Instant::now());
}

#[test]
fn places_of_one_size_that_failed_are_taken_by_the_next() {
    let ring = ring();
    let mut open = open(&ring, Some(100));
    let pieces: Vec<_> = (0..3).map(|_| part(&mut open, 100, 1)).collect();
    let [first, second, third] = pieces.try_into().unwrap();
    put(&mut open, 0, first);
    put(&mut open, 2, third);
    let place = second.start();
    open.release((second, None), 1);
    let again = part(&mut open, 100, 1);
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
    let pieces: Vec<_> = (0..4).map(|_| part(&mut open, 100, 1)).collect();
    for (number, piece) in (0..).zip(pieces) {
        if number == 1 { open.release((piece, None), 1) } else { put(&mut open, number, piece) }
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
    let mut first = part(&mut open, 1000, 3);
    let second = part(&mut open, 77, 3);
    open.release((second, None), 3);
    open.trim(&mut first, 10);
    let start = first.start();
    let next = part(&mut open, 500, 3);
    assert_eq!(next.start(), start + 64, "right behind what was kept, aligned");
    open.release((next, None), 3);
    open.release((first, None), 3);
    assert_eq!((open.rest.len(), open.names, open.holes.len()), (whole, 0, 0));
}

#[test]
fn what_was_for_members_is_there_for_the_next_in_whatever_order_it_is_given_back() {
    let ring = ring();
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let mut open = open(&ring, None);
        let whole = open.rest.len();
        let mut parts: Vec<_> = (0..3).map(|_| open.reserve(64, 3, 1000)).collect();
        assert_eq!(open.back(GEOMETRY.slot_bytes), 3 * 1003);
        for at in order {
            open.release(parts[at].take().unwrap(), 3);
        }
        assert_eq!((open.rest.len(), open.back_holes.len()), (whole, 0), "{order:?}");
        assert!(open.reserve(100, 3, whole - 102).is_none(), "a byte too much");
        assert!(open.reserve(100, 3, whole - 103).is_some());
    }
}

#[test]
fn arrays_of_one_length_are_back_to_back_where_elements_stay_aligned() {
    for (bytes, packed) in [(4000, true), (64, true), (4001, false)] {
        let ring = ring();
        let mut open = open(&ring, None);
        for number in 0..3 {
            let piece = part(&mut open, bytes, 1);
            put(&mut open, number, piece);
        }
        assert_eq!(open.into_filled(&ring).0.packed, packed, "{bytes}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64, u64, u64),
    Keep(prop::sample::Index),
    Release(prop::sample::Index),
    Trim(prop::sample::Index, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..5000_u64, 0..400_u64, 0..900_u64).prop_map(|(bytes, name, beside)| Step::Reserve(bytes, name, beside)),
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
                Step::Reserve(bytes, name, beside) if open.takes_more() => {
                    let beside = beside.saturating_sub(300);
                    if let Some((piece, members)) = open.reserve(size.unwrap_or(bytes), name, beside) {
                        prop_assert_eq!(piece.len(), size.unwrap_or(bytes));
                        prop_assert_eq!(members.as_ref().map_or(0, Piece::len), beside);
                        hands.push((piece, name, members));
                    }
                }
                Step::Keep(at) if !hands.is_empty() => {
                    let (mut piece, name, mut members) = hands.swap_remove(at.index(hands.len()));
                    number += 1;
                    piece.bytes_mut().fill(number);
                    if let Some(members) = &mut members {
                        members.bytes_mut().fill(number);
                    }
                    let beside = members.as_ref().map_or(0, Piece::len);
                    kept.insert(u64::from(number), (piece.len(), name, beside));
                    let (form, name) = (array(piece.len()), "x".repeat(usize::try_from(name).unwrap()));
                    open.keep((number.into(), name), (piece, members), (form, None), Instant::now());
                }
                Step::Release(at) if !hands.is_empty() => {
                    let (piece, name, members) = hands.swap_remove(at.index(hands.len()));
                    open.release((piece, members), name);
                }
                Step::Trim(at, bytes) if !hands.is_empty() && !fixed => {
                    let at = at.index(hands.len());
                    open.trim(&mut hands[at].0, bytes);
                }
                _ => {}
            }
        }
        for (piece, name, members) in hands {
            open.release((piece, members), name);
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
            let (right, name_len, beside) = kept[number];
            prop_assert_eq!((word(0), word(16), name.len() as u64), (*number, right, name_len));
            let data = &slot.bytes()[start..start + bytes];
            prop_assert!(data.iter().all(|byte| u64::from(*byte) == *number));
            let (members, len) = ((word(56) & 0xFFFF_FFFF) as usize, (word(56) >> 32) as usize);
            prop_assert_eq!(len as u64, beside);
            prop_assert!(slot.bytes()[members..members + len].iter().all(|byte| u64::from(*byte) == *number));
            let (at, len) = (usize::try_from(word(48) & 0xFFFF_FFFF).unwrap(), name.len());
            prop_assert_eq!(&slot.bytes()[at..at + len], name.as_bytes());
        }
    }
}
