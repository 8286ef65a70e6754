//! What results become in a part, and which rows are refused.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, UInt8Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use gpulane_model::Format;
use serde_json::json;

use crate::sample::{add, block, fixed, open, parts, read_lines, read_part, results, three, values};
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

/// The column's type in every part, after each of these blocks was committed by itself and all is done.
fn settled(blocks: &[Block]) -> String {
    let temp = tempfile::tempdir().unwrap();
    for (at, block) in (0_u64..).step_by(10).zip(blocks) {
        let (mut writer, _) = open(temp.path(), Format::Parquet);
        assert_eq!(add(&mut writer, at, block), []);
        writer.commit().unwrap();
    }
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    writer.make_alike(&|| false).unwrap();
    let types: Vec<_> = parts(temp.path())
        .iter()
        .map(|part| {
            let schema = read_part(&temp.path().join(part)).schema();
            let field = schema.field(1);
            let json = if field.metadata().contains_key("json") { " of JSON" } else { "" };
            format!("{}{json}", field.data_type())
        })
        .collect();
    assert!(types.iter().all(|kind| *kind == types[0]), "{types:?}");
    types[0].clone()
}

#[test]
fn a_column_has_the_narrowest_type_that_holds_all_of_it_in_either_order() {
    let json = |value| results(json!([value]));
    let f32s = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        block(vec![fixed("result", Element::F32, &[u32::try_from(values.len()).unwrap()], &bytes)])
    };
    let byte = |value: u8| block(vec![fixed("result", Element::U8, &[], &[value])]);
    let single = |value: f32| block(vec![fixed("result", Element::F32, &[], &value.to_le_bytes())]);
    for (one, two, kind) in [
        (json(json!(0.5)), json(json!(1)), "Float64"),
        (json(json!(9_007_199_254_740_993_i64)), json(json!(0.5)), "Utf8 of JSON"),
        (single(0.1), json(json!(0.1)), "Float64"),
        (single(0.1), single(0.2), "Float32"),
        (json(json!(1)), json(json!("x")), "Utf8 of JSON"),
        (json(json!(0.5)), json(json!(true)), "Utf8 of JSON"),
        (json(json!("x")), json(json!({"a": 1})), "Utf8 of JSON"),
        (json(json!([1])), json(json!([1, 2])), "List(Int64)"),
        (json(json!([1])), json(json!(["x"])), "Utf8 of JSON"),
        (json(json!([])), json(json!(["x"])), "Utf8 of JSON"),
        (json(json!([])), json(json!([0.5])), "List(Float64)"),
        (json(json!([])), json(json!([])), "Utf8 of JSON"),
        (f32s(&[1.0, 2.0]), f32s(&[1.0, 2.0, 3.0]), "List(Float32)"),
        (f32s(&[1.0, 2.0]), json(json!([1, 2])), "FixedSizeList(2 x Float64)"),
        (byte(3), json(json!(300)), "Int64"),
        (byte(3), json(json!(null)), "UInt8"),
        (json(json!(-1)), json(json!(u64::MAX)), "Utf8 of JSON"),
        (json(json!(1)), json(json!(u64::MAX)), "UInt64"),
    ] {
        let told = format!("{one:?} and {two:?}");
        assert_eq!(settled(&[one.clone(), two.clone()]), kind, "{told}");
        assert_eq!(settled(&[two, one]), kind, "{told}, the other way round");
    }
}

#[test]
fn one_float_among_whole_numbers_changes_none_of_them() {
    let large = 9_007_199_254_740_993_i64;
    let table = written(&[results(json!([large, null])), results(json!([2.5]))]);
    let column = table.column(1).as_string::<i32>().iter().collect::<Vec<_>>();
    assert_eq!(column, [Some("9007199254740993"), None, Some("2.5")]);
    let table = written(&[results(json!([1, null])), results(json!([2.5]))]);
    let column = table.column(1).as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
    assert_eq!(column, [Some(1.0), None, Some(2.5)]);
}

