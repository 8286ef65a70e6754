//! The clock and what is set on it. The core never sees a clock; it is told the time with each input.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gpulane_core::Timer;
use gpulane_model::{JobId, Millis, StageId};

/// What can come due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The core asked for it.
    Core(Timer),
    /// Time for the next step in ending a job's processes.
    Ending(JobId),
    /// Time for the next step in ending the feeder of a map.
    Feeder(StageId),
    /// Time to look after leases and questions about GPUs.
    Gpus,
    /// Time to see whether there is room for another standby.
    Standbys,
    /// Time to see how much standbys have printed.
    StandbysPrint,
    /// The front is gone, and we should be too.
    Abandoned,
    /// `--wait` is over.
    WaitedEnough,
    /// Time to look whether the run directory is where it was.
    Place,
    /// Time to reap and end what no running job owns.
    Sweep,
}

/// Monotonic time since the engine began, and the alarms set on it.
pub(super) struct Clock {
    begun: Instant,
    alarms: BinaryHeap<Reverse<Entry>>,
    /// Keeps alarms for the same instant in the order they were set.
    counter: u64,
}

struct Entry {
    at: Millis,
    order: u64,
    alarm: Alarm,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { begun: Instant::now(), alarms: BinaryHeap::new(), counter: 0 }
    }

    pub(super) fn now(&self) -> Millis {
        Millis(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The time of day, for records.
    pub(super) fn unix() -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn set(&mut self, at: Millis, alarm: Alarm) {
        self.counter += 1;
        self.alarms.push(Reverse(Entry { at, order: self.counter, alarm }));
    }

    /// The next alarm that is due.
    pub(super) fn due(&mut self) -> Option<Alarm> {
        let now = self.now();
        if self.alarms.peek().is_some_and(|Reverse(next)| next.at <= now) {
            return self.alarms.pop().map(|Reverse(entry)| entry.alarm);
        }
        None
    }

    /// How long until the next alarm; `None` if none is set.
    pub(super) fn until_next(&self) -> Option<Millis> {
        self.alarms.peek().map(|Reverse(next)| next.at.since(self.now()))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
