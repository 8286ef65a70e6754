//! Columns that hold the data of items rather than their paths: binary ones, and a struct with `bytes` and `path` as Hugging Face
//! datasets have it. Finds them and counts their rows; the data themselves are read by whoever decodes them.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use parquet::basic::{Compression, ConvertedType, Type};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::pages::Checked;
use super::{MOST_PAGE_ROWS, columns, guarded, lists, open, read_group, unreadable};
use crate::problem::Stop;
use crate::table::no_column;

/// A path that is longer is no file's, and no part of an item's name.
const LONGEST_PATH: u16 = 4096;

/// Takes a row's number, from 0, and the path in it.
pub(crate) type EachRow<'e> = dyn FnMut(u64, Option<&[u8]>) -> Result<(), Stop> + 'e;

/// Where the data of a table's items are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DataColumns {
    /// The leaf with the data.
    pub(crate) data: String,
    /// The leaf beside it with a path, for the items' names and for rows without data.
    pub(crate) path: Option<String>,
}

impl DataColumns {
    /// The columns a person means by `column`; `None`: it holds texts. `base`: where paths begin.
    pub(crate) fn of(path: &Path, column: &str, base: &Path) -> Result<Option<Self>, Stop> {
        guarded(path, || {
            let file = open(path)?;
            let schema = file.metadata().file_metadata().schema_descr();
            let leaf = |name: &str| schema.columns().iter().position(|each| each.path().string() == name);
            let of_struct = format!("{column}.bytes");
            let (data, at) = match (leaf(column), leaf(&of_struct)) {
                (Some(at), _) => (column.to_owned(), at),
                (None, Some(at)) => (of_struct, at),
                (None, None) if holds_lists(schema, column) => return Err(lists(column)),
                (None, None) => return Err(no_column(path, column, &columns(path)?)),
            };
            let description = schema.column(at);
            if !is_binary(&description) {
                return Ok(None);
            }
            if description.max_rep_level() > 0 {
                return Err(lists(column));
            }
            let codecs = file.metadata().row_groups().iter().map(|group| group.column(at).compression());
            if let Some(codec) = codecs.into_iter().find(|codec| !is_known(*codec)) {
                let codec = format!("{codec:?}");
                let codec = codec.split('(').next().unwrap_or_default();
                return Err(Stop::input(
                    format!(
                        "column `{data}` of {} is compressed by {codec}, which is not read here",
                        path.display()
                    ),
                    "write the table again with SNAPPY, ZSTD, GZIP, LZ4 or without compression",
                ));
            }
            let beside = data.strip_suffix(".bytes").map(|group| format!("{group}.path"));
            let beside = beside.filter(|name| {
                leaf(name).is_some_and(|at| {
                    let column = schema.column(at);
                    column.physical_type() == Type::BYTE_ARRAY && column.max_rep_level() == 0
                })
            });
            if beside.is_none() && holds_paths(&file, at, base) {
                return Ok(None);
            }
            Ok(Some(Self { data, path: beside }))
        })
    }

    /// Calls `each` with the number of every row, from 0, and the path in it.
    pub(crate) fn each_row(&self, path: &Path, each: &mut EachRow) -> Result<(), Stop> {
        guarded(path, || {
            let file = open(path)?;
            let schema = file.metadata().file_metadata().schema_descr();
            let beside = self.path.as_ref().and_then(|name| {
                let at = schema.columns().iter().position(|each| each.path().string() == *name)?;
                Some((name, at))
            });
            let groups = file.metadata().row_groups();
            let counted: i64 = groups.iter().map(RowGroupMetaData::num_rows).fold(0, i64::saturating_add);
            if counted != file.metadata().file_metadata().num_rows() {
                // Believed, one changed bit would make items of rows that are nowhere, without end.
                return Err(unreadable(path, &ParquetError::General("its counts of rows differ".to_owned())));
            }
            self.check_rows(path, &file)?;
            let mut row = 0;
            for group in 0..file.num_row_groups() {
                let group = file.get_row_group(group).map_err(|error| unreadable(path, &error))?;
                let end = row + u64::try_from(group.metadata().num_rows()).unwrap_or(0);
                if let Some((name, at)) = beside {
                    let read = guarded(path, || {
                        let mut number = row;
                        read_group(path, (name, at), &*group, &mut number, &mut |_, cell| {
                            let cell = cell.ok().filter(|path| path.len() <= LONGEST_PATH.into());
                            row += 1;
                            each(row - 1, cell)
                        })
                    });
                    // Where the paths are damaged, the data may be whole: these rows go by their number.
                    if let Err(stop) = read
                        && !matches!(stop, Stop::Input(..))
                    {
                        return Err(stop);
                    }
                }
                while row < end {
                    each(row, None)?;
                    row += 1;
                }
            }
            Ok(())
        })
    }
}

