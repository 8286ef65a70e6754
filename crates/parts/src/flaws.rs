//! `damaged.jsonl`: the items in parts whose picture is damaged, each with what is damaged of it. The ledger holds the same and decides:
//! whenever a directory is opened, the file is made what the ledger says of the parts that are there.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::error::PartsError;
use crate::ledger::{Growing, Replay};
use crate::writer::write_file;

const NAME: &str = "damaged.jsonl";

/// The name of an item whose picture is damaged, and what is damaged of it.
pub(crate) type Flaw = (String, String);

/// The file. There is none as long as nothing is to be listed.
#[derive(Debug)]
pub(crate) struct Listed {
    path: PathBuf,
    /// What of it counts.
    length: u64,
}

impl Listed {
    /// Makes the file what the ledger says.
    pub(crate) fn open(dir: &Path, replay: &Replay) -> Result<Self, PartsError> {
        let path = dir.join(NAME);
        let wanted = replay.parts.values().flat_map(|part| lines(&part.flaws)).collect::<Vec<u8>>();
        let found = match gpulane_files::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(PartsError::io("read", &path))?,
        };
        if !found.starts_with(&wanted) {
            let draft = dir.join(".damaged.jsonl.tmp");
            write_file(&draft, |out| out.write_all(&wanted))?;
            fs::rename(&draft, &path).map_err(PartsError::io("rename", &draft))?;
        }
        let listed = Self { path, length: wanted.len() as u64 };
        if found.len() > wanted.len() {
            Growing::open(listed.path.clone(), listed.length)?;
        }
        Ok(listed)
    }

    /// Appends and makes durable, but does not count it yet: a second call overwrites it.
    pub(crate) fn write(&self, flaws: &[Flaw]) -> Result<(), PartsError> {
        if flaws.is_empty() {
            return Ok(());
        }
        Growing::open(self.path.clone(), self.length)?.write(&lines(flaws))
    }

    /// Counts what was written last.
    pub(crate) fn count(&mut self, flaws: &[Flaw]) {
        self.length += lines(flaws).len() as u64;
    }
}

/// A line for each.
fn lines(flaws: &[Flaw]) -> Vec<u8> {
    let line = |(item, reason): &Flaw| format!("{}\n", json!({"item": item, "reason": reason}));
    flaws.iter().map(line).collect::<String>().into_bytes()
}
