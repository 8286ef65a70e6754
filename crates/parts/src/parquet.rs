//! Results as Parquet: the part file's shape and settings.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::builder::Builder;
use crate::convert::convert;
use crate::kind::Kind;
use crate::pending::Named;

/// Columns of equal length as one table.
pub(crate) fn table(columns: Vec<(Field, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &RecordBatchOptions::new())
}

/// Writes a whole part.
pub(crate) fn write(out: &mut (impl Write + Send), batch: &RecordBatch) -> io::Result<()> {
    encode(out, &batch.schema(), std::iter::once(Ok(batch.clone()))).map_err(plain)
}

/// Writes a part anew with these columns. It has the first of them, some as a narrower type; the others are empty in it.
pub(crate) fn widen(out: &mut (impl Write + Send), part: File, columns: &[Named]) -> io::Result<()> {
    let schema = Arc::new(Schema::new(fields(columns).map_err(io::Error::other)?));
    let reader = ParquetRecordBatchReaderBuilder::try_new(part)
        .and_then(|part| {
            let rows = rows_at_once(part.metadata());
            part.with_batch_size(rows).build()
        })
        .map_err(plain)?;
    let batches = reader.map(|batch| {
        let batch = batch?;
        // Columns by their place: those of a part are the first ones of the map. Types alone would not tell them apart.
        let names = batch.schema_ref().fields().iter().map(|field| field.name());
        if !names.eq(schema.fields().iter().take(batch.num_columns()).map(|field| field.name())) {
            let what = "its columns are not those that were committed".to_owned();
            return Err(ParquetError::General(what));
        }
        let has = converted(columns, &schema, &batch)?;
        let missing = empty_after(columns, &batch)?;
        Ok(RecordBatch::try_new(Arc::clone(&schema), has.into_iter().chain(missing).collect())?)
    });
    encode(out, &schema, batches).map_err(plain)
}

/// The columns a batch has, as these types.
fn converted(columns: &[Named], schema: &Schema, batch: &RecordBatch) -> Result<Vec<ArrayRef>, ArrowError> {
    let (had, arrays) = (batch.schema_ref().fields(), batch.columns());
    let kinds = std::iter::once(&Kind::Text).chain(columns.iter().map(|(_, column)| &column.kind));
    let all = had.iter().zip(arrays).zip(schema.fields()).zip(kinds);
    all.map(|(((had, array), has), kind)| {
        // Text and JSON text are both strings; the metadata tells them apart.
        if had.data_type() == has.data_type() && had.metadata() == has.metadata() {
            return Ok(Arc::clone(array));
        }
        Ok(convert(had, array, kind)?.finish(has.name())?.1)
    })
    .collect()
}

/// Rows that are copied at once: JSON text of large arrays takes several times what they take.
fn rows_at_once(metadata: &ParquetMetaData) -> usize {
    const ROWS: usize = 1 << 14;
    const BYTES: u64 = 32 << 20;
    let groups = metadata.row_groups().iter();
    let (bytes, rows) = groups.fold((0_u64, 1_u64), |(bytes, rows), group| {
        let more = |number: i64| u64::try_from(number).unwrap_or(0);
        (bytes + more(group.total_byte_size()), rows + more(group.num_rows()))
    });
    let few = BYTES / (bytes / rows).max(1);
    usize::try_from(few).unwrap_or(ROWS).clamp(1, ROWS)
}

/// `item` and these columns.
fn fields(columns: &[Named]) -> Result<Vec<Field>, ArrowError> {
    let item = Builder::new(Kind::Text, 0).finish("item")?.0.with_nullable(false);
    let others = columns.iter().map(|(name, kind)| Ok(Builder::new(kind.kind.clone(), 0).finish(name)?.0));
    std::iter::once(Ok(item)).chain(others).collect()
}

/// Empty values for the columns a batch does not have.
fn empty_after(columns: &[Named], batch: &RecordBatch) -> Result<Vec<ArrayRef>, ArrowError> {
    let missing = columns.get(batch.num_columns().saturating_sub(1)..).unwrap_or_default();
    let empty = |(name, kind): &Named| Builder::new(kind.kind.clone(), batch.num_rows()).finish(name);
    missing.iter().map(|column| Ok(empty(column)?.1)).collect()
}

fn plain(error: ParquetError) -> io::Error {
    match error {
        // The system's own answer, so that a full disk is still known as one.
        ParquetError::External(inner) => inner.downcast().map_or_else(io::Error::other, |inner| *inner),
        other => io::Error::other(other),
    }
}

fn encode(
    out: &mut (impl Write + Send),
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, ParquetError>>,
) -> Result<(), ParquetError> {
    // Snappy: read everywhere, and hardly any of the time that belongs to decoding images.
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("gpulane ", env!("CARGO_PKG_VERSION")).to_owned());
    for field in schema.fields() {
        if let Some(path) = never_repeats(field) {
            properties = properties.set_column_dictionary_enabled(path, false);
        }
    }
    let mut writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(properties.build()))?;
    for batch in batches {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// The column, if a dictionary of its values would only cost time: names, measurements, embeddings.
fn never_repeats(field: &Field) -> Option<ColumnPath> {
    let path = |parts: &[&str]| Some(ColumnPath::new(parts.iter().map(|part| (*part).to_owned()).collect()));
    match field.data_type() {
        DataType::Utf8 if field.name() == "item" => path(&["item"]),
        DataType::Float32 | DataType::Float64 => path(&[field.name()]),
        DataType::List(_) | DataType::FixedSizeList(..) => path(&[field.name(), "list", "item"]),
        _ => None,
    }
}
