//! One value of one row: what it is, and whether a column of a given kind can take it without lying about it.

use serde_json::Value;

use crate::block::{Data, Element, elements};
use crate::kind::Kind;

/// One value as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Apart from `Float`, so that its text is not that of its neighbour among the f64.
    Single(f32),
    Text(&'a str),
    /// A list or an object.
    Nested(&'a Value),
    /// One row of an array column.
    Array {
        element: Element,
        shape: &'a [u32],
        bytes: &'a [u8],
    },
}

impl<'a> Cell<'a> {
    /// The value in this row; null beyond the last.
    pub(crate) fn of(data: &'a Data, row: usize) -> Self {
        match data {
            Data::Json(values) => values.get(row).map_or(Self::Null, Self::of_value),
            Data::Fixed { element, shape, bytes } => {
                let width = elements(shape).unwrap_or(0) * element.width();
                match bytes.get(row * width..(row + 1) * width) {
                    None => Self::Null,
                    Some(bytes) if shape.is_empty() => Self::of_element(*element, bytes),
                    Some(bytes) => Self::Array { element: *element, shape, bytes },
                }
            }
        }
    }

    pub(crate) fn of_value(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::String(text) => Self::Text(text),
            Value::Array(_) | Value::Object(_) => Self::Nested(value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Self::Int(int.into()),
                (_, Some(int)) => Self::Int(int.into()),
                _ => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
        }
    }

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
            Element::F32 => Self::Single(f32::from_le_bytes([a, b, c, d])),
            Element::F64 => Self::Float(f64::from_le_bytes(wide)),
        }
    }

    /// Whether a column of this kind can take it. Whole numbers become numbers, never the other way round.
    pub(crate) fn fits(&self, kind: &Kind) -> bool {
        match (kind, *self) {
            (_, Self::Null) | (Kind::Json, _) | (Kind::Text, Self::Text(_)) => true,
            (Kind::Number(element), scalar) => scalar.fits_element(*element),
            (Kind::Numbers, Self::Nested(Value::Array(list))) => list.iter().all(Value::is_number),
            (Kind::Numbers, Self::Array { element, shape, .. }) => {
                shape.len() == 1 && element != Element::Bool
            }
            (Kind::Array { shape, .. }, Self::Array { shape: other, .. }) if shape != other => false,
            (Kind::Array { element, .. }, Self::Array { element: other, .. }) if *element == other => true,
            (Kind::Array { element, .. }, Self::Array { .. }) => {
                self.scalars().all(|scalar| scalar.fits_element(*element))
            }
            (Kind::Array { element, shape }, Self::Nested(Value::Array(list))) => {
                shape.len() == 1
                    && elements(shape) == Some(list.len())
                    && self.scalars().all(|scalar| scalar.fits_element(*element))
            }
            _ => false,
        }
    }

    fn fits_element(&self, element: Element) -> bool {
        match (*self, element) {
            (Self::Bool(_), Element::Bool)
            | (Self::Int(_) | Self::Float(_) | Self::Single(_), Element::F32 | Element::F64) => true,
            (Self::Int(int), Element::U8) => u8::try_from(int).is_ok(),
            (Self::Int(int), Element::I8) => i8::try_from(int).is_ok(),
            (Self::Int(int), Element::U16) => u16::try_from(int).is_ok(),
            (Self::Int(int), Element::I16) => i16::try_from(int).is_ok(),
            (Self::Int(int), Element::U32) => u32::try_from(int).is_ok(),
            (Self::Int(int), Element::I32) => i32::try_from(int).is_ok(),
            (Self::Int(int), Element::U64) => u64::try_from(int).is_ok(),
            (Self::Int(int), Element::I64) => i64::try_from(int).is_ok(),
            _ => false,
        }
    }

    /// What a list or array holds, one after the other; a scalar is itself.
    pub(crate) fn scalars(&self) -> Box<dyn Iterator<Item = Self> + 'a> {
        match *self {
            Self::Array { element, bytes, .. } => Box::new(
                bytes.chunks_exact(element.width()).map(move |bytes| Self::of_element(element, bytes)),
            ),
            Self::Nested(Value::Array(list)) => Box::new(list.iter().map(Self::of_value)),
            scalar => Box::new(std::iter::once(scalar)),
        }
    }

    /// As a number; what is none is NaN.
    #[allow(clippy::cast_precision_loss)] // a column of numbers holds numbers
    pub(crate) fn as_f64(&self) -> f64 {
        match *self {
            Self::Float(float) => float,
            Self::Single(float) => float.into(),
            Self::Int(int) => int as f64,
            _ => f64::NAN,
        }
    }

    /// In words, for the reason why a row is refused.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(int) => int.to_string(),
            Self::Float(float) => float.to_string(),
            Self::Single(float) => float.to_string(),
            Self::Text(_) => "text".to_owned(),
            Self::Nested(Value::Array(list)) => format!("a list of {}", list.len()),
            Self::Nested(_) => "a dict".to_owned(),
            Self::Array { element, shape, .. } => {
                format!("an array of {} of shape {shape:?}", element.name())
            }
        }
    }
}
