//! Columns that were empty at first: in the end every part has them, and a process that ends in between loses and doubles nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use gpulane_model::Format;
use serde_json::{Value, json};

use crate::sample::{add, block, census, copy_dir, open, parts, read_part, values};
use crate::writer::Step;
use crate::{Block, Element, Writer};

fn rows(late: &Value, later: &Value) -> Block {
    block(vec![
        values("first", json!([1, 2])),
        values("late", late.clone()),
        values("later", later.clone()),
        crate::sample::fixed("vector", Element::F32, &[2], &[0; 16]),
    ])
}

/// Three parts; the first has one column less than the second, and that one less than the third.
fn uneven(dir: &Path) -> Writer {
    let (mut writer, _) = open(dir, Format::Parquet);
    add(&mut writer, 0, &rows(&json!([null, null]), &json!([null, null])));
    writer.commit().unwrap();
    add(&mut writer, 2, &rows(&json!([null, null]), &json!([[1.5], null])));
    writer.commit().unwrap();
    add(&mut writer, 4, &rows(&json!(["text", null]), &json!([null, null])));
    writer.fail(6, "6", "broken");
    writer.commit().unwrap();
    writer
}

fn schemas(dir: &Path) -> Vec<SchemaRef> {
    parts(dir).iter().map(|part| read_part(&dir.join(part)).schema()).collect()
}

fn columns(schema: &SchemaRef) -> Vec<&str> {
    schema.fields().iter().map(|field| field.name().as_str()).collect()
}

/// All parts have the schema of the last, and every item is there once.
fn assert_alike(dir: &Path) {
    let schemas = schemas(dir);
    assert_eq!(columns(&schemas[0]), ["item", "first", "vector", "later", "late"]);
    assert!(schemas.iter().all(|schema| *schema == schemas[0]), "{schemas:?}");
    assert_once(dir);
}

fn assert_once(dir: &Path) {
    let census = census(dir);
    assert_eq!(census.len(), 7);
    assert!(census.values().all(|count| *count == 1), "{census:?}");
}

#[test]
fn every_part_has_the_columns_in_the_end_and_keeps_its_values() {
    let temp = tempfile::tempdir().unwrap();
    let mut writer = uneven(temp.path());
    let before: Vec<_> = parts(temp.path()).iter().map(|part| read_part(&temp.path().join(part))).collect();
    assert_eq!(columns(&before[0].schema()), ["item", "first", "vector"]);
    assert_eq!(writer.make_alike(&|| false).unwrap(), 2);
    assert_alike(temp.path());
    for (part, before) in parts(temp.path()).iter().zip(&before) {
        let now = read_part(&temp.path().join(part));
        assert_eq!(&now.columns()[..before.num_columns()], before.columns(), "{part}");
        assert!(
            now.columns()[before.num_columns()..].iter().all(|column| column.null_count() == column.len())
        );
    }
    assert_eq!(writer.make_alike(&|| false).unwrap(), 0, "once is enough");
    let (mut writer, settled) = open(temp.path(), Format::Parquet);
    assert_eq!((settled.rows, settled.failures), (6, 1));
    assert_eq!(writer.make_alike(&|| false).unwrap(), 0, "also for the next process");
}

#[test]
fn a_process_that_ends_between_any_two_steps_loses_and_doubles_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("out");
    let mut writer = uneven(&dir);
    let copies: Arc<Mutex<Vec<(Step, PathBuf)>>> = Arc::default();
    let (from, root, made) = (dir.clone(), temp.path().to_owned(), Arc::clone(&copies));
    writer.hook = Some(Box::new(move |step| {
        let mut made = made.lock().unwrap();
        let to = root.join(made.len().to_string());
        copy_dir(&from, &to);
        made.push((step, to));
        Ok(())
    }));
    writer.make_alike(&|| false).unwrap();
    let copies = copies.lock().unwrap().clone();
    let steps: Vec<Step> = copies.iter().map(|(step, _)| *step).collect();
    let each = [Step::RenewalWritten, Step::RenewalRecorded, Step::RenewalNamed];
    assert_eq!(steps, [each, each].concat());
    for (step, copy) in copies {
        assert_once(&copy);
        let (mut writer, settled) = open(&copy, Format::Parquet);
        assert_eq!((settled.rows, settled.failures), (6, 1), "{step:?}");
        assert_once(&copy);
        writer.make_alike(&|| false).unwrap();
        assert_alike(&copy);
        let hidden = std::fs::read_dir(&copy).unwrap().flatten().map(|entry| entry.file_name());
        assert!(hidden.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "{step:?}");
    }
}

#[test]
fn a_renewal_cut_short_on_the_disk_is_forgotten() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    drop(uneven(dir));
    // Everything ended while it was being written.
    std::fs::write(dir.join(".part-00000.parquet.4.tmp"), b"PAR1 and no more").unwrap();
    let (mut writer, _) = open(dir, Format::Parquet);
    assert!(!dir.join(".part-00000.parquet.4.tmp").exists());
    assert_once(dir);
    writer.make_alike(&|| false).unwrap();
    assert_alike(dir);
}

#[test]
fn a_step_that_fails_is_tried_again_from_where_it_was() {
    for step in [Step::RenewalWritten, Step::RenewalRecorded, Step::RenewalNamed] {
        let temp = tempfile::tempdir().unwrap();
        let mut writer = uneven(temp.path());
        writer.hook =
            Some(Box::new(
                move |at| if at == step { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) },
            ));
        writer.make_alike(&|| false).unwrap_err();
        assert_once(temp.path());
        writer.hook = None;
        writer.make_alike(&|| false).unwrap();
        assert_alike(temp.path());
        drop(writer);
        assert_eq!(open(temp.path(), Format::Parquet).1.rows, 6);
    }
}

#[test]
fn a_part_with_other_columns_is_left_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let mut writer = uneven(temp.path());
    // As if somebody had put another file in its place.
    let (first, other) = (temp.path().join("part-00000.parquet"), tempfile::tempdir().unwrap());
    let (mut stranger, _) = open(other.path(), Format::Parquet);
    add(&mut stranger, 0, &block(vec![values("mine", json!([1, 2])), values("yours", json!([1, 2]))]));
    stranger.commit().unwrap();
    std::fs::copy(other.path().join("part-00000.parquet"), &first).unwrap();
    let before = std::fs::read(&first).unwrap();
    let error = writer.make_alike(&|| false).unwrap_err().to_string();
    assert!(error.contains("its columns are not those"), "{error}");
    assert_eq!(std::fs::read(&first).unwrap(), before);
}

#[test]
fn it_stops_between_parts_when_told() {
    let temp = tempfile::tempdir().unwrap();
    let mut writer = uneven(temp.path());
    assert_eq!(writer.make_alike(&|| true).unwrap(), 0);
    assert_once(temp.path());
    add(&mut writer, 7, &rows(&json!([null, "x"]), &json!([null, null])));
    writer.commit().unwrap();
    assert_eq!(writer.make_alike(&|| false).unwrap(), 2, "the later part has them already");
}
