//! What one `results` frame holds: columns of rows, checked in every length before anything believes them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cell::Cell;
use crate::json;

pub use crate::element::Element;

/// Far above the rows of any batch; keeps a column of empty values from taking all memory.
const MOST_ROWS: u64 = 1 << 20;
/// Bytes of the text of arrays that hold nothing; no model returns as many.
const MOST_NOTHING: usize = 16 << 20;
/// More dimensions than any array of Python's has.
const MOST_DIMENSIONS: usize = 64;

/// The results of some items, a row each.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What the rows hold, in the order the worker named it.
    pub columns: Vec<Column>,
    /// How many items these are the results of.
    pub rows: usize,
    /// Rows whose results cannot be read, with the reason; the others can.
    pub refused: Vec<(usize, String)>,
}

/// One named thing the model said of each item.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// A dict's key, or `result`.
    pub name: String,
    /// Its values, one a row.
    pub data: Data,
    /// Rows whose result does not have this, in order; null stands in their place.
    pub absent: Vec<usize>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Numbers of one type and shape.
    Fixed {
        /// Of which type.
        element: Element,
        /// The shape of one row; empty: a scalar.
        shape: Vec<u32>,
        /// All rows, little-endian, back to back. Shares the frame's body: nothing was copied.
        bytes: Bytes,
        /// Rows without a value, in order. They take their bytes all the same.
        nulls: Vec<usize>,
    },
    /// Lists of numbers of one type, each as long as it likes.
    Lists {
        /// Of which type.
        element: Element,
        /// Where each row ends in `bytes`.
        ends: Vec<usize>,
        /// All rows, little-endian, back to back.
        bytes: Bytes,
        /// Rows without a value, in order.
        nulls: Vec<usize>,
    },
    /// Anything JSON can say, each value as its text; `NaN` where a row is not a number.
    Json(Vec<Box<str>>),
}

impl Data {
    /// The value in this row; null beyond the last.
    pub(crate) fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Self::Json(texts) => texts.get(row).map_or(Cell::Null, |text| json::read(text)),
            Self::Fixed { nulls, .. } | Self::Lists { nulls, .. } if nulls.binary_search(&row).is_ok() => {
                Cell::Null
            }
            Self::Fixed { element, shape, bytes, .. } => {
                let width = elements(shape).unwrap_or(0) * element.width();
                match bytes.get(row * width..(row + 1) * width) {
                    None => Cell::Null,
                    Some(bytes) if shape.is_empty() => Cell::of_element(*element, bytes),
                    Some(bytes) => {
                        Cell::Array { element: *element, shape: shape.into(), bytes: bytes.into() }
                    }
                }
            }
            Self::Lists { element, ends, bytes, .. } => {
                let start =
                    row.checked_sub(1).map_or(0, |before| ends.get(before).copied().unwrap_or(usize::MAX));
                match ends.get(row).and_then(|end| bytes.get(start..*end)) {
                    None => Cell::Null,
                    Some([]) => Cell::Empty,
                    Some(bytes) => {
                        let length = u32::try_from(bytes.len() / element.width()).unwrap_or(u32::MAX);
                        Cell::Array { element: *element, shape: vec![length].into(), bytes: bytes.into() }
                    }
                }
            }
        }
    }
}

impl Block {
    /// The block that a `results` frame's head and body describe, or what is wrong with them.
    pub fn parse(head: &Value, body: Vec<u8>) -> Result<Self, String> {
        let count = head["count"].as_u64().filter(|count| *count <= MOST_ROWS);
        let rows = count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| format!("`count` is {}, not a number of rows", head["count"]))?;
        let heads = head["columns"].as_array().ok_or("`columns` is missing, or no list")?;
        let mut body = Bytes::from(body);
        let mut columns: Vec<Column> = Vec::with_capacity(heads.len().min(1024));
        let mut refused = BTreeMap::new();
        for head in heads {
            let column = Column::parse(head, rows, &mut body, &mut refused)?;
            if columns.iter().any(|other| other.name == column.name) {
                return Err(format!("column `{}` comes twice", column.name));
            }
            columns.push(column);
        }
        if !body.is_empty() {
            return Err(format!("the body is {} bytes longer than its columns", body.len()));
        }
        Ok(Self { columns, rows, refused: refused.into_iter().collect() })
    }
}

