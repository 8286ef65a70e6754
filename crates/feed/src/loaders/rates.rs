//! What the threads have done and where their time went, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// All of a map's loading so far. Times are summed over the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Threads that load.
    pub threads: u32,
    /// Items in slots.
    pub items: u64,
    /// Items that could not be loaded.
    pub failed: u64,
    /// Items among them that went as encoded JPEGs.
    pub on_device: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes of items in slots.
    pub bytes_in: u64,
    /// Seconds spent opening and reading files.
    pub reading: f64,
    /// Seconds spent decoding, without resizing.
    pub decoding: f64,
    /// Seconds spent resizing.
    pub resizing: f64,
    /// Seconds spent waiting for a free slot: the workers are slower.
    pub waiting_for_slots: f64,
    /// Seconds spent waiting for items: the source is slower.
    pub waiting_for_items: f64,
}

impl Rates {
    /// The share of the items in slots that went as encoded JPEGs, from 0 to 1.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn share_on_device(&self) -> f64 {
        if self.items == 0 { 0.0 } else { self.on_device as f64 / self.items as f64 }
    }
}

/// The counters behind [`Rates`].
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) threads: u32,
    pub(super) items: Count,
    pub(super) failed: Count,
    pub(super) on_device: Count,
    pub(super) bytes_read: Count,
    pub(super) bytes_in: Count,
    pub(super) reading: Count,
    pub(super) decoding: Count,
    pub(super) resizing: Count,
    pub(super) waiting_for_slots: Count,
    pub(super) waiting_for_items: Count,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// Adds time, in nanoseconds: 64 bits last for centuries.
    pub(super) fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(self.get()).as_secs_f64()
    }
}

impl Counting {
    pub(super) fn read(&self) -> Rates {
        Rates {
            threads: self.threads,
            items: self.items.get(),
            failed: self.failed.get(),
            on_device: self.on_device.get(),
            bytes_read: self.bytes_read.get(),
            bytes_in: self.bytes_in.get(),
            reading: self.reading.seconds(),
            decoding: self.decoding.seconds(),
            resizing: self.resizing.seconds(),
            waiting_for_slots: self.waiting_for_slots.seconds(),
            waiting_for_items: self.waiting_for_items.seconds(),
        }
    }
}
