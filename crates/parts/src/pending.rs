//! Rows that wait for the next commit, as columns for Parquet or as lines for JSONL; and what parts have of columns so far.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::block::Block;
use crate::columns::Columns;
use crate::jsonl;
use crate::kind::ColumnType;

/// Refused rows with their reasons.
pub(crate) type Refused = Vec<(usize, String)>;

/// The rows of a part to be.
#[derive(Debug)]
pub(crate) enum Rows {
    /// For Parquet.
    Columns(Columns),
    /// For JSONL, which has no types to keep: the text itself.
    Lines {
        /// The lines.
        text: Vec<u8>,
        /// NaNs written as null since the writer was opened, for lack of a word for them.
        not_finite: u64,
    },
}

/// A column of a part, as the ledger keeps it: its name and type.
pub(crate) type Named = (String, ColumnType);

/// What parts have, and how often that has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// The columns, in the order in which parts came to have them.
    pub(crate) columns: Vec<Named>,
    /// Columns that were added and kinds that were changed. A part written at this number has the columns as they are now.
    pub(crate) entries: u64,
}

impl Schema {
    /// What a part has that those before it had not.
    pub(crate) fn apply(&mut self, name: &str, new: ColumnType) {
        match self.columns.iter_mut().find(|(known, _)| known == name) {
            // How far numbers go makes no difference to a file.
            Some((_, old)) if old.kind == new.kind => *old = new,
            Some((_, old)) => {
                *old = new;
                self.entries += 1;
            }
            None => {
                self.columns.push((name.to_owned(), new));
                self.entries += 1;
            }
        }
    }
}

/// What goes into a part file.
#[derive(Debug)]
pub(crate) enum Filling {
    Batch(RecordBatch),
    Lines(Vec<u8>),
}

impl Rows {
    /// Takes the rows that can be taken; the others come back with why not.
    pub(crate) fn add(&mut self, names: &[&str], block: &Block) -> Refused {
        if block.columns.iter().any(|column| column.name == "item") {
            let why = "`item` is the name of gpulane's own column; give that result another name";
            return (0..block.rows).map(|row| (row, why.to_owned())).collect();
        }
        match self {
            Self::Columns(columns) => columns.add(names, block),
            Self::Lines { text, not_finite } => jsonl::write_rows(text, names, block, not_finite),
        }
    }

    /// What parts have; nothing where lines have no schema.
    pub(crate) fn committed(&self) -> Schema {
        match self {
            Self::Columns(columns) => columns.committed(),
            Self::Lines { .. } => Schema::default(),
        }
    }

    /// What a person should know about columns, told once.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        match self {
            Self::Columns(columns) => columns.notes(),
            Self::Lines { .. } => Vec::new(),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Columns(columns) => columns.bytes(),
            Self::Lines { text, .. } => text.len(),
        }
    }

    /// Takes the waiting rows out, with the columns and types that are new in them.
    pub(crate) fn take(&mut self) -> Result<(Filling, Vec<Named>), ArrowError> {
        match self {
            Self::Columns(columns) => columns.take(),
            Self::Lines { text, .. } => Ok((Filling::Lines(std::mem::take(text)), Vec::new())),
        }
    }
}
