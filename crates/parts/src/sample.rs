//! Blocks to write in tests, and readers of what was written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use arrow_array::RecordBatch;
use gpulane_model::Format;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use crate::{Block, Column, Data, Element, Settled, Writer};

pub(crate) fn open(dir: &Path, format: Format) -> (Writer, Settled) {
    Writer::open(dir, format, false).unwrap()
}

pub(crate) fn fixed(name: &str, element: Element, shape: &[u32], bytes: &[u8]) -> Column {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    Column {
        name: name.to_owned(),
        data: Data::Fixed { element, shape: shape.to_vec(), bytes, nulls: Vec::new() },
        absent: Vec::new(),
    }
}

pub(crate) fn values(name: &str, values: Value) -> Column {
    let Value::Array(values) = values else { panic!("a list") };
    let texts = values.iter().map(|value| value.to_string().into()).collect();
    Column { name: name.to_owned(), data: Data::Json(texts), absent: Vec::new() }
}

pub(crate) fn block(columns: Vec<Column>) -> Block {
    let rows = match &columns[0].data {
        Data::Json(values) => values.len(),
        Data::Lists { ends, .. } => ends.len(),
        Data::Fixed { element, shape, bytes, .. } => {
            bytes.len() / element.width() / shape.iter().product::<u32>() as usize
        }
    };
    Block { columns, rows, refused: Vec::new() }
}

/// A column `result` with these values.
pub(crate) fn results(list: Value) -> Block {
    block(vec![values("result", list)])
}

/// Adds rows for items numbered from `first` on, named after their numbers; what was refused.
pub(crate) fn add(writer: &mut Writer, first: u64, block: &Block) -> Vec<(usize, String)> {
    let numbers: Vec<u64> = (first..).take(block.rows).collect();
    add_items(writer, &numbers, block)
}

pub(crate) fn add_items(writer: &mut Writer, numbers: &[u64], block: &Block) -> Vec<(usize, String)> {
    let names: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let items: Vec<(u64, &str)> = numbers.iter().copied().zip(names.iter().map(String::as_str)).collect();
    writer.add(&items, block).unwrap()
}

/// Part files in order.
pub(crate) fn parts(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts: Vec<_> = names.filter(|name| name.starts_with("part-")).collect();
    parts.sort();
    parts
}

pub(crate) fn read_part(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    match batches.as_slice() {
        [] => RecordBatch::new_empty(schema),
        [batch] => batch.clone(),
        _ => panic!("more than a reader's batch"),
    }
}

/// How often each item stands in parts and in `failed.jsonl` together.
pub(crate) fn census(dir: &Path) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    let mut count = |name: &str| *seen.entry(name.to_owned()).or_insert(0) += 1;
    for part in parts(dir) {
        let path = dir.join(&part);
        if part.ends_with("jsonl") {
            for line in read_lines(&path) {
                count(line["item"].as_str().unwrap());
            }
        } else {
            let batch = read_part(&path);
            let items = batch.column_by_name("item").unwrap();
            let items = items.as_any().downcast_ref::<arrow_array::StringArray>().unwrap();
            items.iter().for_each(|item| count(item.unwrap()));
        }
    }
    for line in read_lines(&dir.join("failed.jsonl")) {
        count(line["item"].as_str().unwrap());
    }
    seen
}

pub(crate) fn read_lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Results for three rows with a number, a text and an array each.
pub(crate) fn three() -> Block {
    block(vec![
        values("score", json!([0.5, 1, null])),
        values("label", json!(["cat", null, "dog"])),
        fixed("embedding", Element::F32, &[2], &[0; 24]),
    ])
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
