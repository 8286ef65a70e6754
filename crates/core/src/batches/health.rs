//! Whether a worker is broken. An item can spoil the process it is given to: its state, its memory, its device. Every item behind it
//! fails then, through no fault of its own. So failures are held back while they could be the worker's: after [`IN_A_ROW`] of them
//! without a result in between the worker is replaced, and they are tried again, one by one. What fails in a worker that has just
//! had a result is the item's own failure.
//!
//! A replacement that has no result yet is on trial. It may be broken by the very first item it is given, so it is replaced as well
//! when it fails over [`IN_A_ROW`] others; behind [`TRIALS`] of these in a row each must fail over four times as many as the one
//! before, and where no worker of the map had a result by then, failures are what they seem. A replacement that helped no item at all
//! doubles how many it takes to replace the next, so that a folder of bad items costs few replacements.

use std::collections::{BTreeMap, BTreeSet};

use super::WorkerId;
use super::prospects::kind_of;

/// Different items that must fail in a row before their worker is replaced.
pub const IN_A_ROW: usize = 8;
/// Fresh workers of one place in a row that may fail over everything before that says more of the model than of the items.
pub const TRIALS: u32 = 2;
/// The most failures in a row that are asked for, however often the number was doubled.
const MOST_IN_A_ROW: usize = 1 << 16;

/// An item that a worker failed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its slot.
    pub slot: u32,
    /// Its entry there.
    pub entry: u32,
    /// A number that equal items share: a list may name one file many times.
    pub identity: u64,
    /// Why, for a person.
    pub reason: String,
}

/// What became of one item of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There is a result.
    Done {
        /// Its slot.
        slot: u32,
        /// Its entry there.
        entry: u32,
    },
    /// There is none.
    Failed(Failed),
}

/// What follows from the outcomes of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Failures that are certain now.
    pub failed: Vec<Failed>,
    /// To be tried again, one by one in this order, by a worker that works; and this one is to be replaced, if there are any.
    pub again: Vec<Failed>,
    /// The worker had a result in this batch, so it works.
    pub works: bool,
    /// The worker was on trial and failed over everything: its failures are certain from now on.
    pub convicted: bool,
    /// The worker failed over an item that is tried again: an item that nobody has failed over tells whether the worker works.
    pub doubtful: bool,
}

/// What is known of one worker.
#[derive(Debug, Default)]
struct Record {
    job: String,
    /// The worker has had a result.
    proven: bool,
    /// Different items it has failed over since its last result.
    row: BTreeSet<u64>,
    /// Failures since its last result that are not certain yet.
    held: Vec<Failed>,
}

/// Items that were given back by one worker, until each is certain.
#[derive(Debug, Default)]
struct Round {
    left: usize,
    helped: bool,
}

/// The health of all workers.
#[derive(Debug)]
pub struct Health {
    workers: BTreeMap<WorkerId, Record>,
    /// Jobs whose worker was replaced, and the fresh one has had no result; with how many fresh ones before it had none either.
    on_trial: BTreeMap<String, u32>,
    /// A worker has had a result: the model can work.
    works: bool,
    /// Fresh workers of any job that had no result before they were replaced.
    trials: u32,
    /// How many it takes now.
    limit: usize,
    /// Items that are tried again, by slot and entry, with their round. None outlives its slot.
    retried: BTreeMap<(u32, u32), u64>,
    rounds: BTreeMap<u64, Round>,
    next_round: u64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            workers: BTreeMap::new(),
            on_trial: BTreeMap::new(),
            works: false,
            trials: 0,
            limit: IN_A_ROW,
            retried: BTreeMap::new(),
            rounds: BTreeMap::new(),
            next_round: 0,
        }
    }
}

impl Health {
    /// A worker can take batches. Whether it is on trial: it takes the place of one that was replaced.
    pub fn on_ready(&mut self, worker: WorkerId, job: &str) -> bool {
        self.workers.insert(worker, Record { job: job.to_owned(), ..Record::default() });
        self.on_trial.contains_key(job)
    }

