//! Makes a sound journal from a damaged one: every record that can be verified, numbered anew. The damaged file
//! is kept aside, and at no instant is there no journal.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use gpulane_model::{Event, GpuKind, Machine, Millis, Plan, Record};

use crate::line;
use crate::reader::Lines;
use crate::repair::Salvage;
use crate::{JOURNAL_FORMAT, JournalError, RunDir, disk};

pub(crate) fn salvage(dir: &RunDir, plan: &Plan) -> Result<Salvage, JournalError> {
    let path = dir.journal_file();
    let temporary = dir.root().join("journal.jsonl.tmp");
    let damaged = gpulane_files::open(&path).map_err(JournalError::io("open", &path))?;
    let (kept, lost) = disk::write_whole(&temporary, |out| rescue(plan, damaged, out))
        .map_err(JournalError::io("write", &temporary))?;
    let aside = set_aside(dir, &path).map_err(JournalError::io("set aside", &path))?;
    fs::rename(&temporary, &path).map_err(JournalError::io("replace", &path))?;
    disk::sync_dir(dir.root()).map_err(JournalError::io("sync", dir.root()))?;
    Ok(Salvage { aside, kept, lost })
}

/// Gives the damaged file a second name, so that the first never points to nothing.
fn set_aside(dir: &RunDir, path: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let aside = dir.root().join(format!("journal.damaged-{number}.jsonl"));
        match fs::hard_link(path, &aside) {
            Ok(()) => {
                disk::sync_dir(dir.root())?;
                return Ok(aside);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            // Not every file system has hard links.
            Err(_) => {
                let mut copy = gpulane_files::create(&aside)?;
                io::copy(&mut gpulane_files::open(path)?, &mut copy)?;
                copy.sync_all()?;
                disk::sync_dir(dir.root())?;
                return Ok(aside);
            }
        }
    }
}

/// Writes what can be verified; gives the number of records kept and of those known to be lost.
pub(crate) fn rescue(plan: &Plan, damaged: impl Read, out: impl Write) -> io::Result<(u64, u64)> {
    let mut rescue = Rescue { plan, out, line: Vec::new(), written: 0, kept: 0, last: 0, lost: 0 };
    rescue.all(damaged)?;
    Ok((rescue.kept, rescue.lost))
}

struct Rescue<'a, W: Write> {
    plan: &'a Plan,
    out: W,
    /// Used for every record anew.
    line: Vec<u8>,
    /// Records in the new journal.
    written: u64,
    /// Of these, records from the old one.
    kept: u64,
    /// The newest old number. A record with this number or a lower one is a copy and would undo later events.
    last: u64,
    lost: u64,
}

impl<W: Write> Rescue<'_, W> {
    fn all(&mut self, damaged: impl Read) -> io::Result<()> {
        let mut lines = Lines::of(damaged);
        // Whether anything unreadable stands after the newest record.
        let mut open_end = false;
        while let Some(line) = lines.next()? {
            let before = self.kept;
            self.rescue_line(line.bytes)?;
            open_end = self.kept == before && line.complete;
        }
        self.lost += u64::from(open_end);
        Ok(())
    }

    /// A line may hold several records where the newline between them was hit.
    fn rescue_line(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while let Some(found) = line::find_record(bytes) {
            let (head, rest) = bytes.split_at_mut(found.end);
            self.keep(&mut head[found.start..])?;
            bytes = rest;
        }
        Ok(())
    }

    fn keep(&mut self, record: &mut [u8]) -> io::Result<()> {
        let Ok(json) = line::unseal(record) else { return Ok(()) };
        let Ok(record) = line::parse(json) else { return Ok(()) };
        if record.seq <= self.last {
            return Ok(());
        }
        self.lost += record.seq - self.last - 1;
        self.last = record.seq;
        if self.written == 0 && !matches!(record.event, Event::RunStarted { .. }) {
            self.write_start(record.time)?;
        }
        self.kept += 1;
        self.written += 1;
        self.line.clear();
        line::renumber(&mut self.line, json, self.written);
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    /// The first record was lost, but a journal must begin with one. What only it knew is left blank; the
    /// engine that salvages says right after what it runs on.
    fn write_start(&mut self, time: Millis) -> io::Result<()> {
        let machine = Machine {
            kind: GpuKind::None,
            gpus: Vec::new(),
            lanes_per_gpu: 1,
            packing: false,
            cores: 1,
            cpu_lanes: 1,
        };
        let event = Event::RunStarted {
            format: JOURNAL_FORMAT,
            name: self.plan.name.clone(),
            gpulane: "unknown".to_owned(),
            jobs: u32::try_from(self.plan.jobs.len()).unwrap_or(u32::MAX),
            machine,
            pid: 0,
            boot: None,
        };
        self.written = 1;
        self.line.clear();
        line::encode_into(&mut self.line, &Record { seq: 1, time, event });
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }
}
