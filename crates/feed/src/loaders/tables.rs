//! Items whose data are in rows of Parquet tables: footers, page indexes and decoded pages, each made once for all threads that need it
//! and kept while items of it are in work.

mod cache;
mod chunk;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulane_items::Table;
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use cache::{Cache, Made};
use chunk::{Chunk, PageAt, Source};

/// Footers and page indexes that are kept beside those in use.
const IDLE: usize = 8;
/// Decoded pages that are kept beside those in use: the one before and those read ahead.
const IDLE_PAGES: usize = 4;

/// A column of a table, or of a row group of it, or a page of that.
type ChunkKey = (u32, usize, usize);
type PageKey = (u32, usize, usize, usize);

/// All tables of a map.
#[derive(Debug)]
pub(super) struct Tables {
    /// By their numbers.
    named: Vec<Table>,
    /// Where relative paths begin.
    base: PathBuf,
    footers: Cache<u32, Result<Opened, String>>,
    chunks: Cache<ChunkKey, Result<Chunk, String>>,
    pages: Cache<PageKey, Result<Rows, String>>,
}

/// A table that is open.
#[derive(Debug)]
struct Opened {
    source: Source,
    meta: ParquetMetaData,
    /// The first row of every row group, and the end.
    starts: Vec<u64>,
    /// Leaves by their numbers.
    data: usize,
    path: Option<usize>,
}

/// A decoded page.
#[derive(Debug)]
struct Rows {
    values: Vec<Option<ByteArray>>,
    /// What comes behind it has been asked for.
    ahead: AtomicBool,
}

type HeldRows<'t> = cache::Held<'t, PageKey, Result<Rows, String>>;

/// What a row has.
pub(super) enum Cell<'t> {
    /// The data.
    Data(Data<'t>),
    /// The path of a file that has them.
    Path(PathBuf),
}

/// Data in a page that stays decoded while this is held.
#[derive(Debug)]
pub(super) struct Data<'t> {
    rows: HeldRows<'t>,
    /// Which value of the page.
    at: usize,
}

impl Data<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        let values = self.rows.as_ref().map(|rows| rows.values.as_slice()).unwrap_or_default();
        values.get(self.at).and_then(Option::as_ref).map(ByteArray::data).unwrap_or_default()
    }

    /// How many rows of the page come after this one, unless what comes behind has been asked for.
    pub(super) fn rows_left(&self) -> Option<usize> {
        let rows = self.rows.as_ref().ok().filter(|rows| !rows.ahead.load(Ordering::Relaxed))?;
        Some(rows.values.len() - self.at - 1)
    }

    /// Whether this is the first to ask for what comes behind the page.
    pub(super) fn begin_ahead(&self) -> bool {
        self.rows.as_ref().is_ok_and(|rows| !rows.ahead.swap(true, Ordering::Relaxed))
    }
}

impl Tables {
    /// `budget`: the memory that decoded pages take together.
    pub(super) fn new(tables: Vec<Table>, base: PathBuf, budget: u64) -> Self {
        Self {
            named: tables,
            base,
            footers: Cache::new(u64::MAX, IDLE),
            chunks: Cache::new(u64::MAX, IDLE),
            pages: Cache::new(budget, IDLE_PAGES),
        }
    }

    /// What a row has; or why it has nothing, for a person.
    pub(super) fn fetch(&self, table: u32, row: u64) -> Result<Cell<'_>, String> {
        let (data, path) = {
            let opened = self.open(table);
            let opened = opened.as_ref().map_err(Clone::clone)?;
            (opened.data, opened.path)
        };
        let found = self.value(table, data, row)?;
        if let Ok(rows) = &*found.rows
            && rows.values.get(found.at).is_some_and(Option::is_some)
        {
            return Ok(Cell::Data(found));
        }
        drop(found);
        let name = &self.named(table)?.data;
        let Some(path) = path else { return Err(format!("`{name}` is null in row {row}")) };
        let found = self.value(table, path, row)?;
        let beside = self.named(table)?.path.as_deref().unwrap_or_default();
        match std::str::from_utf8(found.bytes()) {
            Ok("") => Err(format!("neither `{name}` nor `{beside}` has a value in row {row}")),
            Ok(path) => Ok(Cell::Path(self.base.join(path))),
            Err(_) => Err(format!("`{beside}` is not UTF-8 text in row {row}")),
        }
    }

    /// Decodes the page of a row that will be asked for, unless that is done or there is no memory for it now.
    pub(super) fn read_ahead(&self, table: u32, row: u64) {
        let opened = self.open(table);
        let Ok(opened) = opened.as_ref() else { return };
        let Some((group, within)) = opened.group_of(row) else { return };
        let chunk = self.chunk(opened, table, group, opened.data);
        let Ok(chunk) = chunk.as_ref() else { return };
        let Some(at) = chunk.page_of(within) else { return };
        let page = &chunk.pages[at];
        let cost = chunk.cost(page, opened.meta.row_group(group).column(opened.data).compression());
        let key = (table, group, opened.data, at);
        self.pages.make_ahead(key, cost, || opened.decode(chunk, group, opened.data, page));
    }

    /// The page with a value, decoded. Takes none of `pages` before it asks for that one.
    fn value(&self, table: u32, column: usize, row: u64) -> Result<Data<'_>, String> {
        let opened = self.open(table);
        let opened = opened.as_ref().map_err(Clone::clone)?;
        let Some((group, within)) = opened.group_of(row) else {
            let rows = opened.starts.last().copied().unwrap_or(0);
            return Err(format!(
                "the table has {rows} rows now, and this is row {row} from 0: it was changed"
            ));
        };
        let chunk = self.chunk(opened, table, group, column);
        let chunk = chunk.as_ref().map_err(Clone::clone)?;
        let Some(at) = chunk.page_of(within) else {
            let why = chunk.broken.as_deref().unwrap_or("no page has this row");
            return Err(format!("row group {group} of the table is damaged: {why}"));
        };
        let page = &chunk.pages[at];
        let cost = chunk.cost(page, opened.meta.row_group(group).column(column).compression());
        let key = (table, group, column, at);
        let rows = self.pages.get(key, cost, || opened.decode(chunk, group, column, page));
        if let Err(why) = &*rows {
            return Err(why.clone());
        }
        let at = usize::try_from(within - page.first).map_err(|error| error.to_string())?;
        Ok(Data { rows, at })
    }

    fn named(&self, table: u32) -> Result<&Table, String> {
        self.named.get(table as usize).ok_or_else(|| "its table is not known".to_owned())
    }

    fn open(&self, table: u32) -> cache::Held<'_, u32, Result<Opened, String>> {
        self.footers.get(table, 0, || {
            let opened = self.named(table).and_then(|named| {
                guarded(|| Opened::new(named))
                    .map_err(|error| format!("cannot read {}: {}", named.file.display(), words(&error)))
            });
            (opened, 0)
        })
    }

    fn chunk(
        &self,
        opened: &Opened,
        table: u32,
        group: usize,
        column: usize,
    ) -> cache::Held<'_, ChunkKey, Result<Chunk, String>> {
        self.chunks.get((table, group, column), 0, || {
            let meta = opened.meta.row_group(group).column(column);
            let rows = opened.starts[group + 1] - opened.starts[group];
            let chunk = guarded(|| Ok(Chunk::walk(&opened.source, meta, rows)));
            (chunk.map_err(|error| damaged(group, &error)), 0)
        })
    }
}

