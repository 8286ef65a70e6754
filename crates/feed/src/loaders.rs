//! The threads that read and decode items into the slots of a ring.
//!
//! Owns which item goes where and when a slot is full; who works on it then, and what a failure means, is the feeder's.
//!
//! A slot is told of
//! - when it has as many items as a batch is to have, or an item did not fit in any more;
//! - when a worker has nothing to do (fewer slots are out than there are workers) and the slot's first item has waited
//!   for 200 ms: a slow source, a slow file server or slow decoding does not keep results waiting;
//! - when there are no more items.
//!
//! Always only when nothing is being written to it any more. An item takes its place in a slot when its size is known, after
//! reading; so a file that is slow to read holds up no slot. Without a free slot, threads sleep until one is given back.

mod heavy;
mod in_hand;
mod keeper;
mod loading;
mod open;
mod outside;
mod queue;
mod rates;
mod reading;
mod samples;
mod shared;
mod slots;
mod spot;
mod streams;
mod tables;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use gpulane_decode::Limits;
use gpulane_items::{Item, Place, Table};
use gpulane_model::{DamagePolicy, Decode, Members};

use crate::ring::Ring;
pub use in_hand::InHand;
pub use outside::{Outside, OutsideAnswer};
pub use rates::Rates;
use shared::Shared;

/// What loaders work with.
pub struct Setup {
    /// Where items go.
    pub ring: Arc<Ring>,
    /// What becomes of them.
    pub decode: Decode,
    /// Which other members of its sample go with an item of a tar.
    pub members: Members,
    /// What one may cost. The memory that one may take is what all threads share, beside 16 MiB of each that are not counted, and buffers of a
    /// sixteenth of it, at most 128 MiB, that each may keep.
    pub limits: Limits,
    /// What becomes of damaged pictures.
    pub damaged: DamagePolicy,
    /// How many threads.
    pub threads: u32,
    /// The tar files that items lie in, by their number.
    pub archives: Vec<PathBuf>,
    /// The tables whose rows hold items' data, by their number. Decoded pages of them take as much memory as decoding may.
    pub tables: Vec<Table>,
    /// Where paths begin that stand in tables.
    pub base: PathBuf,
    /// Pixels are finished here. False: a JPEG may go as planes, to be finished by the worker.
    pub pixels_here: bool,
    /// A share of the JPEGs may go as they are, to be decoded by the worker; see [`Loaders::set_on_device`].
    pub device_decodes: bool,
    /// The processes that run the model's own `load`, for [`Decode::Load`].
    pub load: Option<Arc<dyn Outside>>,
    /// Where it is kept what each thread is decoding.
    pub in_hand: Arc<InHand>,
    /// Items per slot at first; see [`Loaders::set_batch`].
    pub batch: u32,
}

/// Where items come from.
pub trait Source: Send {
    /// Adds up to `most` items, waiting for them if need be. Nothing added: there are no more.
    fn more(&mut self, most: usize, out: &mut Vec<Item>) -> io::Result<()>;
}

/// An item that could not be loaded: its number, its name, and why, for a person.
pub type Unloaded = (u64, String, String);

/// A slot that is ready for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The slot. It stays as it is until it is given back.
    pub slot: u32,
    /// Numbers and names of its items, by table entry.
    pub items: Vec<(u64, String)>,
    /// The items are one array, back to back.
    pub packed: bool,
    /// The bytes of the slot that hold the items' data.
    pub data: Range<u64>,
    /// Items that could not be loaded, since the last that were told.
    pub failed: Vec<Unloaded>,
    /// Numbers of the items whose picture is damaged, in their order, and what is damaged of each.
    pub damaged: Vec<(u64, String)>,
}

/// What loaders tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A slot is ready.
    Filled(Filled),
    /// Items could not be loaded, and no slot is ready to tell it with.
    Failed(Vec<Unloaded>),
    /// Every item of the source has been told of. Nothing follows.
    Drained,
    /// The source failed and the map cannot go on. Nothing follows.
    Broken(String),
}

/// An item's bytes, read by the calling thread alone; or why not, for a person. The item's archive or table is the first of these.
pub fn read_alone(
    place: &Place,
    archives: &[PathBuf],
    tables: &[Table],
    base: &Path,
) -> Result<Vec<u8>, String> {
    let large = heavy::Heavy::new(reading::MOST_ENCODED);
    let tables = tables::Tables::new(tables.to_vec(), base.to_owned(), reading::MOST_ENCODED);
    let streams = streams::Streams::new(archives);
    reading::Reader::new(&large, &tables, &streams).read(place, archives).map(<[u8]>::to_vec)
}

/// Running loaders. They end by [`Loaders::stop`], or when this is dropped.
pub struct Loaders {
    /// What the threads share with each other and with this.
    shared: Arc<Shared>,
    /// The threads, to be joined.
    threads: Vec<JoinHandle<()>>,
}

impl Loaders {
    /// Starts the threads. `tell` is called by them, one at a time or several at once; `Drained` comes last. It must not
    /// wait for a slot to be given back, but may give one back itself.
    pub fn start(
        setup: Setup,
        source: Box<dyn Source>,
        tell: impl Fn(Told) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let count = setup.threads.max(1);
        let shared = Arc::new(Shared::new(setup, source, Box::new(tell)));
        let mut loaders = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for number in 0..count as usize {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("load-{number}"));
            // On failure those that run are ended by the drop of `loaders`.
            loaders.threads.push(thread.spawn(move || loading::run(&shared, number))?);
        }
        let keeper = std::thread::Builder::new().name("load-keeper".to_owned());
        loaders.threads.push(keeper.spawn(move || keeper::run(&shared))?);
        Ok(loaders)
    }

    /// The slot's items are settled: it may be filled again.
    pub fn give_back(&self, slot: u32) {
        self.shared.give_back(slot);
    }

    /// Items per slot, for slots begun from now on. At most what a table holds.
    pub fn set_batch(&self, items: u32) {
        self.shared.set_batch(items);
    }

    /// How many workers there are to feed; 1 until told. See the module's rule for slots that fill slowly.
    pub fn set_workers(&self, workers: u32) {
        self.shared.set_workers(workers);
    }

    /// The share of JPEGs that go as they are, from 0 to 1, spread evenly; 0 until told.
    pub fn set_on_device(&self, share: f32) {
        self.shared.set_on_device(share);
    }

    /// What has been done so far, and where the time went.
    pub fn rates(&self) -> Rates {
        self.shared.rates.read()
    }

    /// Ends the threads and waits for them: for what they are reading or decoding just now, and for a source that waits.
    /// Nothing is told afterwards.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Loaders {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked outside of an item has nothing more to say.
            let _ = thread.join();
        }
    }
}