impl Column {
    /// Takes this column's bytes off the front of the body.
    fn parse(head: &Value, rows: usize, body: &mut Bytes, refused: &mut Refused) -> Result<Self, String> {
        let name = head["name"].as_str().ok_or("a column has no `name`")?.to_owned();
        let bytes = head["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| *bytes <= body.len()).ok_or_else(|| {
            format!("column `{name}` says it has {} bytes, there are {}", head["bytes"], body.len())
        })?;
        let data = body.split_to(bytes);
        let kind = head["type"].as_str().unwrap_or_default();
        let data = if kind == "json" {
            let nan = row_list(&name, rows, &head["nan"])?;
            parse_json(&name, rows, &data, &nan, refused)?
        } else {
            let element = Element::parse(kind)
                .ok_or_else(|| format!("column `{name}` has the unknown type {}", head["type"]))?;
            let nulls = row_list(&name, rows, &head["nulls"])?;
            if head["ragged"] == Value::Bool(true) {
                parse_lists(&name, rows, element, data, nulls)?
            } else {
                parse_fixed(&name, rows, element, &head["shape"], data, nulls)?
            }
        };
        let absent = row_list(&name, rows, &head["absent"])?;
        Ok(Self { name, data, absent })
    }
}

/// Rows that cannot be read, with the reason.
type Refused = BTreeMap<usize, String>;

/// Numbers of rows, in order.
fn row_list(name: &str, rows: usize, list: &Value) -> Result<Vec<usize>, String> {
    let wrong = || format!("column `{name}` names rows that are not there: {list}");
    let list = match list {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err(wrong()),
    };
    let row =
        |value: &Value| value.as_u64().and_then(|row| usize::try_from(row).ok()).filter(|row| *row < rows);
    let mut found: Vec<usize> = list.iter().map(row).collect::<Option<_>>().ok_or_else(wrong)?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn parse_json(
    name: &str,
    rows: usize,
    data: &[u8],
    nan: &[usize],
    refused: &mut Refused,
) -> Result<Data, String> {
    let values: Vec<&RawValue> =
        serde_json::from_slice(data).map_err(|error| format!("column `{name}` is no JSON list: {error}"))?;
    if values.len() != rows {
        return Err(format!("column `{name}` has {} values for {rows} rows", values.len()));
    }
    let mut texts: Vec<Box<str>> = Vec::with_capacity(rows);
    for (row, value) in values.iter().enumerate() {
        if let Some(flaw) = json::flaw(value.get()) {
            refused.entry(row).or_insert_with(|| format!("result column `{name}` {flaw}"));
            texts.push("null".into());
        } else if nan.binary_search(&row).is_ok() {
            texts.push(json::NAN.into());
        } else {
            texts.push(value.get().into());
        }
    }
    Ok(Data::Json(texts))
}

/// Lengths of the rows first, then what they hold.
fn parse_lists(
    name: &str,
    rows: usize,
    element: Element,
    mut bytes: Bytes,
    nulls: Vec<usize>,
) -> Result<Data, String> {
    let wrong =
        || format!("column `{name}` has {} bytes, which are not those of its {rows} lists", bytes.len());
    let lengths = rows.checked_mul(4).filter(|lengths| *lengths <= bytes.len()).ok_or_else(wrong)?;
    let mut end = 0_usize;
    let mut ends = Vec::with_capacity(rows);
    for length in bytes[..lengths].as_chunks::<4>().0 {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok();
        // Lists in a part count their elements in 31 bits.
        let length = length.filter(|length| i32::try_from(*length).is_ok()).ok_or_else(wrong)?;
        end = length.checked_mul(element.width()).and_then(|more| end.checked_add(more)).ok_or_else(wrong)?;
        ends.push(end);
    }
    if end != bytes.len() - lengths {
        return Err(wrong());
    }
    let bytes = bytes.split_off(lengths);
    check_bools(name, element, &bytes)?;
    Ok(Data::Lists { element, ends, bytes, nulls })
}

fn check_bools(name: &str, element: Element, bytes: &[u8]) -> Result<(), String> {
    if element == Element::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err(format!("column `{name}` has a bool that is neither 0 nor 1"));
    }
    Ok(())
}

