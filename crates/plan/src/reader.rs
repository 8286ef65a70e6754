//! Typed reading of single values from the spanned tree. Each function reports what is wrong with a value and gives
//! `None`, so that the caller simply goes on to the next one.

use std::ops::RangeInclusive;
use std::time::Duration;

use gpulane_model::Millis;
use toml::Spanned;
use toml::de::DeValue;

use crate::diagnostic::{Diagnostic, Span};
use crate::problems::Problems;

/// A value of the tree with its place.
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

/// Something read, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

impl<T> Placed<T> {
    pub(crate) const fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// A limit that can be lifted: `"off"` undoes a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit<T> {
    Off,
    At(T),
}

impl<T> Limit<T> {
    pub(crate) fn at(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::At(limit) => Some(limit),
        }
    }
}

/// Whether the parser put this in place of a value it could not read; it has said so itself.
pub(crate) fn is_damage(node: &Node<'_>) -> bool {
    node.span() == (0..0)
}

/// `a string`, `an integer`.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Reports that `key` holds the wrong kind of value.
pub(crate) fn wrong_kind<'p>(
    key: &str,
    expected: &str,
    node: &Node<'_>,
    problems: &'p mut Problems<'_>,
) -> &'p mut Diagnostic {
    let found = kind(node.get_ref());
    problems
        .error(&node.span(), format!("`{key}` must be {expected}, not {found}"))
        .label(format!("this is {found}"))
}

pub(crate) fn text(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    if let DeValue::String(text) = node.get_ref() {
        return Some(Placed::new(text.clone().into_owned(), node.span()));
    }
    let quoted = quoted(node, problems);
    wrong_kind(key, "a string", node, problems).maybe_help(quoted.map(|text| format!("write {text}")));
    None
}

/// A scalar as it would stand in quotes.
pub(crate) fn quoted(node: &Node<'_>, problems: &Problems<'_>) -> Option<String> {
    if matches!(node.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
        return None;
    }
    problems.raw(&node.span()).map(|raw| format!("\"{raw}\""))
}

/// A list of strings; a single string counts as a list of one. `None` if any is wrong.
pub(crate) fn texts(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<Placed<String>>> {
    match node.get_ref() {
        DeValue::String(text) => Some(vec![Placed::new(text.clone().into_owned(), node.span())]),
        DeValue::Array(items) => {
            let read: Vec<_> = items.iter().map(|item| text(key, item, problems)).collect();
            read.into_iter().collect()
        }
        _ => {
            wrong_kind(key, "a string or a list of strings", node, problems);
            None
        }
    }
}

pub(crate) fn boolean(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<bool> {
    let found = node.get_ref().as_bool();
    if found.is_none() {
        wrong_kind(key, "`true` or `false`", node, problems);
    }
    found
}

/// An integer of any size the text form can hold.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i128> {
    let integer = value.as_integer()?;
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A whole number within bounds. `expected` says what else the key takes: `a whole number or "auto"`.
pub(crate) fn count(
    key: &str,
    expected: &str,
    bounds: RangeInclusive<u32>,
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<u32> {
    let DeValue::Integer(written) = node.get_ref() else {
        let help = match as_count(node.get_ref()) {
            Some(number) => format!("write {}", problems.assignment(key, &number.to_string())),
            None => format!("write for example {}", problems.assignment(key, "2")),
        };
        wrong_kind(key, expected, node, problems).help(help);
        return None;
    };
    let number = integer(node.get_ref()).and_then(|number| u32::try_from(number).ok());
    if let Some(number) = number.filter(|number| bounds.contains(number)) {
        return Some(number);
    }
    let too_small =
        written.as_str().starts_with('-') || number.is_some_and(|number| number < *bounds.start());
    let message = if too_small {
        format!("`{key}` must be {} or more", bounds.start())
    } else {
        format!("`{key}` must be at most {}", bounds.end())
    };
    problems.error(&node.span(), message).label(format!("expected {expected}"));
    None
}

/// The whole number that a string or a float almost is.
fn as_count(value: &DeValue<'_>) -> Option<u32> {
    match value {
        DeValue::String(text) => text.trim().parse().ok(),
        DeValue::Float(float) => float.as_str().strip_suffix(".0")?.parse().ok(),
        _ => None,
    }
}

/// A duration with its unit: `"30s"`, `"2h 30m"`.
pub(crate) fn duration(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Millis> {
    match node.get_ref() {
        DeValue::String(text) => match text.parse::<Millis>() {
            Ok(duration) => Some(duration),
            Err(error) => {
                let unit = text.trim().parse::<u64>().ok().and_then(seconds_as_text);
                let help = unit.map(|text| format!("write {}", problems.assignment(key, &text)));
                problems
                    .error(&node.span(), format!("`{key}`: {error}"))
                    .label("expected a duration")
                    .maybe_help(help);
                None
            }
        },
        DeValue::Integer(_) | DeValue::Float(_) => {
            let seconds = integer(node.get_ref()).and_then(|number| u64::try_from(number).ok());
            let help = match seconds.and_then(seconds_as_text) {
                Some(text) => format!("if seconds are meant, write {}", problems.assignment(key, &text)),
                None => format!("write for example {}", problems.assignment(key, "\"2h 30m\"")),
            };
            problems
                .error(&node.span(), format!("`{key}` needs a unit"))
                .label("seconds, minutes or hours?")
                .help(help);
            None
        }
        _ => {
            wrong_kind(key, "a duration such as \"30s\" or \"2h\"", node, problems);
            None
        }
    }
}

/// In quotes, as it would be written.
fn seconds_as_text(seconds: u64) -> Option<String> {
    // Beyond a year it was hardly meant as seconds.
    (seconds > 0 && seconds <= 31_536_000)
        .then(|| format!("\"{}\"", humantime::format_duration(Duration::from_secs(seconds))))
}