impl Opened {
    fn new(table: &Table) -> ParquetResult<Self> {
        let (file, _) = super::reading::open(&table.file).map_err(ParquetError::General)?;
        let meta = ParquetMetaDataReader::new().parse_and_finish(&file)?;
        let schema = meta.file_metadata().schema_descr();
        let leaf = |name: &str| schema.columns().iter().position(|each| each.path().string() == name);
        let missing = || ParquetError::General(format!("it has no column `{}` any more", table.data));
        let data = leaf(&table.data).ok_or_else(missing)?;
        let path = table.path.as_deref().and_then(leaf);
        let mut starts = vec![0_u64];
        for group in meta.row_groups() {
            let rows = u64::try_from(group.num_rows())?;
            starts.push(starts[starts.len() - 1].saturating_add(rows));
        }
        Ok(Self { source: Source::new(file)?, meta, starts, data, path })
    }

    /// The row group of a row, and which row of it.
    fn group_of(&self, row: u64) -> Option<(usize, u64)> {
        // The last that begins at or before it: empty groups begin where the next one does.
        let group = self.starts.partition_point(|start| *start <= row).checked_sub(1)?;
        (group + 1 < self.starts.len()).then(|| (group, row - self.starts[group]))
    }

    fn decode(
        &self,
        chunk: &Chunk,
        group: usize,
        column: usize,
        page: &PageAt,
    ) -> Made<Result<Rows, String>> {
        let decoded = guarded(|| {
            let meta = self.meta.row_group(group).column(column);
            let read = chunk.read(&self.source, meta, page)?;
            let kept = read.kept(page.rows);
            let description = meta.column_descr_ptr();
            let most = description.max_def_level();
            let ColumnReader::ByteArrayColumnReader(mut reader) =
                get_column_reader(description, Box::new(read))
            else {
                return Err(ParquetError::General("the column holds no bytes any more".to_owned()));
            };
            let rows = usize::try_from(page.rows)?;
            let (mut levels, mut values) = (Vec::new(), Vec::with_capacity(rows));
            let levels_to = (most > 0).then_some(&mut levels);
            let (read, ..) = reader.read_records(rows, levels_to, None, &mut values)?;
            if read != rows {
                return Err(ParquetError::General(format!("a page has {read} of {rows} rows")));
            }
            let mut values = values.into_iter();
            let place = |row: usize| if most == 0 || levels[row] == most { values.next() } else { None };
            Ok((Rows { values: (0..rows).map(place).collect(), ahead: AtomicBool::new(false) }, kept))
        });
        match decoded {
            Ok((rows, kept)) => (Ok(rows), kept),
            Err(error) => (Err(damaged(group, &error)), 0),
        }
    }
}

fn damaged(group: usize, error: &ParquetError) -> String {
    format!("a page in row group {group} of the table is damaged: {}", words(error))
}

/// The reader's words without its kinds of errors.
fn words(error: &ParquetError) -> String {
    match error {
        ParquetError::General(text) | ParquetError::EOF(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The reader panics on some damaged files; then it is the page's fault.
fn guarded<T>(work: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::ByteArrayType;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn a_value_of_a_dictionary_is_in_memory_once_however_many_rows_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.parquet");
        let schema = Arc::new(parse_message_type("message t { required binary raw; }").unwrap());
        let created = std::fs::File::create(&file).unwrap();
        let mut writer = SerializedFileWriter::new(created, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values = vec![ByteArray::from(vec![7; 100_000]); 3000];
        column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        let named = Table { file, data: "raw".to_owned(), path: None };
        let tables = Tables::new(vec![named], PathBuf::new(), 64 << 20);
        let place = |row| match tables.fetch(0, row) {
            Ok(Cell::Data(data)) => (data.bytes().as_ptr() as usize, data.bytes().len()),
            _ => panic!("row {row}"),
        };
        assert_eq!(place(0).1, 100_000);
        assert_eq!(place(0), place(2999));
    }
}