impl DataColumns {
    /// Refuses a table that says it has more rows than can be in it: each would become an item.
    fn check_rows(&self, path: &Path, file: &SerializedFileReader<File>) -> Result<(), Stop> {
        let refused = |what: String| Err(unreadable(path, &ParquetError::General(what)));
        let length = std::fs::metadata(path).map_err(Stop::io("look at", path))?.len();
        let rows = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(u64::MAX);
        if rows > length.saturating_add(MOST_PAGE_ROWS) {
            return refused(format!("it has {length} bytes, and says that these are {rows} rows"));
        }
        let schema = file.metadata().file_metadata().schema_descr();
        let Some(at) = schema.columns().iter().position(|each| each.path().string() == self.data) else {
            return Ok(());
        };
        for (number, group) in file.metadata().row_groups().iter().enumerate() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
            // A row takes a byte at least, but where many in a row are null or the same. Only then pages are asked.
            if rows <= group.column(at).byte_range().1 {
                continue;
            }
            let held = rows_of_pages(file, number, at).map_err(|error| unreadable(path, &error))?;
            if held < rows {
                return refused(format!("its row group {number} has pages with {held} of {rows} rows"));
            }
        }
        Ok(())
    }
}

/// How many rows the pages of a column say that they have.
fn rows_of_pages(
    file: &SerializedFileReader<File>,
    group: usize,
    column: usize,
) -> Result<u64, ParquetError> {
    let mut pages = file.get_row_group(group)?.get_column_page_reader(column)?;
    let mut rows = 0_u64;
    while let Some(page) = pages.peek_next_page()? {
        if !page.is_dict {
            let some = page.num_rows.or(page.num_levels).unwrap_or(0) as u64;
            rows = rows.saturating_add(some.min(MOST_PAGE_ROWS));
        }
        pages.skip_next_page()?;
    }
    Ok(rows)
}

/// Whether this program has the codec.
const fn is_known(codec: Compression) -> bool {
    matches!(
        codec,
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::LZ4
            | Compression::LZ4_RAW
            | Compression::ZSTD(_)
    )
}

/// Whether a column is one of lists, by its own name rather than that of what is in the lists.
fn holds_lists(schema: &SchemaDescriptor, column: &str) -> bool {
    schema.columns().iter().any(|leaf| {
        let within = leaf.path().string().strip_prefix(column).is_some_and(|rest| rest.starts_with('.'));
        within && leaf.max_rep_level() > 0
    })
}

/// Whether a column is of bytes that are not said to be text.
fn is_binary(column: &ColumnDescriptor) -> bool {
    column.physical_type() == Type::BYTE_ARRAY
        && column.logical_type_ref().is_none()
        && column.converted_type() == ConvertedType::NONE
}

/// Whether a binary column holds paths all the same, as some writers have it: its first value is one of a file that is there.
/// Only looked at where values are as short as paths.
fn holds_paths(file: &SerializedFileReader<File>, at: usize, base: &Path) -> bool {
    let Some(group) = file.metadata().row_groups().first() else { return false };
    let (bytes, rows) = (group.column(at).uncompressed_size(), group.num_rows());
    if rows == 0 || bytes / rows > LONGEST_PATH.into() {
        return false;
    }
    let first = || {
        let group = file.get_row_group(0).ok()?;
        let description = group.metadata().column(at).column_descr_ptr();
        let pages = group.get_column_page_reader(at).ok()?;
        let pages = Checked { pages, most_level: description.max_def_level() };
        let ColumnReader::ByteArrayColumnReader(mut reader) = get_column_reader(description, Box::new(pages))
        else {
            return None;
        };
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        while values.is_empty() {
            let (rows, ..) = reader.read_records(1, Some(&mut levels), None, &mut values).ok()?;
            if rows == 0 {
                return None;
            }
        }
        values.pop()
    };
    first().is_some_and(|value| {
        let bytes = value.data();
        !bytes.is_empty()
            && bytes.len() <= LONGEST_PATH.into()
            && base.join(OsString::from_vec(bytes.to_vec())).metadata().is_ok()
    })
}
