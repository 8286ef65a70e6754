//! The thread that puts results on the disk and decides when they are made durable. Results are lost with the process until then, so
//! it is done soon at first, and more seldom the longer the map has run: what can be lost stays a small part of what was done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpulane_core::batches::Prospects;
use gpulane_model::FeederWord;
use gpulane_parts::{Block, Commit, PartsError, Writer};
use serde_json::Value;

use super::tell::Telling;

/// The first results are durable after this long.
const SOONEST: Duration = Duration::from_secs(1);
/// However long the map runs, no more work than this is lost to a power cut.
const LATEST: Duration = Duration::from_secs(30);
/// The part of the map's time so far that may be lost.
const AT_RISK: u32 = 20;
/// So much in memory is written out at once.
const MUCH: u64 = 128 << 20;
/// The pause before a write that failed is tried again.
const PAUSE: Duration = Duration::from_secs(2);

/// One item as the parts need it.
pub(crate) type Named = (u64, String);

/// What is to be written.
pub(crate) enum Write {
    /// A worker's results.
    Rows {
        /// The items that rows belong to.
        items: Vec<Named>,
        /// Items of the same slot whose picture is damaged, in their order, and what is damaged of each.
        damaged: Vec<(u64, String)>,
        /// What the results are.
        head: Value,
        /// The results.
        body: Vec<u8>,
    },
    /// An item that failed, why, and over what.
    Failed(Named, String, Blame),
    /// Make everything durable now, then answer.
    Finish {
        /// Where to.
        answer: Sender<Result<(), String>>,
        /// These were the last results: all parts are to have the same columns.
        last: bool,
    },
}

/// What an item failed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// It could not be read or decoded.
    Item,
    /// The model had it.
    Model,
}

impl Write {
    /// What it holds of results.
    fn bytes(&self) -> u64 {
        match self {
            Self::Rows { body, .. } => body.len() as u64,
            Self::Failed(..) | Self::Finish { .. } => 0,
        }
    }
}

/// What all may read of the writer's progress.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Rows taken, durable or not.
    pub(crate) rows: AtomicU64,
    /// Failures taken, refused rows among them.
    pub(crate) failed: AtomicU64,
    /// Rows among them of pictures that are damaged.
    pub(crate) damaged: AtomicU64,
    /// Items that are settled durably, by this process.
    pub(crate) durable: AtomicU64,
    /// Nanoseconds spent writing.
    pub(crate) busy: AtomicU64,
    /// Messages that wait.
    pub(crate) waiting: AtomicU64,
    /// Bytes of results in them.
    pub(crate) waiting_bytes: AtomicU64,
    /// The disk is full, or otherwise not to be had just now.
    pub(crate) stuck: AtomicBool,
    /// Why, for a person.
    pub(crate) because: Mutex<String>,
    /// This process is about to end: what can be done by the next one is left to it.
    pub(crate) leaving: AtomicBool,
}

