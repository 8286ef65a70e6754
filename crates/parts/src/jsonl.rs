//! Values as JSON text: in JSON lines, `{"item":…, …}`, and in columns of a part that hold JSON. JSON has no NaN: it is written as null, and
//! counted. Infinity fails its item in JSON lines, where one such number keeps readers from the whole file; in a column it is `1e999`.

use std::io::Write;

use crate::block::Block;
use crate::cell::Cell;
use crate::element::Element;
use crate::json;

/// Why an item with an infinite result fails in JSON lines.
const INFINITE: &str =
    "is infinite, which JSON cannot say; return None or a text instead, or use --format parquet";

/// What was met that JSON has no word for.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Written as null.
    pub(crate) nan: u64,
    /// Written as a number beyond all doubles.
    pub(crate) infinite: bool,
}

/// Appends the rows that are kept, a line each; the others with why not.
pub(crate) fn write_rows(
    out: &mut Vec<u8>,
    names: &[&str],
    block: &Block,
    not_numbers: &mut u64,
) -> Vec<(usize, String)> {
    let mut refused = block.refused.clone();
    let mut already = block.refused.iter().map(|(row, _)| *row).peekable();
    for (row, name) in names.iter().enumerate() {
        if already.next_if_eq(&row).is_some() {
            continue;
        }
        let start = out.len();
        let mut met = Met::default();
        match write_row(out, name, block, row, &mut met) {
            Ok(()) => *not_numbers += met.nan,
            Err(column) => {
                out.truncate(start);
                refused.push((row, format!("result column `{column}` {INFINITE}")));
            }
        }
    }
    refused.sort_by_key(|(row, _)| *row);
    refused
}

/// Appends one line, or says which column has no words in JSON.
fn write_row<'a>(
    out: &mut Vec<u8>,
    name: &str,
    block: &'a Block,
    row: usize,
    met: &mut Met,
) -> Result<(), &'a str> {
    out.extend_from_slice(b"{\"item\":");
    write_text(out, name);
    for column in &block.columns {
        if column.absent.binary_search(&row).is_ok() {
            continue;
        }
        out.push(b',');
        write_text(out, &column.name);
        out.push(b':');
        match &column.data {
            // As the worker wrote it.
            crate::Data::Json(texts) if texts.get(row).is_some_and(|text| **text != *json::NAN) => {
                met.infinite |= json::has_infinity(&texts[row]);
                write_compact(out, &texts[row]);
            }
            data => write_cell(out, &data.cell(row), met),
        }
        if met.infinite {
            return Err(&column.name);
        }
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends a text in quotes.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // A vector takes everything, and a text is always JSON.
    let _ = serde_json::to_writer(out, text);
}

/// Appends JSON as it is, on one line: line breaks stand between its tokens only.
fn write_compact(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
}

/// Appends a value; arrays as lists in lists by their shape. A float has the digits of the double that it is, also where it came with fewer bits: readers
/// of JSON make doubles of them.
pub(crate) fn write_cell(out: &mut Vec<u8>, cell: &Cell, met: &mut Met) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Cell::Text(text) => write_text(out, text),
        Cell::Int(int) => {
            let _ = write!(out, "{int}");
        }
        Cell::Float(float) if float.is_infinite() => {
            met.infinite = true;
            out.extend_from_slice(if *float < 0.0 { b"-" } else { b"" });
            out.extend_from_slice(json::INFINITY.as_bytes());
        }
        Cell::Float(float) => {
            met.nan += u64::from(float.is_nan());
            let _ = serde_json::to_writer(out, float);
        }
        Cell::Empty => out.extend_from_slice(b"[]"),
        Cell::Json(text) => write_compact(out, text),
        Cell::Array { element, shape, bytes } => write_array(out, *element, shape, bytes, met),
    }
}

fn write_array(out: &mut Vec<u8>, element: Element, shape: &[u32], bytes: &[u8], met: &mut Met) {
    let Some((side, inner)) = shape.split_first() else {
        return write_cell(out, &Cell::of_element(element, bytes), met);
    };
    let row = (bytes.len() / usize::try_from((*side).max(1)).unwrap_or(usize::MAX)).max(1);
    out.push(b'[');
    for (at, bytes) in bytes.chunks_exact(row).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_array(out, element, inner, bytes, met);
    }
    out.push(b']');
}

/// Bytes the value's JSON takes, at most.
pub(crate) fn most(cell: &Cell) -> usize {
    match cell {
        Cell::Text(text) => text.bytes().map(escaped).sum::<usize>() + 2,
        Cell::Json(text) => text.len(),
        Cell::Array { element, shape, bytes } => most_of_array(*element, shape.len(), bytes.len()),
        _ => LONGEST_NUMBER,
    }
}

/// Bytes that this one takes in a string, at most.
const fn escaped(byte: u8) -> usize {
    match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    }
}

/// Bytes the JSON of so many bytes of elements takes, at most.
pub(crate) fn most_of_array(element: Element, sides: usize, bytes: usize) -> usize {
    (bytes / element.width()).saturating_mul(LONGEST_NUMBER + 2 * sides).saturating_add(2 * sides)
}

/// No number is written in more, its comma included.
pub(crate) const LONGEST_NUMBER: usize = 32;
