//! Reads a journal from its beginning, one line in memory at a time, and folds it into the run's state. Changes
//! nothing on disk.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use gpulane_model::{Event, Plan, Record, RunState};
use serde::Deserialize;

use crate::line::{self, LineError};
use crate::{JOURNAL_FORMAT, JournalError};

/// No record comes near this; whatever is longer is not a line, and must not fill the memory.
pub(crate) const LONGEST_LINE: u64 = 16 << 20;

/// A stretch of the file up to a newline or the end.
pub(crate) struct RawLine<'a> {
    /// Without the newline; cut off at [`LONGEST_LINE`].
    pub(crate) bytes: &'a mut [u8],
    /// Where it begins.
    pub(crate) offset: u64,
    /// From 1.
    pub(crate) number: u64,
    /// Bytes it takes in the file, newline included.
    pub(crate) length: u64,
    /// Ends in a newline. Only the last one may not.
    pub(crate) complete: bool,
}

/// The lines of a journal.
pub(crate) struct Lines<R> {
    reader: BufReader<R>,
    /// Used for every line anew.
    buffer: Vec<u8>,
    offset: u64,
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn of(file: R) -> Self {
        Self { reader: BufReader::with_capacity(1 << 18, file), buffer: Vec::new(), offset: 0, number: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.buffer.clear();
        let mut length = (&mut self.reader).take(LONGEST_LINE).read_until(b'\n', &mut self.buffer)? as u64;
        let mut complete = self.buffer.last() == Some(&b'\n');
        if complete {
            self.buffer.pop();
        } else if length == LONGEST_LINE {
            (length, complete) = self.skip_rest(length)?;
        }
        if length == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += length;
        self.number += 1;
        Ok(Some(RawLine { bytes: &mut self.buffer, offset, number: self.number, length, complete }))
    }

    fn skip_rest(&mut self, mut length: u64) -> io::Result<(u64, bool)> {
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok((length, false));
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let used = newline.map_or(available.len(), |at| at + 1);
            self.reader.consume(used);
            length += used as u64;
            if newline.is_some() {
                return Ok((length, true));
            }
        }
    }
}

/// Why a line cannot stand where it stands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("it has number {found} where {expected} should follow")]
    Order { expected: u64, found: u64 },
    #[error("the first record must be run_started")]
    NoStart,
    #[error("it has format {0}")]
    Newer(u32),
}

impl Fault {
    pub(crate) fn at(self, path: &Path, line: u64, offset: u64) -> JournalError {
        match self {
            Self::Newer(format) => JournalError::NewerFormat { path: path.to_owned(), format },
            other => JournalError::Damaged { path: path.to_owned(), line, offset, reason: other.to_string() },
        }
    }
}

/// Reads the record that must have number `expected`; gives its JSON too.
pub(crate) fn read_record(bytes: &mut [u8], expected: u64) -> Result<(Record, &str), Fault> {
    let json = line::unseal(bytes)?;
    let record = line::parse(json).map_err(|error| {
        // Of a newer format it can only be said that it is newer.
        match serde_json::from_str::<Start>(json) {
            Ok(Start { format }) if expected == 1 && format > JOURNAL_FORMAT => Fault::Newer(format),
            _ => Fault::Line(error),
        }
    })?;
    if record.seq != expected {
        return Err(Fault::Order { expected, found: record.seq });
    }
    if expected == 1 {
        match record.event {
            Event::RunStarted { format, .. } if format > JOURNAL_FORMAT => return Err(Fault::Newer(format)),
            Event::RunStarted { .. } => {}
            _ => return Err(Fault::NoStart),
        }
    }
    Ok((record, json))
}

#[derive(Deserialize)]
struct Start {
    format: u32,
}

/// A journal read to its end.
pub(crate) struct Folded {
    pub(crate) state: RunState,
    /// How far it consists of whole records, each with its newline.
    pub(crate) end: u64,
    pub(crate) tail: Tail,
}

/// What stands after the last newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Clean,
    /// A whole record of this many bytes, already folded, that lacks its newline.
    Unended {
        /// The record's bytes.
        record: u64,
        /// Bytes after it that mean nothing.
        junk: u64,
    },
    /// This many bytes of a write that did not come to its end.
    Torn(u64),
}

/// Folds the whole journal, or says where it is damaged.
pub(crate) fn fold(path: &Path, file: impl Read, plan: &Plan) -> Result<Folded, JournalError> {
    let mut folded = Folded { state: RunState::new(plan), end: 0, tail: Tail::Clean };
    let mut lines = Lines::of(file);
    while let Some(line) = lines.next().map_err(JournalError::io("read", path))? {
        let (number, offset, length) = (line.number, line.offset, line.length);
        let record = if line.complete {
            folded.end = offset + length;
            line.bytes
        } else {
            let Some(found) = line::find_record(line.bytes).filter(|found| found.start == 0) else {
                folded.tail = Tail::Torn(length);
                break;
            };
            let record = found.end as u64;
            folded.tail = Tail::Unended { record, junk: length - record };
            &mut line.bytes[found]
        };
        let (record, _) =
            read_record(record, folded.state.last_seq + 1).map_err(|fault| fault.at(path, number, offset))?;
        folded.state.apply(&record);
    }
    Ok(folded)
}
