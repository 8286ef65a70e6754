//! Workers that items break, under random worlds: every item is settled exactly once, an item that breaks its worker costs itself, and
//! items that are bad by themselves cost few replacements.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use gpulane_core::batches::{
    Dispatch, Failed, Health, IN_A_ROW, Judgement, Lost, Order, Outcome, Span, TRIALS, WorkerId,
};
use proptest::prelude::*;

const SLOT: u32 = 100_000;

/// Items by what they do to a worker.
#[derive(Clone, Default)]
struct Items {
    /// Fail, and do no harm.
    bad: BTreeSet<u32>,
    /// Fail, and everything behind them in the same process.
    breaking: BTreeSet<u32>,
    /// End the process.
    deadly: BTreeSet<u32>,
    /// Never come back.
    endless: BTreeSet<u32>,
    /// Fail, and end the process when they are tried again.
    worsening: BTreeSet<u32>,
}

/// One job's process, as a feeder would see it.
#[derive(Default)]
struct Process {
    job: usize,
    broken: bool,
    given: Vec<Order>,
}

#[derive(Default)]
struct World {
    items: Items,
    books: Dispatch,
    health: Health,
    processes: BTreeMap<WorkerId, Process>,
    next: u64,
    done: Vec<u32>,
    failed: Vec<u32>,
    freed: BTreeSet<u32>,
    replaced: usize,
    /// Failures were taken for what they seem.
    convicted: bool,
}

fn number(slot: u32, entry: u32) -> u32 {
    slot * SLOT + entry
}

impl World {
    fn new(items: Items, slots: &[u32], workers: usize) -> Self {
        let mut world = Self { items, ..Self::default() };
        for (slot, count) in slots.iter().enumerate() {
            world.books.on_filled(u32::try_from(slot).unwrap(), *count);
        }
        (0..workers).for_each(|job| world.hire(job));
        world
    }

    fn hire(&mut self, job: usize) {
        let id = WorkerId(self.next);
        self.next += 1;
        self.books.on_ready(id);
        let on_trial = self.health.on_ready(id, &format!("map/worker-{job}"));
        self.books.on_trial(id, on_trial);
        self.processes.insert(id, Process { job, ..Process::default() });
    }

    fn hand_out(&mut self) {
        while let Some(order) = self.books.next_order() {
            let process = self.processes.get_mut(&order.worker).expect("a worker that is there");
            assert!(!order.careful || process.given.is_empty(), "what is tried again is alone");
            process.given.push(order);
        }
    }

    /// As the Python worker does it: a batch that fails is halved, so each item's outcome is that of the item alone.
    fn outcomes(&mut self, id: WorkerId, span: Span) -> Vec<Outcome> {
        let process = self.processes.get_mut(&id).unwrap();
        let entries: Vec<u32> = (span.first..span.first + span.count).collect();
        let breaks = |entry: &u32| self.items.breaking.contains(&number(span.slot, *entry));
        // All of the batch is given to the model at once first, so whatever is in it breaks it before anything is tried alone.
        process.broken |= entries.iter().any(breaks);
        let outcome = |entry: u32| {
            let fails = |kind: &BTreeSet<u32>| kind.contains(&number(span.slot, entry));
            let failed = process.broken || fails(&self.items.bad) || fails(&self.items.worsening);
            let identity = u64::from(number(span.slot, entry));
            let reason = String::from("ValueError: no");
            if failed {
                Outcome::Failed(Failed { slot: span.slot, entry, identity, reason })
            } else {
                Outcome::Done { slot: span.slot, entry }
            }
        };
        entries.into_iter().map(outcome).collect()
    }

    fn settle(&mut self, slot: u32, entry: u32, failed: bool) {
        let list = if failed { &mut self.failed } else { &mut self.done };
        list.push(number(slot, entry));
        if self.books.settle(slot, 1) {
            self.free(slot);
        }
    }

    fn free(&mut self, slot: u32) {
        assert!(self.freed.insert(slot), "a slot is given back once");
        self.health.on_freed(slot);
    }

    fn follow(&mut self, judged: Judgement) {
        for failed in judged.failed {
            self.settle(failed.slot, failed.entry, true);
        }
        self.books.try_again(judged.again.iter().map(|item| (item.slot, item.entry)));
    }

