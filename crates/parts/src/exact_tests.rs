//! Whatever a model returns, in whatever order, split into parts and interrupted as it may be: read back it is what was returned, in one
//! schema that depends on the values alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use gpulane_model::Format;
use proptest::prelude::*;
use serde_json::value::RawValue;

use crate::block::{Data, Element};
use crate::sample::{add_items, open, parts, read_part};
use crate::writer::Step;
use crate::{Block, Column, Writer};

/// A value, whatever it is written as.
#[derive(Clone, Debug)]
enum Is {
    Null,
    Bool(bool),
    /// A whole number, by its digits: of any length.
    Int(String),
    Float(f64),
    Text(String),
    List(Vec<Is>),
    Dict(BTreeMap<String, Is>),
}

/// Whether what was read is what was given. A whole number may be read as the double that is equal to it; in JSON, NaN is null.
fn same(given: &Is, read: &Is, in_json: bool) -> bool {
    match (given, read) {
        (Is::Null, Is::Null) => true,
        (Is::Bool(one), Is::Bool(two)) => one == two,
        (Is::Int(one), Is::Int(two)) | (Is::Text(one), Is::Text(two)) => one == two,
        (Is::Int(one), Is::Float(two)) => format!("{two:.0}") == *one && two.fract() == 0.0,
        (Is::Float(one), Is::Null) => in_json && one.is_nan(),
        (Is::Float(one), Is::Float(two)) => one.to_bits() == two.to_bits() || (one.is_nan() && two.is_nan()),
        (Is::List(one), Is::List(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two, in_json))
        }
        (Is::Dict(one), Is::Dict(two)) => {
            one.keys().eq(two.keys()) && one.iter().all(|(key, one)| same(one, &two[key], in_json))
        }
        _ => false,
    }
}

/// What a JSON text says, read by another reader than the one that is tested.
fn said(text: &str) -> Is {
    match text.as_bytes()[0] {
        b'n' => Is::Null,
        b't' | b'f' => Is::Bool(text == "true"),
        b'"' => Is::Text(serde_json::from_str(text).unwrap()),
        b'[' => {
            let list: Vec<&RawValue> = serde_json::from_str(text).unwrap();
            Is::List(list.into_iter().map(|value| said(value.get())).collect())
        }
        b'{' => {
            let dict: BTreeMap<String, &RawValue> = serde_json::from_str(text).unwrap();
            Is::Dict(dict.into_iter().map(|(key, value)| (key, said(value.get()))).collect())
        }
        _ if text.contains(['.', 'e', 'E']) => Is::Float(text.parse().unwrap()),
        _ => Is::Int(text.to_owned()),
    }
}

fn number(element: Element, bytes: &[u8]) -> Is {
    macro_rules! int {
        ($kind:ty) => {
            Is::Int(<$kind>::from_le_bytes(bytes.try_into().unwrap()).to_string())
        };
    }
    match element {
        Element::Bool => Is::Bool(bytes[0] == 1),
        Element::U8 => int!(u8),
        Element::I8 => int!(i8),
        Element::U16 => int!(u16),
        Element::I16 => int!(i16),
        Element::U32 => int!(u32),
        Element::I32 => int!(i32),
        Element::U64 => int!(u64),
        Element::I64 => int!(i64),
        Element::F32 => Is::Float(f32::from_le_bytes(bytes.try_into().unwrap()).into()),
        Element::F64 => Is::Float(f64::from_le_bytes(bytes.try_into().unwrap())),
    }
}

fn shaped(mut flat: Vec<Is>, shape: &[u32]) -> Is {
    for side in shape.iter().skip(1).rev() {
        flat = flat.chunks(*side as usize).map(|chunk| Is::List(chunk.to_vec())).collect();
    }
    if shape.is_empty() { flat.remove(0) } else { Is::List(flat) }
}

const ELEMENTS: [Element; 11] = [
    Element::F32,
    Element::F64,
    Element::I64,
    Element::I32,
    Element::U8,
    Element::Bool,
    Element::U16,
    Element::I16,
    Element::U32,
    Element::U64,
    Element::I8,
];

/// Bytes of a number that is likely to be at the edge of some type.
fn edge(element: Element, seed: u64) -> Vec<u8> {
    let ints = [0, 1, -1, 255, -128, 65_535, 1 << 24, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1];
    let int: i64 = match usize::try_from(seed % 14).unwrap() {
        11 => i64::MAX,
        12 => i64::MIN,
        13 => seed.cast_signed(),
        at => ints[at],
    };
    let floats = [0.0, -0.0, 0.1, 1.0, 1e-40, 3e38, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 16_777_217.0];
    let float = floats.get(usize::try_from(seed % 11).unwrap()).copied().unwrap_or(f64::from_bits(seed));
    match element {
        Element::Bool => vec![u8::from(seed % 2 == 1)],
        #[allow(clippy::cast_possible_truncation)] // any number of that type
        Element::F32 => (float as f32).to_le_bytes().to_vec(),
        Element::F64 => float.to_le_bytes().to_vec(),
        _ => int.to_le_bytes()[..element.width()].to_vec(),
    }
}

