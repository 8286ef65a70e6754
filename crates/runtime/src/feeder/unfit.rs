//! Workers that must go: broken by an item, so that everything behind it fails, or not coming back from one. When that is so is
//! decided by `core/batches`; here outcomes are told to it, and what it says is done. The worker itself is ended by the engine.

use std::hash::{DefaultHasher, Hasher};
use std::time::{Duration, Instant};

use gpulane_core::batches::{BatchId, Failed, Judgement, Lost, Outcome, Span, WorkerId};
use gpulane_feed::wire::ResultsHead;
use gpulane_model::{FeederWord, Millis};

use super::connection::Progress;
use super::hub::Hub;
use super::writing::{Blame, Write};

/// How long a worker must have had nothing to do before its failures are taken for what they seem.
const IDLE: Duration = Duration::from_secs(1);
/// What a worker gets beyond its time to say itself where it is.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Hub {
    /// What became of the items of a span, in their order.
    pub(super) fn outcomes(&self, span: Span, head: &ResultsHead) -> Vec<Outcome> {
        let mut failed: Vec<Option<&str>> = vec![None; span.count as usize];
        for failure in &head.failed {
            if let Some(place) = failed.get_mut(failure.at as usize) {
                *place = Some(&failure.reason);
            }
        }
        let entries = (span.first..).zip(failed);
        let outcome = |(entry, failed): (u32, Option<&str>)| match failed {
            None => Outcome::Done { slot: span.slot, entry },
            Some(reason) => Outcome::Failed(Failed {
                slot: span.slot,
                entry,
                identity: self.identity(span.slot, entry),
                reason: reason.to_owned(),
            }),
        };
        entries.map(outcome).collect()
    }

    /// A number that items of one name share.
    fn identity(&self, slot: u32, entry: u32) -> u64 {
        let name = self.slots.get(&slot).and_then(|filled| filled.items.get(entry as usize));
        let mut hasher = DefaultHasher::new();
        hasher.write(name.map_or(b"", |(_, name)| name.as_bytes()));
        hasher.finish()
    }

    /// Does what follows from a worker's answer.
    pub(super) fn follow(&mut self, id: WorkerId, judged: Judgement) {
        for failed in judged.failed {
            self.fail(&failed);
        }
        if judged.works || judged.convicted || judged.doubtful {
            self.books.on_trial(id, judged.doubtful);
        }
        if judged.again.is_empty() {
            return;
        }
        let items = judged.again.len();
        if let Some(last) = judged.again.last() {
            let because = format!(
                "{items} items in a row failed in it, which may be its fault and not theirs: a fresh worker tries them again ({})",
                last.reason
            );
            self.tally.replaced += 1;
            self.dispose(id, because, false);
        }
        self.try_again(&judged.again);
    }

    /// A worker is gone: what it failed over just before is tried again.
    pub(super) fn after_gone(&mut self, id: WorkerId) {
        let Judgement { failed, again, .. } = self.health.on_gone(id);
        for failed in failed {
            self.fail(&failed);
        }
        self.try_again(&again);
    }

    fn try_again(&mut self, items: &[Failed]) {
        self.tally.tried_again += items.len() as u64;
        self.books.try_again(items.iter().map(|item| (item.slot, item.entry)));
    }

    /// An item has failed for good.
    fn fail(&mut self, failed: &Failed) {
        let item = self.slots.get(&failed.slot).and_then(|filled| filled.items.get(failed.entry as usize));
        if let Some(item) = item.cloned() {
            self.writing.put(Write::Failed(item, failed.reason.clone(), Blame::Model));
        }
        if self.books.settle(failed.slot, 1) {
            self.free(failed.slot);
        }
    }

    /// Gives nothing more to a worker and has it ended. Its socket stays, so that it does not look for another feeder meanwhile.
    fn dispose(&mut self, id: WorkerId, because: String, overdue: bool) {
        // What it was given goes to others; where it is overdue, that was done.
        self.books.on_gone(id, true);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.progress = Progress::Leaving;
        worker.clock = None;
        let (job, attempt) = (worker.job.clone(), worker.attempt);
        self.telling.say(&FeederWord::Unfit { job, attempt, because, overdue });
    }

    /// A worker's model works on a batch, or on so many items of it.
    pub(super) fn on_began(&mut self, id: WorkerId, batch: BatchId, items: Option<u32>) {
        self.books.on_began(id, batch);
        let Some((first, span)) = self.books.under_work(id) else { return };
        if first == batch
            && let Some(worker) = self.workers.get_mut(&id)
        {
            worker.clock = Some((Instant::now(), items.unwrap_or(span.count)));
        }
    }

    /// A worker has answered: the time of what it has begun behind that counts from now.
    pub(super) fn on_answered(&mut self, id: WorkerId) {
        let next = self.books.under_work(id).map(|(_, span)| (Instant::now(), span.count));
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.clock = next;
        }
    }

    /// A worker says itself that its model does not come back, and where it is.
    pub(super) fn on_overdue(&mut self, id: WorkerId, batch: BatchId, stack: &str) {
        if self.books.under_work(id).is_some_and(|(first, _)| first == batch) {
            self.end_overdue(id, stack);
        }
    }

    /// Looks for workers whose model does not come back, and for failures that nothing will explain.
    pub(super) fn look_after_workers(&mut self, now: Instant) {
        if let Some(limit) = self.task.map.item_timeout {
            let late = self.workers.iter().filter(|(_, worker)| {
                let time = |(since, items)| (now.duration_since(since), allowed(limit, items) + LAST_WORDS);
                worker.clock.map(time).is_some_and(|(spent, allowed)| spent > allowed)
            });
            for id in late.map(|(id, _)| *id).collect::<Vec<_>>() {
                self.end_overdue(id, "");
            }
        }
        let full =
            self.flow.as_ref().is_some_and(|flow| self.slots.len() >= flow.ring.geometry().slots as usize);
        let idle: Vec<WorkerId> = self.books.idle().collect();
        for (id, worker) in &mut self.workers {
            worker.idle = if idle.contains(id) { worker.idle.or(Some(now)) } else { None };
        }
        for id in idle.into_iter().filter(|id| self.health.holds(*id)).collect::<Vec<_>>() {
            let since = self.workers.get(&id).and_then(|worker| worker.idle).unwrap_or(now);
            if full || self.drained || now.duration_since(since) >= IDLE {
                for failed in self.health.on_idle(id) {
                    self.fail(&failed);
                }
            }
        }
    }

    fn end_overdue(&mut self, id: WorkerId, stack: &str) {
        let Some(limit) = self.task.map.item_timeout else { return };
        let Some(worker) = self.workers.get(&id) else { return };
        let items = worker.clock.map_or(1, |(_, items)| items);
        let log = self.log_of(id);
        let at = if stack.is_empty() { String::new() } else { format!(", at {stack}") };
        self.tally.overdue += 1;
        self.prospects().on_death();
        let Lost { poison, free } = self.books.on_overdue(id);
        for item in poison {
            let found = self.slots.get(&item.slot).and_then(|filled| filled.items.get(item.entry as usize));
            if let Some(found) = found.cloned() {
                let reason = format!(
                    "the model did not come back from it within item_timeout, {limit}{at}; `{log}` shows the whole stack"
                );
                self.writing.put(Write::Failed(found, reason, Blame::Model));
            }
        }
        for slot in free {
            self.free(slot);
        }
        self.after_gone(id);
        let of = if items == 1 { "1 item".to_owned() } else { format!("{items} items") };
        let allowed = Millis(u64::try_from(allowed(limit, items).as_millis()).unwrap_or(u64::MAX));
        self.dispose(id, format!("the model did not come back from {of} within {allowed}{at}"), true);
    }

    /// The command that shows what a worker has said last.
    pub(super) fn log_of(&self, id: WorkerId) -> String {
        let run = self.task.run.display();
        self.workers.get(&id).map_or_else(String::new, |worker| {
            format!("gpulane logs {run} {} --attempt {}", worker.job, worker.attempt)
        })
    }
}

/// The time a call of the model with so many items may take.
fn allowed(limit: Millis, items: u32) -> Duration {
    limit.duration().saturating_mul(items.max(1))
}