fn parse_fixed(
    name: &str,
    rows: usize,
    element: Element,
    shape: &Value,
    bytes: Bytes,
    nulls: Vec<usize>,
) -> Result<Data, String> {
    let wrong = || format!("column `{name}` has no usable shape: {shape}");
    let sides = match shape {
        Value::Null => &[],
        Value::Array(sides) if sides.len() <= MOST_DIMENSIONS => sides.as_slice(),
        _ => return Err(wrong()),
    };
    let sides = sides.iter().map(|side| side.as_u64().and_then(|side| u32::try_from(side).ok()));
    let shape: Vec<u32> = sides.collect::<Option<_>>().ok_or_else(wrong)?;
    // Lists in a part count their elements in 31 bits.
    let width = elements(&shape).filter(|width| i32::try_from(*width).is_ok()).ok_or_else(wrong)?;
    let wanted =
        width.checked_mul(element.width()).and_then(|row| row.checked_mul(rows)).ok_or_else(wrong)?;
    if wanted != bytes.len() {
        return Err(format!("column `{name}` has {} bytes; {rows} rows take {wanted}", bytes.len()));
    }
    if width == 0 {
        // There are no lists of nothing in a part; JSON has them, as deep as they are.
        let text = nothing(&shape).filter(|text| text.len() * rows <= MOST_NOTHING).ok_or_else(wrong)?;
        let row = |row| if nulls.binary_search(&row).is_ok() { "null".into() } else { text.as_str().into() };
        return Ok(Data::Json((0..rows).map(row).collect()));
    }
    check_bools(name, element, &bytes)?;
    Ok(Data::Fixed { element, shape, bytes, nulls })
}

/// Empty lists in lists, of this shape; `None`: too many.
fn nothing(shape: &[u32]) -> Option<String> {
    let outer = shape.split(|side| *side == 0).next().unwrap_or_default();
    let mut text = "[]".to_owned();
    for side in outer.iter().rev() {
        let side = usize::try_from(*side).ok()?;
        if text.len().saturating_mul(side) > MOST_NOTHING {
            return None;
        }
        text = format!("[{}]", vec![text; side].join(","));
    }
    Some(text)
}

