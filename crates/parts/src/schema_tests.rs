//! What results become in a part, and which rows are refused.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt8Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use gpulane_model::Format;
use serde_json::json;

use crate::sample::{add, block, fixed, open, read_lines, read_part, results, three, values};
use crate::{Block, Element, Writer};

/// One commit of these blocks, read back.
fn written(blocks: &[Block]) -> RecordBatch {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    for (at, block) in (0_u64..).step_by(100).zip(blocks) {
        assert_eq!(add(&mut writer, at, block), []);
    }
    let part = writer.commit().unwrap().unwrap().part.unwrap();
    read_part(&temp.path().join(part))
}

#[test]
fn scalars_texts_and_arrays_have_types_of_their_own() {
    let floats: Vec<u8> = [1_f32, 2., 3., 4., 5., 6.].iter().flat_map(|value| value.to_le_bytes()).collect();
    let table = written(&[block(vec![
        values("score", json!([0.5, 1, null])),
        values("count", json!([1, null, -3])),
        values("hash", json!([u64::MAX, 1, 2])),
        values("label", json!(["cat", null, "ö"])),
        values("ok", json!([true, false, null])),
        values("boxes", json!([[1, 2.5], [], null])),
        values("tags", json!([{"a": [1]}, ["x"], null])),
        fixed("embedding", Element::F32, &[2], &floats),
        fixed("class", Element::U8, &[], &[7, 8, 9]),
        fixed("mask", Element::Bool, &[1, 2], &[1, 0, 0, 0, 1, 1]),
    ])]);
    let column = |name: &str| table.column_by_name(name).unwrap().clone();
    let first = table.schema().field(0).clone();
    assert_eq!(
        (first.name().as_str(), first.data_type(), first.is_nullable()),
        ("item", &DataType::Utf8, false)
    );
    assert_eq!(column("item").as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["0", "1", "2"]);
    assert_eq!(
        column("score").as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
        [Some(0.5), Some(1.0), None]
    );
    assert_eq!(
        column("count").as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(1), None, Some(-3)]
    );
    assert_eq!(column("hash").as_primitive::<UInt64Type>().values()[0], u64::MAX);
    assert_eq!(column("label").as_string::<i32>().iter().collect::<Vec<_>>(), [Some("cat"), None, Some("ö")]);
    assert_eq!(column("ok").as_boolean().iter().collect::<Vec<_>>(), [Some(true), Some(false), None]);
    let boxes = column("boxes");
    let boxes = boxes.as_list::<i32>();
    assert_eq!(boxes.value(0).as_primitive::<Float64Type>().values(), &[1.0, 2.5]);
    assert_eq!((boxes.value(1).len(), boxes.is_null(2)), (0, true));
    assert_eq!(
        column("tags").as_string::<i32>().iter().collect::<Vec<_>>(),
        [Some("{\"a\":[1]}"), Some("[\"x\"]"), None]
    );
    let embedding = column("embedding");
    let embedding = embedding.as_fixed_size_list();
    assert_eq!(embedding.value_length(), 2);
    assert_eq!(embedding.value(1).as_primitive::<Float32Type>().values(), &[3.0, 4.0]);
    assert_eq!(column("class").as_primitive::<UInt8Type>().values(), &[7, 8, 9]);
    assert_eq!(
        column("mask").as_fixed_size_list().value(2).as_boolean().iter().collect::<Vec<_>>(),
        [Some(true); 2]
    );
    let schema = table.schema();
    let metadata = |name: &str, key: &str| schema.field_with_name(name).unwrap().metadata().get(key).cloned();
    assert_eq!(metadata("mask", "shape").as_deref(), Some("[1, 2]"));
    assert_eq!(metadata("tags", "json").as_deref(), Some("true"));
    assert_eq!(metadata("label", "json"), None);
}

#[test]
fn columns_come_and_go_and_are_null_where_they_are_not() {
    let table = written(&[
        results(json!(["a"])),
        block(vec![values("new", json!([1])), values("result", json!([null]))]),
        block(vec![values("new", json!([2]))]),
    ]);
    let names: Vec<_> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["item", "result", "new"]);
    assert_eq!(table.column(1).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None, None]);
    assert_eq!(
        table.column(2).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [None, Some(1), Some(2)]
    );
}

#[test]
fn later_parts_keep_the_columns_and_types_of_earlier_ones_across_openings() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    add(&mut writer, 0, &three());
    writer.commit().unwrap();
    drop(writer);
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    add(&mut writer, 10, &block(vec![values("more", json!(["x"])), values("score", json!([3]))]));
    writer.commit().unwrap();
    let (first, second) = ("part-00000.parquet", "part-00001.parquet");
    let fields =
        |part: &str| read_part(&temp.path().join(part)).schema().fields().iter().cloned().collect::<Vec<_>>();
    assert_eq!(fields(second)[..4], fields(first)[..]);
    assert_eq!(fields(second)[4].name(), "more");
    let score = read_part(&temp.path().join(second)).column(1).clone();
    assert_eq!(score.as_primitive::<Float64Type>().values(), &[3.0]);
}

/// Why the last value is refused after the first one was committed.
fn refusal(first: &Block, second: &Block) -> Option<String> {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    assert_eq!(add(&mut writer, 0, first), []);
    writer.commit().unwrap();
    let mut refused = add(&mut writer, 10, second);
    writer.commit().unwrap();
    assert!(refused.len() < 2);
    refused.pop().map(|(_, reason)| reason)
}

