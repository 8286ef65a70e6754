//! Tables whose column names the items: CSV, TSV, JSON lines, Parquet. Row by row, in bounded memory.

mod delimited;
mod jsonl;
mod parquet;

use std::path::Path;

use crate::problem::Stop;
pub(crate) use parquet::DataColumns;
pub use parquet::{MOST_PAGE_ROWS, checked_page, shared_bytes};

/// Which kind of table a file is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Csv,
    Tsv,
    Jsonl,
    Parquet,
}

/// What a row says: the value, or why there is none.
pub(crate) type Cell<'a> = Result<&'a [u8], String>;

/// Takes a row's number from 1 and its cell.
pub(crate) type Each<'e> = dyn FnMut(u64, Cell<'_>) -> Result<(), Stop> + 'e;

const NAMED: [(&str, Kind); 5] = [
    (".csv", Kind::Csv),
    (".tsv", Kind::Tsv),
    (".jsonl", Kind::Jsonl),
    (".ndjson", Kind::Jsonl),
    (".parquet", Kind::Parquet),
];

impl Kind {
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        NAMED.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
    }

    /// `table.csv:path` as file and column.
    pub(crate) fn split(input: &str) -> Option<(&str, &str)> {
        input.match_indices(':').find_map(|(at, _)| {
            let (file, column) = (&input[..at], &input[at + 1..]);
            (Self::of(file).is_some() && !column.is_empty()).then_some((file, column))
        })
    }

    /// The columns a person could name.
    pub(crate) fn columns(self, path: &Path) -> Result<Vec<String>, Stop> {
        match self {
            Self::Csv => delimited::columns(path, b','),
            Self::Tsv => delimited::columns(path, b'\t'),
            Self::Jsonl => jsonl::columns(path),
            Self::Parquet => parquet::columns(path),
        }
    }

    /// Whether a table can be opened; of Parquet alone that can be known without reading rows.
    pub(crate) fn open(self, path: &Path) -> Result<(), Stop> {
        if self == Self::Parquet { parquet::columns(path).map(drop) } else { Ok(()) }
    }

    /// Where the data of items are, if the column holds them and not texts.
    pub(crate) fn data_columns(
        self,
        path: &Path,
        column: &str,
        base: &Path,
    ) -> Result<Option<DataColumns>, Stop> {
        if self == Self::Parquet { DataColumns::of(path, column, base) } else { Ok(None) }
    }

    /// Every row's cell of this column, in order.
    pub(crate) fn read(self, path: &Path, column: &str, each: &mut Each) -> Result<(), Stop> {
        match self {
            Self::Csv => delimited::read(path, b',', column, each),
            Self::Tsv => delimited::read(path, b'\t', column, each),
            Self::Jsonl => jsonl::read(path, column, each),
            Self::Parquet => parquet::read(path, column, each),
        }
    }
}

/// There is no such column; these are there.
fn no_column(path: &Path, column: &str, columns: &[String]) -> Stop {
    Stop::input(
        format!("{} has no column `{column}`", path.display()),
        if columns.is_empty() {
            "it has none at all".to_owned()
        } else {
            format!("its columns are {}", quoted(columns))
        },
    )
}

/// A few names in quotes, and how many more there are.
pub(crate) fn quoted(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
