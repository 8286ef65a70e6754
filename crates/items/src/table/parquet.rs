//! Parquet: one column of texts, a row group at a time.

mod data;
mod delta;
mod pages;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescPtr;

use super::{Each, no_column};
use crate::problem::Stop;
pub(crate) use data::DataColumns;
pub use pages::{MOST_PAGE_ROWS, checked_page, shared_bytes};

/// Rows taken at a time.
const ROWS: usize = 8192;

pub(super) fn columns(path: &Path) -> Result<Vec<String>, Stop> {
    guarded(path, || {
        let file = open(path)?;
        Ok(file
            .metadata()
            .file_metadata()
            .schema_descr()
            .columns()
            .iter()
            .map(|column| column.path().string())
            .collect())
    })
}

pub(super) fn read(path: &Path, column: &str, each: &mut Each) -> Result<(), Stop> {
    guarded(path, || {
        let file = open(path)?;
        let schema = file.metadata().file_metadata().schema_descr();
        let Some(at) = schema.columns().iter().position(|each| each.path().string() == column) else {
            return Err(no_column(path, column, &columns(path)?));
        };
        let description = schema.column(at);
        if description.max_rep_level() > 0 {
            return Err(lists(column));
        }
        let mut number = 0;
        for group in 0..file.num_row_groups() {
            let group = file.get_row_group(group).map_err(|error| unreadable(path, &error))?;
            read_group(path, (column, at), &*group, &mut number, each)?;
        }
        Ok(())
    })
}

/// Calls `each` with the rows of a row group, not more than it says that it has.
fn read_group(
    path: &Path,
    (column, at): (&str, usize),
    group: &dyn RowGroupReader,
    number: &mut u64,
    each: &mut Each,
) -> Result<(), Stop> {
    let description: ColumnDescPtr = group.metadata().column(at).column_descr_ptr();
    let pages = group.get_column_page_reader(at).map_err(|error| unreadable(path, &error))?;
    let pages = pages::Checked { pages, most_level: description.max_def_level() };
    let reader = get_column_reader(description.clone(), Box::new(pages));
    let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let ColumnReader::ByteArrayColumnReader(mut reader) = reader else {
        let kind = description.physical_type();
        let what = format!("column `{column}` of {} holds {kind}, not text", path.display());
        return Err(Stop::input(what, "name a column that holds paths, or images as binary"));
    };
    let (mut levels, mut values) = (Vec::new(), Vec::<ByteArray>::new());
    loop {
        levels.clear();
        values.clear();
        let nullable = description.max_def_level() > 0;
        let read = reader.read_records(ROWS.min(left), nullable.then_some(&mut levels), None, &mut values);
        let (rows, ..) = read.map_err(|error| unreadable(path, &error))?;
        left = left.saturating_sub(rows);
        if rows == 0 {
            return Ok(());
        }
        let mut values = values.iter();
        for row in 0..rows {
            *number += 1;
            let present = !nullable || levels.get(row) == Some(&description.max_def_level());
            match if present { values.next() } else { None } {
                None => each(*number, Err(format!("`{column}` is null in row {number}")))?,
                Some(value) if value.is_empty() => {
                    each(*number, Err(format!("`{column}` is empty in row {number}")))?;
                }
                Some(value) => each(*number, Ok(value.data()))?,
            }
        }
    }
}

fn lists(column: &str) -> Stop {
    Stop::input(format!("column `{column}` holds lists"), "name a column with one item a row")
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, Stop> {
    let file = File::open(path).map_err(Stop::io("open", path))?;
    SerializedFileReader::new(file).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &ParquetError) -> Stop {
    Stop::input(format!("cannot read {}: {error}", path.display()), "mend the table, or choose another")
}

/// The decoder panics on some damaged files; that is then this file's fault and not the end of the program.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, Stop>) -> Result<T, Stop> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Stop::input(
            format!("cannot read {}: it is damaged", path.display()),
            "mend the table, or choose another",
        ))
    })
}