    fn on_lost(&mut self, id: WorkerId, lost: Lost) {
        for poison in lost.poison {
            self.failed.push(number(poison.slot, poison.entry));
        }
        for slot in lost.free {
            self.free(slot);
        }
        let judged = self.health.on_gone(id);
        self.follow(judged);
        let job = self.processes.remove(&id).unwrap().job;
        self.hire(job);
    }

    fn work(&mut self, id: WorkerId) {
        let order = self.processes.get_mut(&id).unwrap().given.remove(0);
        self.books.on_began(id, order.batch);
        let has = |kind: &BTreeSet<u32>| {
            (order.span.first..order.span.first + order.span.count)
                .any(|entry| kind.contains(&number(order.span.slot, entry)))
        };
        if has(&self.items.deadly) || (order.careful && has(&self.items.worsening)) {
            let lost = self.books.on_gone(id, false);
            return self.on_lost(id, lost);
        }
        if has(&self.items.endless) {
            let lost = self.books.on_overdue(id);
            return self.on_lost(id, lost);
        }
        let outcomes = self.outcomes(id, order.span);
        self.books.on_results(id, order.batch).expect("it was given that");
        let done: Vec<(u32, u32)> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Done { slot, entry } => Some((*slot, *entry)),
                Outcome::Failed(_) => None,
            })
            .collect();
        let judged = self.health.on_batch(id, outcomes);
        assert_eq!(judged.works, !done.is_empty());
        assert!(!judged.convicted || self.done.is_empty(), "only while nothing has a result");
        self.convicted |= judged.convicted;
        for (slot, entry) in done {
            self.settle(slot, entry, false);
        }
        if judged.works || judged.convicted || judged.doubtful {
            self.books.on_trial(id, judged.doubtful);
        }
        let replace = !judged.again.is_empty();
        if replace {
            self.books.on_gone(id, true);
        }
        self.follow(judged);
        if replace {
            self.replaced += 1;
            let job = self.processes.remove(&id).unwrap().job;
            self.hire(job);
        }
    }

    /// Works until nothing is left, each time by the worker that `pick` says.
    fn run(&mut self, mut pick: impl FnMut() -> usize) {
        for _ in 0..400_000 {
            self.hand_out();
            let busy: Vec<WorkerId> =
                self.processes.iter().filter(|(_, at)| !at.given.is_empty()).map(|(id, _)| *id).collect();
            if !busy.is_empty() {
                self.work(busy[pick() % busy.len()]);
                continue;
            }
            let waiting: Vec<WorkerId> =
                self.processes.keys().copied().filter(|id| self.health.holds(*id)).collect();
            if waiting.is_empty() {
                break;
            }
            for id in waiting {
                let failed = self.health.on_idle(id);
                self.follow(Judgement { failed, ..Judgement::default() });
            }
        }
        assert!(self.books.is_empty(), "it comes to an end");
    }
}

fn batches(count: u32, size: u32) -> Vec<u32> {
    (0..count / size).map(|_| size).collect()
}

#[test]
fn an_item_that_breaks_its_worker_costs_itself_alone() {
    for size in [1, 2, 8, 32, 100] {
        for at in [0, 1, 31, 32, 999, 2_980] {
            let slots = batches(3_200, size);
            let breaker = number(at / size, at % size);
            let items = Items { breaking: [breaker].into(), ..Items::default() };
            let mut world = World::new(items, &slots, 1);
            world.run(|| 0);
            let all = u32::try_from(world.done.len()).unwrap();
            assert_eq!(all + u32::try_from(world.failed.len()).unwrap(), 3_200);
            assert_eq!(world.failed, [breaker], "item {at} in batches of {size}");
            assert!(
                world.replaced <= 3,
                "{} replacements for item {at} in batches of {size}",
                world.replaced
            );
        }
    }
}

#[test]
fn a_single_bad_item_replaces_nobody() {
    let items = Items { bad: [5, 700].into(), ..Items::default() };
    let mut world = World::new(items, &batches(1_000, 1_000), 2);
    world.run(|| 0);
    assert_eq!((world.replaced, world.failed.len()), (0, 2));
}

#[test]
fn seven_in_a_row_are_bad_items_and_eight_may_be_a_broken_worker() {
    for (bad, replaced) in [(7, 0), (8, 1)] {
        let items = Items { bad: (10..10 + bad).map(|at| number(at, 0)).collect(), ..Items::default() };
        let mut world = World::new(items, &batches(100, 1), 1);
        world.run(|| 0);
        assert_eq!((world.replaced, world.failed.len()), (replaced, bad as usize));
    }
}

