//! A TIFF's directories and the values of their tags, read where they lie: nothing is copied or allocated, however many
//! there are. Reads hostile bytes: every access is checked.

use crate::Rejection;

use super::reasons::{broken, truncated};

/// The most entries of a directory: what a count of 16 bits allows, also for the 64 bits of `BigTIFF`.
const MOST_ENTRIES: u64 = 65_535;

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    /// Whether numbers of the file lie as this machine has them.
    pub(super) const fn is_native(self) -> bool {
        matches!(self, Self::Little) == cfg!(target_endian = "little")
    }

    /// The number in the first `width` bytes: 1, 2, 4 or 8.
    fn number(self, bytes: &[u8], width: usize) -> Option<u64> {
        let bytes = bytes.get(..width)?;
        let joined = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match self {
            Self::Little => bytes.iter().rev().fold(0, joined),
            Self::Big => bytes.iter().fold(0, joined),
        })
    }
}

/// A whole file: classic TIFF or `BigTIFF`.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    /// All of it.
    pub(super) bytes: &'a [u8],
    /// Of its numbers.
    pub(super) order: Order,
    /// Whether offsets and counts have 64 bits.
    big: bool,
}

/// A directory: what is known of one page.
#[derive(Clone, Copy)]
pub(super) struct Directory<'a> {
    /// Where its values lie.
    pub(super) file: File<'a>,
    /// Its entries, one after the other.
    entries: &'a [u8],
    /// Where the next directory is; 0 where there is none.
    pub(super) next: u64,
}

/// The values of a tag.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    /// The field type, as TIFF numbers them.
    kind: u16,
    /// How they lie.
    order: Order,
    /// All of them, as far as the file goes.
    bytes: &'a [u8],
    /// How many the entry claims.
    count: u64,
}

impl<'a> File<'a> {
    /// The file, and where its first directory is.
    pub(super) fn open(bytes: &'a [u8]) -> Result<(Self, u64), Rejection> {
        let (order, big) = match bytes.get(..4).ok_or_else(truncated)? {
            [b'I', b'I', 42, 0] => (Order::Little, false),
            [b'I', b'I', 43, 0] => (Order::Little, true),
            [b'M', b'M', 0, 42] => (Order::Big, false),
            [b'M', b'M', 0, 43] => (Order::Big, true),
            _ => return Err(broken("it does not begin as a TIFF")),
        };
        let file = Self { bytes, order, big };
        if !big {
            return Ok((file, file.number(4, 4)?));
        }
        if (file.number(4, 2)?, file.number(6, 2)?) != (8, 0) {
            return Err(broken("a BigTIFF whose offsets have other than 8 bytes"));
        }
        Ok((file, file.number(8, 8)?))
    }

    /// What stands from `at` on; nothing behind the end.
    pub(super) fn from(&self, at: u64) -> &'a [u8] {
        usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    fn number(&self, at: u64, width: usize) -> Result<u64, Rejection> {
        self.order.number(self.from(at), width).ok_or_else(truncated)
    }

    /// Bytes of a directory's count, of one entry, and of an offset.
    const fn widths(&self) -> (usize, usize, usize) {
        if self.big { (8, 20, 8) } else { (2, 12, 4) }
    }

    /// The directory at `at`.
    pub(super) fn directory(self, at: u64) -> Result<Directory<'a>, Rejection> {
        let (count_width, entry, offset) = self.widths();
        let count = self.number(at, count_width)?;
        if count == 0 || count > MOST_ENTRIES {
            return Err(broken(format!("a directory of {count} entries")));
        }
        let start = at.saturating_add(count_width as u64);
        let bytes = usize::try_from(count).unwrap_or(usize::MAX) * entry;
        let entries = self.from(start).get(..bytes).ok_or_else(truncated)?;
        // A file that ends here has no more pages; readers agree on that.
        let next = self.order.number(self.from(start + bytes as u64), offset).unwrap_or(0);
        Ok(Directory { file: self, entries, next })
    }
}

