//! One value of one row: what it is, the column type that holds it as it is, and its bytes in a column of a wider one.

use std::borrow::Cow;

use crate::element::{Element, Range};
use crate::json::int_element;
use crate::kind::{ColumnType, Kind};

/// One value as it came.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    /// Between -2^63 and 2^64 - 1.
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    /// A list of nothing.
    Empty,
    /// What has no type of its own, as JSON text: dicts, nested or mixed lists, whole numbers beyond 64 bits.
    Json(Cow<'a, str>),
    /// One row of an array column, or a list of numbers.
    Array {
        element: Element,
        shape: Cow<'a, [u32]>,
        bytes: Cow<'a, [u8]>,
    },
}

impl Cell<'_> {
    /// The number in these bytes, which are as many as the element has.
    pub(crate) fn of_element(element: Element, bytes: &[u8]) -> Self {
        let mut wide = [0; 8];
        wide[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
        let [a, b, c, d, ..] = wide;
        match element {
            Element::Bool => Self::Bool(a != 0),
            Element::U8 => Self::Int(a.into()),
            Element::I8 => Self::Int(i8::from_le_bytes([a]).into()),
            Element::U16 => Self::Int(u16::from_le_bytes([a, b]).into()),
            Element::I16 => Self::Int(i16::from_le_bytes([a, b]).into()),
            Element::U32 => Self::Int(u32::from_le_bytes([a, b, c, d]).into()),
            Element::I32 => Self::Int(i32::from_le_bytes([a, b, c, d]).into()),
            Element::U64 => Self::Int(u64::from_le_bytes(wide).into()),
            Element::I64 => Self::Int(i64::from_le_bytes(wide).into()),
            Element::F32 => Self::Float(f32::from_le_bytes([a, b, c, d]).into()),
            Element::F64 => Self::Float(f64::from_le_bytes(wide)),
        }
    }

    /// The narrowest type that holds it as it is; `None`: null, which every column holds.
    pub(crate) fn column_type(&self) -> Option<ColumnType> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => ColumnType::plain(Kind::Number(Element::Bool)),
            Self::Int(int) => {
                ColumnType { kind: Kind::Number(int_element(*int)), range: Range::of_int(*int) }
            }
            Self::Float(_) => ColumnType::plain(Kind::Number(Element::F64)),
            Self::Text(_) => ColumnType::plain(Kind::Text),
            Self::Empty => ColumnType::plain(Kind::Empty),
            Self::Json(_) => ColumnType::JSON,
            Self::Array { element, shape, bytes } => ColumnType {
                kind: Kind::Array { element: *element, shape: shape.to_vec() },
                range: Range::of(*element, bytes),
            },
        })
    }

    /// Appends a number as one of this type, which holds it: that was asked by [`ColumnType::join`].
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // nothing is lost: see above
    pub(crate) fn push_as(&self, element: Element, out: &mut impl Extend<u8>) {
        match (element, self) {
            (Element::F32, Self::Float(float)) => out.extend((*float as f32).to_le_bytes()),
            (Element::F64, Self::Float(float)) => out.extend(float.to_le_bytes()),
            (Element::F64, Self::Int(int)) => out.extend((*int as f64).to_le_bytes()),
            (Element::Bool, Self::Bool(value)) => out.extend([u8::from(*value)]),
            (_, Self::Int(int)) => out.extend(int.to_le_bytes().into_iter().take(element.width())),
            _ => {
                debug_assert!(false, "{self:?} as {element:?}");
                out.extend(std::iter::repeat_n(0, element.width()));
            }
        }
    }
}
