//! The writer on a disk that fails: nothing lost, order kept, and the trouble told once.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpulane_model::{Event, Millis, RunState};
use proptest::prelude::*;
use rustix::io::Errno;

use super::thread::Writer;
use super::{Commit, Journal};
use crate::disk::Disk;
use crate::reader;
use crate::sample::{events, plan, run_started, succeeded};

const SOON: Duration = Duration::from_secs(10);

/// What the next operation on the disk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    None,
    /// A write takes only so many bytes.
    Short(usize),
    /// A write or sync fails. A failed sync forgets what was not yet durable.
    Fails(Errno),
    /// A write takes some bytes, and cutting them off again fails too.
    Torn(Errno),
    /// The file loses its name.
    Deleted,
}

#[derive(Debug, Default)]
struct Medium {
    bytes: Vec<u8>,
    synced: usize,
    faults: VecDeque<Fault>,
    torn: bool,
    deleted: bool,
    syncs: usize,
    /// How often space was to be set aside, and how often at first there was none.
    reserves: usize,
    unreservable: usize,
    /// Cutting the file never returns.
    stuck_at_end: bool,
}

#[derive(Clone, Debug, Default)]
struct FaultyDisk(Arc<Mutex<Medium>>);

impl Disk for FaultyDisk {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut medium = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let fault = medium.faults.pop_front().unwrap_or(Fault::None);
        let count = match fault {
            Fault::Fails(error) => return Err(error.into()),
            Fault::Short(count) => count.clamp(1, bytes.len()),
            Fault::Torn(_) => bytes.len() / 2,
            Fault::None | Fault::Deleted => bytes.len(),
        };
        medium.deleted |= fault == Fault::Deleted;
        if medium.bytes.len() < at + count {
            medium.bytes.resize(at + count, 0);
        }
        medium.bytes[at..at + count].copy_from_slice(&bytes[..count]);
        if let Fault::Torn(error) = fault {
            medium.torn = true;
            return Err(error.into());
        }
        Ok(count)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut medium = self.0.lock().unwrap();
        medium.syncs += 1;
        if let Some(Fault::Fails(error)) = medium.faults.pop_front() {
            let synced = medium.synced;
            medium.bytes[synced..].fill(0);
            return Err(error.into());
        }
        medium.synced = medium.bytes.len();
        Ok(())
    }

    fn reserve(&mut self, _: u64, _: u64) -> io::Result<()> {
        let mut medium = self.0.lock().unwrap();
        medium.reserves += 1;
        if medium.reserves <= medium.unreservable { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        while self.0.lock().unwrap().stuck_at_end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut medium = self.0.lock().unwrap();
        if std::mem::take(&mut medium.torn) {
            return Err(Errno::IO.into());
        }
        medium.bytes.truncate(usize::try_from(length).unwrap());
        Ok(())
    }

    fn has_name(&mut self) -> io::Result<bool> {
        Ok(!self.0.lock().unwrap().deleted)
    }
}

impl FaultyDisk {
    fn with(faults: &[Fault]) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().faults = faults.iter().copied().collect();
        disk
    }

    fn state(&self) -> RunState {
        let medium = self.0.lock().unwrap();
        let folded = reader::fold(Path::new("journal"), &medium.bytes[..], &plan()).unwrap();
        assert_eq!(folded.end, medium.bytes.len() as u64, "the journal has a torn end");
        folded.state
    }
}

fn journal_on(disk: &FaultyDisk, retry: Duration) -> (Journal, Receiver<Commit>) {
    let (said, heard) = channel();
    let on_commit = Box::new(move |commit| said.send(commit).unwrap_or_default());
    let writer =
        Writer::new(disk.clone(), Path::new("/run/journal.jsonl"), 0, on_commit).retrying_every(retry);
    (Journal::start(writer, 0).unwrap(), heard)
}

fn kinds(heard: &Receiver<Commit>) -> String {
    let kind = |commit| match commit {
        Commit::Durable { .. } => 'D',
        Commit::Blocked { .. } => 'B',
        Commit::Unblocked => 'U',
    };
    heard.try_iter().map(kind).collect()
}

#[test]
fn a_full_disk_loses_nothing_and_is_told_once() {
    let full = Fault::Fails(Errno::NOSPC);
    let disk = FaultyDisk::with(&[Fault::Short(30), full, full, Fault::Torn(Errno::NOSPC), full]);
    let (journal, heard) = journal_on(&disk, Duration::from_millis(5));
    for event in events() {
        journal.append(Millis(1_700_000_000_000), event);
    }
    assert!(journal.close(SOON));
    assert_eq!(disk.state().last_seq, events().len() as u64);
    let first = heard.recv().unwrap();
    assert!(
        matches!(&first, Commit::Blocked { because }
            if because.contains("/run/journal.jsonl") && because.contains("free some space")),
        "{first:?}"
    );
    let rest = kinds(&heard);
    assert!(rest.starts_with("UD") && !rest[1..].contains(['B', 'U']), "{rest}");
}

