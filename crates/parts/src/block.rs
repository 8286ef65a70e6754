//! What one `results` frame holds: columns of rows, checked in every length before anything believes them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

/// Far above the rows of any batch; keeps a column of empty values from taking all memory.
const MOST_ROWS: u64 = 1 << 20;
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
    },
    /// Anything JSON can say.
    Json(Vec<Value>),
}

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // their names say all
pub enum Element {
    F32,
    F64,
    I64,
    I32,
    U8,
    Bool,
    U16,
    I16,
    U32,
    U64,
    I8,
}

impl Element {
    const NAMED: [(Self, &'static str); 11] = [
        (Self::F32, "f32"),
        (Self::F64, "f64"),
        (Self::I64, "i64"),
        (Self::I32, "i32"),
        (Self::U8, "u8"),
        (Self::Bool, "bool"),
        (Self::U16, "u16"),
        (Self::I16, "i16"),
        (Self::U32, "u32"),
        (Self::U64, "u64"),
        (Self::I8, "i8"),
    ];

    /// The type of this name, as the worker protocol spells it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(_, known)| *known == name).map(|(element, _)| *element)
    }

    /// Its name in the worker protocol.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(element, _)| *element == self).map_or("", |(_, name)| name)
    }

    /// Bytes of one.
    pub const fn width(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
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
            parse_json(&name, rows, &data, refused)?
        } else {
            let element = Element::parse(kind)
                .ok_or_else(|| format!("column `{name}` has the unknown type {}", head["type"]))?;
            parse_fixed(&name, rows, element, &head["shape"], data)?
        };
        Ok(Self { name, data })
    }
}

/// Rows that cannot be read, with the reason.
type Refused = BTreeMap<usize, String>;

fn parse_json(name: &str, rows: usize, data: &[u8], refused: &mut Refused) -> Result<Data, String> {
    let values: Vec<Value> = match serde_json::from_slice(data) {
        Ok(values) => values,
        Err(error) => one_by_one(name, data, refused)
            .ok_or_else(|| format!("column `{name}` is no JSON list: {error}"))?,
    };
    if values.len() != rows {
        return Err(format!("column `{name}` has {} values for {rows} rows", values.len()));
    }
    Ok(Data::Json(values))
}

/// The values of a list of which not all can be read: one that is nested beyond what the reader follows costs its own row only.
fn one_by_one(name: &str, data: &[u8], refused: &mut Refused) -> Option<Vec<Value>> {
    let values: Vec<&RawValue> = serde_json::from_slice(data).ok()?;
    let read = |(row, value): (usize, &&RawValue)| {
        serde_json::from_str(value.get()).unwrap_or_else(|error| {
            let reason =
                format!("result column `{name}` cannot be written: {error}; return it less deeply nested");
            refused.entry(row).or_insert(reason);
            Value::Null
        })
    };
    Some(values.iter().enumerate().map(read).collect())
}

fn parse_fixed(
    name: &str,
    rows: usize,
    element: Element,
    shape: &Value,
    bytes: Bytes,
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
        // There are no lists of nothing in a part; as JSON it is just `[]`.
        return Ok(Data::Json(vec![Value::Array(Vec::new()); rows]));
    }
    if element == Element::Bool && bytes.iter().any(|byte| *byte > 1) {
        return Err(format!("column `{name}` has a bool that is neither 0 nor 1"));
    }
    Ok(Data::Fixed { element, shape, bytes })
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
        };
        assert_eq!(block.columns[0].data, fixed(Element::U16, &[2], b"\x01\0\x02\0\x03\0\x04\0"));
        assert_eq!(block.columns[1].data, Data::Json(vec![json!("a"), Value::Null]));
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
        assert_eq!(block.columns[0].data, Data::Json(vec![json!(1), Value::Null, json!("x")]));
        let [(row, reason)] = block.refused.as_slice() else { panic!("{:?}", block.refused) };
        assert!(*row == 1 && reason.contains("column `a`") && reason.contains("nested"), "{reason}");
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
            body in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let column = json!({"name": "x", "type": kind, "shape": shape, "bytes": bytes});
            let _ = Block::parse(&json!({"count": count, "columns": [column]}), body);
        }
    }
}
