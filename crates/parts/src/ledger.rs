//! `commits.jsonl`: one checksummed line per commit, and what all lines together say. Reads and appends;
//! decides nothing about part files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gpulane_model::Format;
use serde::{Deserialize, Serialize};

use crate::bits::{Bits, read_ranges};
use crate::error::PartsError;
use crate::flaws::Flaw;
use crate::kind::ColumnType;
use crate::pending::Schema;

pub(crate) const NAME: &str = "commits.jsonl";
/// 2: a column's type may change from one part to a later one.
const VERSION: u64 = 2;
/// What the checksum covers ends here.
const MARK: &str = ",\"crc\":\"";

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// The first one.
    Header { ledger: u64, format: Format },
    /// Items settled by this commit.
    Commit {
        commit: u64,
        part: Option<String>,
        rows: u64,
        /// Length of the part's file.
        bytes: u64,
        /// In the part, as ranges.
        items: String,
        /// Failed, as ranges.
        failed: String,
        /// Length of `failed.jsonl` from now on.
        failed_bytes: u64,
        /// Rows of pictures that are damaged.
        #[serde(default, skip_serializing_if = "is_zero")]
        damaged: u64,
        /// Their items, and what is damaged of each; those of before this was kept are missing.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flaws: Vec<Flaw>,
        /// Columns that no earlier part has, or has as another type, with their types.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        schema: Vec<(String, String)>,
    },
    /// Failed items that are to be tried again.
    Forgotten { forgotten: String, failed_bytes: u64 },
    /// A part that is gone, by its commit: its items are to be done again.
    Lost { lost: u64 },
    /// A part, by its commit, that was written anew with the columns and types as they were after so many entries of `schema`.
    Renewed { renewed: u64, columns: u64, bytes: u64 },
}

/// What all lines together say.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// The format of the parts, once there is a header.
    pub(crate) format: Option<Format>,
    /// Items in parts.
    pub(crate) done: Bits,
    /// Items in `failed.jsonl`.
    pub(crate) failed: Bits,
    /// Columns of the parts.
    pub(crate) schema: Schema,
    /// Parts that should be there.
    pub(crate) parts: BTreeMap<u64, Part>,
    /// Names of parts that were given up.
    pub(crate) lost: Vec<String>,
    /// The next commit's number.
    pub(crate) next: u64,
    /// Length of `failed.jsonl`.
    pub(crate) failed_bytes: u64,
}

/// Most commits have nothing of the kind.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A committed part.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Entries of the ledger after which the map had the columns of this part.
    pub(crate) columns: u64,
    /// Rows of pictures that are damaged.
    pub(crate) damaged: u64,
    /// Their items, and what is damaged of each.
    pub(crate) flaws: Vec<Flaw>,
    /// It was written anew, and may still wait for its name.
    pub(crate) renewed: bool,
    /// First and last of each range of its items.
    items: Vec<(u64, u64)>,
}

/// The lines that could be read.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) lines: Vec<Line>,
    /// Bytes of them; what follows is torn.
    pub(crate) length: u64,
    pub(crate) path: PathBuf,
}

/// A line's text, sealed, with its newline.
pub(crate) fn seal(line: &Line) -> Vec<u8> {
    // Strings, numbers and lists of them are always JSON.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.pop();
    let crc = crc32fast::hash(text.as_bytes());
    format!("{text}{MARK}{crc:08x}\"}}\n").into_bytes()
}

/// A line without its newline.
fn unseal(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not text")?;
    let (body, crc) = text.rsplit_once(MARK).ok_or("it has no checksum")?;
    let crc = crc.strip_suffix("\"}").and_then(|crc| u32::from_str_radix(crc, 16).ok());
    if crc != Some(crc32fast::hash(body.as_bytes())) {
        return Err("its checksum does not match".to_owned());
    }
    serde_json::from_str(&format!("{body}}}"))
        .map_err(|_| "it is none of the lines this gpulane knows".to_owned())
}

/// Reads the ledger of a directory; one that is not there is empty.
pub(crate) fn read(dir: &Path) -> Result<Text, PartsError> {
    let path = dir.join(NAME);
    let bytes = match gpulane_files::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        other => other.map_err(PartsError::io("read", &path))?,
    };
    let mut text = Text { lines: Vec::new(), length: 0, path };
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        match unseal(&rest[..end]) {
            Ok(line) => text.lines.push(line),
            // The last line: it was being written when everything ended, and nobody was told of it.
            Err(_) if end + 1 == rest.len() => break,
            Err(reason) => {
                let line = text.lines.len() as u64 + 1;
                return Err(PartsError::Damaged { path: text.path, line, reason });
            }
        }
        text.length += end as u64 + 1;
        rest = &rest[end + 1..];
    }
    Ok(text)
}

