//! Results as Parquet: the part file's shape and settings.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

/// Columns of equal length as one table.
pub(crate) fn table(columns: Vec<(Field, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &RecordBatchOptions::new())
}

/// Writes a whole part.
pub(crate) fn write(out: &mut (impl Write + Send), batch: &RecordBatch) -> io::Result<()> {
    encode(out, batch).map_err(|error| match error {
        // The system's own answer, so that a full disk is still known as one.
        ParquetError::External(inner) => inner.downcast().map_or_else(io::Error::other, |inner| *inner),
        other => io::Error::other(other),
    })
}

fn encode(out: &mut (impl Write + Send), batch: &RecordBatch) -> Result<(), ParquetError> {
    // Snappy: read everywhere, and hardly any of the time that belongs to decoding images.
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("gpulane ", env!("CARGO_PKG_VERSION")).to_owned());
    for field in batch.schema().fields() {
        if let Some(path) = never_repeats(field) {
            properties = properties.set_column_dictionary_enabled(path, false);
        }
    }
    let mut writer = ArrowWriter::try_new(out, batch.schema(), Some(properties.build()))?;
    writer.write(batch)?;
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
