//! Who works on what. Every item of a filled slot is settled exactly once: by a worker's results, or, when it brings down every
//! worker that touches it, as poison. A batch that a worker died over is halved until the item is found.

use std::collections::{BTreeMap, VecDeque};

/// A worker's connection; a new one gets a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);

/// One hand-over of a span to a worker. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// Entries of a slot's table that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The slot.
    pub slot: u32,
    /// Its first entry.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Give this to that worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// To whom.
    pub worker: WorkerId,
    /// Under this number.
    pub batch: BatchId,
    /// What.
    pub span: Span,
    /// A worker died over it: it is alone with its worker.
    pub careful: bool,
}

/// An item that brought down every worker that tried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poison {
    /// Its slot.
    pub slot: u32,
    /// Its entry there.
    pub entry: u32,
}

/// What a worker's end means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Items that are settled as failed by it.
    pub poison: Vec<Poison>,
    /// Slots that are settled with them.
    pub free: Vec<u32>,
}

/// So many batches a worker may have: one whose results are on their way back, one under work, one on its way in.
const DEPTH: usize = 3;
/// How often an item that is alone may bring down its worker before it is the item's fault. Once can be chance: a person's `kill`,
/// the machine out of memory.
const TRIES_ALONE: u8 = 2;

#[derive(Clone, Copy, Debug)]
struct Suspect {
    span: Span,
    /// How often it brought down a worker while it was a single item.
    tries: u8,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    batch: BatchId,
    span: Span,
    /// The worker has said that the model works on it.
    began: bool,
    /// It is a suspect, with its tries.
    suspect: Option<u8>,
}

#[derive(Debug, Default)]
struct Worker {
    given: VecDeque<Given>,
    /// The worker has replaced another and had no result yet, or may be broken by what it has just failed over: it gets one
    /// item at a time.
    on_trial: bool,
}

impl Worker {
    fn is_at_a_suspect(&self) -> bool {
        self.given.iter().any(|given| given.suspect.is_some())
    }
}

/// The books.
#[derive(Debug, Default)]
pub struct Dispatch {
    workers: BTreeMap<WorkerId, Worker>,
    /// Spans nobody has been harmed by, oldest first.
    fresh: VecDeque<Span>,
    suspects: VecDeque<Suspect>,
    /// Items that most likely have broken a worker: they come after all other suspects.
    prime: VecDeque<Suspect>,
    /// Entries of each slot that are not settled yet.
    unsettled: BTreeMap<u32, u32>,
    next_batch: u64,
}

impl Dispatch {
    /// Nothing to do, nobody to do it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A slot was filled with so many entries.
    pub fn on_filled(&mut self, slot: u32, count: u32) {
        if count == 0 {
            return;
        }
        let before = self.unsettled.insert(slot, count);
        debug_assert!(before.is_none(), "a slot is filled again only when it is settled");
        self.fresh.push_back(Span { slot, first: 0, count });
    }

    /// A worker can take batches.
    pub fn on_ready(&mut self, worker: WorkerId) {
        self.workers.entry(worker).or_default();
    }

    /// Whether a worker may be broken: until it has had a result, it gets one item at a time.
    pub fn on_trial(&mut self, worker: WorkerId, on_trial: bool) {
        if let Some(books) = self.workers.get_mut(&worker) {
            books.on_trial = on_trial;
        }
    }

    /// Items of slots that are not settled are to be tried again, each alone; the last of them most likely is to blame.
    pub fn try_again(&mut self, places: impl IntoIterator<Item = (u32, u32)>) {
        let suspect = |(slot, entry)| Suspect { span: Span { slot, first: entry, count: 1 }, tries: 0 };
        let mut suspects: Vec<Suspect> = places.into_iter().map(suspect).collect();
        self.prime.extend(suspects.pop());
        self.suspects.extend(suspects);
    }

    /// A worker has begun with a batch.
    pub fn on_began(&mut self, worker: WorkerId, batch: BatchId) {
        if let Some(given) = self.given(worker, batch) {
            given.began = true;
        }
    }

    /// A batch's results are here. `None`: this worker was not given it; ignore them.
    pub fn on_results(&mut self, worker: WorkerId, batch: BatchId) -> Option<Span> {
        let books = self.workers.get_mut(&worker)?;
        let at = books.given.iter().position(|given| given.batch == batch)?;
        let given = books.given.remove(at)?;
        Some(given.span)
    }

    /// So many entries of a slot are settled, by results or as failed. `true`: all of them are, the slot may be filled again.
    #[must_use]
    pub fn settle(&mut self, slot: u32, count: u32) -> bool {
        let Some(left) = self.unsettled.get_mut(&slot) else { return false };
        *left = left.saturating_sub(count);
        let all = *left == 0;
        if all {
            self.unsettled.remove(&slot);
        }
        all
    }

