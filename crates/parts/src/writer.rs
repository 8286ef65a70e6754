//! Takes results and failures, and commits them in steps of which each may be the last. See the crate's docs
//! for why every instant is safe.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gpulane_model::Format;
use serde_json::json;

use crate::bits::{Bits, write_ranges};
use crate::block::Block;
use crate::columns::Columns;
use crate::error::PartsError;
use crate::flaws::{Flaw, Listed};
use crate::ledger::{Growing, Line, MODE, Part};
use crate::pending::{Filling, Named, Rows};
use crate::renewal::Held;
use crate::{parquet, repair};

/// What of an existing directory is settled.
#[derive(Clone, Debug, Default)]
pub struct Settled {
    /// Items in parts.
    pub done: Bits,
    /// Items in `failed.jsonl`.
    pub failed: Bits,
    /// How many are in parts.
    pub rows: u64,
    /// How many have failed.
    pub failures: u64,
    /// How many in parts are of pictures that are damaged.
    pub damaged: u64,
    /// How many commits there were; the next one has this number.
    pub commits: u64,
}

/// What waits for the next commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Rows.
    pub rows: u64,
    /// Failures.
    pub failed: u64,
    /// What they take in memory.
    pub bytes: u64,
}

/// A commit that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Counts from 0.
    pub commit: u64,
    /// The part's file name; absent: only failures.
    pub part: Option<String>,
    /// Rows in it.
    pub rows: u64,
    /// Items that failed with it.
    pub failed: u64,
    /// Rows of pictures that are damaged.
    pub damaged: u64,
}

/// Writes the results of one map into one directory. The caller sees to it that there is only one at a time.
pub struct Writer {
    pub(crate) dir: PathBuf,
    format: Format,
    /// Where a commit becomes one.
    pub(crate) ledger: Growing,
    /// `failed.jsonl`.
    failures: Growing,
    /// `damaged.jsonl`.
    listed: Listed,
    /// Results that wait.
    pub(crate) rows: Rows,
    /// Parts that are committed.
    pub(crate) held: Vec<Held>,
    /// Their items.
    items: Vec<u64>,
    /// Failures that wait, as lines.
    failed_text: Vec<u8>,
    /// Their items.
    failed: Vec<u64>,
    /// Which of the results that wait are of pictures that are damaged.
    damaged: Vec<Flaw>,
    /// Every item that is settled or waits, so that none is settled twice.
    taken: Bits,
    /// The next commit's number.
    next: u64,
    /// A commit that was begun. It stays until it has succeeded, however often that takes.
    sealed: Option<Sealed>,
    /// Called between the steps of a commit: the place where a test pulls the plug.
    #[cfg(test)]
    pub(crate) hook: Option<Box<dyn FnMut(Step) -> std::io::Result<()> + Send>>,
}

/// What a commit will hold; fixed, so that trying again means the same.
struct Sealed {
    commit: Commit,
    filling: Option<Filling>,
    /// In memory until it is done.
    bytes: u64,
    items: String,
    failed: String,
    failed_text: Vec<u8>,
    damaged: Vec<Flaw>,
    new_columns: Vec<Named>,
    /// What of the map's columns and types the part has.
    columns: u64,
    /// Its line is in the ledger: only the part's name is missing.
    recorded: bool,
}

/// Between these a process can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names)] // what has happened
pub(crate) enum Step {
    PartWritten,
    FailuresWritten,
    LineWritten,
    PartNamed,
    RenewalWritten,
    RenewalRecorded,
    RenewalNamed,
}

impl Writer {
    /// Opens a directory, and finishes or undoes what was under way when it was left. `forgive_missing`:
    /// parts that are gone or not as they were written are given up and their items are unsettled; otherwise
    /// that is an error.
    pub fn open(dir: &Path, format: Format, forgive_missing: bool) -> Result<(Self, Settled), PartsError> {
        let (replay, ledger, failures) = repair::open(dir, format, forgive_missing)?;
        let listed = Listed::open(dir, &replay)?;
        let mut taken = replay.done.clone();
        replay.failed.iter().for_each(|number| _ = taken.insert(number));
        let held = |(commit, part): (&u64, &Part)| Held::new(*commit, &part.name, part.columns);
        let held = replay.parts.iter().map(held).collect();
        let rows = match format {
            Format::Parquet => Rows::Columns(Columns::new(replay.schema)),
            Format::Jsonl => Rows::Lines { text: Vec::new(), not_finite: 0 },
        };
        let writer = Self {
            dir: dir.to_owned(),
            format,
            ledger,
            failures,
            listed,
            rows,
            held,
            items: Vec::new(),
            failed_text: Vec::new(),
            failed: Vec::new(),
            damaged: Vec::new(),
            taken,
            next: replay.next,
            sealed: None,
            #[cfg(test)]
            hook: None,
        };
        let (rows, failures) = (replay.done.len(), replay.failed.len());
        let damaged = replay.parts.values().map(|part| part.damaged).sum();
        let settled = Settled {
            done: replay.done,
            failed: replay.failed,
            rows,
            failures,
            damaged,
            commits: replay.next,
        };
        Ok((writer, settled))
    }