#[test]
fn one_item_named_many_times_is_one() {
    let mut health = Health::default();
    let worker = WorkerId(0);
    health.on_ready(worker, "map/worker-0");
    for entry in 0..50 {
        let failed = Failed { slot: 0, entry, identity: 7, reason: "ValueError: no".to_owned() };
        assert_eq!(health.on_batch(worker, vec![Outcome::Failed(failed)]), Judgement::default());
    }
    assert_eq!(health.on_idle(worker).len(), 50);
}

/// Nine items fail in a row and are given to a fresh worker, which has a result first.
fn after_a_replacement() -> (Health, WorkerId) {
    let mut health = Health::default();
    let (broken, fresh) = (WorkerId(0), WorkerId(1));
    health.on_ready(broken, "map/worker-0");
    let judged = health.on_batch(broken, (0..9).map(fails).collect());
    assert_eq!((judged.again.len(), health.retrying()), (9, 9));
    assert!(health.on_ready(fresh, "map/worker-0"), "it is on trial");
    health.on_batch(fresh, vec![Outcome::Done { slot: 7, entry: 0 }]);
    (health, fresh)
}

fn fails(entry: u32) -> Outcome {
    Outcome::Failed(Failed {
        slot: 0,
        entry,
        identity: u64::from(entry),
        reason: "ValueError: no".to_owned(),
    })
}

#[test]
fn an_item_in_the_place_of_one_that_was_tried_again_has_had_no_retry() {
    // While the slot holds the same items, a failure right after a result is the item's own.
    let (mut health, worker) = after_a_replacement();
    assert_eq!(health.on_batch(worker, vec![fails(3)]).failed.len(), 1);
    // These have ended elsewhere, and the slot is filled anew.
    let (mut health, worker) = after_a_replacement();
    health.on_freed(0);
    assert_eq!(health.retrying(), 0);
    assert_eq!(health.limit(), 2 * IN_A_ROW, "the replacement helped nobody");
    assert_eq!(health.on_batch(worker, vec![fails(3)]), Judgement::default(), "it is held back first");
}

#[test]
fn other_slots_keep_what_is_tried_again() {
    let (mut health, worker) = after_a_replacement();
    health.on_freed(1);
    assert_eq!((health.retrying(), health.limit()), (9, IN_A_ROW));
    assert_eq!(health.on_batch(worker, vec![fails(3)]).failed.len(), 1);
}

#[test]
fn a_folder_of_bad_items_replaces_one_worker_each_and_no_more() {
    for workers in [1, 4] {
        for size in [1, 32] {
            let slots = batches(1_024, size);
            let all = slots.iter().enumerate().flat_map(|(slot, count)| {
                (0..*count).map(move |entry| number(u32::try_from(slot).unwrap(), entry))
            });
            let mut world = World::new(Items { bad: all.collect(), ..Items::default() }, &slots, workers);
            world.run(|| 0);
            assert_eq!(world.failed.len(), 1_024);
            assert!(world.replaced < workers + TRIALS as usize, "{} of {workers}", world.replaced);
        }
    }
}

#[test]
fn bad_items_that_come_in_rows_cost_ever_fewer_replacements() {
    // Ten bad ones, ten good ones, and so on: each row could be a broken worker, and never was.
    let bad = (0..10_000).filter(|at| at / 10 % 2 == 0).map(|at| number(at, 0)).collect();
    let mut world = World::new(Items { bad, ..Items::default() }, &batches(10_000, 1), 1);
    world.run(|| 0);
    assert_eq!((world.done.len(), world.failed.len()), (5_000, 5_000));
    assert!(world.replaced <= 2, "{}", world.replaced);
}

#[test]
fn an_endless_item_fails_alone_and_the_rest_of_its_batch_is_done() {
    let items = Items { endless: [number(1, 13)].into(), ..Items::default() };
    let mut world = World::new(items, &batches(96, 32), 1);
    world.run(|| 0);
    assert_eq!((world.failed.as_slice(), world.done.len()), (&[number(1, 13)][..], 95));
}

/// Items of slots of one size that break their worker.
fn breaking(places: &[u32], size: u32) -> Items {
    Items { breaking: places.iter().map(|at| number(at / size, at % size)).collect(), ..Items::default() }
}

