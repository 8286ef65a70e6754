//! Fax compressions of bilevel pages (CCITT T.4 and T.6) by `hayro-ccitt`: rows of bits, black ones set.

use hayro_ccitt::{DecodeError, DecodeSettings, Decoder, DecoderContext, EncodingMode};

use crate::Rejection;

use super::super::reasons::{broken, truncated};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tiff) enum Fax {
    /// Compression 2: runs, each row from a whole byte on.
    Rows,
    /// Compression 3 with runs alone.
    Group3,
    /// Compression 3, most rows by their differences from the one above.
    Group3Differences,
    /// Compression 4: all rows by their differences.
    Group4,
}

/// Bytes taken for a row of so many pixels: where its colour changes, and where that of the row above does.
pub(super) const fn memory(columns: u64) -> u64 {
    16 * columns
}

/// Fills `target` with rows of `columns` pixels.
pub(super) fn decode(kind: Fax, data: &[u8], columns: usize, target: &mut [u8]) -> Result<(), Rejection> {
    let bytes = columns.div_ceil(8);
    let side = |length: usize| u32::try_from(length).map_err(|_| broken("rows of more than 32 bits"));
    let settings = DecodeSettings {
        columns: side(columns)?,
        rows: side(target.len() / bytes)?,
        end_of_block: kind != Fax::Rows,
        end_of_line: false,
        rows_are_byte_aligned: kind == Fax::Rows,
        encoding: match kind {
            Fax::Rows | Fax::Group3 => EncodingMode::Group3_1D,
            Fax::Group3Differences => EncodingMode::Group3_2D,
            Fax::Group4 => EncodingMode::Group4,
        },
        // What must be guessed is damage.
        strict: true,
    };
    let mut rows = Rows { left: target, bytes, columns };
    let done = hayro_ccitt::decode(data, &mut rows, &mut DecoderContext::new(settings));
    match done {
        _ if rows.left.is_empty() => Ok(()),
        Ok(_) | Err(DecodeError::UnexpectedEof) => Err(truncated()),
        Err(error) => Err(broken(format!("fax data: {error}"))),
    }
}

/// The rows that are still to be written.
struct Rows<'a> {
    left: &'a mut [u8],
    /// Of one row.
    bytes: usize,
    /// Of one row.
    columns: usize,
}

impl Decoder for Rows<'_> {
    fn push_row(&mut self, changes: &[u32]) {
        let left = std::mem::take(&mut self.left);
        let Some((row, left)) = left.split_at_mut_checked(self.bytes) else { return };
        self.left = left;
        row.fill(0);
        for black in changes.chunks(2) {
            let end = black.get(1).map_or(self.columns, |end| *end as usize);
            blacken(row, black[0] as usize, end.min(self.columns));
        }
    }
}

/// Sets the bits from `start` up to `end`, the highest of a byte first.
fn blacken(row: &mut [u8], start: usize, end: usize) {
    if start >= end {
        return;
    }
    let (first, last) = (start / 8, (end - 1) / 8);
    let (head, tail) = (0xff >> (start % 8), 0xff << (7 - (end - 1) % 8));
    if first == last {
        row[first] |= head & tail;
    } else {
        row[first] |= head;
        row[first + 1..last].fill(0xff);
        row[last] |= tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_set_bit_by_bit() {
        for start in 0..24 {
            for end in start..=24 {
                let mut row = [0; 3];
                blacken(&mut row, start, end);
                let bits = row.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
                let wanted = (start..end).fold(0, |bits, at| bits | 1 << (23 - at));
                assert_eq!(bits, wanted, "{start}..{end}");
            }
        }
    }
}