impl<'a> Directory<'a> {
    /// Bytes of its entries.
    pub(super) const fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The values of a tag, where the page has it.
    pub(super) fn find(&self, tag: u16) -> Result<Option<Values<'a>>, Rejection> {
        let (count_width, entry, offset) = self.file.widths();
        let order = self.file.order;
        let number = |bytes: &[u8], width| order.number(bytes, width).unwrap_or(0);
        let is_it = |entry: &&[u8]| number(entry, 2) == u64::from(tag);
        let Some(found) = self.entries.chunks_exact(entry).find(is_it) else { return Ok(None) };
        let kind = u16::try_from(number(&found[2..], 2)).unwrap_or(0);
        let count_width = if count_width == 8 { 8 } else { 4 };
        let count = number(&found[4..], count_width);
        let field = &found[4 + count_width..];
        let Some(width) = width(kind) else {
            return Err(broken(format!("tag {tag} has values of an unknown type ({kind})")));
        };
        let bytes = count.saturating_mul(width as u64);
        let stored = if bytes <= offset as u64 { field } else { self.file.from(number(field, offset)) };
        let stored = &stored[..stored.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        Ok(Some(Values { kind, order, bytes: stored, count }))
    }

    /// The first value of a tag as a whole number, where the page has it.
    pub(super) fn number(&self, tag: u16) -> Result<Option<u64>, Rejection> {
        let Some(values) = self.find(tag)? else { return Ok(None) };
        if values.count == 0 {
            return Ok(None);
        }
        values.number(0).map(Some)
    }

    /// As [`Directory::number`], with what TIFF says where the tag is absent.
    pub(super) fn number_or(&self, tag: u16, absent: u64) -> Result<u64, Rejection> {
        Ok(self.number(tag)?.unwrap_or(absent))
    }
}

impl<'a> Values<'a> {
    /// How many there are, as far as the entry says.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Whether the first `count` of them are all within the file.
    pub(super) fn holds(&self, count: u64) -> bool {
        count.saturating_mul(width(self.kind).unwrap_or(1) as u64) <= self.bytes.len() as u64
    }

    /// The bytes of all of them, as they lie in the file.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The value at `index` as a whole number.
    pub(super) fn number(&self, index: u64) -> Result<u64, Rejection> {
        let width = width(self.kind).unwrap_or(1);
        let stored = self.stored(index)?;
        match self.kind {
            1 | 3 | 4 | 7 | 13 | 16 | 18 => Ok(stored),
            // Signed, where some writers put what is never negative.
            6 | 8 | 9 | 17 if stored >> (8 * width - 1) == 0 => Ok(stored),
            _ => Err(broken("a tag that should hold whole numbers holds others")),
        }
    }

    /// The value at `index`, whole or a fraction.
    #[allow(clippy::cast_precision_loss)] // of coefficients and levels, which are small
    pub(super) fn fraction(&self, index: u64) -> Result<f64, Rejection> {
        if self.kind != 5 {
            return self.number(index).map(|value| value as f64);
        }
        let stored = usize::try_from(index).ok().and_then(|index| self.bytes.get(index.checked_mul(8)?..));
        let part = |at: usize| self.order.number(stored?.get(at..)?, 4);
        let (Some(over), Some(under)) = (part(0), part(4)) else { return Err(truncated()) };
        if under == 0 { Err(broken("a fraction over zero")) } else { Ok(over as f64 / under as f64) }
    }

    fn stored(&self, index: u64) -> Result<u64, Rejection> {
        let width = width(self.kind).unwrap_or(1);
        if width > 8 || index >= self.count {
            return Err(broken("a tag with too few values"));
        }
        let at = usize::try_from(index).ok().and_then(|index| index.checked_mul(width));
        let bytes = at.and_then(|at| self.bytes.get(at..)).ok_or_else(truncated)?;
        self.order.number(bytes, width).ok_or_else(truncated)
    }
}

/// Bytes of a value of this field type.
const fn width(kind: u16) -> Option<usize> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 | 17 | 18 => Some(8),
        _ => None,
    }
}
