//! What a value becomes in results: every line of the tables in `docs/map.md`, as it is written there, by a map with one item for each value.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use gpulane_testkit::Gpulane;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::value::RawValue;

/// A line of a table: what is returned for some items, and what that becomes; `None`: the item fails.
#[derive(Debug)]
struct Line {
    returned: Vec<String>,
    /// The column's type; absent where every item fails.
    kind: Option<String>,
    parquet: Vec<Option<String>>,
    json: Vec<Option<String>>,
}

/// Each piece of code in a cell, and `None` for each `fails`.
fn tokens(cell: &str) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for (at, piece) in cell.split('`').enumerate() {
        if at % 2 == 1 {
            found.push(Some(piece.to_owned()));
        } else {
            found.extend(
                piece.split_whitespace().filter(|word| word.trim_matches(':') == "fails").map(|_| None),
            );
        }
    }
    found
}

fn lines() -> Vec<Line> {
    let docs =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/map.md")).unwrap();
    let section = docs.split("### What a value becomes").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [returned, parquet, json] = cells[..] else { panic!("{row}") };
        let returned: Vec<String> =
            tokens(returned).into_iter().flatten().filter(|code| !is_aside(code)).collect();
        let (mut parquet, mut json) = (tokens(parquet), tokens(json));
        let kind = match parquet.first() {
            Some(None) => None,
            _ if row.contains("| JSON text `") => Some("JSON text".to_owned()),
            _ => parquet.remove(0),
        };
        // One word for all of them, and what is said beside the values.
        if kind.is_none() {
            parquet.resize(returned.len(), None);
        }
        if json.len() == 1 && json[0].is_none() {
            json.resize(returned.len(), None);
        }
        parquet.truncate(returned.len());
        json.truncate(returned.len());
        assert_eq!((parquet.len(), json.len()), (returned.len(), returned.len()), "{row}");
        Line { returned, kind, parquet, json }
    })
    .collect()
}

/// A type that is named beside the values.
fn is_aside(code: &str) -> bool {
    code == "bfloat16"
}

/// The items are `LINE.VALUE`; each line has a column of its own.
fn model(lines: &[Line]) -> String {
    let returned: Vec<String> =
        lines.iter().map(|line| format!("    lambda: [{}],\n", line.returned.join(", "))).collect();
    format!(
        "from datetime import date\nfrom decimal import Decimal\nfrom pathlib import Path\nfrom uuid import UUID\n\
         try:\n    import numpy as np\nexcept ImportError:\n    np = None\nimport gpulane\n\nLINES = [\n{}]\n\n\
         class Model(gpulane.Model):\n    decode = 'value'\n    batch = BATCH\n\n    def predict_batch(self, batch):\n        \
         places = [item.split('.') for item in batch]\n        \
         return [{{f'line{{line}}': LINES[int(line)]()[int(value)]}} for line, value in places]\n",
        returned.concat()
    )
}

fn has_numpy() -> bool {
    let python = std::process::Command::new("python3").args(["-c", "import numpy"]).output();
    python.is_ok_and(|output| output.status.success())
}

/// Runs a map over every value of these lines.
fn run(lines: &[Line], format: &str, batch: &str) -> Gpulane {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let numpy = has_numpy();
    let items: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| numpy || !line.returned.iter().any(|code| code.contains("np.")))
        .flat_map(|(at, line)| (0..line.returned.len()).map(move |value| format!("{at}.{value}\n")))
        .collect();
    gpulane.workspace.file("items.txt", &items.concat());
    let model = model(lines).replace("BATCH", batch);
    gpulane.workspace.file("model.py", &model);
    let finished = gpulane.call(&args(format));
    assert_eq!(finished.code, 3, "{finished:?}");
    gpulane
}

fn args(format: &str) -> Vec<&str> {
    let plain = ["map", "model.py:Model", "@items.txt", "--out", "r", "--gpus", "none", "--decode", "value"];
    [&plain[..], &["--workers", "1", "--format", format]].concat()
}

fn name_of(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "bool".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::List(item) => format!("list<{}>", name_of(item.data_type())),
        DataType::FixedSizeList(item, size) => {
            format!("fixed_size_list<{}>[{size}]", name_of(item.data_type()))
        }
        other => other.to_string().to_lowercase(),
    }
}

fn value_in(array: &ArrayRef, row: usize) -> String {
    macro_rules! number {
        ($kind:ty) => {
            format!("{:?}", array.as_primitive::<$kind>().value(row))
        };
    }
    let list = |inner: ArrayRef| {
        let values: Vec<String> = (0..inner.len()).map(|at| value_in(&inner, at)).collect();
        format!("[{}]", values.join(", "))
    };
    if array.is_null(row) {
        return "null".to_owned();
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).to_string(),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::List(_) => list(array.as_list::<i32>().value(row)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(row)),
        other => panic!("{other}"),
    }
}

fn paths(gpulane: &Gpulane) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(gpulane.dir()).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("part-")).collect()
}