const TEXTS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-1",
    "7",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "1234567890123456789012345678901234567890",
    "0.1",
    "-0.0",
    "1.0",
    "1e300",
    "5e-324",
    "0.30000000000000004",
    "1e999",
    "-1e999",
    "\"a\"",
    "\"\"",
    "\"\\u0000\"",
    "\"é\\n\"",
    "\"null\"",
    "\"1\"",
    "\"\\ud83d\\ude00\"",
    "[]",
    "[1]",
    "[1,2]",
    "[1, 2, 3]",
    "[0.5]",
    "[1,2.5]",
    "[9007199254740993,0.5]",
    "[9007199254740993]",
    "[18446744073709551615]",
    "[-1,18446744073709551615]",
    "[36893488147419103232]",
    "[true,false]",
    "[true]",
    "[true,1]",
    "[\"a\"]",
    "[null]",
    "[[1,2],[3,4]]",
    "[[]]",
    "{}",
    "{\"a\":1e999}",
    "{\"a\":null,\"b\":[9007199254740993,0.1]}",
    "[1e999,0.5]",
    "{\"a\":\n1}",
];

/// Rows of one frame, and what they are.
#[derive(Clone, Debug)]
struct Batch {
    data: Data,
    given: Vec<Is>,
    /// A row that fails for another reason: what is in it has no say.
    refused: Option<usize>,
}

fn fixed() -> impl Strategy<Value = Batch> {
    let shapes = prop::sample::select(vec![vec![], vec![], vec![2], vec![3], vec![1], vec![2, 2], vec![4]]);
    (0..11_usize, shapes, prop::collection::vec(any::<u64>(), 1..20)).prop_map(|(element, shape, seeds)| {
        let (element, each) = (ELEMENTS[element], shape.iter().product::<u32>() as usize);
        let rows = (seeds.len() / each).clamp(1, 4);
        let numbers: Vec<Vec<u8>> =
            (0..rows * each).map(|at| edge(element, seeds[at % seeds.len()])).collect();
        let nulls: Vec<usize> = (0..rows).filter(|row| seeds[row % seeds.len()] % 5 == 4).collect();
        let row = |(row, numbers): (usize, &[Vec<u8>])| {
            let flat = numbers.iter().map(|bytes| number(element, bytes)).collect();
            if nulls.contains(&row) { Is::Null } else { shaped(flat, &shape) }
        };
        let given = numbers.chunks(each).enumerate().map(row).collect();
        Batch {
            data: Data::Fixed { element, shape, bytes: numbers.concat().into(), nulls },
            given,
            refused: None,
        }
    })
}

fn lists() -> impl Strategy<Value = Batch> {
    (0..11_usize, prop::collection::vec(prop::collection::vec(any::<u64>(), 0..4), 1..4)).prop_map(
        |(element, rows)| {
            let element = ELEMENTS[element];
            let rows: Vec<Vec<Vec<u8>>> =
                rows.iter().map(|row| row.iter().map(|seed| edge(element, *seed)).collect()).collect();
            let given =
                rows.iter().map(|row| Is::List(row.iter().map(|bytes| number(element, bytes)).collect()));
            let given = given.collect();
            let mut end = 0;
            let ends = rows.iter().map(|row| {
                end += row.len() * element.width();
                end
            });
            let ends = ends.collect();
            Batch {
                data: Data::Lists { element, ends, bytes: rows.concat().concat().into(), nulls: Vec::new() },
                given,
                refused: None,
            }
        },
    )
}

fn texts() -> impl Strategy<Value = Batch> {
    prop::collection::vec(0..=TEXTS.len(), 1..5).prop_map(|chosen| {
        let text = |at: &usize| TEXTS.get(*at).copied().unwrap_or("NaN");
        let is = |text: &str| if text == "NaN" { Is::Float(f64::NAN) } else { said(text) };
        let given = chosen.iter().map(|at| is(text(at))).collect();
        Batch { data: Data::Json(chosen.iter().map(|at| text(at).into()).collect()), given, refused: None }
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    let batch = prop_oneof![3 => fixed(), 1 => lists(), 3 => texts()];
    (batch, 0..12_usize).prop_map(|(batch, refused)| {
        let refused = Some(refused).filter(|row| *row < batch.given.len());
        Batch { refused, ..batch }
    })
}

/// What happens after a batch was added.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Commit,
    /// Everything ends in the middle of a commit.
    Crash(usize),
    /// A map that was stopped when all there was had been done, and goes on with more.
    MakeAlike,
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        3 => Just(Then::Nothing),
        3 => Just(Then::Commit),
        2 => (0..4_usize).prop_map(Then::Crash),
        1 => Just(Then::MakeAlike),
    ]
}

