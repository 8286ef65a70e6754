//! The books of a map under random worlds: workers come, work, die by what they touch or by chance. Every item is settled exactly
//! once, and only items that kill whoever touches them end as poison.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use gpulane_core::batches::{BatchId, Dispatch, Order, Span, WorkerId};
use proptest::prelude::*;

/// A slot's entries stand for items `slot * 1000 + entry`.
fn items(span: Span) -> impl Iterator<Item = u64> {
    (span.first..span.first + span.count).map(move |entry| u64::from(span.slot) * 1000 + u64::from(entry))
}

#[derive(Default)]
struct World {
    books: Dispatch,
    deadly: BTreeSet<u64>,
    at: BTreeMap<WorkerId, Vec<Order>>,
    next_worker: u64,
    done: Vec<u64>,
    poisoned: Vec<u64>,
    free: Vec<u32>,
    used: BTreeSet<BatchId>,
}

impl World {
    fn hire(&mut self) {
        let worker = WorkerId(self.next_worker);
        self.next_worker += 1;
        self.books.on_ready(worker);
        self.at.insert(worker, Vec::new());
    }

    fn hand_out(&mut self) {
        while let Some(order) = self.books.next_order() {
            assert!(self.used.insert(order.batch), "a number is used once");
            let given = self.at.get_mut(&order.worker).expect("a worker that is there");
            assert!(given.len() < 3, "never more than three");
            assert!(!order.careful || given.is_empty(), "a suspect is alone");
            assert!(given.iter().all(|other| !other.careful), "nothing joins a suspect");
            given.push(order);
        }
    }

    /// The worker works on the first of what it has; it dies if there is something deadly in it, or by chance.
    fn work(&mut self, worker: WorkerId, dies_by_chance: bool) {
        let Some(first) = self.at[&worker].first().copied() else { return };
        self.books.on_began(worker, first.batch);
        if dies_by_chance || items(first.span).any(|item| self.deadly.contains(&item)) {
            self.at.remove(&worker);
            let lost = self.books.on_gone(worker, false);
            let poison = lost.poison.iter().map(|item| u64::from(item.slot) * 1000 + u64::from(item.entry));
            self.poisoned.extend(poison);
            self.free.extend(lost.free);
            self.hire();
            return;
        }
        self.at.get_mut(&worker).expect("it lives").remove(0);
        let span = self.books.on_results(worker, first.batch).expect("it was given that");
        assert_eq!(span, first.span);
        self.done.extend(items(span));
        if self.books.settle(span.slot, span.count) {
            self.free.push(span.slot);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_item_is_settled_once(
        slots in proptest::collection::vec(1u32..40, 1..8),
        deadly in proptest::collection::btree_set((0u64..8, 0u64..40), 0..6),
        workers in 1usize..5,
        turns in proptest::collection::vec((0usize..8, 0u32..40), 50),
    ) {
        let mut world = World { deadly: deadly.iter().map(|(slot, entry)| slot * 1000 + entry).collect(), ..World::default() };
        for (slot, count) in slots.iter().enumerate() {
            world.books.on_filled(u32::try_from(slot).unwrap(), *count);
        }
        for _ in 0..workers {
            world.hire();
        }
        // Chance kills at first, then the world is calm and all must come to an end.
        let mut steps = 0;
        for (pick, chance) in turns.iter().copied().chain(std::iter::repeat_n((0, 99), 20_000)) {
            world.hand_out();
            let at: Vec<WorkerId> = world.at.iter().filter(|(_, given)| !given.is_empty()).map(|(id, _)| *id).collect();
            if at.is_empty() {
                break;
            }
            world.work(at[pick % at.len()], chance == 0);
            steps += 1;
        }
        prop_assert!(world.books.is_empty(), "it ends, here not within {steps} steps");
        let all: BTreeSet<u64> = slots.iter().enumerate()
            .flat_map(|(slot, count)| (0..u64::from(*count)).map(move |entry| slot as u64 * 1000 + entry)).collect();
        let mut settled: Vec<u64> = world.done.iter().chain(&world.poisoned).copied().collect();
        settled.sort_unstable();
        prop_assert_eq!(settled, all.iter().copied().collect::<Vec<_>>(), "each exactly once");
        prop_assert!(world.deadly.intersection(&all).all(|item| world.poisoned.contains(item)));
        let mut free = world.free.clone();
        free.sort_unstable();
        prop_assert_eq!(free.len(), slots.len(), "every slot is given back once");
    }
}

#[test]
fn what_was_not_begun_is_innocent() {
    let mut books = Dispatch::new();
    let worker = WorkerId(0);
    books.on_ready(worker);
    books.on_filled(0, 4);
    books.on_filled(1, 4);
    let first = books.next_order().expect("a batch");
    let _second = books.next_order().expect("another");
    books.on_began(worker, first.batch);
    let lost = books.on_gone(worker, false);
    assert_eq!(lost.poison, []);
    books.on_ready(WorkerId(1));
    let halves: Vec<Order> = std::iter::from_fn(|| {
        let order = books.next_order()?;
        books.on_results(order.worker, order.batch)?;
        Some(order)
    })
    .collect();
    let spans: Vec<(u32, u32, u32, bool)> = halves
        .iter()
        .map(|order| (order.span.slot, order.span.first, order.span.count, order.careful))
        .collect();
    assert_eq!(spans, [(0, 0, 2, true), (0, 2, 2, true), (1, 0, 4, false)]);
}

#[test]
fn one_that_dies_before_it_begins_still_leads_to_its_cause() {
    let mut books = Dispatch::new();
    books.on_filled(0, 1);
    for round in 0..2 {
        books.on_ready(WorkerId(round));
        books.next_order().expect("the item again");
        let lost = books.on_gone(WorkerId(round), false);
        assert_eq!(lost.poison.len(), usize::from(round == 1), "the second time it is the item's fault");
        assert_eq!(lost.free, if round == 1 { vec![0] } else { vec![] });
    }
}

#[test]
fn results_nobody_asked_for_are_ignored() {
    let mut books = Dispatch::new();
    books.on_ready(WorkerId(0));
    books.on_filled(0, 1);
    let order = books.next_order().expect("a batch");
    assert_eq!(books.on_results(WorkerId(1), order.batch), None);
    assert_eq!(books.on_results(WorkerId(0), BatchId(99)), None);
    assert!(books.on_results(WorkerId(0), order.batch).is_some());
    assert_eq!(books.on_results(WorkerId(0), order.batch), None, "twice");
}
