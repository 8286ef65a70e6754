//! Events on their way from the callers to the writer's thread, and who waits for whom.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpulane_model::{Event, Millis};

/// Between callers and the writer. Not bounded: a caller must never wait for the disk, and what can queue up is
/// small, a few events for each running job, because an engine starts nothing while the journal is blocked.
#[derive(Debug)]
pub(super) struct Queue {
    inner: Mutex<Inner>,
    /// For the writer: there is something to do.
    work: Condvar,
    /// For who flushes or closes: something became durable, or the writer ended.
    progress: Condvar,
}

#[derive(Debug)]
struct Inner {
    events: Vec<(Millis, Event)>,
    /// The newest number given out.
    appended: u64,
    /// The newest durable number.
    durable: u64,
    /// The writer waits for events. Only then is it woken, so that a burst costs one wake-up.
    asleep: bool,
    /// Somebody waits: no pausing to gather more.
    urgent: bool,
    /// How many wait on `progress`.
    waiting: u32,
    /// When to give up; `Some` once the journal is being closed.
    stop: Option<Instant>,
    /// The writer's thread is at its end.
    ended: bool,
}

impl Queue {
    pub(super) fn after(last_seq: u64) -> Self {
        let inner = Inner {
            events: Vec::new(),
            appended: last_seq,
            durable: last_seq,
            asleep: false,
            urgent: false,
            waiting: 0,
            stop: None,
            ended: false,
        };
        Self { inner: Mutex::new(inner), work: Condvar::new(), progress: Condvar::new() }
    }

    /// No code panics while it holds the lock, so a poisoned one holds sound data.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, time: Millis, event: Event) {
        let mut inner = self.lock();
        inner.events.push((time, event));
        inner.appended += 1;
        let wake = mem::take(&mut inner.asleep);
        drop(inner);
        if wake {
            self.work.notify_one();
        }
    }

    pub(super) fn wait_durable(&self, deadline: Instant) -> bool {
        let mut inner = self.lock();
        let target = inner.appended;
        inner.urgent = true;
        inner.asleep = false;
        self.work.notify_one();
        inner = self.wait_progress(inner, deadline, |inner| inner.durable >= target || inner.ended);
        inner.durable >= target
    }

    /// Tells the writer to end and waits for it; true: everything is durable.
    pub(super) fn stop(&self, deadline: Instant) -> bool {
        let mut inner = self.lock();
        inner.stop = Some(deadline);
        inner.asleep = false;
        self.work.notify_one();
        // The writer gives up at the deadline; the rest is for its last attempt to return.
        inner = self.wait_progress(inner, deadline + Duration::from_millis(200), |inner| inner.ended);
        inner.durable == inner.appended
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    fn wait_progress<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner>,
        deadline: Instant,
        reached: impl Fn(&Inner) -> bool,
    ) -> MutexGuard<'a, Inner> {
        inner.waiting += 1;
        while !reached(&inner) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.progress.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner.waiting -= 1;
        inner
    }
}

/// The writer's side.
impl Queue {
    /// The newest durable record's number.
    pub(super) fn last_seq(&self) -> u64 {
        self.lock().durable
    }

    /// Waits for events, but not before `not_before` unless somebody waits for them, and moves them all into
    /// `batch`. False: none are left and the journal is being closed.
    pub(super) fn take(
        &self,
        batch: &mut Vec<(Millis, Event)>,
        not_before: Instant,
        patience: Option<Duration>,
    ) -> bool {
        let mut inner = self.lock();
        while !inner.urgent && inner.stop.is_none() {
            let left = not_before.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            inner = self.work.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        while inner.events.is_empty() {
            if inner.stop.is_some() {
                return false;
            }
            inner.urgent = false;
            inner.asleep = true;
            inner = match patience {
                None => self.work.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let (inner, waited) =
                        self.work.wait_timeout(inner, patience).unwrap_or_else(PoisonError::into_inner);
                    if waited.timed_out() && inner.events.is_empty() {
                        return true;
                    }
                    inner
                }
            };
        }
        inner.asleep = false;
        inner.urgent = false;
        mem::swap(&mut inner.events, batch);
        true
    }

    /// Moves what has come meanwhile into `batch`, without waiting.
    pub(super) fn take_more(&self, batch: &mut Vec<(Millis, Event)>) {
        mem::swap(&mut self.lock().events, batch);
    }

    /// Waits this long before another attempt; when the journal is being closed, there is one at once. False: the
    /// time for closing is over.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut inner = self.lock();
        let was_open = inner.stop.is_none();
        loop {
            if was_open && inner.stop.is_some() {
                return true;
            }
            let now = Instant::now();
            let end = inner.stop.map_or(until, |stop| stop.min(until));
            if now >= end {
                return inner.stop.is_none_or(|stop| now < stop);
            }
            let left = end - now;
            inner = self.work.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn set_durable(&self, seq: u64) {
        let mut inner = self.lock();
        inner.durable = seq;
        let wake = inner.waiting > 0;
        drop(inner);
        if wake {
            self.progress.notify_all();
        }
    }

    pub(super) fn set_ended(&self) {
        self.lock().ended = true;
        self.progress.notify_all();
    }
}