#[test]
fn a_column_that_becomes_json_is_told_once_with_the_item() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    add(&mut writer, 0, &results(json!([1, 2])));
    add(&mut writer, 2, &results(json!([3, "x"])));
    add(&mut writer, 4, &results(json!(["y", 4])));
    let notes = writer.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("`result` is JSON text")
            && notes[0].contains("a whole number in other items, text in 3")
    );
    assert_eq!(writer.notes(), Vec::<String>::new());
    add(&mut writer, 6, &block(vec![values("nested", json!([{"a": 1}]))]));
    assert_eq!(writer.notes(), Vec::<String>::new(), "nested values are JSON by themselves");
}

#[test]
fn a_ledger_from_before_types_had_ranges_is_read_as_if_numbers_were_large() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    add(&mut writer, 0, &results(json!([1])));
    writer.commit().unwrap();
    let ledger = std::fs::read_to_string(temp.path().join("commits.jsonl")).unwrap();
    assert!(ledger.contains("i64:0..2^53"), "{ledger}");
    let old = crate::kind::ColumnType::read("i64").unwrap();
    let float = crate::kind::ColumnType::read("f64").unwrap();
    assert_eq!(old.join(&float).write(), "json");
}

#[test]
fn a_refused_row_leaves_the_others_and_its_item_open() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    let body = b"[1,\"\\ud800\",3]\x04\x05\x06".to_vec();
    let columns =
        json!([{"name": "a", "type": "json", "bytes": 14}, {"name": "b", "type": "u8", "bytes": 3}]);
    let rows = Block::parse(&json!({"count": 3, "columns": columns}), body).unwrap();
    let refused = add(&mut writer, 0, &rows);
    assert_eq!(refused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [1]);
    assert!(refused[0].1.contains("column `a` has half a surrogate pair"), "{refused:?}");
    writer.fail(1, "1", &refused[0].1);
    let commit = writer.commit().unwrap().unwrap();
    assert_eq!((commit.rows, commit.failed), (2, 1));
    let table = read_part(&temp.path().join("part-00000.parquet"));
    assert_eq!(table.column_by_name("b").unwrap().as_primitive::<UInt8Type>().values(), &[4, 6]);
    assert_eq!(table.column_by_name("a").unwrap().as_primitive::<Int64Type>().values(), &[1, 3]);
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
        [0.1_f32, f32::NAN, 3.0, 0.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let rows = block(vec![fixed("a", Element::F32, &[2, 2], &floats), values("b", json!([{"x": null}]))]);
    assert_eq!(writer.add(&[(0, "with \"quotes\"\n")], &rows).unwrap(), []);
    // A type of its own for each row: lines do not mind.
    add(&mut writer, 1, &results(json!(["x", 1, [true]])));
    assert_eq!(writer.not_finite(), 1);
    let part = writer.commit().unwrap().unwrap().part.unwrap();
    let text = std::fs::read_to_string(temp.path().join(&part)).unwrap();
    // The digits of the double that the single is: 0.1 would be another number to whoever reads it.
    assert!(
        text.starts_with(
            "{\"item\":\"with \\\"quotes\\\"\\n\",\"a\":[[0.10000000149011612,null],[3.0,0.5]],\"b\":{\"x\":null}}\n"
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
fn infinity_fails_its_item_in_lines_and_leaves_no_trace() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Jsonl);
    let floats: Vec<u8> = [1.0_f64, f64::INFINITY].iter().flat_map(|value| value.to_le_bytes()).collect();
    let refused = add(&mut writer, 0, &block(vec![fixed("a", Element::F64, &[], &floats)]));
    assert!(
        matches!(&refused[..], [(1, why)] if why.contains("column `a` is infinite") && why.contains("parquet"))
    );
    let part = writer.commit().unwrap().unwrap().part.unwrap();
    assert_eq!(read_lines(&temp.path().join(part)), [json!({"item": "0", "a": 1.0})]);
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
