//! Values that are stored as what differs from the one before (`DELTA_BYTE_ARRAY`), written out where their lengths, added up first, allow it. Reads
//! hostile bytes: every access is checked.

use parquet::errors::{ParquetError, Result};

/// How many numbers are said to be in a stretch of `DELTA_BINARY_PACKED`.
pub(super) fn count(bytes: &[u8]) -> Option<u64> {
    let mut reader = Reader { rest: bytes };
    reader.number()?;
    reader.number()?;
    reader.number()
}

/// `head` as it is, and behind it the values of `body`, each with its length before it: a plain page. There are at most `values` of them.
pub(super) fn written_out(head: &[u8], body: &[u8], values: usize, most: u64) -> Result<Vec<u8>> {
    let damaged = || ParquetError::General("the lengths of a page's values are damaged".to_owned());
    let mut reader = Reader { rest: body };
    let shared = reader.numbers(values).ok_or_else(damaged)?;
    let own = reader.numbers(values).ok_or_else(damaged)?;
    if shared.len() != own.len() {
        return Err(damaged());
    }
    let (mut total, mut before, mut taken) = (head.len() as u64, 0, 0_usize);
    for (shared, own) in shared.iter().zip(&own) {
        let (shared, own) =
            usize::try_from(*shared).ok().zip(usize::try_from(*own).ok()).ok_or_else(damaged)?;
        taken = taken.checked_add(own).filter(|_| shared <= before).ok_or_else(damaged)?;
        before = shared + own;
        total = total.saturating_add(4 + before as u64);
    }
    let mut rest = reader.rest.get(..taken).ok_or_else(damaged)?;
    if total > most {
        return Err(ParquetError::General(format!(
            "a page of {} bytes becomes {total}, because its values share their beginnings (DELTA_BYTE_ARRAY); at most {most} are \
             taken: write the table with PLAIN or dictionary encoding",
            head.len() + body.len()
        )));
    }
    let mut plain = Vec::with_capacity(usize::try_from(total).map_err(|_| damaged())?);
    plain.extend_from_slice(head);
    let mut before = plain.len();
    for (shared, own) in shared.iter().zip(&own) {
        let (shared, own) = (shared.unsigned_abs() as usize, own.unsigned_abs() as usize);
        let (new, behind) = rest.split_at_checked(own).ok_or_else(damaged)?;
        rest = behind;
        let length = u32::try_from(shared + own).map_err(|_| damaged())?;
        plain.extend_from_slice(&length.to_le_bytes());
        let begin = plain.len();
        plain.extend_from_within(before..before + shared);
        plain.extend_from_slice(new);
        before = begin;
    }
    Ok(plain)
}

/// What was not read yet.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// A number of seven bits a byte, the lowest first.
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// One with its sign in the lowest bit.
    fn signed(&mut self) -> Option<i32> {
        let number = self.number()?;
        i32::try_from((number >> 1).cast_signed() ^ -(number & 1).cast_signed()).ok()
    }

    /// A stretch of `DELTA_BINARY_PACKED`, of at most so many numbers: the first one, then blocks of differences.
    fn numbers(&mut self, most: usize) -> Option<Vec<i32>> {
        let (block, parts, count) = (self.number()?, self.number()?, self.number()?);
        let first = self.signed()?;
        let (parts, count) = (usize::try_from(parts).ok()?, usize::try_from(count).ok()?);
        let of_part = usize::try_from(block).ok()?.checked_div(parts)?;
        if count > most || of_part == 0 || !of_part.is_multiple_of(32) {
            return None;
        }
        let mut numbers = Vec::with_capacity(count);
        numbers.extend((count > 0).then_some(first));
        let mut last = first;
        while numbers.len() < count {
            let least = self.signed()?;
            let (widths, rest) = self.rest.split_at_checked(parts)?;
            self.rest = rest;
            for width in widths.iter().copied().map(usize::from) {
                let some = of_part.min(count - numbers.len());
                if some == 0 {
                    break;
                }
                let packed = self.rest;
                for at in 0..some {
                    last = last.wrapping_add(least).wrapping_add(bits(packed, at, width)?);
                    numbers.push(last);
                }
                // The last part may be cut behind its last number.
                let bytes = of_part.checked_mul(width)? / 8;
                self.rest = self.rest.get(bytes..).unwrap_or_default();
            }
        }
        Some(numbers)
    }
}

/// The number at this place of those that have so many bits each, the lowest first.
fn bits(packed: &[u8], at: usize, width: usize) -> Option<i32> {
    if width > 32 {
        return None;
    }
    let from = at * width;
    let bytes = packed.get(from / 8..(from + width).div_ceil(8))?;
    let whole = bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let value = whole >> (from % 8) & ((1 << width) - 1);
    u32::try_from(value).ok().map(u32::cast_signed)
}
