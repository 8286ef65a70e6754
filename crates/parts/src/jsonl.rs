//! Results as JSON lines: `{"item":…, …}`. JSON has no NaN and no infinities: they are written as null and
//! counted.

use std::collections::HashSet;
use std::io::Write;

use serde_json::Value;

use crate::block::{Block, Element};
use crate::cell::Cell;

/// Appends the rows that are kept, a line each.
pub(crate) fn write_rows(out: &mut Vec<u8>, names: &[&str], block: &Block, not_finite: &mut u64) {
    let refused: HashSet<usize> = block.refused.iter().map(|(row, _)| *row).collect();
    for (row, name) in names.iter().enumerate().filter(|(row, _)| !refused.contains(row)) {
        out.extend_from_slice(b"{\"item\":");
        write_text(out, name);
        for column in &block.columns {
            out.push(b',');
            write_text(out, &column.name);
            out.push(b':');
            write_cell(out, &Cell::of(&column.data, row), not_finite);
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Appends a text in quotes.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // A vector takes everything, and a text is always JSON.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a value; arrays as lists in lists by their shape.
pub(crate) fn write_cell(out: &mut Vec<u8>, cell: &Cell, not_finite: &mut u64) {
    match *cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Cell::Text(text) => write_text(out, text),
        Cell::Int(int) => {
            let _ = write!(out, "{int}");
        }
        Cell::Float(float) => {
            *not_finite += u64::from(!float.is_finite());
            let _ = serde_json::to_writer(out, &float);
        }
        Cell::Single(float) => {
            *not_finite += u64::from(!float.is_finite());
            let _ = serde_json::to_writer(out, &float);
        }
        Cell::Nested(value) => {
            let _ = serde_json::to_writer(out, value);
        }
        Cell::Array { element, shape, bytes } => write_array(out, element, shape, bytes, not_finite),
    }
}

fn write_array(out: &mut Vec<u8>, element: Element, shape: &[u32], bytes: &[u8], not_finite: &mut u64) {
    let Some((side, inner)) = shape.split_first() else {
        return write_cell(out, &Cell::of_element(element, bytes), not_finite);
    };
    let row = (bytes.len() / usize::try_from((*side).max(1)).unwrap_or(usize::MAX)).max(1);
    out.push(b'[');
    for (at, bytes) in bytes.chunks_exact(row).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_array(out, element, inner, bytes, not_finite);
    }
    out.push(b']');
}

/// Bytes the value's JSON takes.
pub(crate) fn length(cell: &Cell) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let written = match cell {
        Cell::Text(text) => serde_json::to_writer(&mut count, text),
        Cell::Nested(value) => serde_json::to_writer(&mut count, value as &Value),
        _ => return 64,
    };
    written.map_or(usize::MAX, |()| count.0)
}