#[test]
fn space_that_could_not_be_set_aside_is_asked_for_until_there_is_some() {
    let disk = FaultyDisk::default();
    disk.0.lock().unwrap().unreservable = 2;
    let (journal, _heard) = journal_on(&disk, Duration::from_millis(5));
    journal.append(Millis(1), run_started());
    let until = Instant::now() + SOON;
    // Nothing more is written.
    while disk.0.lock().unwrap().reserves < 3 {
        assert!(Instant::now() < until, "it is not asked for again");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(journal.close(SOON));
    assert_eq!(disk.0.lock().unwrap().reserves, 3, "what was set aside is not asked for again");
}

#[test]
fn a_journal_that_is_whole_is_closed_though_its_file_cannot_be_cut() {
    let disk = FaultyDisk::default();
    let (journal, _heard) = journal_on(&disk, SOON);
    journal.append(Millis(1), run_started());
    assert!(journal.flush(SOON));
    disk.0.lock().unwrap().stuck_at_end = true;
    assert!(journal.close(Duration::from_millis(20)), "all of it is durable");
    disk.0.lock().unwrap().stuck_at_end = false;
    assert_eq!(disk.state().last_seq, 1);
}

#[test]
fn what_a_failed_sync_forgot_is_written_again() {
    let disk = FaultyDisk::with(&[Fault::None, Fault::None, Fault::None, Fault::Fails(Errno::IO)]);
    let (journal, heard) = journal_on(&disk, Duration::from_millis(5));
    journal.append(Millis(1), run_started());
    assert!(journal.flush(SOON));
    journal.append(Millis(2), succeeded(0, 1));
    assert!(journal.flush(SOON));
    assert_eq!(disk.state().counts.succeeded, 1);
    assert_eq!(kinds(&heard), "DBUD");
}

#[test]
fn a_deleted_journal_is_never_written_on_in_silence() {
    let disk = FaultyDisk::with(&[Fault::Deleted]);
    let (journal, heard) = journal_on(&disk, Duration::from_millis(5));
    journal.append(Millis(1), run_started());
    let said = heard.recv_timeout(SOON).unwrap();
    assert!(
        matches!(&said, Commit::Blocked { because } if because.contains("deleted or replaced")),
        "{said:?}"
    );
    assert!(!journal.flush(Duration::from_millis(30)));
    assert!(!journal.close(Duration::from_millis(30)));
    assert_eq!(kinds(&heard), "");
}

#[test]
fn closing_does_not_wait_for_the_next_try() {
    let disk = FaultyDisk::with(&[Fault::Fails(Errno::DQUOT); 1000]);
    let (journal, heard) = journal_on(&disk, Duration::from_hours(1));
    journal.append(Millis(1), run_started());
    heard.recv_timeout(SOON).unwrap();
    let start = Instant::now();
    assert!(!journal.close(Duration::from_millis(20)));
    assert!(start.elapsed() < SOON);
    assert_eq!(disk.state().last_seq, 0);
}

#[test]
fn a_burst_takes_few_commits_and_one_event_none_to_wait_for() {
    let disk = FaultyDisk::default();
    let (journal, heard) = journal_on(&disk, SOON);
    journal.append(Millis(1), run_started());
    heard.recv_timeout(SOON).unwrap();
    for _ in 0..20_000 {
        journal.append(Millis(2), Event::StartsReleased {});
    }
    assert!(journal.close(SOON));
    let syncs = disk.0.lock().unwrap().syncs;
    assert!(syncs < 1000, "{syncs} syncs");
    assert_eq!(disk.state().last_seq, 20_001);
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        2 => (1_usize..400).prop_map(Fault::Short),
        2 => Just(Fault::Fails(Errno::NOSPC)),
        1 => Just(Fault::Fails(Errno::IO)),
        1 => Just(Fault::Fails(Errno::INTR)),
        1 => Just(Fault::Torn(Errno::FBIG)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_the_disk_does_the_journal_is_whole_in_the_end(
        faults in prop::collection::vec(any_fault(), 0..30),
        flush_at in 0_usize..40,
    ) {
        let disk = FaultyDisk::with(&faults);
        let (journal, heard) = journal_on(&disk, Duration::from_millis(1));
        for (index, event) in events().into_iter().enumerate() {
            journal.append(Millis(1_700_000_000_000), event);
            if index == flush_at {
                prop_assert!(journal.flush(SOON));
                prop_assert_eq!(disk.state().last_seq, index as u64 + 1);
            }
        }
        prop_assert!(journal.close(SOON));
        prop_assert_eq!(disk.state().last_seq, events().len() as u64);
        prop_assert!(disk.state().finished);
        let said = kinds(&heard);
        prop_assert_eq!(said.replace("BU", "").replace('D', ""), "");
    }
}