const STEPS: [Step; 4] = [Step::PartWritten, Step::FailuresWritten, Step::LineWritten, Step::PartNamed];
const RENEWAL: [Step; 3] = [Step::RenewalWritten, Step::RenewalRecorded, Step::RenewalNamed];

fn stop_at(writer: &mut Writer, step: Step) {
    writer.hook =
        Some(Box::new(move |at| if at == step { Err(std::io::ErrorKind::Other.into()) } else { Ok(()) }));
}

/// Writes the batches in this order, with what happens in between, until all are settled.
fn write(
    dir: &Path,
    format: Format,
    batches: &[Batch],
    order: &[usize],
    thens: &[Then],
    crash: usize,
) -> BTreeSet<u64> {
    let (mut writer, _) = open(dir, format);
    let mut failed = BTreeSet::new();
    let mut todo: Vec<usize> = order.iter().rev().copied().collect();
    let mut thens = thens.iter().copied().chain(std::iter::repeat(Then::Nothing));
    while let Some(at) = todo.pop() {
        let batch = &batches[at];
        let numbers: Vec<u64> = (0..batch.given.len() as u64).map(|row| at as u64 * 100 + row).collect();
        let column = Column { name: "x".to_owned(), data: batch.data.clone(), absent: Vec::new() };
        let block = Block {
            columns: vec![column],
            rows: numbers.len(),
            refused: batch.refused.map(|row| (row, "x".to_owned())).into_iter().collect(),
        };
        for (row, why) in add_items(&mut writer, &numbers, &block) {
            writer.fail(numbers[row], &numbers[row].to_string(), &why);
            failed.insert(numbers[row]);
        }
        match thens.next().unwrap() {
            Then::Nothing => {}
            Then::Commit => _ = writer.commit().unwrap(),
            Then::Crash(step) => {
                stop_at(&mut writer, STEPS[step]);
                let _ = writer.commit();
                drop(writer);
                writer = open(dir, format).0;
                todo = order
                    .iter()
                    .rev()
                    .copied()
                    .filter(|at| {
                        !(0..batches[*at].given.len()).any(|row| writer.has(*at as u64 * 100 + row as u64))
                    })
                    .collect();
            }
            Then::MakeAlike => {
                writer.commit().unwrap();
                writer.make_alike(&|| false).unwrap();
            }
        }
    }
    writer.commit().unwrap();
    stop_at(&mut writer, RENEWAL[crash]);
    let _ = writer.make_alike(&|| false);
    drop(writer);
    let (mut writer, _) = open(dir, format);
    writer.make_alike(&|| false).unwrap();
    failed
}

fn numbers_in(array: &ArrayRef) -> Vec<Is> {
    macro_rules! ints {
        ($kind:ident) => {
            array
                .as_primitive::<arrow_array::types::$kind>()
                .values()
                .iter()
                .map(|int| Is::Int(int.to_string()))
                .collect()
        };
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(Is::Bool).collect(),
        DataType::Int8 => ints!(Int8Type),
        DataType::Int16 => ints!(Int16Type),
        DataType::Int32 => ints!(Int32Type),
        DataType::Int64 => ints!(Int64Type),
        DataType::UInt8 => ints!(UInt8Type),
        DataType::UInt16 => ints!(UInt16Type),
        DataType::UInt32 => ints!(UInt32Type),
        DataType::UInt64 => ints!(UInt64Type),
        DataType::Float32 => {
            let floats = array.as_primitive::<arrow_array::types::Float32Type>();
            floats.values().iter().map(|float| Is::Float((*float).into())).collect()
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<arrow_array::types::Float64Type>();
            floats.values().iter().map(|float| Is::Float(*float)).collect()
        }
        other => panic!("{other}"),
    }
}