impl Written {
    /// Why results cannot be written now; empty: they can.
    pub(crate) fn obstacle(&self) -> String {
        if !self.stuck.load(Ordering::Relaxed) {
            return String::new();
        }
        self.because.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The hub's end.
pub(crate) struct Writing {
    /// Unbounded, because the hub must never wait for a disk; what is under way bounds it: nothing is handed to workers while
    /// much is waiting here (`is_behind`).
    to: Sender<Write>,
    /// What was done.
    pub(crate) written: Arc<Written>,
    thread: Option<JoinHandle<()>>,
}

/// Messages that may wait before workers get nothing more.
const BEHIND: u64 = 64;
/// The same for their bytes.
const BEHIND_BYTES: u64 = 256 << 20;

impl Writing {
    /// Starts the thread. `wake` is called whenever something was made durable or taken.
    pub(crate) fn start(
        writer: Writer,
        telling: Arc<Telling>,
        prospects: Arc<Mutex<Prospects>>,
        wake: impl Fn() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (to, from) = mpsc::channel();
        let written = Arc::new(Written::default());
        let mut desk = Desk {
            writer,
            telling,
            prospects,
            written: Arc::clone(&written),
            begun: Instant::now(),
            last: Instant::now(),
            names: Vec::new(),
            complained: String::new(),
        };
        let thread =
            std::thread::Builder::new().name("parts".to_owned()).spawn(move || desk.work(&from, &wake))?;
        Ok(Self { to, written, thread: Some(thread) })
    }

    /// Hands something over; never waits.
    pub(crate) fn put(&self, write: Write) {
        self.written.waiting.fetch_add(1, Ordering::Relaxed);
        self.written.waiting_bytes.fetch_add(write.bytes(), Ordering::Relaxed);
        // The thread lives as long as this does.
        let _ = self.to.send(write);
    }

    /// Whether the disk does not keep up.
    pub(crate) fn is_behind(&self) -> bool {
        let written = &self.written;
        written.waiting.load(Ordering::Relaxed) > BEHIND
            || written.waiting_bytes.load(Ordering::Relaxed) > BEHIND_BYTES
            || written.stuck.load(Ordering::Relaxed)
    }

    /// Whether the thread has ended while it was needed.
    pub(crate) fn has_died(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Asks for everything to be made durable; the answer comes when it is, or with the first error. `last`: nothing will follow, so
    /// all parts are to have the same columns.
    pub(crate) fn finish(&self, last: bool) -> Receiver<Result<(), String>> {
        let (answer, told) = mpsc::channel();
        self.put(Write::Finish { answer, last });
        told
    }

    /// Ends the thread. What is not durable by now is done again by the next feeder.
    pub(crate) fn close(mut self) {
        let (nobody, _) = mpsc::channel();
        drop(std::mem::replace(&mut self.to, nobody));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desk {
    writer: Writer,
    telling: Arc<Telling>,
    /// Told of what became of items the model had.
    prospects: Arc<Mutex<Prospects>>,
    written: Arc<Written>,
    begun: Instant,
    last: Instant,
    /// Items that failed since the last commit, with their reasons: told once that is durable.
    names: Vec<(String, String)>,
    /// What was said last about a disk that does not take it.
    complained: String,
}

impl Desk {
    fn work(&mut self, from: &Receiver<Write>, wake: &impl Fn()) {
        loop {
            let wait = self.until_due();
            match from.recv_timeout(wait) {
                Ok(write) => {
                    let bytes = write.bytes();
                    self.take(write);
                    self.written.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.written.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.until_due().is_zero() {
                let _ = self.commit();
            }
            wake();
        }
    }

    fn take(&mut self, write: Write) {
        let began = Instant::now();
        match write {
            Write::Rows { items, damaged, head, body } => self.rows(&items, &damaged, &head, body),
            Write::Failed((number, name), reason, blame) => self.failed(number, &name, &reason, blame),
            Write::Finish { answer, last } => {
                let done = self.commit();
                if last && done.is_ok() {
                    self.make_alike();
                }
                // Whoever asked may have gone.
                let _ = answer.send(done);
            }
        }
        self.spent(began);
    }

    /// Reading the body is done here and not by the hub, which must stay quick.
    fn rows(&mut self, items: &[Named], damaged: &[(u64, String)], head: &Value, body: Vec<u8>) {
        let named: Vec<(u64, &str)> = items.iter().map(|(number, name)| (*number, name.as_str())).collect();
        let added = Block::parse(head, body).and_then(|block| {
            if block.rows != items.len() {
                return Err(format!("{} results for {} items", block.rows, items.len()));
            }
            self.writer.add(&named, &block).map_err(|error| error.to_string())
        });
        for note in self.writer.notes() {
            self.telling.note(note);
        }
        let refused = added.unwrap_or_else(|error| {
            let reason = format!("the worker's results cannot be used: {error}");
            (0..items.len()).map(|row| (row, reason.clone())).collect()
        });
        let taken = (items.len() - refused.len()) as u64;
        self.written.rows.fetch_add(taken, Ordering::Relaxed);
        if !damaged.is_empty() {
            self.note_damaged(items, damaged, &refused);
        }
        if taken > 0 {
            self.prospects().on_success();
        }
        for (row, reason) in refused {
            let (number, name) = &items[row];
            self.failed(*number, name, &reason, Blame::Model);
        }
    }

    /// Lists the rows that were taken whose picture is damaged.
    fn note_damaged(&mut self, items: &[Named], damaged: &[(u64, String)], refused: &[(usize, String)]) {
        for (row, (number, name)) in items.iter().enumerate() {
            if let Ok(at) = damaged.binary_search_by_key(number, |(number, _)| *number)
                && refused.binary_search_by_key(&row, |(row, _)| *row).is_err()
            {
                self.written.damaged.fetch_add(1, Ordering::Relaxed);
                self.writer.note_damaged(name, &damaged[at].1);
            }
        }
    }

    fn prospects(&self) -> MutexGuard<'_, Prospects> {
        self.prospects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything is durable: parts from before a column had its first value, or its type, get it now. The
    /// workers wait meanwhile: the map is not over before, and it is rare. If it cannot be done, nothing is lost.
    fn make_alike(&mut self) {
        let written = Arc::clone(&self.written);
        match self.writer.make_alike(&|| written.leaving.load(Ordering::Relaxed)) {
            Ok(0) => {}
            Ok(1) => self.telling.note("1 part was given the columns and types that came after it"),
            Ok(many) => {
                self.telling.note(format!("{many} parts were given the columns and types that came after them"));
            }
            Err(error) => self.telling.note(format!(
                "not every part has the same columns and types, so read them by name, part by part: {error}; no result is lost by this"
            )),
        }
    }

    fn failed(&mut self, number: u64, name: &str, reason: &str, blame: Blame) {
        match blame {
            Blame::Model => self.prospects().on_failure(reason),
            Blame::Item => self.prospects().on_unloaded(reason),
        }
        self.written.failed.fetch_add(1, Ordering::Relaxed);
        self.writer.fail(number, name, reason);
        self.names.push((name.to_owned(), reason.to_owned()));
    }

    /// Zero: now.
    fn until_due(&self) -> Duration {
        let pending = self.writer.pending();
        if pending.rows + pending.failed == 0 {
            return Duration::from_hours(1);
        }
        if self.written.stuck.load(Ordering::Relaxed) {
            return PAUSE.saturating_sub(self.last.elapsed());
        }
        if pending.bytes > MUCH {
            return Duration::ZERO;
        }
        let between = (self.begun.elapsed() / AT_RISK).clamp(SOONEST, LATEST);
        between.saturating_sub(self.last.elapsed())
    }

    /// Until nothing is pending: one that failed before is finished first, and what came since needs another.
    fn commit(&mut self) -> Result<(), String> {
        loop {
            let began = Instant::now();
            let done = self.writer.commit();
            self.last = Instant::now();
            self.spent(began);
            match done {
                Ok(None) => return Ok(()),
                Ok(Some(commit)) => self.on_durable(commit),
                Err(error) => return Err(self.complain(&error)),
            }
        }
    }

    fn on_durable(&mut self, commit: Commit) {
        if self.written.stuck.swap(false, Ordering::Relaxed) {
            self.telling.say(&FeederWord::Trouble { text: "results can be written again".to_owned() });
            self.complained.clear();
        }
        self.written.durable.fetch_add(commit.rows + commit.failed, Ordering::Relaxed);
        let failed = usize::try_from(commit.failed).unwrap_or(usize::MAX).min(self.names.len());
        for (item, reason) in self.names.drain(..failed) {
            self.telling.say(&FeederWord::ItemFailed { item, reason });
        }
        let Commit { commit, part, rows, failed, damaged } = commit;
        self.telling.say(&FeederWord::Committed { commit, part, rows, failed, damaged });
    }

    fn complain(&mut self, error: &PartsError) -> String {
        let hint = match error {
            PartsError::Io { source, .. } => gpulane_journal::io_hint(source),
            _ => None,
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let text = format!("{error}{hint}; the map waits and tries again");
        self.written.because.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&text);
        self.written.stuck.store(true, Ordering::Relaxed);
        if text != self.complained {
            self.telling.say(&FeederWord::Trouble { text: text.clone() });
            self.complained.clone_from(&text);
        }
        text
    }

    fn spent(&self, began: Instant) {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.written.busy.fetch_add(nanos, Ordering::Relaxed);
    }
}