#[test]
fn items_that_break_fresh_workers_as_well_cost_themselves_alone() {
    let tens: Vec<u32> = (0..7).map(|at| at * 10).collect();
    let row: Vec<u32> = (21..31).collect();
    let sets: [&[u32]; 6] =
        [&[5, 20, 21, 22], &[1, 2, 3, 4], &[0, 8, 9], &[5, 13, 21, 29, 37, 45], &tens, &row];
    for places in sets {
        for size in [1, 4, 8, 16] {
            let mut world = World::new(breaking(places, size), &batches(1_008, size), 1);
            world.run(|| 0);
            world.failed.sort_unstable();
            let poisons: Vec<u32> = breaking(places, size).breaking.into_iter().collect();
            assert_eq!(world.failed, poisons, "{places:?} in batches of {size}");
            assert!(world.replaced <= 3 * places.len(), "{} for {places:?}", world.replaced);
        }
    }
}

#[test]
fn at_the_end_of_a_map_those_that_broke_workers_come_last() {
    let mut world = World::new(breaking(&[274, 275, 290, 298], 1), &batches(300, 1), 1);
    world.run(|| 0);
    assert!(world.failed.len() < 4 + IN_A_ROW, "{:?}", world.failed);
}

#[test]
fn a_model_that_stops_working_costs_few_replacements() {
    for workers in [1, 4] {
        let bad = (100..20_000).map(|at| number(at, 0)).collect();
        let mut world = World::new(Items { bad, ..Items::default() }, &batches(20_000, 1), workers);
        world.run(|| 0);
        assert_eq!((world.done.len(), world.failed.len()), (100, 19_900));
        assert!(world.replaced <= 8 * workers, "{} of {workers}", world.replaced);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn items_that_break_their_workers_cost_themselves_and_few_at_the_very_end(
        places in proptest::collection::btree_set(0u32..300, 0..=10),
        size in 1u32..40,
        workers in 1usize..4,
        picks in proptest::collection::vec(0usize..8, 40),
    ) {
        let count = 300 / size * size;
        let places: Vec<u32> = places.into_iter().filter(|at| *at < count).collect();
        let items = breaking(&places, size);
        let mut world = World::new(items.clone(), &batches(count, size), workers);
        let mut picks = picks.into_iter().cycle();
        world.run(|| picks.next().unwrap());
        prop_assert!(world.failed.iter().collect::<BTreeSet<_>>().is_superset(&items.breaking.iter().collect()));
        let innocent = world.failed.len() - places.len();
        prop_assert!(world.convicted || innocent < workers * IN_A_ROW, "{} innocent ones", innocent);
        prop_assert!(world.replaced <= 4 * places.len(), "{} replacements", world.replaced);
    }

    #[test]
    fn every_item_is_settled_once_whatever_it_does(
        slots in proptest::collection::vec(1u32..40, 1..10),
        kinds in proptest::collection::vec((0u32..10, 0u32..40, 0u8..5), 0..40),
        rows in proptest::collection::vec((0u32..10, 0u32..40, 1u32..30), 0..4),
        workers in 1usize..5,
        picks in proptest::collection::vec(0usize..8, 40),
    ) {
        let mut items = Items::default();
        for (slot, entry, kind) in kinds {
            let at = number(slot, entry);
            match kind {
                0 => items.bad.insert(at),
                1 => items.breaking.insert(at),
                2 => items.deadly.insert(at),
                3 => items.worsening.insert(at),
                _ => items.endless.insert(at),
            };
        }
        for (slot, first, count) in rows {
            items.bad.extend((first..first + count).map(|entry| number(slot, entry)));
        }
        let mut world = World::new(items.clone(), &slots, workers);
        let mut picks = picks.into_iter().cycle();
        world.run(|| picks.next().unwrap());
        let all: Vec<u32> = slots.iter().enumerate()
            .flat_map(|(slot, count)| (0..*count).map(move |entry| number(u32::try_from(slot).unwrap(), entry)))
            .collect();
        let mut settled: Vec<u32> = world.done.iter().chain(&world.failed).copied().collect();
        settled.sort_unstable();
        prop_assert_eq!(settled, all, "each exactly once");
        let failing = |at: &u32| [&items.bad, &items.breaking, &items.deadly, &items.endless, &items.worsening].iter().any(|kind| kind.contains(at));
        prop_assert!(!world.done.iter().any(failing), "what fails by itself has no result");
        prop_assert_eq!(world.freed.len(), slots.len());
        prop_assert_eq!(world.health.retrying(), 0, "nobody is known by a place that is another's");
        prop_assert!(world.replaced <= workers + world.done.len(), "{} replacements", world.replaced);
    }
}
