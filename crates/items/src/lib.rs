//! What a map works on: inputs as a person writes them, and the frozen list of items made of them. An item's
//! identity is its number in that list, the same at every resume.
//!
//! | input | items |
//! |---|---|
//! | `photo.jpg` | that file |
//! | `photos` | every file below it, a `.tar` as a shard; hidden ones and symlinked directories are left out |
//! | `photos/**/*.{jpg,png}` | the files that match; a path that exists as it is written is that path |
//! | `@files.txt` | one a line; the lines are taken as they are |
//! | `table.csv:path` | one a row; also `.tsv`, `.jsonl`, `.ndjson`, `.parquet`; `a.b` for nested keys |
//! | `table.parquet:image` | one a row, where the column holds the data themselves |
//! | `shard-{000..123}.tar`, `.tar.gz`, `.tar.zst` | every image (array, text) of the shard (`WebDataset` layout), read in place |
//!
//! A row, line or member that cannot be an item, a directory that cannot be listed, and a shard that cannot be read to its end, becomes a [`Place::Bad`] one: it fails with a reason and does not
//! vanish. A file that two inputs name is one item, at its first place; what one input repeats stays
//! repeated. Nothing here opens the files that items are.

mod braces;
mod changes;
mod escape;
mod freeze;
mod gather;
mod input;
mod lacking;
mod lines;
mod list;
mod packed;
mod problem;
mod record;
mod shard;
mod stamp;
mod table;
mod walk;

use std::path::{Path, PathBuf};

use gpulane_model::Decode;

pub use changes::{changes, changes_at_hand};
pub use freeze::freeze;
pub use input::check;
pub use lacking::{Lacking, lacking};
pub use list::{Cursor, ItemList, Opened, forget, open};
pub use packed::{Packing, Unpacked};
pub use problem::{Problem, Refused};
pub use shard::{Head, Next, extension, next_head, sample_key};
pub use table::{MOST_PAGE_ROWS, checked_page, shared_bytes};

/// What a person asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// As written.
    pub inputs: &'a [String],
    /// What relative paths are relative to.
    pub base: &'a Path,
    /// How items are decoded, where that is known. [`Decode::Value`]: columns and lists hold the texts
    /// themselves.
    pub decode: Option<Decode>,
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place in the list, from 0: its identity.
    pub number: u64,
    /// As given. A name that is not UTF-8 has its other bytes as `\xNN` and its backslashes doubled.
    pub name: String,
    /// Where its data are.
    pub place: Place,
}

/// Where an item's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file of their own.
    File(PathBuf),
    /// Within a tar shard; of a compressed one, within its contents.
    Member {
        /// Which of [`ItemList::archives`].
        archive: u32,
        /// Where in it.
        offset: u64,
        /// How many.
        bytes: u64,
        /// How many bytes before them the sample begins that the member is of; absent in lists of before that was noted.
        before: Option<u64>,
    },
    /// In a row of a Parquet table.
    Row {
        /// Which of [`ItemList::tables`].
        table: u32,
        /// Which row, from 0.
        row: u64,
    },
    /// The text itself.
    Value(String),
    /// Nowhere, and why.
    Bad(String),
}

/// A Parquet table whose rows hold the data of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The file.
    pub file: PathBuf,
    /// The column with the data: the path of a leaf, such as `image.bytes`.
    pub data: String,
    /// The column with the path of a file, for rows that have no data.
    pub path: Option<String>,
}

/// A file of the frozen list, made anew: paths may tell more than others should know.
pub(crate) fn create(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    gpulane_files::create(path)
}