/// What stands in Parquet: for each item the type and the value of its line's column.
fn in_parquet(gpulane: &Gpulane) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for part in paths(gpulane) {
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(File::open(part).unwrap()).unwrap().build().unwrap();
        for batch in reader.map(Result::unwrap) {
            for row in 0..batch.num_rows() {
                let item = batch.column(0).as_string::<i32>().value(row).to_owned();
                let column = format!("line{}", item.split('.').next().unwrap());
                let schema = batch.schema();
                let field: &Field = schema.field_with_name(&column).unwrap();
                let json = field.metadata().get("json").is_some();
                let kind = if json { "JSON text".to_owned() } else { name_of(field.data_type()) };
                let value = value_in(batch.column_by_name(&column).unwrap(), row);
                found.insert(item, (kind, value));
            }
        }
    }
    found
}

fn in_lines(gpulane: &Gpulane) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in paths(gpulane) {
        for line in std::fs::read_to_string(part).unwrap().lines() {
            let row: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
            let item: String = serde_json::from_str(row["item"].get()).unwrap();
            let column = format!("line{}", item.split('.').next().unwrap());
            found.insert(item, row[&column].get().to_owned());
        }
    }
    found
}

/// Compares what was found with what the docs say of each item that was mapped.
fn check(
    lines: &[Line],
    failed: &[(String, String)],
    found: impl Fn(&Line, &str) -> Option<String>,
    said: impl Fn(&Line, usize) -> Option<String>,
) {
    let numpy = has_numpy();
    for (at, line) in lines.iter().enumerate() {
        if !numpy && line.returned.iter().any(|code| code.contains("np.")) {
            continue;
        }
        for (value, code) in line.returned.iter().enumerate() {
            let item = format!("{at}.{value}");
            let reason = failed.iter().find(|(name, _)| *name == item).map(|(_, reason)| reason);
            assert_eq!(found(line, &item), said(line, value), "`{code}` of {line:?}: {reason:?}");
            assert_eq!(reason.is_some(), said(line, value).is_none(), "`{code}` of {line:?}: {reason:?}");
        }
    }
}

#[test]
fn every_line_of_the_docs_holds_in_parquet() {
    let lines = lines();
    assert!(lines.len() > 40, "{}", lines.len());
    // All in one batch, and each by itself: who shares a batch makes no difference.
    for batch in ["256", "1"] {
        let gpulane = run(&lines, "parquet", batch);
        let found = in_parquet(&gpulane);
        let both = |line: &Line, value: &str| Some(format!("{} `{value}`", line.kind.as_deref()?));
        check(
            &lines,
            &gpulane.failed_items(),
            |_, item| found.get(item).map(|(kind, value)| format!("{kind} `{value}`")),
            |line, value| line.parquet[value].as_deref().and_then(|text| both(line, text)),
        );
    }
    if !has_numpy() {
        gpulane_testkit::skip(
            "every_line_of_the_docs_holds_in_parquet, lines with np.",
            "python3 has no NumPy",
        );
    }
}

#[test]
fn every_line_of_the_docs_holds_in_json_lines() {
    let lines = lines();
    for batch in ["256", "1"] {
        let gpulane = run(&lines, "jsonl", batch);
        let found = in_lines(&gpulane);
        check(
            &lines,
            &gpulane.failed_items(),
            |_, item| found.get(item).cloned(),
            |line, value| line.json[value].clone(),
        );
    }
}

/// The first half of the items is committed before the rest says that the column is wider, in a process of its own.
#[test]
fn a_column_that_turns_out_wider_after_an_interruption_is_exact_in_every_part() {
    const MODEL: &str = r#"
import time
import gpulane

class Model(gpulane.Model):
    decode = "value"
    batch = 8

    def predict_batch(self, batch):
        time.sleep(0.05)
        numbers = [int(item) for item in batch]
        return [{"n": 2**53 + number if number < 390 else 0.5, "short": number if number < 390 else 0.5, "v": [number] * (1 + (number > 390))} for number in numbers]
"#;
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let items: Vec<String> = (0..400).map(|number| format!("{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
    gpulane.workspace.file("model.py", MODEL);
    let live = gpulane.spawn(&args("parquet"));
    gpulane.wait_for_events("batch_committed", 1);
    live.signal(rustix::process::Signal::INT);
    assert_eq!(live.wait().code, 130);
    let finished = gpulane.call(&["resume", "r"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(finished.stderr.contains("result column `n` is JSON text"), "{finished:?}");
    let mut seen = BTreeMap::new();
    for part in paths(&gpulane) {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&part).unwrap()).unwrap();
        let fields = reader.schema().fields().clone();
        let kinds: Vec<String> = fields.iter().map(|field| name_of(field.data_type())).collect();
        assert_eq!(kinds, ["string", "string", "double", "list<int64>"], "{}", part.display());
        for batch in reader.build().unwrap().map(Result::unwrap) {
            let cells = |row| [0, 1, 2, 3].map(|column: usize| value_in(batch.column(column), row));
            seen.extend((0..batch.num_rows()).map(|row| (cells(row)[0].clone(), cells(row))));
        }
    }
    assert_eq!(seen.len(), 400);
    for number in 0..400_u64 {
        let whole = number < 390;
        let n = if whole { ((1_u64 << 53) + number).to_string() } else { "0.5".to_owned() };
        let short = if whole { format!("{number}.0") } else { "0.5".to_owned() };
        let v = if number > 390 { format!("[{number}, {number}]") } else { format!("[{number}]") };
        assert_eq!(seen[&number.to_string()], [number.to_string(), n, short, v]);
    }
}
