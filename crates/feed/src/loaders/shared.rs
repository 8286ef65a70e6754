//! What the loading threads share: one lock around the queue of items and the slots, and what is told to them from outside.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gpulane_decode::Limits;
use gpulane_items::Item;
use gpulane_model::{DamagePolicy, Decode, Members};

use super::heavy::Heavy;
use super::open::Open;
use super::outside::Guess;
use super::rates::Counting;
use super::reading::MOST_ENCODED;
use super::streams::Streams;
use super::tables::Tables;
use super::{InHand, Outside, Setup, Source, Told, Unloaded};
use crate::ring::{Piece, Ring};

/// Told to whoever started the loaders.
pub(super) type Tell = Box<dyn Fn(Told) + Send + Sync>;

/// Everything the threads share.
pub(super) struct Shared {
    /// Where items go.
    pub(super) ring: Arc<Ring>,
    /// What becomes of them.
    pub(super) decode: Decode,
    /// Which other members of its sample go with an item.
    pub(super) members: Members,
    /// What one may cost.
    pub(super) limits: Limits,
    /// What becomes of damaged pictures.
    pub(super) damaged: DamagePolicy,
    /// Tar files by number.
    pub(super) archives: Vec<PathBuf>,
    /// Compressed ones among them.
    pub(super) streams: Streams,
    /// Tables with items' data.
    pub(super) tables: Tables,
    /// Pixels are finished here.
    pub(super) pixels_here: bool,
    /// JPEGs may go as they are.
    pub(super) device_decodes: bool,
    /// For the model's own `load`.
    pub(super) load: Option<Arc<dyn Outside>>,
    /// What each thread is decoding.
    pub(super) in_hand: Arc<InHand>,
    /// Bytes of every item, where all have the same.
    pub(super) fixed: Option<u64>,
    /// The share of JPEGs that go as they are: bits of an f32.
    on_device: AtomicU32,
    /// Counts and times.
    pub(super) rates: Counting,
    /// Bounds what decoding large items takes together.
    pub(super) heavy: Heavy,
    /// Bounds what large files take together. Taken before `heavy`, never after.
    pub(super) large: Heavy,
    /// How much room the model's own `load` is offered.
    pub(super) guess: Guess,
    /// What changes. Never held while something is read, decoded, written to a slot or told.
    state: Mutex<State>,
    /// Items have come, or there will be none.
    pub(super) items: Condvar,
    /// A place in a slot has come free.
    pub(super) slots: Condvar,
    /// There may be something for the keeper.
    pub(super) keeper: Condvar,
    /// Called without the lock.
    pub(super) tell: Tell,
}

/// What the lock guards.
pub(super) struct State {
    /// Items that wait for a thread.
    pub(super) queue: VecDeque<Item>,
    /// Where more come from; absent while a thread is reading from it.
    pub(super) source: Option<Box<dyn Source>>,
    /// The source has no more.
    pub(super) drained: bool,
    /// Slots nobody has. The one given back last is taken first: its memory is warm.
    pub(super) free: Vec<u32>,
    /// Slots being filled, the oldest first.
    pub(super) open: Vec<Open>,
    /// Slots that were told of, by number.
    pub(super) out: Vec<Option<Piece>>,
    /// Items per slot.
    pub(super) batch: u32,
    /// Workers to be fed.
    pub(super) workers: u32,
    /// Items that could not be loaded and have not been told.
    pub(super) failed: Vec<Unloaded>,
    /// Since when the first of them waits.
    pub(super) failed_since: Option<Instant>,
    /// Threads that have an item in hand or are telling something.
    pub(super) busy: usize,
    /// Openings of slots so far.
    pub(super) serial: u64,
    /// Everything has been told, or is being told by the one who set this.
    pub(super) finished: bool,
    /// Nothing is to be told any more.
    pub(super) stopping: bool,
}

impl State {
    /// Whether threads are to end.
    pub(super) const fn is_over(&self) -> bool {
        self.finished || self.stopping
    }

    /// Slots that workers have or could have.
    pub(super) fn slots_out(&self) -> usize {
        self.out.iter().flatten().count()
    }
}

impl Shared {
    pub(super) fn new(setup: Setup, source: Box<dyn Source>, tell: Tell) -> Self {
        let geometry = setup.ring.geometry();
        // Planes and encoded JPEGs are of any size, even if the pixels are not.
        let whole = setup.pixels_here && !setup.device_decodes;
        let state = State {
            queue: VecDeque::new(),
            source: Some(source),
            drained: false,
            free: (0..geometry.slots).rev().collect(),
            open: Vec::new(),
            out: (0..geometry.slots).map(|_| None).collect(),
            batch: setup.batch.clamp(1, geometry.capacity),
            workers: 1,
            failed: Vec::new(),
            failed_since: None,
            busy: 0,
            serial: 0,
            finished: false,
            stopping: false,
        };
        Self {
            fixed: setup.decode.item_bytes().filter(|_| whole),
            ring: setup.ring,
            decode: setup.decode,
            members: setup.members,
            limits: setup.limits,
            damaged: setup.damaged,
            streams: Streams::new(&setup.archives),
            archives: setup.archives,
            tables: Tables::new(setup.tables, setup.base, setup.limits.max_memory),
            pixels_here: setup.pixels_here,
            device_decodes: setup.device_decodes,
            load: setup.load,
            in_hand: setup.in_hand,
            on_device: AtomicU32::new(0),
            rates: Counting { threads: setup.threads.max(1), ..Counting::default() },
            heavy: Heavy::new(setup.limits.max_memory),
            large: Heavy::new(MOST_ENCODED),
            guess: Guess::new(),
            state: Mutex::new(state),
            items: Condvar::new(),
            slots: Condvar::new(),
            keeper: Condvar::new(),
            tell,
        }
    }

    /// The lock. A thread that panicked with it has left the state whole: every change is a few moves.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn give_back(&self, slot: u32) {
        let mut state = self.lock();
        let Some(piece) = state.out.get_mut(slot as usize).and_then(Option::take) else { return };
        // First the claim ends, then the slot is free.
        drop(piece);
        state.free.push(slot);
        drop(state);
        self.slots.notify_all();
        self.keeper.notify_one();
    }

    pub(super) fn set_batch(&self, items: u32) {
        self.lock().batch = items.clamp(1, self.ring.geometry().capacity);
    }

    pub(super) fn set_workers(&self, workers: u32) {
        self.lock().workers = workers;
        self.keeper.notify_one();
    }

    pub(super) fn set_on_device(&self, share: f32) {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.on_device.store(share.to_bits(), Ordering::Relaxed);
    }

    /// The share of JPEGs that go as they are.
    pub(super) fn on_device(&self) -> f32 {
        f32::from_bits(self.on_device.load(Ordering::Relaxed))
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.wake_all();
    }

    pub(super) fn wake_all(&self) {
        self.items.notify_all();
        self.slots.notify_all();
        self.keeper.notify_all();
    }
}