/// Elements in one row of this shape.
pub(crate) fn elements(shape: &[u32]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, side| product.checked_mul(usize::try_from(*side).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_cut_from_the_body() {
        let head = json!({"frame": "results", "count": 2, "columns": [
            {"name": "e", "type": "u16", "shape": [2], "bytes": 8},
            {"name": "t", "type": "json", "bytes": 10},
            {"name": "s", "type": "u8", "shape": [], "bytes": 2},
        ]});
        let body = b"\x01\0\x02\0\x03\0\x04\0[\"a\",null]\x07\x08".to_vec();
        let block = Block::parse(&head, body).unwrap();
        assert_eq!(block.rows, 2);
        let fixed = |element, shape: &[u32], bytes: &'static [u8]| Data::Fixed {
            element,
            shape: shape.to_vec(),
            bytes: Bytes::from_static(bytes),
            nulls: Vec::new(),
        };
        assert_eq!(block.columns[0].data, fixed(Element::U16, &[2], b"\x01\0\x02\0\x03\0\x04\0"));
        assert_eq!(block.columns[1].data, Data::Json(vec!["\"a\"".into(), "null".into()]));
        assert_eq!(block.columns[2].data, fixed(Element::U8, &[], b"\x07\x08"));
    }

    #[test]
    fn wrong_lengths_are_named() {
        let of =
            |columns: Value| Block::parse(&json!({"count": 2, "columns": columns}), vec![0; 8]).unwrap_err();
        for (column, word) in [
            (json!({"name": "a", "type": "f32", "shape": [], "bytes": 9}), "there are 8"),
            (json!({"name": "a", "type": "f32", "shape": [2], "bytes": 8}), "take 16"),
            (json!({"name": "a", "type": "f32", "shape": [], "bytes": 4}), "take 8"),
            (json!({"name": "a", "type": "u8", "shape": [], "bytes": 2}), "6 bytes longer"),
            (json!({"name": "a", "type": "f99", "shape": [], "bytes": 8}), "unknown type"),
            (json!({"name": "a", "type": "f32", "shape": [-1], "bytes": 8}), "no usable shape"),
            (json!({"name": "a", "type": "f32", "shape": [u32::MAX, u32::MAX, 9], "bytes": 8}), "shape"),
            (json!({"name": "a", "type": "json", "bytes": 8}), "no JSON list"),
            (json!({"type": "f32", "shape": [], "bytes": 8}), "no `name`"),
        ] {
            let error = of(json!([column.clone()]));
            assert!(error.contains(word), "{column}: {error}");
        }
    }

    #[test]
    fn a_value_nested_too_deeply_costs_its_own_row() {
        let deep = "[".repeat(300) + &"]".repeat(300);
        let body = format!("[1,{deep},\"x\"]");
        let columns = json!([{"name": "a", "type": "json", "bytes": body.len()}]);
        let block = Block::parse(&json!({"count": 3, "columns": columns}), body.into_bytes()).unwrap();
        assert_eq!(block.columns[0].data, Data::Json(vec!["1".into(), "null".into(), "\"x\"".into()]));
        let [(row, reason)] = block.refused.as_slice() else { panic!("{:?}", block.refused) };
        assert!(*row == 1 && reason.contains("column `a`") && reason.contains("nested"), "{reason}");
    }

    #[test]
    fn arrays_of_nothing_keep_their_shape() {
        let of = |shape: Value| {
            let columns = json!([{"name": "a", "type": "f32", "shape": shape, "bytes": 0, "nulls": [1]}]);
            Block::parse(&json!({"count": 2, "columns": columns}), Vec::new())
                .map(|block| block.columns[0].data.clone())
        };
        for (shape, text) in [
            (json!([0]), "[]"),
            (json!([0, 4]), "[]"),
            (json!([2, 0]), "[[],[]]"),
            (json!([1, 2, 0, 9]), "[[[],[]]]"),
        ] {
            assert_eq!(of(shape), Ok(Data::Json(vec![text.into(), "null".into()])));
        }
        of(json!([u32::MAX, 0])).unwrap_err();
        of(json!([0, u32::MAX])).unwrap();
    }

    #[test]
    fn lists_are_as_long_as_they_say() {
        let body: Vec<u8> =
            [2_u32, 0, 0, 1].iter().flat_map(|length| length.to_le_bytes()).chain([1, 2, 3]).collect();
        let head =
            |bytes: usize| json!({"name": "a", "type": "u8", "ragged": true, "bytes": bytes, "nulls": [2]});
        let of =
            |body: &[u8]| Block::parse(&json!({"count": 4, "columns": [head(body.len())]}), body.to_vec());
        let block = of(&body).unwrap();
        let cells: Vec<String> = (0..4).map(|row| format!("{:?}", block.columns[0].data.cell(row))).collect();
        assert!(cells[0].contains("[1, 2]") && cells[3].contains("[3]"), "{cells:?}");
        assert_eq!(cells[1..3], ["Empty", "Null"]);
        for wrong in [&body[..18], &body[..10], &[body.as_slice(), &[4]].concat()] {
            assert!(of(wrong).unwrap_err().contains("lists"));
        }
    }

    #[test]
    fn a_count_beyond_reason_takes_no_memory() {
        let columns = json!([{"name": "a", "type": "f32", "shape": [0], "bytes": 0}]);
        Block::parse(&json!({"count": u64::MAX, "columns": columns}), Vec::new()).unwrap_err();
    }

    proptest! {
        #[test]
        fn nothing_a_worker_sends_is_too_strange(
            count in prop_oneof![Just(u64::MAX), 0..5_u64],
            kind in prop_oneof![Just("json"), Just("f64"), Just("bool"), Just("u8"), Just("")],
            shape in prop::collection::vec(prop_oneof![Just(u64::MAX), Just(1 << 31), 0..4_u64], 0..4),
            bytes in prop_oneof![Just(u64::MAX), 0..40_u64],
            ragged in any::<bool>(),
            nulls in prop::collection::vec(0..6_u64, 0..3),
            body in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let column = json!({"name": "x", "type": kind, "shape": shape, "bytes": bytes, "ragged": ragged, "nulls": nulls, "nan": nulls});
            let _ = Block::parse(&json!({"count": count, "columns": [column]}), body);
        }
    }
}
