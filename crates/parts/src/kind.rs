//! The type of a result column, decided by its first values and kept for the whole map: which kinds there
//! are, what values make which, and how a kind is written down in the ledger (`f32`, `f32[512]`, `text`,
//! `f64[]`, `json`).

use serde_json::Value;

use crate::block::{Data, Element};

/// What every value of a column is, where it is not null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One number, or bool.
    Number(Element),
    /// An array of a shape all rows share.
    Array { element: Element, shape: Vec<u32> },
    /// A list of numbers, as long as it likes.
    Numbers,
    /// A text.
    Text,
    /// Anything, kept as JSON text.
    Json,
}

impl Kind {
    /// What this column's values would be if they were the first; `None` if they are all null.
    pub(crate) fn of(data: &Data) -> Option<Self> {
        match data {
            Data::Fixed { element, shape, .. } if shape.is_empty() => Some(Self::Number(*element)),
            Data::Fixed { element, shape, .. } => {
                Some(Self::Array { element: *element, shape: shape.clone() })
            }
            Data::Json(values) => Self::of_values(values),
        }
    }

    /// The kind of the first value that is not null, widened by the others as far as they go together with
    /// it. What does not is refused later, row by row.
    fn of_values(values: &[Value]) -> Option<Self> {
        let first = values.iter().find(|value| !value.is_null())?;
        if values.iter().any(is_nested) {
            return Some(Self::Json);
        }
        Some(match first {
            Value::Bool(_) => Self::Number(Element::Bool),
            Value::Number(_) => Self::Number(number_type(values)),
            Value::String(_) => Self::Text,
            // All lists empty: of what, the later ones will say.
            _ if values.iter().all(|value| value.as_array().is_none_or(Vec::is_empty)) => Self::Json,
            _ => Self::Numbers,
        })
    }

    /// As the ledger has it.
    pub(crate) fn write(&self) -> String {
        match self {
            Self::Number(element) => element.name().to_owned(),
            Self::Array { element, shape } => {
                let sides: Vec<_> = shape.iter().map(u32::to_string).collect();
                format!("{}[{}]", element.name(), sides.join(","))
            }
            Self::Numbers => "f64[]".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Json => "json".to_owned(),
        }
    }

    /// What the ledger has.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match text {
            "text" => return Some(Self::Text),
            "json" => return Some(Self::Json),
            "f64[]" => return Some(Self::Numbers),
            _ => {}
        }
        let Some((element, shape)) = text.split_once('[') else {
            return Element::parse(text).map(Self::Number);
        };
        let sides = shape.strip_suffix(']')?.split(',').map(|side| side.parse().ok());
        Some(Self::Array { element: Element::parse(element)?, shape: sides.collect::<Option<_>>()? })
    }

    /// In words, for the reason why a row is refused.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Number(Element::Bool) => "true or false".to_owned(),
            Self::Number(Element::F32 | Element::F64) => "a number".to_owned(),
            Self::Number(_) => "a whole number".to_owned(),
            Self::Array { shape, .. } => format!("an array of shape {shape:?}"),
            Self::Numbers => "a list of numbers".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Json => "JSON".to_owned(),
        }
    }
}

/// Whether it needs JSON to be said: not a scalar, not a list of numbers.
fn is_nested(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(list) => !list.iter().all(Value::is_number),
        _ => false,
    }
}

/// The narrowest of i64, u64 and f64 that holds every number among these.
fn number_type(values: &[Value]) -> Element {
    let numbers = || values.iter().filter(|value| value.is_number());
    if numbers().all(Value::is_i64) {
        Element::I64
    } else if numbers().all(Value::is_u64) {
        Element::U64
    } else {
        Element::F64
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_values_decide_the_kind() {
        for (values, kind) in [
            (json!([null, null]), None),
            (json!([null, true]), Some("bool")),
            (json!([1, 2]), Some("i64")),
            (json!([1, 2.5]), Some("f64")),
            (json!([1, 18_446_744_073_709_551_615_u64]), Some("u64")),
            (json!([-1, 18_446_744_073_709_551_615_u64]), Some("f64")),
            (json!(["a", null]), Some("text")),
            (json!([[1, 2], [3]]), Some("f64[]")),
            (json!([[], []]), Some("json")),
            (json!([[], [1]]), Some("f64[]")),
            (json!([["a"], []]), Some("json")),
            (json!([[[1]], [[2]]]), Some("json")),
            (json!([{"a": 1}, null]), Some("json")),
        ] {
            let Value::Array(list) = values.clone() else { panic!("a list") };
            assert_eq!(Kind::of_values(&list).map(|kind| kind.write()).as_deref(), kind, "{values}");
        }
    }

    #[test]
    fn kinds_are_read_back() {
        for text in ["f32", "bool", "u64", "f32[512]", "u8[3,2,1]", "f64[]", "text", "json"] {
            assert_eq!(Kind::read(text).map(|kind| kind.write()).as_deref(), Some(text));
        }
        for wrong in ["", "f33", "f32[", "f32[x]", "[3]", "f32[3"] {
            assert_eq!(Kind::read(wrong), None, "{wrong}");
        }
    }
}
