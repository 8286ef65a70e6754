//! The writer's thread: everything queued in one write and one sync, and patience with a disk that is full.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpulane_model::{Event, Millis, Record};

use super::Commit;
use super::queue::Queue;
use crate::disk::Disk;
use crate::error::io_hint;
use crate::line;

/// How soon one commit may follow another while nobody waits for it. After a pause the first event is written at
/// once; under load, events gather meanwhile. A commit of the file system holds up whoever makes files and
/// directories, jobs' included, so commits are kept apart also by a multiple of what the last one took.
const GATHER: Duration = Duration::from_millis(200);
const GATHER_PER_COMMIT: u32 = 4;
/// Space that is set aside for records to come: on a disk that jobs have filled up, the reason why nothing is started, what was cancelled and how
/// the run ended can still be recorded. Some hundreds of records, on a disk so small that more would be missed.
const RESERVE: u64 = 1 << 20;
const SMALL_RESERVE: u64 = 64 << 10;
/// How often a disk that refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

pub(super) struct Writer<D> {
    disk: D,
    /// For messages.
    path: PathBuf,
    /// Everything before is durable.
    durable: u64,
    /// Whole lines that are not known to be durable. Kept until they are: after a failed sync the system may
    /// have forgotten what it was given, so all of it is written again.
    pending: Vec<u8>,
    /// An attempt failed, so the file may hold part of `pending`.
    spoiled: bool,
    /// How much is set aside at a time, and up to where that is done.
    reserve: u64,
    reserved: u64,
    on_commit: Box<dyn Fn(Commit) + Send>,
    retry: Duration,
}

/// Why an attempt failed.
enum Obstacle {
    Io(&'static str, io::Error),
    /// The file was deleted or replaced; what is written to it is lost.
    NoName,
}

impl<D: Disk> Writer<D> {
    pub(super) fn new(disk: D, path: &Path, durable: u64, on_commit: Box<dyn Fn(Commit) + Send>) -> Self {
        Self {
            disk,
            path: path.to_owned(),
            durable,
            pending: Vec::new(),
            spoiled: false,
            reserve: SMALL_RESERVE,
            reserved: 0,
            on_commit,
            retry: RETRY,
        }
    }

    /// On a disk of so many bytes.
    pub(super) fn on_disk_of(mut self, bytes: u64) -> Self {
        self.reserve = (bytes / 1024).clamp(SMALL_RESERVE, RESERVE);
        self
    }

    #[cfg(test)]
    pub(super) fn retrying_every(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// Runs until the journal is closed and everything is durable or its time is over.
    pub(super) fn run(mut self, queue: &Queue) {
        let _end = EndOnDrop(queue);
        let mut seq = queue.last_seq();
        let mut batch = Vec::new();
        let mut not_before = Instant::now();
        self.set_aside();
        // Where there was no space to set aside, it may come while there is nothing to write.
        while queue.take(&mut batch, not_before, (!self.has_reserve()).then_some(RETRY)) {
            if batch.is_empty() {
                self.set_aside();
                continue;
            }
            self.encode(&mut batch, &mut seq);
            let begun = Instant::now();
            if !self.commit(queue, &mut batch, &mut seq) {
                break;
            }
            // In this order: after a flush, the announcement has been made.
            (self.on_commit)(Commit::Durable { bytes: self.durable, seq });
            queue.set_durable(seq);
            self.set_aside();
            let took = begun.elapsed().min(RETRY);
            not_before = Instant::now() + GATHER.max(took * GATHER_PER_COMMIT);
        }
        if self.pending.is_empty() {
            // What was set aside is given back.
            let _ = self.disk.truncate(self.durable);
        }
    }

    /// Whether there is space for records to come, at least half of what is set aside at a time.
    fn has_reserve(&self) -> bool {
        self.reserved >= self.durable + self.reserve / 2
    }

    fn set_aside(&mut self) {
        if self.has_reserve() {
            return;
        }
        match self.disk.reserve(self.durable, self.reserve) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
            // Where it cannot be done at all, it is not tried again and again.
            _ => self.reserved = self.durable + self.reserve,
        }
    }

    fn encode(&mut self, batch: &mut Vec<(Millis, Event)>, seq: &mut u64) {
        for (time, event) in batch.drain(..) {
            *seq += 1;
            line::encode_into(&mut self.pending, &Record { seq: *seq, time, event });
            self.pending.push(b'\n');
        }
    }

    /// Makes everything pending durable, however often that takes. False: closed before it went.
    fn commit(&mut self, queue: &Queue, batch: &mut Vec<(Millis, Event)>, seq: &mut u64) -> bool {
        let mut blocked = false;
        while let Err(obstacle) = self.attempt() {
            self.spoiled = true;
            // Gives back the space and leaves readers no half line. Where it fails, the next attempt writes
            // over it all the same, from the same place.
            let _ = self.disk.truncate(self.durable);
            self.reserved = 0;
            if !blocked {
                blocked = true;
                (self.on_commit)(Commit::Blocked { because: self.explain(&obstacle) });
            }
            if !queue.pause(self.retry) {
                return false;
            }
            queue.take_more(batch);
            self.encode(batch, seq);
        }
        if blocked {
            (self.on_commit)(Commit::Unblocked);
        }
        true
    }

    fn attempt(&mut self) -> Result<(), Obstacle> {
        if self.spoiled {
            self.check_name()?;
        }
        let mut written = 0;
        while written < self.pending.len() {
            match self.disk.write_at(&self.pending[written..], self.durable + written as u64) {
                Ok(0) => return Err(Obstacle::Io("write", io::ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Obstacle::Io("write", error)),
            }
        }
        self.disk.sync().map_err(|error| Obstacle::Io("sync", error))?;
        self.check_name()?;
        self.durable += self.pending.len() as u64;
        self.pending.clear();
        self.spoiled = false;
        Ok(())
    }

    fn check_name(&mut self) -> Result<(), Obstacle> {
        match self.disk.has_name() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Obstacle::NoName),
            Err(error) => Err(Obstacle::Io("look at", error)),
        }
    }

    fn explain(&self, obstacle: &Obstacle) -> String {
        let path = self.path.display();
        match obstacle {
            Obstacle::Io(verb, error) => {
                let next = match (error.kind(), io_hint(error)) {
                    // A process keeps the limit it was started with.
                    (io::ErrorKind::FileTooLarge, _) => {
                        "interrupt the run, raise the file size limit (`ulimit -f`), then resume it"
                            .to_owned()
                    }
                    (_, Some(hint)) => format!("{hint}, and the run goes on by itself"),
                    (_, None) => {
                        "no job is started until it can be written; check that disk, or interrupt the run \
                                  and resume it later"
                            .to_owned()
                    }
                };
                format!("cannot {verb} {path}: {error}; {next}")
            }
            Obstacle::NoName if self.path.parent().is_some_and(is_gone) => {
                format!("{path} was deleted with its directory: what happens from now on is not recorded")
            }
            Obstacle::NoName => format!(
                "{path} was deleted or replaced while the run was using it; interrupt the run and resume it: \
                 outputs already published are recognised"
            ),
        }
    }
}

/// Whether there is no such directory any more: one that cannot be looked at may be there.
fn is_gone(directory: &Path) -> bool {
    let found = std::fs::symlink_metadata(directory);
    found.is_err_and(|error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// Whoever waits for the writer must not wait forever, also if a callback panicked.
struct EndOnDrop<'a>(&'a Queue);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set_ended();
    }
}
