//! `-s KEY=V1,V2`: one axis written on the command line. Values are typed as in TOML (`1e-3` is a number, `true` a
//! boolean, `"1"` a string) and are plain strings otherwise; `range(5)`, `range(1,6)` and `range(0,10,2)` count, as in
//! Python; `[1,2]` is a list; `\,` is a comma.

use serde_json::{Number, Value};
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::entries::check_key;
use crate::matrix::{Axis, Matrix};
use crate::parse;
use crate::problems::Problems;
use crate::reader::Placed;
use crate::value;

/// Most values of one range; more would be refused as jobs anyway.
const LONGEST_RANGE: i128 = 2_000_000;

/// Reads one sweep, which stands at `start` in the source, into the matrix.
pub(crate) fn read(sweep: &str, start: usize, matrix: &mut Matrix, problems: &mut Problems<'_>) {
    let whole = start..start + sweep.len();
    let Some((key, values)) = sweep.split_once('=') else {
        problems
            .error(&whole, "`-s` needs a key and its values")
            .label("no `=` in here")
            .help("write for example `-s lr=1e-3,1e-4` or `-s 'seed=range(5)'`");
        matrix.flawed = true;
        return;
    };
    let span = start..start + key.len();
    let mut sound = check_key(key, &span, problems);
    let first = start + key.len() + 1;
    let mut axis = Axis { key: key.to_owned(), span: span.clone(), values: Vec::new(), whole: true };
    for (at, element) in elements(values) {
        sound &= read_element(element, first + at, &mut axis.values, problems);
    }
    matrix.flawed |= !sound;
    axis.whole = sound;
    if !matrix.push(axis) {
        matrix.flawed = true;
        problems
            .error(&span, format!("`-s` gives `{key}` twice"))
            .label("already given")
            .help(format!("write all values in one: `-s {key}=V1,V2`"));
    }
}

fn read_element(
    element: &str,
    at: usize,
    values: &mut Vec<Placed<Value>>,
    problems: &mut Problems<'_>,
) -> bool {
    let trimmed = element.trim();
    let at = at + (element.len() - element.trim_start().len());
    let span = at..at + trimmed.len();
    if trimmed.is_empty() {
        problems
            .error(&span, "there is no value here")
            .label("expected a value")
            .help("write `\"\"` for an empty text");
        return false;
    }
    if let Some(arguments) = trimmed.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')) {
        return read_range(arguments, &span, values, problems);
    }
    let value = typed(trimmed).unwrap_or_else(|| Value::String(trimmed.replace("\\,", ",")));
    values.push(Placed::new(value, span));
    true
}

/// The elements between commas, each with its offset.
fn elements(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let len = enclosed_len(rest).unwrap_or_else(|| plain_len(rest));
        found.push((at, &rest[..len]));
        at += len + 1;
        if at > text.len() {
            return found;
        }
    }
}

/// The length up to the next comma that is not `\,`.
fn plain_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    (0..bytes.len())
        .find(|at| bytes[*at] == b',' && (*at == 0 || bytes[*at - 1] != b'\\'))
        .unwrap_or(bytes.len())
}

/// The length of an element that may hold commas: in quotes, in brackets, or a range.
fn enclosed_len(text: &str) -> Option<usize> {
    let inner = text.trim_start();
    let skipped = text.len() - inner.len();
    let len = match inner.as_bytes().first()? {
        b'"' | b'\'' => quoted_len(inner)?,
        b'[' | b'{' => bracketed_len(inner)?,
        _ if inner.starts_with("range(") => inner.find(')')? + 1,
        _ => return None,
    };
    let rest = &inner[len..];
    let spaces = rest.len() - rest.trim_start_matches(' ').len();
    (rest.len() == spaces || rest[spaces..].starts_with(',')).then_some(skipped + len + spaces)
}

