//! Tables whose column names the items: CSV, TSV, JSON lines, Parquet. Row by row, in bounded memory.

mod delimited;
mod jsonl;
mod parquet;

use std::path::Path;

use gpulane_model::Decode;

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

    /// Whether files of this kind are taken for tables where a glob or a folder holds nothing else: not where they may be meant to be
    /// read whole.
    pub(crate) const fn is_meant(self, decode: Option<Decode>) -> bool {
        match decode {
            Some(Decode::Image(_) | Decode::Npy) => true,
            Some(_) => false,
            // The model may say `text` or `bytes` itself, and a line of text is one.
            None => matches!(self, Self::Parquet),
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
    let columns = offered(columns);
    let near = nearest(column, &columns).map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
    Stop::input(
        format!("{} has no column `{column}`{near}", path.display()),
        if columns.is_empty() {
            "it has none at all".to_owned()
        } else {
            format!("its columns are {}", quoted(&columns))
        },
    )
}

/// The refusal of an input that is a table, or tables like this one, with the columns there are to choose from.
pub(crate) fn which_column(kind: Kind, path: &Path, input: &str, several: bool) -> Result<Stop, Stop> {
    let columns = offered(&kind.columns(path)?);
    let example = columns.first().map_or("path", String::as_str);
    let (what, itself) = if several {
        (
            "these are tables; which column? The first has",
            "to pass the files themselves, write `--decode bytes`",
        )
    } else {
        (
            "it is a table; which column? It has",
            "to pass the file itself, name it in a list file, `@files.txt`",
        )
    };
    Ok(Stop::input(format!("{what} {}", quoted(&columns)), format!("write `{input}:{example}`; {itself}")))
}

/// The columns as they are offered: first those of images, a struct of bytes and path, by the one name that stands for both.
fn offered(columns: &[String]) -> Vec<String> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let images = columns.iter().filter_map(|column| column.strip_suffix(".bytes"));
    let images = images.filter(|name| has(&format!("{name}.path")) && !has(name)).map(ToOwned::to_owned);
    images.chain(columns.iter().cloned()).collect()
}

/// The column that was most likely meant.
fn nearest<'c>(column: &str, columns: &'c [String]) -> Option<&'c str> {
    /// Names that have less in common are others.
    const LEAST: f64 = 0.6;
    let likeness =
        |name: &str| strsim::normalized_damerau_levenshtein(&column.to_lowercase(), &name.to_lowercase());
    let scored = columns.iter().map(|name| (likeness(name), name.as_str()));
    scored.filter(|(score, _)| *score > LEAST).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
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