    /// A worker is gone. `harmless`: not through anything it was given (its GPU was lost, the feeder sent it away).
    pub fn on_gone(&mut self, worker: WorkerId, harmless: bool) -> Lost {
        let Some(mut books) = self.workers.remove(&worker) else { return Lost::default() };
        let mut lost = Lost::default();
        if harmless {
            while let Some(given) = books.given.pop_back() {
                self.put_back(given);
            }
            return lost;
        }
        // It may have died before it could say so: copying, or decoding on the GPU.
        let begun = books.given.iter().any(|given| given.began);
        if let Some(first) = books.given.front_mut().filter(|_| !begun) {
            first.began = true;
        }
        while let Some(given) = books.given.pop_back() {
            if given.began {
                self.suspect(given, &mut lost);
            } else {
                self.put_back(given);
            }
        }
        lost
    }

    /// A worker is to be ended, because the batch it has begun first takes too long: that one is halved, and an item that is alone has
    /// failed. What else it has is innocent.
    pub fn on_overdue(&mut self, worker: WorkerId) -> Lost {
        let Some(mut books) = self.workers.remove(&worker) else { return Lost::default() };
        let mut lost = Lost::default();
        while let Some(mut given) = books.given.pop_back() {
            if books.given.is_empty() {
                given.suspect = Some(TRIES_ALONE);
                self.suspect(given, &mut lost);
            } else {
                self.put_back(given);
            }
        }
        lost
    }

    fn put_back(&mut self, given: Given) {
        match given.suspect {
            Some(tries) => self.suspects.push_front(Suspect { span: given.span, tries }),
            None => self.fresh.push_front(given.span),
        }
    }

    fn suspect(&mut self, given: Given, lost: &mut Lost) {
        let Span { slot, first, count } = given.span;
        if count > 1 {
            let half = count / 2;
            let second = Span { slot, first: first + half, count: count - half };
            self.suspects.push_front(Suspect { span: second, tries: 0 });
            self.suspects.push_front(Suspect { span: Span { slot, first, count: half }, tries: 0 });
            return;
        }
        let tries = given.suspect.unwrap_or(0) + 1;
        if tries < TRIES_ALONE {
            self.suspects.push_front(Suspect { span: given.span, tries });
            return;
        }
        lost.poison.push(Poison { slot, entry: first });
        if self.settle(slot, 1) {
            lost.free.push(slot);
        }
    }

    /// Who gets what next; `None`: nothing can be handed out now. Whoever has least gets the next, so a slow one never holds up
    /// the others.
    pub fn next_order(&mut self) -> Option<Order> {
        self.next_suspect().or_else(|| self.next_fresh())
    }

    fn next_suspect(&mut self) -> Option<Order> {
        let suspect = *self.suspects.front().or_else(|| self.prime.front())?;
        // One on trial shows first whether it works at all, if there is an item that nobody has failed over.
        let able = |books: &Worker| books.given.is_empty() && (!books.on_trial || self.fresh.is_empty());
        let worker = *self.workers.iter().find(|(_, books)| able(books))?.0;
        if self.suspects.pop_front().is_none() {
            self.prime.pop_front();
        }
        Some(self.give(worker, suspect.span, Some(suspect.tries)))
    }

    fn next_fresh(&mut self) -> Option<Order> {
        let span = *self.fresh.front()?;
        // While there are suspects, one worker is left to run empty, so that they have their turn.
        let none = self.suspects.is_empty() && self.prime.is_empty();
        let kept = if none || self.workers.values().any(Worker::is_at_a_suspect) {
            None
        } else {
            let proven = self.workers.iter().filter(|(_, books)| !books.on_trial);
            proven.min_by_key(|(_, books)| books.given.len()).map(|(worker, _)| *worker)
        };
        let able = self.workers.iter().filter(|(worker, books)| {
            let depth = if books.on_trial { 1 } else { DEPTH };
            Some(**worker) != kept && !books.is_at_a_suspect() && books.given.len() < depth
        });
        let (worker, books) = able.min_by_key(|(_, books)| books.given.len())?;
        let (worker, on_trial) = (*worker, books.on_trial);
        self.fresh.pop_front();
        if on_trial && span.count > 1 {
            self.fresh.push_front(Span { first: span.first + 1, count: span.count - 1, ..span });
            return Some(self.give(worker, Span { count: 1, ..span }, None));
        }
        Some(self.give(worker, span, None))
    }

    fn give(&mut self, worker: WorkerId, span: Span, suspect: Option<u8>) -> Order {
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        if let Some(books) = self.workers.get_mut(&worker) {
            books.given.push_back(Given { batch, span, began: false, suspect });
        }
        Order { worker, batch, span, careful: suspect.is_some() }
    }

    fn given(&mut self, worker: WorkerId, batch: BatchId) -> Option<&mut Given> {
        self.workers.get_mut(&worker)?.given.iter_mut().find(|given| given.batch == batch)
    }

    /// Workers that have nothing to do.
    pub fn idle(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.workers.iter().filter(|(_, books)| books.given.is_empty()).map(|(worker, _)| *worker)
    }

    /// The batch a worker has begun first and not answered for.
    pub fn under_work(&self, worker: WorkerId) -> Option<(BatchId, Span)> {
        let given = self.workers.get(&worker)?.given.iter().find(|given| given.began)?;
        Some((given.batch, given.span))
    }

    /// How many workers can take batches.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Nothing is left that was filled and not settled.
    pub fn is_empty(&self) -> bool {
        self.unsettled.is_empty()
    }
}