fn quoted_len(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn bracketed_len(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return typed(&text[..=at]).map(|_| at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The value as TOML has it; `None` for a plain string.
pub(crate) fn typed(text: &str) -> Option<Value> {
    if let Some(float) = short_float(text) {
        return Some(float);
    }
    let first = text.chars().next()?;
    let enclosed = matches!(first, '"' | '\'' | '[' | '{');
    let plausible = enclosed || matches!(first, '0'..='9' | '+' | '-') || text == "true" || text == "false";
    if !plausible || !enclosed && text.contains(|c: char| c.is_whitespace() || c == '#') {
        return None;
    }
    let node = parse::value(text)?;
    // A date, or a number JSON does not have, stays the text it is.
    let textual = matches!(node.get_ref(), DeValue::Datetime(_));
    if textual { None } else { value::json(&node, &mut Problems::new(text)) }
}

/// `.5` and `1.`, which TOML does not take for numbers but everybody else does.
fn short_float(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let short = digits.starts_with('.') || digits.ends_with('.');
    let numeric = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'));
    if !short || !numeric {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number)
}

fn read_range(
    arguments: &str,
    span: &Span,
    values: &mut Vec<Placed<Value>>,
    problems: &mut Problems<'_>,
) -> bool {
    let numbers: Option<Vec<i64>> = arguments.split(',').map(|number| number.trim().parse().ok()).collect();
    let (from, to, step) = match numbers.as_deref() {
        Some([to]) => (0, *to, 1),
        Some([from, to]) => (*from, *to, 1),
        Some([from, to, step]) => (*from, *to, *step),
        _ => {
            problems
                .error(span, "a range takes one to three whole numbers")
                .label("cannot be read")
                .help("write `range(5)`, `range(1,6)` or `range(0,10,2)`");
            return false;
        }
    };
    if step == 0 {
        problems.error(span, "the step of a range must not be 0").label("would never end");
        return false;
    }
    let (from, to, step) = (i128::from(from), i128::from(to), i128::from(step));
    let distance = if step > 0 { to - from } else { from - to };
    let count = (distance + step.abs() - 1) / step.abs();
    if count <= 0 {
        problems.error(span, "this range is empty").label("as in Python, the end is not part of it");
        return false;
    }
    if count > LONGEST_RANGE {
        problems
            .error(span, format!("this range has {count} values"))
            .label(format!("at most {LONGEST_RANGE}"));
        return false;
    }
    values.extend((0..count).filter_map(|index| {
        let number = i64::try_from(from + index * step).ok()?;
        Some(Placed::new(Value::from(number), span.clone()))
    }));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(sweep: &str) -> String {
        let mut matrix = Matrix::default();
        let mut problems = Problems::new(sweep);
        read(sweep, 0, &mut matrix, &mut problems);
        if problems.has_errors() {
            return problems.finish().into_iter().map(|found| found.message).collect::<Vec<_>>().join("; ");
        }
        let list: Vec<_> = matrix.axes[0].values.iter().map(|value| value.value.clone()).collect();
        Value::Array(list).to_string()
    }

    #[test]
    fn values_are_typed_as_in_toml() {
        for (sweep, expected) in [
            ("a=1e-3,1e-4", "[0.001,0.0001]"),
            ("a=1,-2,+3,0x10,1_000", "[1,-2,3,16,1000]"),
            ("a=true,false,True", r#"[true,false,"True"]"#),
            ("a=\"1\",'2',x", r#"["1","2","x"]"#),
            (r"a=x\,y,z", r#"["x,y","z"]"#),
            (r#"a="x,y",z"#, r#"["x,y","z"]"#),
            ("a=.5,1.,-.5", "[0.5,1.0,-0.5]"),
            ("a=inf,nan,007,1e999", r#"["inf","nan","007","1e999"]"#),
            ("a=2024-01-01", r#"["2024-01-01"]"#),
            ("a=[1,2],[3]", "[[1,2],[3]]"),
            ("a=[x,y]", r#"["[x","y]"]"#),
            ("a={b = 1},2", r#"[{"b":1},2]"#),
            ("a= 1, 2 ", "[1,2]"),
            ("a=b=c", r#"["b=c"]"#),
            ("a=range(3),9", "[0,1,2,9]"),
            ("a=range(1,6)", "[1,2,3,4,5]"),
            ("a=range(0, 10, 4)", "[0,4,8]"),
            ("a=range(3,0,-1)", "[3,2,1]"),
            ("a=range", r#"["range"]"#),
            ("a=é,日本", r#"["é","日本"]"#),
            ("a='it''s'", r#"["'it''s'"]"#),
        ] {
            assert_eq!(values(sweep), expected, "{sweep}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (sweep, expected) in [
            ("lr", "`-s` needs a key and its values"),
            ("lr=", "there is no value here"),
            ("lr=1,,2", "there is no value here"),
            ("9lr=1", "`9lr` cannot be a config key"),
            ("out=1", "the config key `out` would hide the placeholder `{out}`"),
            ("a=range()", "a range takes one to three whole numbers"),
            ("a=range(1,2,3,4)", "a range takes one to three whole numbers"),
            ("a=range(x)", "a range takes one to three whole numbers"),
            ("a=range(0)", "this range is empty"),
            ("a=range(1,5,0)", "the step of a range must not be 0"),
            ("a=range(5,1)", "this range is empty"),
            ("a=range(9223372036854775807)", "this range has 9223372036854775807 values"),
            (
                "a=range(-9223372036854775808,9223372036854775807)",
                "this range has 18446744073709551615 values",
            ),
        ] {
            assert_eq!(values(sweep), expected, "{sweep}");
        }
    }
}
