//! `failed.jsonl`, and reading commits again with the failures that belong to them.

use std::io::{self, BufRead as _, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Deserialize;

use crate::bits::write_ranges;
use crate::error::PartsError;
use crate::ledger::{self, Growing, Line};
use crate::writer::Commit;

pub(crate) const NAME: &str = "failed.jsonl";

/// A commit as the ledger remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The commit, as it was told when it was made.
    pub commit: Commit,
    /// What failed with it; empty if that was forgotten since, by `resume --failed`.
    pub failed: Vec<Failure>,
}

/// An item that failed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// Its name.
    pub item: String,
    /// Why, for a person.
    pub reason: String,
}

/// The commits from number `from` on, in order.
pub fn read_commits(dir: &Path, from: u64) -> Result<Vec<Recorded>, PartsError> {
    let text = ledger::read(dir)?;
    text.replay()?;
    let mut recorded: Vec<(Recorded, std::ops::Range<u64>)> = Vec::new();
    let mut start = 0;
    for line in text.lines {
        match line {
            Line::Commit { commit, part, rows, failed, failed_bytes, damaged, .. } => {
                let range = start..failed_bytes;
                start = failed_bytes;
                if commit >= from {
                    let failed = count(&failed);
                    let commit = Commit { commit, part, rows, failed, damaged };
                    recorded.push((Recorded { commit, failed: Vec::new() }, range));
                }
            }
            Line::Forgotten { failed_bytes, .. } => {
                start = failed_bytes;
                // What these ranges spoke of is not in the file any more.
                for (_, range) in &mut recorded {
                    *range = 0..0;
                }
            }
            Line::Header { .. } | Line::Lost { .. } | Line::Renewed { .. } => {}
        }
    }
    for (recorded, range) in &mut recorded {
        recorded.failed = read_failures(dir, range.clone())?;
    }
    Ok(recorded.into_iter().map(|(recorded, _)| recorded).collect())
}

fn count(ranges: &str) -> u64 {
    let ranges = crate::bits::read_ranges(ranges).unwrap_or_default();
    ranges.into_iter().map(|(first, last)| last - first + 1).sum()
}

/// The failures in this range of the file's bytes.
fn read_failures(dir: &Path, range: std::ops::Range<u64>) -> Result<Vec<Failure>, PartsError> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let path = dir.join(NAME);
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
    let read = gpulane_files::open(&path).and_then(|file| file.read_exact_at(&mut bytes, range.start));
    read.map_err(PartsError::io("read", &path))?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).map_err(io::Error::other))
        .collect::<Result<_, _>>()
        .map_err(PartsError::io("understand", &path))
}

/// The first failures in the file, `most` at most, for a look at them. The map may be at work: what is not whole yet is left out.
pub fn first_failures(dir: &Path, most: usize) -> Result<Vec<Failure>, PartsError> {
    /// Items and reasons may be long; nobody looks at more than this.
    const MOST_BYTES: u64 = 64 << 20;
    let path = dir.join(NAME);
    let file = gpulane_files::open(&path).map_err(PartsError::io("read", &path))?;
    let lines = io::BufReader::new(file.take(MOST_BYTES)).split(b'\n').take(most);
    let mut found = Vec::new();
    for line in lines {
        let line = line.map_err(PartsError::io("read", &path))?;
        let Ok(failure) = serde_json::from_slice(&line) else { break };
        found.push(failure);
    }
    Ok(found)
}

/// Unsettles every item that failed and empties `failed.jsonl`; how many these are. For a directory nobody
/// writes to.
pub fn forget_failed(dir: &Path) -> Result<u64, PartsError> {
    let text = ledger::read(dir)?;
    let replay = text.replay()?;
    if replay.failed.is_empty() {
        return Ok(0);
    }
    let mut ledger = Growing::open(text.path, text.length)?;
    ledger.append(&Line::Forgotten { forgotten: write_ranges(replay.failed.iter()), failed_bytes: 0 })?;
    Growing::open(dir.join(NAME), 0)?;
    Ok(replay.failed.len())
}