    /// Takes the results of these items, given by number and name in the order of the rows. Rows that cannot
    /// be written come back with a reason; their items are not settled, the caller says they failed.
    pub fn add(&mut self, items: &[(u64, &str)], block: &Block) -> Result<Vec<(usize, String)>, PartsError> {
        if items.len() != block.rows {
            return Err(PartsError::Uneven { rows: block.rows, items: items.len() });
        }
        if let Some((number, _)) = items.iter().find(|(number, _)| self.taken.contains(*number)) {
            return Err(PartsError::Twice { number: *number });
        }
        let names: Vec<&str> = items.iter().map(|(_, name)| *name).collect();
        let refused = self.rows.add(&names, block);
        let mut next_refused = refused.iter().map(|(row, _)| *row).peekable();
        for (row, (number, _)) in items.iter().enumerate() {
            if next_refused.next_if_eq(&row).is_none() {
                self.taken.insert(*number);
                self.items.push(*number);
            }
        }
        Ok(refused)
    }

    /// Notes that an item failed. One that is settled already stays as it is.
    pub fn fail(&mut self, number: u64, name: &str, reason: &str) {
        if self.taken.insert(number) {
            self.failed.push(number);
            let line = json!({"item": name, "reason": reason}).to_string();
            self.failed_text.extend_from_slice(line.as_bytes());
            self.failed_text.push(b'\n');
        }
    }

    /// Notes that the picture of an item whose result was added since the last commit is damaged, and what of it.
    pub fn note_damaged(&mut self, name: &str, what: &str) {
        self.damaged.push((name.to_owned(), what.to_owned()));
    }

    /// Whether the item is settled or waits to be.
    pub fn has(&self, number: u64) -> bool {
        self.taken.contains(number)
    }

    /// What is not durable yet.
    pub fn pending(&self) -> Pending {
        let sealed = self.sealed.as_ref();
        let numbers = (self.items.len() + self.failed.len()) * size_of::<u64>();
        let bytes = self.rows.bytes() + self.failed_text.len() + numbers;
        Pending {
            rows: self.items.len() as u64 + sealed.map_or(0, |sealed| sealed.commit.rows),
            failed: self.failed.len() as u64 + sealed.map_or(0, |sealed| sealed.commit.failed),
            bytes: bytes as u64 + sealed.map_or(0, |sealed| sealed.bytes),
        }
    }

    /// What a person should know about the columns of results: those that became JSON text, and why. Told once.
    pub fn notes(&mut self) -> Vec<String> {
        self.rows.notes()
    }

    /// NaNs that JSONL could only write as null, since this was opened.
    pub fn not_finite(&self) -> u64 {
        match &self.rows {
            Rows::Lines { not_finite, .. } => *not_finite,
            Rows::Columns(_) => 0,
        }
    }

    /// Makes what waits durable; `None`: nothing waits. After an error nothing is lost, and it can be called
    /// again: it then finishes the commit it began, and what came in since waits for the next call.
    pub fn commit(&mut self) -> Result<Option<Commit>, PartsError> {
        let sealed = match self.sealed.take() {
            Some(sealed) => Some(sealed),
            None => self.seal()?,
        };
        let Some(mut sealed) = sealed else { return Ok(None) };
        let carried = self.carry_out(&mut sealed);
        if let Err(error) = carried {
            self.sealed = Some(sealed);
            return Err(error);
        }
        Ok(Some(sealed.commit))
    }