impl Text {
    /// What the lines together say.
    pub(crate) fn replay(&self) -> Result<Replay, PartsError> {
        let mut replay = Replay::default();
        for (at, line) in self.lines.iter().enumerate() {
            if let Line::Header { ledger: version, .. } = line
                && *version > VERSION
            {
                return Err(PartsError::Newer { path: self.path.clone(), version: *version });
            }
            replay.apply(line).map_err(|reason| PartsError::Damaged {
                path: self.path.clone(),
                line: at as u64 + 1,
                reason,
            })?;
        }
        Ok(replay)
    }
}

impl Replay {
    fn apply(&mut self, line: &Line) -> Result<(), String> {
        match line {
            Line::Header { .. } if self.format.is_some() => return Err("it is a second beginning".to_owned()),
            Line::Header { format, .. } => self.format = Some(*format),
            _ if self.format.is_none() => return Err("the beginning of the file is missing".to_owned()),
            Line::Commit { .. } => self.apply_commit(line)?,
            Line::Forgotten { forgotten, failed_bytes } => {
                numbers(&ranges(forgotten)?).for_each(|number| _ = self.failed.remove(number));
                self.failed_bytes = *failed_bytes;
            }
            Line::Lost { lost } => {
                let part = self.parts.remove(lost).ok_or("it gives up a part that is not there")?;
                numbers(&part.items).for_each(|number| _ = self.done.remove(number));
                self.lost.push(part.name);
            }
            Line::Renewed { renewed, columns, bytes } => {
                let part = self.parts.get_mut(renewed).ok_or("it renews a part that is not there")?;
                (part.columns, part.bytes, part.renewed) = (*columns, *bytes, true);
            }
        }
        Ok(())
    }

    fn apply_commit(&mut self, line: &Line) -> Result<(), String> {
        let Line::Commit { commit, part, bytes, items, failed, failed_bytes, damaged, flaws, schema, .. } =
            line
        else {
            return Ok(());
        };
        if *commit != self.next {
            return Err(format!("it is commit {commit} where {} should be", self.next));
        }
        self.next += 1;
        let (items, failed) = (ranges(items)?, ranges(failed)?);
        for number in numbers(&items) {
            if self.failed.contains(number) || !self.done.insert(number) {
                return Err(format!("it settles item {number} a second time"));
            }
        }
        for number in numbers(&failed) {
            if self.done.contains(number) || !self.failed.insert(number) {
                return Err(format!("it settles item {number} a second time"));
            }
        }
        for (name, kind) in schema {
            let kind = ColumnType::read(kind)
                .ok_or_else(|| format!("it has a column of the unknown kind {kind}"))?;
            self.schema.apply(name, kind);
        }
        if let Some(name) = part {
            let columns = self.schema.entries;
            let part = Part {
                name: name.clone(),
                bytes: *bytes,
                columns,
                damaged: *damaged,
                flaws: flaws.clone(),
                renewed: false,
                items,
            };
            self.parts.insert(*commit, part);
        }
        self.failed_bytes = *failed_bytes;
        Ok(())
    }
}

fn ranges(text: &str) -> Result<Vec<(u64, u64)>, String> {
    read_ranges(text).ok_or_else(|| format!("`{text}` are no items"))
}

fn numbers(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> + '_ {
    ranges.iter().flat_map(|(first, last)| *first..=*last)
}

/// A file that only grows, each growth whole or undone.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) path: PathBuf,
    file: File,
    /// What of it counts; anything behind is a failed attempt.
    pub(crate) length: u64,
}

/// Results are for whoever may enter their directory; nobody else writes to them, whatever the umask.
pub(crate) const MODE: u32 = 0o644;

impl Growing {
    /// Opens or creates it, and cuts it to this length.
    pub(crate) fn open(path: PathBuf, length: u64) -> Result<Self, PartsError> {
        let file = gpulane_files::create_with(&path, MODE, false);
        let file = file.map_err(PartsError::io("open", &path))?;
        let growing = Self { path, file, length };
        growing.cut()?;
        Ok(growing)
    }

    fn cut(&self) -> Result<(), PartsError> {
        let tried = self.file.metadata().and_then(|metadata| {
            if metadata.len() == self.length {
                return Ok(());
            }
            self.file.set_len(self.length)?;
            self.file.sync_data()
        });
        tried.map_err(PartsError::io("cut", &self.path))
    }

    /// Appends and makes durable, but does not count it yet: a second call overwrites it.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), PartsError> {
        self.cut()?;
        let tried = self.file.write_all_at(bytes, self.length).and_then(|()| self.file.sync_data());
        tried.map_err(|error| {
            // So that nobody sees half a line while the disk is full. If this fails too, the next one repairs
            // it.
            let _ = self.file.set_len(self.length);
            PartsError::io("write", &self.path)(error)
        })
    }

    /// Appends a line and counts it.
    pub(crate) fn append(&mut self, line: &Line) -> Result<(), PartsError> {
        let line = seal(line);
        self.write(&line)?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Begins a new ledger.
    pub(crate) fn begin(&mut self, format: Format) -> Result<(), PartsError> {
        self.append(&Line::Header { ledger: VERSION, format })
    }
}
