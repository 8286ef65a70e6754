//! A feeder for tests: takes what loaders tell, reads every slot as a worker would, checks it, and gives it back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use gpulane_decode::Limits;
use gpulane_feed::loaders::{Filled, InHand, Loaders, Outside, Setup, Source, Told};
use gpulane_feed::ring::{Counters, Geometry, Ring};
use gpulane_items::{Item, Place, Table};
use gpulane_model::{DamagePolicy, Decode, Members};

#[allow(dead_code)] // each test takes what it needs
pub(crate) struct Feeder {
    pub(crate) ring: Arc<Ring>,
    pub(crate) hands: tempfile::TempDir,
    decode: Decode,
    threads: u32,
    batch: Option<u32>,
    archives: Vec<PathBuf>,
    tables: Vec<Table>,
    load: Option<Arc<dyn Outside>>,
    limits: Limits,
    damaged: DamagePolicy,
    members: Members,
    /// A worker that finishes planes, and decodes all JPEGs it can.
    device: bool,
}

/// An item as a worker sees it.
#[derive(Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) element: u8,
    pub(crate) dims: Vec<u32>,
    /// The members of its sample, in the order in which they stand there.
    pub(crate) members: Vec<(String, Vec<u8>)>,
}

/// All that came out.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) items: BTreeMap<u64, Got>,
    pub(crate) failed: BTreeMap<u64, String>,
    /// Of each slot, in order.
    pub(crate) packed: Vec<bool>,
    /// Of each slot, in order.
    pub(crate) sizes: Vec<usize>,
    pub(crate) counters: Counters,
}

#[allow(dead_code)] // each test takes what it needs
impl Feeder {
    pub(crate) fn new(decode: Decode, geometry: Geometry) -> Self {
        let ring = Arc::new(Ring::new(geometry).expect("memory"));
        let hands = tempfile::tempdir().expect("a directory");
        Self {
            ring,
            hands,
            decode,
            threads: 1,
            batch: None,
            archives: Vec::new(),
            tables: Vec::new(),
            load: None,
            limits: Limits::default(),
            damaged: DamagePolicy::Fail,
            members: Members::None,
            device: false,
        }
    }

