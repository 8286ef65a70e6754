//! Values that came as JSON: what each text is, without building a tree of it. The text itself is what goes into results wherever no
//! column type holds the value as it is, so that nothing is read and written again on the way.

use std::borrow::Cow;

use crate::cell::Cell;
use crate::element::{Element, Range};

/// NaN among the texts of a column, which JSON has no word for. The head of a frame says which rows it stands in.
pub(crate) const NAN: &str = "NaN";
/// Infinity in JSON text: a number beyond every double, which readers take for infinity or refuse.
pub(crate) const INFINITY: &str = "1e999";

/// Lists and dicts in each other, at most: what readers of JSON follow.
const DEEPEST: usize = 127;

/// What is wrong with a text that is JSON; nothing with most.
pub(crate) fn flaw(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(bytes, at);
                if has_lone_surrogate(&bytes[at..end]) {
                    return Some(
                        "has half a surrogate pair in a text, which UTF-8 cannot say; return whole characters",
                    );
                }
                at = end;
                continue;
            }
            _ => {}
        }
        if depth > DEEPEST {
            return Some(
                "is nested too deeply, in more than 127 lists or dicts; return it less deeply nested",
            );
        }
        at += 1;
    }
    None
}

/// Where the string that begins at `at` ends, behind its quote.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// Whether an escape stands for half a character.
fn has_lone_surrogate(string: &[u8]) -> bool {
    let unit = |at: usize| {
        let escape = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(escape).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = string.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return true,
            _ => at += 2,
        }
    }
    false
}

/// Whether a number in it is beyond all doubles: infinity.
pub(crate) fn has_infinity(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let number = |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let end =
                    bytes[at..].iter().position(|byte| !number(byte)).map_or(bytes.len(), |end| at + end);
                if matches!(read_number(&text[at..end]), Cell::Float(float) if float.is_infinite()) {
                    return true;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    false
}

/// The value a text is: a JSON value, or [`NAN`].
pub(crate) fn read(text: &str) -> Cell<'_> {
    match text.as_bytes().first() {
        None | Some(b'n') => Cell::Null,
        Some(b'N') => Cell::Float(f64::NAN),
        Some(b't') => Cell::Bool(true),
        Some(b'f') => Cell::Bool(false),
        Some(b'"') => read_text(text),
        Some(b'[') => read_list(text).unwrap_or(Cell::Json(Cow::Borrowed(text))),
        Some(b'{') => Cell::Json(Cow::Borrowed(text)),
        _ => read_number(text),
    }
}

fn read_text(text: &str) -> Cell<'_> {
    let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    if !inner.contains('\\') {
        return Cell::Text(Cow::Borrowed(inner));
    }
    // A string that cannot be one was refused before, by `flaw`; as JSON it would still be what came.
    serde_json::from_str(text).map_or(Cell::Json(Cow::Borrowed(text)), |text| Cell::Text(Cow::Owned(text)))
}

/// A number: whole if it is written so. One beyond 64 bits has no type but its digits.
fn read_number(text: &str) -> Cell<'_> {
    if text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return text.parse().map_or(Cell::Json(Cow::Borrowed(text)), Cell::Float);
    }
    match text.parse::<i128>() {
        Ok(int) if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&int) => Cell::Int(int),
        _ => Cell::Json(Cow::Borrowed(text)),
    }
}

/// A list of numbers that have a type in common, or of bools; nothing for other lists.
fn read_list(text: &str) -> Option<Cell<'_>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?.trim_ascii();
    if inner.is_empty() {
        return Some(Cell::Empty);
    }
    if inner.bytes().any(|byte| matches!(byte, b'"' | b'[' | b'{' | b'n')) {
        return None;
    }
    let cells: Vec<Cell> = inner.split(',').map(|text| read(text.trim_ascii())).collect();
    let mut types = cells.iter().map(|cell| match cell {
        Cell::Bool(_) => Some((Element::Bool, Range::SMALL)),
        Cell::Int(int) => Some((int_element(*int), Range::of_int(*int))),
        Cell::Float(_) => Some((Element::F64, Range::SMALL)),
        _ => None,
    });
    let first = types.next()??;
    let (element, _) = types.try_fold(first, |(one, range), next| {
        let (two, next) = next?;
        let range = range.join(next);
        Some((one.join(two, range)?, range))
    })?;
    let mut bytes = Vec::with_capacity(cells.len() * element.width());
    for cell in &cells {
        cell.push_as(element, &mut bytes);
    }
    let shape = vec![u32::try_from(cells.len()).ok()?];
    Some(Cell::Array { element, shape: Cow::Owned(shape), bytes: Cow::Owned(bytes) })
}

/// The type of a whole number that came without one.
pub(crate) fn int_element(int: i128) -> Element {
    if int > i128::from(i64::MAX) { Element::U64 } else { Element::I64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::ColumnType;

    #[test]
    fn texts_are_what_they_say() {
        for (text, kind) in [
            ("null", None),
            ("true", Some("bool")),
            ("7", Some("i64:0..2^53")),
            ("-9007199254740993", Some("i64:-2^63..2^53")),
            ("18446744073709551615", Some("u64")),
            ("18446744073709551616", Some("json")),
            ("0.1", Some("f64")),
            ("1e999", Some("f64")),
            ("NaN", Some("f64")),
            ("\"a\"", Some("text")),
            ("[]", Some("[]")),
            ("[ ]", Some("[]")),
            ("[1, 2]", Some("i64[2]:0..2^53")),
            ("[1,18446744073709551615]", Some("u64[2]")),
            ("[-1,18446744073709551615]", Some("json")),
            ("[1,2.5]", Some("f64[2]")),
            ("[9007199254740993,2.5]", Some("json")),
            ("[true,false]", Some("bool[2]")),
            ("[true,1]", Some("json")),
            ("[1,null]", Some("json")),
            ("[[1]]", Some("json")),
            ("{}", Some("json")),
        ] {
            let read = read(text).column_type().as_ref().map(ColumnType::write);
            assert_eq!(read.as_deref(), kind, "{text}");
        }
    }

    #[test]
    fn floats_are_read_to_the_last_bit() {
        for float in [0.1, 1.0 / 3.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, -0.0, 123_456_789.123_456_78] {
            let text = format!("{float:?}");
            assert!(matches!(read(&text), Cell::Float(read) if read.to_bits() == float.to_bits()), "{text}");
        }
    }

    #[test]
    fn halves_of_characters_and_deep_nesting_are_flaws() {
        for (text, word) in [
            (r#""\ud83d\ude00""#, ""),
            (r#""\\ud800""#, ""),
            (r#"{"a":["\n\"[",1]}"#, ""),
            (r#""\ud800""#, "surrogate"),
            (r#"{"\udc00":1}"#, "surrogate"),
            (r#"["x\ud800\n"]"#, "surrogate"),
            (r#""\ud800\ud800""#, "surrogate"),
        ] {
            assert!(
                flaw(text).map_or(word.is_empty(), |flaw| flaw.contains(word) && !word.is_empty()),
                "{text}"
            );
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert_eq!(flaw(&deep(127)), None);
        assert!(flaw(&deep(128)).unwrap().contains("deeply"));
    }

    #[test]
    fn infinity_is_found_among_numbers_only() {
        for (text, infinite) in [
            ("[1,-1e999]", true),
            (r#"{"a":1e400}"#, true),
            (r#"["1e999",1e300,-0.5]"#, false),
            (&"9".repeat(400), false),
        ] {
            assert_eq!(has_infinity(text), infinite, "{text}");
        }
    }
}