    /// Closes what waits into a commit.
    fn seal(&mut self) -> Result<Option<Sealed>, PartsError> {
        if self.items.is_empty() && self.failed.is_empty() {
            return Ok(None);
        }
        let name = format!("part-{:05}.{}", self.next, self.format.extension());
        let bytes = self.pending().bytes;
        let (filling, new_columns) = if self.items.is_empty() {
            (None, Vec::new())
        } else {
            let encode =
                |error| PartsError::Encode { path: self.dir.join(&name), reason: format!("{error}") };
            let (filling, new) = self.rows.take().map_err(encode)?;
            (Some(filling), new)
        };
        let (mut items, mut failed) = (std::mem::take(&mut self.items), std::mem::take(&mut self.failed));
        items.sort_unstable();
        failed.sort_unstable();
        let damaged = std::mem::take(&mut self.damaged);
        let commit = Commit {
            commit: self.next,
            part: filling.is_some().then_some(name),
            rows: items.len() as u64,
            failed: failed.len() as u64,
            damaged: damaged.len() as u64,
        };
        self.next += 1;
        Ok(Some(Sealed {
            commit,
            filling,
            bytes,
            items: write_ranges(items),
            failed: write_ranges(failed),
            failed_text: std::mem::take(&mut self.failed_text),
            damaged,
            new_columns,
            columns: self.rows.committed().entries,
            recorded: false,
        }))
    }

    /// The steps of a commit, from where it stands.
    fn carry_out(&mut self, sealed: &mut Sealed) -> Result<(), PartsError> {
        let part = sealed.commit.part.clone();
        if !sealed.recorded {
            let bytes = match (&part, &sealed.filling) {
                (Some(part), Some(filling)) => write_part(&repair::hidden(&self.dir, part), filling)?,
                _ => 0,
            };
            self.pass(Step::PartWritten)?;
            if !sealed.failed_text.is_empty() {
                self.failures.write(&sealed.failed_text)?;
            }
            self.listed.write(&sealed.damaged)?;
            self.pass(Step::FailuresWritten)?;
            // The names of new files must be durable before the ledger speaks of them.
            repair::sync_dir(&self.dir)?;
            self.record(sealed, bytes)?;
            sealed.recorded = true;
            sealed.filling = None;
        }
        self.pass(Step::LineWritten)?;
        if let Some(part) = part {
            repair::give_name(&self.dir, &part)?;
            repair::sync_dir(&self.dir)?;
            self.held.push(Held::new(sealed.commit.commit, &part, sealed.columns));
        }
        self.pass(Step::PartNamed)
    }

    /// The commit point.
    fn record(&mut self, sealed: &Sealed, bytes: u64) -> Result<(), PartsError> {
        let failed_bytes = self.failures.length + sealed.failed_text.len() as u64;
        self.ledger.append(&Line::Commit {
            commit: sealed.commit.commit,
            part: sealed.commit.part.clone(),
            rows: sealed.commit.rows,
            bytes,
            items: sealed.items.clone(),
            failed: sealed.failed.clone(),
            failed_bytes,
            damaged: sealed.commit.damaged,
            flaws: sealed.damaged.clone(),
            schema: sealed.new_columns.iter().map(|(name, kind)| (name.clone(), kind.write())).collect(),
        })?;
        self.failures.length = failed_bytes;
        self.listed.count(&sealed.damaged);
        Ok(())
    }

    #[cfg(not(test))]
    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // the test's twin needs both
    pub(crate) fn pass(&mut self, _: Step) -> Result<(), PartsError> {
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn pass(&mut self, step: Step) -> Result<(), PartsError> {
        let Some(hook) = &mut self.hook else { return Ok(()) };
        hook(step).map_err(PartsError::io("take the next step in", &self.dir))
    }
}

/// Writes a part and makes it durable; its length.
fn write_part(path: &Path, filling: &Filling) -> Result<u64, PartsError> {
    write_file(path, |out| match filling {
        Filling::Lines(text) => out.write_all(text),
        Filling::Batch(batch) => parquet::write(out, batch),
    })
}

/// Writes a file and makes it durable; its length.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<u64, PartsError> {
    let file = gpulane_files::create_with(path, MODE, true);
    let file = file.map_err(PartsError::io("create", path))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = write(&mut out);
    let written = written.and_then(|()| out.flush()).and_then(|()| out.get_ref().sync_all());
    written.map_err(|error| {
        // A full disk needs the space; what is left of it is removed at the next opening anyway.
        let _ = fs::remove_file(path);
        PartsError::io("write", path)(error)
    })?;
    Ok(out.get_ref().metadata().map_err(PartsError::io("read", path))?.len())
}