    pub(crate) fn threads(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    pub(crate) fn batch(self, items: u32) -> Self {
        Self { batch: Some(items), ..self }
    }

    pub(crate) fn archives(self, archives: Vec<PathBuf>) -> Self {
        Self { archives, ..self }
    }

    pub(crate) fn tables(self, tables: Vec<Table>) -> Self {
        Self { tables, ..self }
    }

    pub(crate) fn load(self, load: Arc<dyn Outside>) -> Self {
        Self { load: Some(load), ..self }
    }

    pub(crate) fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(crate) fn damaged(self, damaged: DamagePolicy) -> Self {
        Self { damaged, ..self }
    }

    pub(crate) fn members(self, members: &str) -> Self {
        Self { members: Members::from_line(members).expect("extensions"), ..self }
    }

    pub(crate) fn device(self) -> Self {
        Self { device: true, ..self }
    }

    pub(crate) fn start(&self, source: Box<dyn Source>) -> (Loaders, Receiver<Told>) {
        let hands = InHand::create(&self.hands.path().join("in-hand"), self.threads).expect("a file");
        let setup = Setup {
            ring: Arc::clone(&self.ring),
            decode: self.decode,
            limits: self.limits,
            damaged: self.damaged,
            members: self.members.clone(),
            threads: self.threads,
            archives: self.archives.clone(),
            tables: self.tables.clone(),
            base: PathBuf::new(),
            pixels_here: !self.device,
            device_decodes: self.device,
            load: self.load.clone(),
            in_hand: Arc::new(hands),
            batch: u32::MAX,
        };
        let (tell, told) = channel();
        // A channel's sender may be used by one thread at a time.
        let tell = Mutex::new(tell);
        let loaders = Loaders::start(setup, source, move |word| {
            // A test that is over does not listen any more.
            let _ = tell.lock().expect("no panic").send(word);
        });
        let loaders = loaders.expect("threads");
        if let Some(items) = self.batch {
            loaders.set_batch(items);
        }
        (loaders, told)
    }

    /// Runs through all items and keeps one slot back whenever it can, so that slots come back out of order.
    pub(crate) fn run(&self, items: Vec<Item>) -> Seen {
        let (loaders, told) = self.start(one_by_one(items));
        // No worker is idle: slots fill up, however slow the machine is.
        loaders.set_workers(0);
        let mut seen = Seen::default();
        let mut held: Option<u32> = None;
        for word in &told {
            let failed = match word {
                Told::Filled(filled) => {
                    self.look(&filled, &mut seen);
                    let slot = if self.ring.geometry().slots > 2 {
                        held.replace(filled.slot)
                    } else {
                        Some(filled.slot)
                    };
                    if let Some(slot) = slot {
                        loaders.give_back(slot);
                    }
                    filled.failed
                }
                Told::Failed(failed) => failed,
                Told::Drained => break,
                Told::Broken(because) => panic!("{because}"),
            };
            for (number, _, reason) in failed {
                assert!(seen.failed.insert(number, reason).is_none(), "{number} failed twice");
            }
        }
        loaders.stop();
        assert_eq!(told.iter().count(), 0, "nothing follows the end");
        seen.counters = self.ring.counters();
        seen
    }

    /// Reads a slot through its descriptor and checks all that the protocol promises of it.
    fn look(&self, filled: &Filled, seen: &mut Seen) {
        let geometry = self.ring.geometry();
        let ring = File::from(self.ring.fd().try_clone_to_owned().expect("a descriptor"));
        let mut slot = vec![0; usize::try_from(geometry.slot_bytes).expect("small")];
        ring.read_exact_at(&mut slot, u64::from(filled.slot) * geometry.slot_bytes).expect("the ring");
        assert!(!filled.items.is_empty() && filled.items.len() <= geometry.capacity as usize);
        let mut ranges = vec![(0, usize::try_from(geometry.data_start()).expect("small"))];
        let mut end = None;
        for (row, (number, name)) in slot.chunks(64).zip(&filled.items) {
            let word = |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().expect("four")) as usize;
            let long = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("eight"));
            let (start, bytes) = (long(8), long(16));
            assert_eq!(long(0), *number);
            assert!(filled.data.start <= start && start + bytes <= filled.data.end);
            assert!(!filled.packed || end.is_none_or(|end| end == start), "one array has no gaps");
            end = Some(start + bytes);
            let (start, bytes) =
                (usize::try_from(start).expect("small"), usize::try_from(bytes).expect("small"));
            ranges.push((start, start + bytes));
            ranges.push((word(48), word(48) + word(52)));
            let said = std::str::from_utf8(&slot[word(48)..word(48) + word(52)]).expect("UTF-8");
            assert_eq!(said, name);
            ranges.push((word(56), word(56) + word(60)));
            let got = Got {
                members: members_of(&slot[word(56)..word(56) + word(60)]),
                name: said.to_owned(),
                data: slot[start..start + bytes].to_vec(),
                kind: row[24],
                element: row[25],
                dims: (0..word(28)).map(|at| u32::try_from(word(32 + 4 * at)).expect("four")).collect(),
            };
            assert!(seen.items.insert(*number, got).is_none(), "{number} came twice");
        }
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|two| two[0].1 <= two[1].0), "parts overlap: {ranges:?}");
        seen.packed.push(filled.packed);
        seen.sizes.push(filled.items.len());
    }
}

/// A block of members taken apart.
fn members_of(mut block: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut members = Vec::new();
    while !block.is_empty() {
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four")) as usize;
        let (name, end) = (8 + word(0), 8 + word(0) + word(4));
        let extension = String::from_utf8(block[8..name].to_vec()).expect("UTF-8");
        members.push((extension, block[name..end].to_vec()));
        block = &block[end..];
    }
    members
}

/// Gives items a few at a time.
pub(crate) fn one_by_one(items: Vec<Item>) -> Box<dyn Source> {
    struct Some(std::vec::IntoIter<Item>);
    impl Source for Some {
        fn more(&mut self, most: usize, out: &mut Vec<Item>) -> io::Result<()> {
            out.extend(self.0.by_ref().take(most.min(7)));
            Ok(())
        }
    }
    Box::new(Some(items.into_iter()))
}

/// Writes files and names them by their numbers.
#[allow(dead_code)] // each test takes what it needs
pub(crate) fn file_items(dir: &Path, files: impl IntoIterator<Item = Vec<u8>>) -> Vec<Item> {
    let write = |(number, bytes): (u64, Vec<u8>)| {
        let path = dir.join(number.to_string());
        std::fs::write(&path, bytes).expect("a file");
        Item { number, name: format!("item {number}"), place: Place::File(path) }
    };
    (0..).zip(files).map(write).collect()
}
