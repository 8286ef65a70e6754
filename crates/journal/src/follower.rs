//! Reads a journal while it grows, from this process or another. Takes whole lines only, holds one chunk in
//! memory and never changes anything.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use gpulane_model::Record;

use crate::reader::{self, LONGEST_LINE};
use crate::{JournalError, RunDir};

/// Most that one poll reads, unless a single line is longer.
const CHUNK: usize = 1 << 20;

/// A place in a growing journal.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// `None` until the file exists.
    file: Option<File>,
    /// Everything before was handed out. Bytes after it are read anew each time: an unfinished line may yet be
    /// cut by a later engine and written differently.
    offset: u64,
    /// Records handed out, and so also the newest one's number.
    seen: u64,
    /// Used for every chunk anew.
    buffer: Vec<u8>,
}

impl Follower {
    /// At the journal's beginning. The file need not exist yet.
    pub fn open(dir: &RunDir) -> Self {
        Self { path: dir.journal_file(), file: None, offset: 0, seen: 0, buffer: Vec::new() }
    }

    /// Hands out new records, each with its line as JSON without the checksum, and says how many. At most about
    /// 1 MiB a call, so call until it says 0. With a `limit`, only bytes before that offset count: what a
    /// [`Commit`](crate::Commit) announced as durable.
    pub fn poll(
        &mut self,
        limit: Option<u64>,
        each: &mut dyn FnMut(&Record, &str),
    ) -> Result<usize, JournalError> {
        if self.file.is_none() {
            self.file = open_existing(&self.path)?;
        }
        let Some(file) = &self.file else { return Ok(0) };
        let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.offset));
        let filled = read_lines(file, &mut self.buffer, self.offset, room)
            .map_err(JournalError::io("read", &self.path))?;
        if filled == 0 {
            return self.check_same().map(|()| 0);
        }
        let before = self.seen;
        self.hand_out(filled, each)?;
        #[allow(clippy::cast_possible_truncation)] // At most the lines of one chunk.
        Ok((self.seen - before) as usize)
    }

    /// A salvaged journal is another file with other numbers: going on in the old one would show nothing, and
    /// going on in the new one nonsense.
    fn check_same(&self) -> Result<(), JournalError> {
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let ours = self.file.as_ref().and_then(|file| file.metadata().ok()).map(identity);
        match fs::metadata(&self.path).map(identity) {
            Ok(now) if ours.is_some_and(|ours| ours != now) => {
                Err(JournalError::Replaced { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    fn hand_out(&mut self, filled: usize, each: &mut dyn FnMut(&Record, &str)) -> Result<(), JournalError> {
        for line in self.buffer[..filled].split_inclusive_mut(|byte| *byte == b'\n') {
            let length = line.len();
            let bytes = &mut line[..length - 1];
            let (record, json) = reader::read_record(bytes, self.seen + 1)
                .map_err(|fault| fault.at(&self.path, self.seen + 1, self.offset))?;
            each(&record, json);
            self.offset += length as u64;
            self.seen += 1;
        }
        Ok(())
    }
}

fn open_existing(path: &Path) -> Result<Option<File>, JournalError> {
    match gpulane_files::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JournalError::io("open", path)(error)),
    }
}

/// Fills the buffer from `offset` on, at most `room` bytes, and says how many of them are whole lines.
fn read_lines(file: &File, buffer: &mut Vec<u8>, offset: u64, room: u64) -> io::Result<usize> {
    let mut filled = 0;
    let mut size = CHUNK;
    loop {
        let want = usize::try_from(room).unwrap_or(usize::MAX).min(size);
        if buffer.len() < want {
            buffer.resize(want, 0);
        }
        let ended = read_at(file, &mut buffer[..want], &mut filled, offset)?;
        if let Some(newline) = buffer[..filled].iter().rposition(|byte| *byte == b'\n') {
            return Ok(newline + 1);
        }
        if ended || want < size || size as u64 >= LONGEST_LINE {
            return Ok(0);
        }
        size *= 2;
    }
}

/// Reads on until the buffer is full; true: the file ended before.
fn read_at(file: &File, buffer: &mut [u8], filled: &mut usize, offset: u64) -> io::Result<bool> {
    while *filled < buffer.len() {
        match file.read_at(&mut buffer[*filled..], offset + *filled as u64) {
            Ok(0) => return Ok(true),
            Ok(count) => *filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
