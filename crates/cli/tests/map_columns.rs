//! Parquet parts of a finished map, as another program would read them: one schema in all of them, every item once. And JSON lines, of which each
//! has the keys of its own result.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

use gpulane_testkit::{Gpulane, wait_until};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// `late` has no value in the first 500 items, and `pair` none but in the last. The vector makes parts that take a while to write.
const MODEL: &str = r#"
import time
import gpulane

VECTOR = [0.5] * 2048

class Model(gpulane.Model):
    decode = "value"
    batch = 16

    def predict_batch(self, batch):
        time.sleep(0.05)
        numbers = [int(item) for item in batch]
        return [{"late": "yes" if number >= 500 else None, "pair": [1.5, 2.5] if number == 799 else None, "number": number, "vector": VECTOR}
                for number in numbers]
"#;

fn start(gpulane: &Gpulane) -> gpulane_testkit::Live {
    gpulane.workspace.file("model.py", MODEL);
    let items: Vec<String> = (0..800).map(|number| format!("{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
    let args = [
        "map",
        "model.py:Model",
        "@items.txt",
        "--out",
        "r",
        "--gpus",
        "none",
        "--workers",
        "1",
        "--decode",
        "value",
    ];
    gpulane.spawn(&args)
}

fn parts(gpulane: &Gpulane) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(gpulane.dir()).unwrap().flatten().map(|entry| entry.path());
    let mut parts: Vec<PathBuf> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("part-")).collect();
    parts.sort();
    parts
}

/// Reads all parts: their columns are the same and every item is there once, with its own number.
fn assert_one_schema(gpulane: &Gpulane) {
    let parts = parts(gpulane);
    assert!(parts.len() > 2, "{parts:?}");
    let mut schemas = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut rows = 0;
    for part in &parts {
        let reader = SerializedFileReader::new(File::open(part).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        schemas.insert(format!("{schema:?}"));
        let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["item", "number", "vector", "late", "pair"], "{}", part.display());
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            assert_eq!(row.get_string(0).unwrap(), &row.get_long(1).unwrap().to_string());
            seen.insert(row.get_string(0).unwrap().clone());
            rows += 1;
        }
    }
    assert_eq!(schemas.len(), 1, "{schemas:#?}");
    assert_eq!((rows, seen.len()), (800, 800));
}

#[test]
fn columns_that_are_empty_at_first_are_in_every_part_at_the_end() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let finished = start(&gpulane).wait();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_one_schema(&gpulane);
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);
}

#[test]
fn a_feeder_killed_while_it_adds_columns_loses_nothing() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let live = start(&gpulane);
    gpulane.wait_for_events("batch_committed", 1);
    let processes = gpulane_testkit::tagged(&gpulane.dir());
    let feeder = processes.iter().find(|process| process.command.starts_with("lane-feeder")).unwrap();
    let feeder = pidfd_open(Pid::from_raw(feeder.pid).unwrap(), PidfdFlags::empty()).unwrap();
    let ledger = || std::fs::read_to_string(gpulane.dir().join("commits.jsonl")).unwrap_or_default();
    wait_until("a part is written anew", || ledger().contains("\"renewed\""));
    // If it has ended by now, there was nothing left to lose.
    let _ = pidfd_send_signal(&feeder, Signal::KILL);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_one_schema(&gpulane);
    gpulane.assert_nothing_left();
}

#[test]
fn a_row_has_the_keys_its_result_had_whatever_shared_its_batch() {
    let answers = [
        "{'a': 1}",
        "{'b': None, 'c': 'x'}",
        "None",
        "{}",
        "{'a': None}",
        "{'c': [1]}",
        "{'a': 2}",
        "{'b': 5}",
    ];
    let model = format!(
        "ANSWERS = [{}]\n\n\ndef Model(batch):\n    return [ANSWERS[int(item)] for item in batch]\n",
        answers.join(", ")
    );
    let items: Vec<String> = (0..answers.len()).map(|number| format!("{number}\n")).collect();
    for batch in ["1", "4"] {
        let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
        gpulane.workspace.file("items.txt", &items.concat());
        let settings = ["--decode", "value", "--workers", "1", "--batch", batch];
        let finished = gpulane.map(&model, &["@items.txt"], &settings);
        assert_eq!(finished.code, 0, "{finished:?}");
        let rows: Vec<String> = gpulane.rows().iter().map(ToString::to_string).collect();
        let expected = [
            r#"{"item":"0","a":1}"#,
            r#"{"item":"1","b":null,"c":"x"}"#,
            r#"{"item":"2","result":null}"#,
            r#"{"item":"3"}"#,
            r#"{"item":"4","a":null}"#,
            r#"{"item":"5","c":[1]}"#,
            r#"{"item":"6","a":2}"#,
            r#"{"item":"7","b":5}"#,
        ];
        let expected =
            expected.map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap().to_string());
        assert_eq!(rows, expected, "in batches of {batch}");
    }
}
