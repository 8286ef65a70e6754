//! TOML values as JSON: what a config holds. Dates become strings; numbers that JSON does not have are refused.

use serde_json::{Map, Number, Value};
use toml::de::DeValue;

use crate::problems::Problems;
use crate::reader::{Node, is_damage};

/// Deepest nesting of a value. Below the 128 at which JSON readers give up, and far from any stack's end.
const DEEPEST: usize = 60;

/// The value as JSON, or `None` with the reason reported.
pub(crate) fn json(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Value> {
    nested(node, 0, problems)
}

fn nested(node: &Node<'_>, depth: usize, problems: &mut Problems<'_>) -> Option<Value> {
    if depth > DEEPEST {
        problems.error(&node.span(), format!("this value is nested deeper than {DEEPEST} levels"));
        return None;
    }
    if is_damage(node) {
        return None;
    }
    match node.get_ref() {
        DeValue::String(text) => {
            if text.contains('\0') {
                problems
                    .error(&node.span(), "this value contains a NUL character")
                    .label("no process can receive it in an argument or its environment");
                return None;
            }
            Some(Value::String(text.clone().into_owned()))
        }
        DeValue::Integer(_) => integer(node, problems),
        DeValue::Float(_) => float(node, problems),
        DeValue::Boolean(value) => Some(Value::Bool(*value)),
        DeValue::Datetime(value) => Some(Value::String(value.to_string())),
        DeValue::Array(items) => {
            let read: Vec<_> = items.iter().map(|item| nested(item, depth + 1, problems)).collect();
            read.into_iter().collect::<Option<Vec<_>>>().map(Value::Array)
        }
        DeValue::Table(table) => {
            let read: Vec<_> = table
                .iter()
                .map(|(key, value)| {
                    nested(value, depth + 1, problems)
                        .map(|value| (key.get_ref().clone().into_owned(), value))
                })
                .collect();
            read.into_iter().collect::<Option<Map<_, _>>>().map(Value::Object)
        }
    }
}

fn integer(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Value> {
    let number = crate::reader::integer(node.get_ref());
    let number = number.and_then(|number| {
        i64::try_from(number).map(Number::from).or_else(|_| u64::try_from(number).map(Number::from)).ok()
    });
    if number.is_none() {
        let raw = crate::reader::quoted(node, problems);
        problems
            .error(&node.span(), "this integer does not fit into 64 bits")
            .maybe_help(raw.map(|text| format!("write it as a string: {text}")));
    }
    number.map(Value::Number)
}

fn float(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Value> {
    let raw = node.get_ref().as_float()?.as_str();
    let number = raw.parse::<f64>().ok().and_then(Number::from_f64);
    if number.is_none() {
        let unbounded = raw.contains(['n', 'N']);
        problems
            .error(
                &node.span(),
                if unbounded {
                    format!("JSON has no `{raw}`")
                } else {
                    format!("`{raw}` is too large for a float")
                },
            )
            .help(format!("write it as a string: \"{raw}\""));
    }
    number.map(Value::Number)
}