#[test]
fn values_of_another_type_are_refused_and_wider_ones_are_converted() {
    let json = |value| results(json!([value]));
    let f32s = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        block(vec![fixed("result", Element::F32, &[u32::try_from(values.len()).unwrap()], &bytes)])
    };
    let byte = |value: u8| block(vec![fixed("result", Element::U8, &[], &[value])]);
    for (first, second, word) in [
        (json(json!(0.5)), json(json!(1)), None),
        (json(json!(1)), json(json!(0.5)), Some("was a whole number (i64) in earlier items and is 0.5 here")),
        (json(json!(1)), json(json!("x")), Some("is text here; return one type")),
        (json(json!(0.5)), json(json!(true)), Some("was a number (f64) in earlier items and is true here")),
        (
            json(json!("x")),
            json(json!({"a": 1})),
            Some("was text (text) in earlier items and is a dict here"),
        ),
        (json(json!([1])), json(json!([1, 2])), None),
        (json(json!([1])), json(json!(["x"])), Some("a list of 1")),
        (json(json!({"a": 1})), json(json!("x")), None),
        (json(json!([])), json(json!(["x"])), None),
        (
            f32s(&[1.0, 2.0]),
            f32s(&[1.0, 2.0, 3.0]),
            Some("shape [2] (f32[2]) in earlier items and is an array of f32"),
        ),
        (f32s(&[1.0, 2.0]), json(json!([1, 2])), None),
        (f32s(&[1.0, 2.0]), json(json!([1])), Some("a list of 1")),
        (byte(3), json(json!(300)), Some("is 300 here")),
        (byte(3), json(json!(30)), None),
        (json(json!(null)), byte(3), None),
        (byte(3), json(json!(null)), None),
    ] {
        let told = format!("{first:?} then {second:?}");
        let refusal = refusal(&first, &second);
        match word {
            None => assert_eq!(refusal, None, "{told}"),
            Some(word) => {
                let told_why = refusal.as_ref().is_some_and(|why| why.contains(word));
                assert!(told_why, "{told}: {refusal:?}");
            }
        }
    }
}

#[test]
fn before_the_first_part_whole_numbers_may_still_become_numbers() {
    let table = written(&[results(json!([1, null])), results(json!([2.5]))]);
    let column = table.column(1).as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
    assert_eq!(column, [Some(1.0), None, Some(2.5)]);
}

#[test]
fn a_refused_row_leaves_the_others_and_its_item_open() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    let refused = add(
        &mut writer,
        0,
        &block(vec![values("a", json!([1, "x", 3])), fixed("b", Element::U8, &[], &[4, 5, 6])]),
    );
    assert_eq!(refused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1]);
    writer.fail(1, "1", &refused[0].1);
    let commit = writer.commit().unwrap().unwrap();
    assert_eq!((commit.rows, commit.failed), (2, 1));
    let table = read_part(&temp.path().join("part-00000.parquet"));
    assert_eq!(table.column_by_name("b").unwrap().as_primitive::<UInt8Type>().values(), &[4, 6]);
}

#[test]
fn item_is_not_a_name_for_results() {
    for format in [Format::Parquet, Format::Jsonl] {
        let temp = tempfile::tempdir().unwrap();
        let (mut writer, _) = open(temp.path(), format);
        let refused = add(&mut writer, 0, &block(vec![values("item", json!([1, 2]))]));
        assert_eq!(refused.len(), 2);
        assert!(refused[0].1.contains("another name"));
        assert_eq!(writer.commit().unwrap(), None);
    }
}

#[test]
fn a_column_per_item_is_refused_before_it_takes_all_memory() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    let many = (0..4097).map(|at| values(&format!("image_{at}"), json!([1]))).collect();
    let refused = add(&mut writer, 0, &block(many));
    assert!(refused[0].1.contains("same keys"), "{refused:?}");
}

#[test]
fn lines_hold_arrays_by_their_shape_and_null_for_what_is_no_number() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Jsonl);
    let floats: Vec<u8> =
        [0.1_f32, f32::NAN, 3.0, f32::INFINITY].iter().flat_map(|value| value.to_le_bytes()).collect();
    let rows = block(vec![fixed("a", Element::F32, &[2, 2], &floats), values("b", json!([{"x": null}]))]);
    assert_eq!(writer.add(&[(0, "with \"quotes\"\n")], &rows).unwrap(), []);
    // A type of its own for each row: lines do not mind.
    add(&mut writer, 1, &results(json!(["x", 1, [true]])));
    assert_eq!(writer.not_finite(), 2);
    let part = writer.commit().unwrap().unwrap().part.unwrap();
    let text = std::fs::read_to_string(temp.path().join(&part)).unwrap();
    assert!(
        text.starts_with(
            "{\"item\":\"with \\\"quotes\\\"\\n\",\"a\":[[0.1,null],[3.0,null]],\"b\":{\"x\":null}}\n"
        ),
        "{text}"
    );
    assert_eq!(
        read_lines(&temp.path().join(part))[1..],
        [
            json!({"item": "1", "result": "x"}),
            json!({"item": "2", "result": 1}),
            json!({"item": "3", "result": [true]})
        ]
    );
}

#[test]
fn what_waits_is_counted_in_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _): (Writer, _) = open(temp.path(), Format::Parquet);
    let rows = 1000;
    add(&mut writer, 0, &block(vec![fixed("e", Element::F32, &[256], &vec![0; rows * 1024])]));
    let pending = writer.pending();
    assert_eq!(pending.rows, 1000);
    assert!((1_024_000..1_100_000).contains(&pending.bytes), "{pending:?}");
    writer.commit().unwrap();
    assert_eq!(writer.pending().bytes, 0);
}
