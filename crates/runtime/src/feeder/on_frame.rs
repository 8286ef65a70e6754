//! What workers say, and what it leads to.

use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use gpulane_core::batches::{BatchId, Judgement, Outcome, Prospects, Span, WorkerId};
use gpulane_feed::wire::{FromWorker, PROTOCOL, RawFrame, ResultsHead, Role, ToWorker};
use serde_json::{Map, json};

use super::connection::{Connection, Progress};
use super::ending::End;
use super::flow::{Abilities, ring_frame};
use super::hub::Hub;
use super::writing::{Blame, Write};

/// The same setup that failed so often in a row, with no worker ready, will fail again.
const SETUP_TRIES: usize = 2;

impl Hub {
    pub(super) fn on_frame(&mut self, id: WorkerId, frame: RawFrame) {
        let said = match frame.from_worker() {
            Ok(said) => said,
            Err(error) => {
                self.telling.note(format!("a worker was cut off: {error}"));
                return self.on_gone(id);
            }
        };
        match said {
            FromWorker::Hello { protocol, .. } if protocol != u32::from(PROTOCOL) => {
                self.telling.note(format!(
                    "a worker was cut off: it speaks version {protocol} of the protocol, not {PROTOCOL}"
                ));
                self.on_gone(id);
            }
            FromWorker::Hello { role: Role::Loader, pid, .. } => self.on_loader(id, pid),
            FromWorker::Hello { job, attempt, .. } => {
                if let Some(worker) = self.workers.get_mut(&id) {
                    (worker.job, worker.attempt) = (job, attempt);
                    worker.progress = Progress::SettingUp;
                }
                let args = self.task.map.args.clone();
                self.send(id, &ToWorker::Setup { args });
            }
            FromWorker::Ready { device, accepts, decode, members, batch, load, .. } => {
                self.on_ready(id, &Abilities { device, accepts, decode, members, batch, load });
            }
            FromWorker::SetupFailed { error, .. } => self.on_setup_failed(id, &error),
            FromWorker::Began { batch, count } => self.on_began(id, BatchId(batch), count),
            FromWorker::Overdue { batch, stack } => self.on_overdue(id, BatchId(batch), &stack),
            FromWorker::Results(head) => self.on_results(id, &head, frame.body),
            // A sign of life; or from a loader, whose frames go elsewhere.
            FromWorker::Here
            | FromWorker::Loaded { .. }
            | FromWorker::TooLarge { .. }
            | FromWorker::LoadFailed { .. } => {}
        }
    }

    fn on_ready(&mut self, id: WorkerId, ready: &Abilities) {
        self.setup_failures.clear();
        if self.flow.is_none()
            && let Err(because) = self.start_flow(ready)
        {
            self.end = Some(End::Stopped(because));
            return;
        }
        let (Some(flow), Some(worker)) = (&self.flow, self.workers.get_mut(&id)) else { return };
        let map = &self.task.map;
        let frame =
            ring_frame(&flow.ring, flow.decode, flow.members.clone(), map.nan, Map::new(), map.item_timeout);
        if worker.send_with_fd(&frame, flow.ring.fd()).is_err() {
            return self.on_gone(id);
        }
        worker.progress = Progress::Working;
        let on_trial = self.health.on_ready(id, &worker.job);
        self.books.on_ready(id);
        self.books.on_trial(id, on_trial);
    }

    /// A loader process: its socket belongs to the thread it serves.
    fn on_loader(&mut self, id: WorkerId, pid: u32) {
        let stream = self.dismiss(id).and_then(|loader| loader.into_stream().ok());
        let pool = self.flow.as_ref().and_then(|flow| flow.outside.as_ref());
        if let (Some(stream), Some(pool)) = (stream, pool) {
            pool.arrive(pid, stream);
        }
    }

    fn on_setup_failed(&mut self, id: WorkerId, error: &str) {
        let error = error.lines().last().unwrap_or_default();
        self.setup_failures.push(error.to_owned());
        let hopeful =
            |(other, worker): (&WorkerId, &Connection)| *other != id && worker.progress != Progress::Strange;
        let again = self.setup_failures.len() < SETUP_TRIES && !is_about_arguments(error);
        if !again && !self.workers.iter().any(hopeful) {
            let (run, stage) = (self.task.run.display(), &self.task.stage.name);
            self.end = Some(End::Stopped(format!(
                "the model cannot be set up: {error}; its log has the traceback: `gpulane logs {run} {stage}/worker-0`; {}",
                self.after_setup(error)
            )));
        }
    }

    /// What to do about a model that cannot be set up. What it is made with stays as it was, so mending that takes a new map.
    fn after_setup(&self, error: &str) -> String {
        if !is_about_arguments(error) {
            return format!("mend it, then `gpulane resume {} --failed`", self.task.run.display());
        }
        let map = &self.task.map;
        if map.lone {
            format!(
                "what it is made with cannot change in this map: start it into another --out with the right `--set`: `gpulane map {} … \
                 --out ANOTHER`",
                map.model
            )
        } else {
            "what it is made with cannot change in this run: mend `args` in the plan and start it anew: `gpulane run PLAN --run-dir \
             ANOTHER`"
                .to_owned()
        }
    }

