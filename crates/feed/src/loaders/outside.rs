//! Items that the model's own `load` makes, in processes of its own: what is asked of whoever runs these.

use std::sync::atomic::{AtomicU64, Ordering};

use gpulane_decode::{Form, Kind};

/// Runs the model's `load` elsewhere.
pub trait Outside: Send + Sync {
    /// Has the item loaded into `room` bytes of a slot from `offset` on, and waits for it. `thread` counts from 0, so that
    /// each thread can have a process of its own. Whatever happens there, this returns.
    fn load(&self, thread: usize, path: &str, slot: u32, offset: u64, room: u64) -> OutsideAnswer;
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutsideAnswer {
    /// It is in the ring.
    Loaded {
        /// What it is; its bytes begin at `offset`.
        form: Form,
    },
    /// It does not fit; nothing was written.
    TooLarge {
        /// What it needs.
        bytes: u64,
    },
    /// It cannot be loaded; why, for a person.
    Failed(String),
}

/// How much room to offer to an item whose size nobody knows.
#[derive(Debug)]
pub(super) struct Guess {
    /// The largest item so far.
    largest: AtomicU64,
}

/// What the first is offered.
const FIRST: u64 = 1 << 20;

impl Guess {
    pub(super) const fn new() -> Self {
        Self { largest: AtomicU64::new(0) }
    }

    /// Learns from an item's size.
    pub(super) fn saw(&self, bytes: u64) {
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }

    /// A quarter more than the largest so far.
    pub(super) fn room(&self) -> u64 {
        let largest = self.largest.load(Ordering::Relaxed);
        largest.saturating_add(largest / 4).max(FIRST)
    }
}

/// What is wrong with a form that came from another process, if anything.
pub(super) fn wrong(form: &Form, room: u64) -> Option<String> {
    if form.bytes > room {
        return Some(format!("the loader wrote {} bytes where it was given {room}", form.bytes));
    }
    if !matches!(form.kind, Kind::Array | Kind::Bytes | Kind::Text) {
        return Some("the loader made neither an array nor bytes nor text".to_owned());
    }
    if form.kind != Kind::Array {
        return None;
    }
    let sides = form.dims.get(..form.ndim as usize);
    let elements =
        sides.and_then(|sides| sides.iter().try_fold(1_u64, |all, side| all.checked_mul(u64::from(*side))));
    let bytes = elements.and_then(|elements| elements.checked_mul(form.element.bytes()));
    (bytes != Some(form.bytes))
        .then(|| format!("the loader's array of {:?} does not have {} bytes", form.dims, form.bytes))
}
