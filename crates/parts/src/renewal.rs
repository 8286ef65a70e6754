//! Parts that were written before a column had its first value get it afterwards, empty; parts that were written before a column had a value its type does
//! not hold get the wider type. Every part of a finished map has one schema, so that readers that take it from the first part miss nothing.
//!
//! Each is written anew under a hidden name and made durable; then one line in the ledger says that this is the part (the commit point);
//! then it takes the place of the other by a rename. At every instant there is one file under the part's name, with the same items.

use std::fs;

use crate::error::PartsError;
use crate::ledger::Line;
use crate::pending::Schema;
use crate::writer::{Step, Writer, write_file};
use crate::{parquet, repair};

/// A committed part, and what it has of the map's columns.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    commit: u64,
    name: String,
    /// As they were after so many entries in the ledger.
    columns: u64,
    /// The ledger says that it has those after so many now, but the file does not have its name yet.
    unnamed: Option<u64>,
}

impl Held {
    pub(crate) fn new(commit: u64, name: &str, columns: u64) -> Self {
        Self { commit, name: name.to_owned(), columns, unnamed: None }
    }
}

impl Writer {
    /// Gives every part the columns it lacks and the types that columns have come to have, one part after the other, until `stop` says so; how many parts were written anew. Each
    /// is whole before and after; called again, it goes on where it stopped. For when everything is committed.
    pub fn make_alike(&mut self, stop: &dyn Fn() -> bool) -> Result<u64, PartsError> {
        let schema = self.rows.committed();
        let mut renewed = 0;
        for at in 0..self.held.len() {
            if self.held[at].columns == schema.entries {
                continue;
            }
            if stop() {
                break;
            }
            if self.held[at].unnamed.is_none() {
                self.renew(at, &schema)?;
            }
            self.name_renewal(at)?;
            renewed += 1;
        }
        Ok(renewed)
    }

    fn renew(&mut self, at: usize, schema: &Schema) -> Result<(), PartsError> {
        let Held { commit, name, .. } = self.held[at].clone();
        let (path, all) = (self.dir.join(&name), schema.entries);
        let hidden = repair::hidden_renewal(&self.dir, &name, all);
        let part = gpulane_files::open(&path).map_err(PartsError::io("open", &path))?;
        let bytes = write_file(&hidden, |out| parquet::widen(out, part, &schema.columns))?;
        self.pass(Step::RenewalWritten)?;
        // Its name must be durable before the ledger speaks of it.
        repair::sync_dir(&self.dir)?;
        self.ledger.append(&Line::Renewed { renewed: commit, columns: all, bytes })?;
        self.held[at].unnamed = Some(all);
        self.pass(Step::RenewalRecorded)
    }

    fn name_renewal(&mut self, at: usize) -> Result<(), PartsError> {
        let Held { name, unnamed: Some(columns), .. } = self.held[at].clone() else { return Ok(()) };
        let hidden = repair::hidden_renewal(&self.dir, &name, columns);
        fs::rename(&hidden, self.dir.join(&name)).map_err(PartsError::io("rename", &hidden))?;
        (self.held[at].columns, self.held[at].unnamed) = (columns, None);
        repair::sync_dir(&self.dir)?;
        self.pass(Step::RenewalNamed)
    }
}