    fn on_results(&mut self, id: WorkerId, head: &ResultsHead, body: Vec<u8>) {
        let Some(span) = self.books.on_results(id, BatchId(head.batch)) else { return };
        self.prospects().on_answer();
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.model_seconds += head.seconds.model;
            worker.copy_seconds += head.seconds.copy;
            worker.wait_seconds += head.seconds.wait;
        }
        self.tally.to_device += head.bytes.copied_to_device;
        self.tally.on_host += head.bytes.copied_on_host;
        self.learn_size(head, span);
        self.on_answered(id);
        let outcomes = self.outcomes(span, head);
        let done = self.put_rows(span, &outcomes, head, body);
        let judged = if head.certain { certain(outcomes) } else { self.health.on_batch(id, outcomes) };
        self.follow(id, judged);
        if done > 0 && self.books.settle(span.slot, done) {
            self.free(span.slot);
        }
    }

    /// Rows of a span go to the writer; how many there are. Failures wait until it is known whose they are.
    fn put_rows(&mut self, span: Span, outcomes: &[Outcome], head: &ResultsHead, body: Vec<u8>) -> u32 {
        let Some(filled) = self.slots.get(&span.slot) else { return 0 };
        let done = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Done { entry, .. } => filled.items.get(*entry as usize).cloned(),
            Outcome::Failed(_) => None,
        });
        let rows: Vec<_> = done.collect();
        let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        if !rows.is_empty() {
            let head = json!({ "count": head.count, "columns": head.columns });
            let damaged = filled.damaged.clone();
            self.writing.put(Write::Rows { items: rows, damaged, head, body });
        }
        count
    }

    /// A worker is gone, or must go.
    pub(super) fn on_gone(&mut self, id: WorkerId) {
        let log = self.log_of(id);
        let Some(worker) = self.dismiss(id) else { return };
        if worker.progress != Progress::Working {
            return;
        }
        self.tally.deaths += 1;
        self.prospects().on_death();
        let lost = self.books.on_gone(id, false);
        for poison in &lost.poison {
            let item =
                self.slots.get(&poison.slot).and_then(|filled| filled.items.get(poison.entry as usize));
            if let Some(item) = item.cloned() {
                let reason = self.how_it_ended(&worker, &log);
                self.writing.put(Write::Failed(item, reason, Blame::Model));
            }
        }
        self.tally.last_death = log;
        for slot in lost.free {
            self.free(slot);
        }
        self.after_gone(id);
    }

    /// Why an item failed that a worker has ended over, twice and alone. The watchdog leaves evidence of one that stood still.
    fn how_it_ended(&self, worker: &Connection, log: &str) -> String {
        let run = &self.task.run;
        let name = worker.job.rsplit('/').next().unwrap_or_default();
        let attempt = format!("attempt-{}", worker.attempt);
        let stacks = run.join("jobs").join(&self.task.stage.name).join(name).join(attempt).join("stacks.txt");
        if stacks.metadata().is_ok_and(|file| file.len() > 0) {
            return format!(
                "its worker stood still over it, twice and alone, and was ended: {} shows where",
                stacks.display()
            );
        }
        format!("it brought down its worker, twice and alone: `{log}` shows the last words")
    }

    pub(super) fn prospects(&self) -> MutexGuard<'_, Prospects> {
        self.prospects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn free(&mut self, slot: u32) {
        self.slots.remove(&slot);
        self.health.on_freed(slot);
        if let Some(flow) = &self.flow {
            flow.loaders.give_back(slot);
        }
    }

    /// Gives workers what there is for them, unless the disk is behind.
    pub(super) fn hand_out(&mut self) {
        while !self.writing.is_behind() {
            let Some(order) = self.books.next_order() else { return };
            let Some(filled) = self.slots.get(&order.span.slot) else { continue };
            let frame = ToWorker::Batch {
                batch: order.batch.0,
                slot: order.span.slot,
                first: order.span.first,
                count: order.span.count,
                packed: filled.packed,
                data: filled.data.start,
                data_end: filled.data.end,
                careful: order.careful,
            };
            self.send(order.worker, &frame);
        }
    }

    pub(super) fn send(&mut self, id: WorkerId, frame: &ToWorker) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if worker.send(frame).is_err() {
            return self.on_gone(id);
        }
        self.rearm(id);
    }

    /// Idle workers are told to wait, and answer.
    pub(super) fn wave(&mut self) {
        for id in self.books.idle().collect::<Vec<_>>() {
            self.send(id, &ToWorker::Wait);
        }
    }

    fn learn_size(&mut self, head: &ResultsHead, span: Span) {
        let Some(flow) = &mut self.flow else { return };
        #[allow(clippy::cast_precision_loss)] // a share
        let full = head
            .memory
            .and_then(|memory| Some(memory.peak? as f64 / memory.total.filter(|total| *total > 0)? as f64));
        if let Some(size) = flow.size.on_batch(span.count, head.seconds.model, full, head.ooms > 0) {
            flow.loaders.set_batch(size);
        }
    }

    /// Figures of now for the share left to the device.
    pub(super) fn tune(&mut self, now: Instant) {
        let waited: f64 =
            self.tally.waiting + self.workers.values().map(|worker| worker.wait_seconds).sum::<f64>();
        let workers = self.working();
        if let Some(flow) = &mut self.flow {
            flow.tune(now, waited, workers);
        }
    }
}

/// Failures that nothing is to be learned from by trying again.
fn certain(outcomes: Vec<Outcome>) -> Judgement {
    let failed = outcomes.into_iter().filter_map(Outcome::into_failed);
    Judgement { failed: failed.collect(), ..Judgement::default() }
}

/// Whether a model was given arguments that it does not take, or not those it needs: in the words of our own package, which looks before
/// anything of the model runs.
fn is_about_arguments(error: &str) -> bool {
    error.contains("ModelError: ")
        && ["takes no argument", "write --set "].iter().any(|words| error.contains(words))
}
