//! Tables for tests: rows of data and path, written as Hugging Face datasets are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use gpulane_items::{Item, Place, Table};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// Data and path of a row.
pub(crate) type Row = (Option<Vec<u8>>, Option<&'static str>);

pub(crate) fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    let mut state = number as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// A table as Hugging Face datasets write it: `image: {bytes, path}`, in row groups of so many rows.
pub(crate) fn write(path: &Path, rows: &[Row], per_group: usize, properties: WriterPropertiesBuilder) {
    let schema = "message t { optional group image { optional binary bytes; optional binary path (UTF8); } }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(properties.build());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for rows in rows.chunks(per_group) {
        let mut group = writer.next_row_group().unwrap();
        let data = rows.iter().map(|row| row.0.clone().map(ByteArray::from)).collect::<Vec<_>>();
        let paths = rows.iter().map(|row| row.1.map(ByteArray::from)).collect::<Vec<_>>();
        for values in [data, paths] {
            let mut column = group.next_column().unwrap().unwrap();
            // A batch at a time: pages end between batches.
            for values in values.chunks(4) {
                let levels: Vec<i16> =
                    values.iter().map(|value| if value.is_some() { 2 } else { 1 }).collect();
                let values: Vec<ByteArray> = values.iter().flatten().cloned().collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
            }
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

pub(crate) fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false).set_data_page_size_limit(4000)
}

pub(crate) fn table(file: &Path) -> Table {
    let (data, path) = ("image.bytes".to_owned(), Some("image.path".to_owned()));
    Table { file: file.to_owned(), data, path }
}

pub(crate) fn items(rows: impl IntoIterator<Item = u64>) -> Vec<Item> {
    let item = |row| Item { number: row, name: format!("t/{row}"), place: Place::Row { table: 0, row } };
    rows.into_iter().map(item).collect()
}