    /// A worker has answered for a batch: what became of its items, in their order.
    pub fn on_batch(&mut self, worker: WorkerId, outcomes: Vec<Outcome>) -> Judgement {
        let Some(mut record) = self.workers.remove(&worker) else {
            let failed = outcomes.into_iter().filter_map(Outcome::into_failed);
            return Judgement { failed: failed.collect(), ..Judgement::default() };
        };
        let mut judged = Judgement::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Done { slot, entry } => {
                    self.on_done(&mut record, (slot, entry), &mut judged);
                }
                Outcome::Failed(failed) => self.on_failed(&mut record, failed, &mut judged),
            }
        }
        let limit = self.limit_of(&record);
        judged.doubtful &= !record.row.is_empty() && record.row.len() < limit;
        if record.row.len() >= limit && !record.held.is_empty() {
            if self.is_hopeless(&record) {
                judged.convicted = true;
                self.make_certain(&mut record, &mut judged.failed);
            } else {
                self.replace(&record);
                judged.again = self.give_again(std::mem::take(&mut record.held));
                return judged;
            }
        }
        self.workers.insert(worker, record);
        judged
    }

    /// How many failures in a row it takes to replace this worker.
    fn limit_of(&self, record: &Record) -> usize {
        let before = self.trials_before(record).unwrap_or(0);
        let grown = IN_A_ROW.saturating_mul(4_usize.saturating_pow(before.saturating_sub(TRIALS - 1)));
        grown.max(self.limit).min(MOST_IN_A_ROW)
    }

    /// Where the worker is on trial: how many before it had no result either.
    fn trials_before(&self, record: &Record) -> Option<u32> {
        self.on_trial.get(&record.job).copied().filter(|_| !record.proven)
    }

    /// Whether the worker is on trial, and enough fresh ones have failed over everything for it to be the model's fault.
    fn is_hopeless(&self, record: &Record) -> bool {
        self.trials_before(record).is_some() && !self.works && self.trials >= TRIALS - 1
    }

    fn replace(&mut self, record: &Record) {
        let trials = self.trials_before(record).map(|before| before + 1);
        self.trials += u32::from(trials.is_some());
        self.on_trial.insert(record.job.clone(), trials.unwrap_or(0));
    }

    fn on_done(&mut self, record: &mut Record, place: (u32, u32), judged: &mut Judgement) {
        (record.proven, judged.works, self.works) = (true, true, true);
        self.on_trial.remove(&record.job);
        record.row.clear();
        self.make_certain(record, &mut judged.failed);
        if let Some(round) = self.retried.remove(&place) {
            self.limit = IN_A_ROW;
            self.leave_round(round, true);
        }
    }

    fn on_failed(&mut self, record: &mut Record, failed: Failed, judged: &mut Judgement) {
        let retried = self.retried.contains_key(&(failed.slot, failed.entry));
        // Right after a result the worker was well.
        let own = retried && record.proven && record.row.is_empty();
        let convicted = self.is_hopeless(record) && record.row.len() >= self.limit_of(record);
        judged.doubtful = retried;
        record.row.insert(failed.identity);
        record.held.push(failed);
        if own || convicted {
            self.make_certain(record, &mut judged.failed);
        }
    }

    fn make_certain(&mut self, record: &mut Record, certain: &mut Vec<Failed>) {
        for failed in record.held.drain(..) {
            if let Some(round) = self.retried.remove(&(failed.slot, failed.entry)) {
                self.leave_round(round, false);
            }
            certain.push(failed);
        }
    }

    fn leave_round(&mut self, number: u64, helped: bool) {
        let Some(round) = self.rounds.get_mut(&number) else { return };
        round.left = round.left.saturating_sub(1);
        round.helped |= helped;
        if round.left == 0 {
            let fruitless = !round.helped;
            self.rounds.remove(&number);
            if fruitless {
                self.limit = (self.limit * 2).min(MOST_IN_A_ROW);
            }
        }
    }

    /// The items of a new round. Who broke the worker is most likely the first of them, or one that failed otherwise than most:
    /// these come last, so that the others have their results before.
    fn give_again(&mut self, mut items: Vec<Failed>) -> Vec<Failed> {
        let number = self.next_round;
        self.next_round += 1;
        self.rounds.insert(number, Round { left: items.len(), helped: false });
        for item in &items {
            if let Some(before) = self.retried.insert((item.slot, item.entry), number) {
                // Not certain yet, so that round has not failed by it.
                self.leave_round(before, true);
            }
        }
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for item in &items {
            *kinds.entry(kind_of(&item.reason)).or_default() += 1;
        }
        let usual = kinds.into_iter().max_by_key(|(_, count)| *count).map(|(kind, _)| kind);
        items.rotate_left(1);
        items.sort_by_key(|item| Some(kind_of(&item.reason)) != usual);
        items
    }

    /// A worker has had nothing to do for a while, or the ring has no room for more: nothing will tell whose fault its failures are.
    #[must_use]
    pub fn on_idle(&mut self, worker: WorkerId) -> Vec<Failed> {
        let Some(mut record) = self.workers.remove(&worker) else { return Vec::new() };
        let mut certain = Vec::new();
        self.make_certain(&mut record, &mut certain);
        self.workers.insert(worker, record);
        certain
    }

    /// A worker is gone. What it failed over just before is tried again once.
    pub fn on_gone(&mut self, worker: WorkerId) -> Judgement {
        let Some(mut record) = self.workers.remove(&worker) else { return Judgement::default() };
        let mut judged = Judgement::default();
        let held = std::mem::take(&mut record.held);
        let (before, fresh): (Vec<_>, Vec<_>) =
            held.into_iter().partition(|failed| self.retried.contains_key(&(failed.slot, failed.entry)));
        record.held = before;
        self.make_certain(&mut record, &mut judged.failed);
        if !fresh.is_empty() {
            judged.again = self.give_again(fresh);
        }
        judged
    }

    /// All items of a slot are settled, and others will have their places. One that is still tried again by these books has ended
    /// elsewhere (it brought down its worker, it took too long), so its replacement did not help it.
    pub fn on_freed(&mut self, slot: u32) {
        let places: Vec<_> =
            self.retried.range((slot, 0)..=(slot, u32::MAX)).map(|(place, _)| *place).collect();
        for place in places {
            if let Some(round) = self.retried.remove(&place) {
                self.leave_round(round, false);
            }
        }
    }

    /// How many items are tried again just now.
    pub fn retrying(&self) -> usize {
        self.retried.len()
    }

    /// Whether a worker's failures are held back.
    pub fn holds(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|record| !record.held.is_empty())
    }

    /// How many failures in a row it takes now.
    pub const fn limit(&self) -> usize {
        self.limit
    }
}

impl Outcome {
    /// The failure, if it is one.
    pub fn into_failed(self) -> Option<Failed> {
        match self {
            Self::Failed(failed) => Some(failed),
            Self::Done { .. } => None,
        }
    }
}