/// What a column of a part says in a row, and whether in JSON.
fn read(field: &Field, array: &ArrayRef, row: usize) -> (Is, bool) {
    if array.is_null(row) {
        return (Is::Null, false);
    }
    match array.data_type() {
        DataType::Utf8 if field.metadata().contains_key("json") => {
            (said(array.as_string::<i32>().value(row)), true)
        }
        DataType::Utf8 => (Is::Text(array.as_string::<i32>().value(row).to_owned()), false),
        DataType::List(_) => (Is::List(numbers_in(&array.as_list::<i32>().value(row))), false),
        DataType::FixedSizeList(..) => {
            let shape: Vec<u32> = serde_json::from_str(&field.metadata()["shape"]).unwrap();
            (shaped(numbers_in(&array.as_fixed_size_list().value(row)), &shape), false)
        }
        _ => (numbers_in(array).remove(row), false),
    }
}

fn rows_of(part: &RecordBatch) -> BTreeMap<u64, (Is, bool)> {
    let items = part.column(0).as_string::<i32>();
    let is = |row: usize| match part.schema().fields().get(1) {
        Some(field) => read(field, part.column(1), row),
        None => (Is::Null, false),
    };
    (0..part.num_rows()).map(|row| (items.value(row).parse().unwrap(), is(row))).collect()
}

/// The type of the column in all parts, and every value: as it was given.
fn check_parquet(dir: &Path, batches: &[Batch]) -> Result<Option<String>, TestCaseError> {
    let mut schemas = BTreeSet::new();
    let mut found = BTreeMap::new();
    for part in parts(dir) {
        let part = read_part(&dir.join(part));
        schemas.insert(part.schema().fields().get(1).map(|field| format!("{field:?}")));
        found.extend(rows_of(&part));
    }
    prop_assert!(schemas.len() < 2, "{:?}", schemas);
    let all: usize =
        batches.iter().map(|batch| batch.given.len() - usize::from(batch.refused.is_some())).sum();
    prop_assert_eq!(found.len(), all);
    for (at, batch) in batches.iter().enumerate() {
        for (row, given) in batch.given.iter().enumerate().filter(|(row, _)| batch.refused != Some(*row)) {
            let (read, in_json) = &found[&((at * 100 + row) as u64)];
            prop_assert!(same(given, read, *in_json), "{:?} was read as {:?}", given, read);
        }
    }
    Ok(schemas.pop_first().flatten())
}

fn has_infinity(is: &Is) -> bool {
    match is {
        Is::Float(float) => float.is_infinite(),
        Is::List(list) => list.iter().any(has_infinity),
        Is::Dict(dict) => dict.values().any(has_infinity),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn parts_hold_what_was_given_in_a_type_that_no_order_decides(
        batches in prop::collection::vec(batch(), 1..6),
        shuffle in any::<prop::sample::Index>(),
        thens in prop::collection::vec(then(), 0..10),
        others in prop::collection::vec(then(), 0..10),
        crash in 0..3_usize,
    ) {
        let order: Vec<usize> = (0..batches.len()).collect();
        let mut other = order.clone();
        other.rotate_left(shuffle.index(order.len()));
        other.reverse();
        let mut types = Vec::new();
        for (order, thens) in [(&order, &thens), (&other, &others)] {
            let temp = tempfile::tempdir().unwrap();
            let failed = write(temp.path(), Format::Parquet, &batches, order, thens, crash);
            let refused = batches.iter().filter(|batch| batch.refused.is_some()).count();
            prop_assert_eq!(failed.len(), refused, "nothing fails for its type");
            types.push(check_parquet(temp.path(), &batches)?);
        }
        prop_assert_eq!(&types[0], &types[1]);
    }

    #[test]
    fn lines_hold_what_was_given_but_for_infinity(
        batches in prop::collection::vec(batch(), 1..6),
        thens in prop::collection::vec(then(), 0..10),
    ) {
        let temp = tempfile::tempdir().unwrap();
        let order: Vec<usize> = (0..batches.len()).collect();
        let failed = write(temp.path(), Format::Jsonl, &batches, &order, &thens, 0);
        let mut found = BTreeMap::new();
        for part in parts(temp.path()) {
            for line in std::fs::read_to_string(temp.path().join(part)).unwrap().lines() {
                let Is::Dict(mut row) = said(line) else { panic!("{line}") };
                let Some(Is::Text(item)) = row.remove("item") else { panic!("{line}") };
                found.insert(item.parse::<u64>().unwrap(), row.remove("x").unwrap());
            }
        }
        for (at, batch) in batches.iter().enumerate() {
            for (row, given) in batch.given.iter().enumerate() {
                let number = (at * 100 + row) as u64;
                if has_infinity(given) || batch.refused == Some(row) {
                    prop_assert!(failed.contains(&number) && !found.contains_key(&number));
                } else {
                    prop_assert!(same(given, &found[&number], true), "{:?} was read as {:?}", given, found[&number]);
                }
            }
        }
    }
}
