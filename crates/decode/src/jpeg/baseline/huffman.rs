//! A table of codes, made so that one look gives one or two whole coefficients in most cases: their codes and the bits of their values.

/// How many bits are looked up at once. More would find longer codes, and leave less room in the nearest cache.
const LOOK: u32 = 11;

/// So many places are skipped when nothing more comes in a block: past all there are.
const END: u32 = 128;
/// In an entry: one look was not enough.
const UNKNOWN: u64 = 1 << 7;

/// What is known after one look: one coefficient or two. From the lowest bit on:
///
/// - 8 bits: how many bits were read, or [`UNKNOWN`];
/// - 8 bits: how many places further the first coefficient stands;
/// - 16 bits each: the first coefficient, the second;
/// - 8 bits each: how many places further the second stands, and what comes next.
///
/// Where there is no second, it is the zero behind the first. With [`UNKNOWN`], only a code was read, if any, and instead of the first
/// coefficient stands the length of its value; so it is with all first coefficients of blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u64);

#[allow(clippy::cast_possible_truncation)] // parts of it
impl Entry {
    /// Nothing is known.
    const NONE: Self = Self(UNKNOWN);

    const fn one(length: u32, skip: u32, value: i16) -> Self {
        let (length, skip, value) = (length as u64, skip as u64, value.cast_unsigned() as u64);
        Self(length | skip << 8 | value << 16 | (skip + 1) << 48 | (skip + 1) << 56)
    }

    /// Both, if both are known and fit into one look.
    fn two(first: Self, second: Self) -> Option<Self> {
        let length = first.length() + second.length();
        let known = first.is_known() && second.is_known() && first.skip() < END as usize;
        (known && length <= LOOK).then(|| {
            let (at, next) = (first.next() + second.skip(), first.next() + second.next());
            let value = u64::from(second.first().cast_unsigned());
            Self(
                u64::from(length)
                    | first.0 & 0xffff_ff00
                    | value << 32
                    | (at as u64) << 48
                    | (next as u64) << 56,
            )
        })
    }

    /// A code whose value does not fit into one look.
    const fn short(length: u32, skip: u32, size: u32) -> Self {
        Self(length as u64 | UNKNOWN | (skip as u64) << 8 | (size as u64) << 16)
    }

    #[inline(always)]
    pub(super) const fn is_known(self) -> bool {
        self.0 & UNKNOWN == 0
    }

    /// Bits that were read.
    #[inline(always)]
    pub(super) const fn length(self) -> u32 {
        self.0 as u32 & 63
    }

    /// Places from here to the first coefficient.
    #[inline(always)]
    pub(super) const fn skip(self) -> usize {
        (self.0 >> 8) as usize & 255
    }

    #[inline(always)]
    pub(super) const fn first(self) -> i16 {
        (self.0 >> 16) as i16
    }

    #[inline(always)]
    pub(super) const fn second(self) -> i16 {
        (self.0 >> 32) as i16
    }

    /// Places from here to the second.
    #[inline(always)]
    pub(super) const fn to_second(self) -> usize {
        (self.0 >> 48) as usize & 255
    }

    /// Places from here to what comes next.
    #[inline(always)]
    pub(super) const fn next(self) -> usize {
        (self.0 >> 56) as usize
    }
}

/// The codes of one table.
pub(super) struct Huffman {
    /// The table as the file has it: a file with the same one needs no other.
    source: Vec<u8>,
    /// By the next [`LOOK`] bits.
    quick: Box<[Entry; 1 << LOOK]>,
    /// By length: one more than the largest code, with zeros up to 16 bits, and what leads from a code to its symbol.
    ends: [(u32, i32); 17],
    symbols: Vec<u8>,
    is_first: bool,
}

impl Default for Huffman {
    fn default() -> Self {
        let quick = Box::new([Entry::NONE; 1 << LOOK]);
        Self { source: Vec::new(), quick, ends: [(0, 0); 17], symbols: Vec::new(), is_first: false }
    }
}

impl Huffman {
    /// Sets the table up. `None`: it is none that libjpeg-turbo would not complain of.
    pub(super) fn prepare(&mut self, counts: &[u8; 16], symbols: &[u8], is_first: bool) -> Option<()> {
        if self.source.starts_with(counts) && self.source[16..] == *symbols && self.is_first == is_first {
            return Some(());
        }
        self.source.clear();
        self.is_first = is_first;
        // Differences of more than eleven bits do not occur in files of eight.
        if symbols.len() > 256 || (is_first && symbols.iter().any(|symbol| *symbol > 11)) {
            return None;
        }
        self.symbols.clear();
        self.symbols.extend(symbols);
        self.quick.fill(Entry::NONE);
        let (mut code, mut at) = (0u32, 0usize);
        for (length, count) in (1u32..).zip(counts) {
            let offset = i32::try_from(at).ok()? - i32::try_from(code).ok()?;
            for _ in 0..*count {
                self.enter(code, length, *symbols.get(at)?);
                (code, at) = (code + 1, at + 1);
            }
            // No code is all ones.
            if code >= 1 << length {
                return None;
            }
            self.ends[length as usize] = (code << (16 - length), offset);
            code <<= 1;
        }
        if !is_first {
            self.pair();
        }
        self.source.extend(counts);
        self.source.extend(symbols);
        Some(())
    }

    /// Every run of bits that begins with this code.
    fn enter(&mut self, code: u32, length: u32, symbol: u8) {
        if length > LOOK {
            return;
        }
        let open = LOOK - length;
        let first = (code << open) as usize;
        for (behind, entry) in (0u32..1 << open).zip(self.quick.iter_mut().skip(first)) {
            let (skip, size) = meaning(symbol, self.is_first);
            *entry = if size > open || self.is_first {
                Entry::short(length, skip, size)
            } else {
                Entry::one(length + size, skip, extended(u64::from(behind) << (63 - open) << 1, size))
            };
        }
    }

    /// What fits into the same look behind another.
    fn pair(&mut self) {
        let ones = *self.quick;
        for (bits, entry) in self.quick.iter_mut().enumerate() {
            let behind = ones[(bits << entry.length()) & ((1 << LOOK) - 1)];
            *entry = Entry::two(*entry, behind).unwrap_or(*entry);
        }
    }

    /// What the next bits are, from the top, as far as one look tells.
    #[inline(always)]
    pub(super) fn look(&self, next: u64) -> Entry {
        self.quick[(next >> (64 - LOOK)) as usize]
    }

    /// The one coefficient that comes next, whatever a look tells. `None`: there is no such code.
    #[inline(never)] // rare, and large
    #[allow(clippy::cast_possible_truncation)] // a byte
    pub(super) fn one(&self, next: u64) -> Option<Entry> {
        let entry = self.look(next);
        let (length, skip, size) = if !entry.is_known() && entry.length() > 0 {
            (entry.length(), entry.skip() as u32, u32::from(entry.first().cast_unsigned()))
        } else {
            self.code((next >> 48) as u32)?
        };
        Some(Entry::one(length + size, skip, extended(next << length, size)))
    }

    /// The next difference of first coefficients: how many bits it takes, and its value. Values are computed, not looked up: many are too long for
    /// that, and nobody foretells which. `None`: there is no such code.
    #[inline(always)]
    pub(super) fn difference(&self, next: u64) -> Option<(u32, i16)> {
        let entry = self.look(next);
        let (length, size) = if entry.length() > 0 {
            (entry.length(), u32::from(entry.first().cast_unsigned()))
        } else {
            let (length, _, size) = self.code((next >> 48) as u32)?;
            (length, size)
        };
        Some((length + size, extended(next << length, size)))
    }

    /// The length of the next code, and what it means, from the next 16 bits. `None`: there is no such code.
    #[cold]
    fn code(&self, next: u32) -> Option<(u32, u32, u32)> {
        for length in 1..=16 {
            let (end, offset) = self.ends[length as usize];
            if next < end {
                let code = i32::try_from(next >> (16 - length)).ok()?;
                let symbol = *self.symbols.get(usize::try_from(code + offset).ok()?)?;
                let (skip, size) = meaning(symbol, self.is_first);
                return Some((length, skip, size));
            }
        }
        None
    }
}

/// Places to skip, and bits of the value.
const fn meaning(symbol: u8, is_first: bool) -> (u32, u32) {
    let (skip, size) = (symbol as u32 >> 4, symbol as u32 & 15);
    if is_first {
        (0, size)
    } else if size == 0 && skip != 15 {
        (END, 0)
    } else {
        (skip, size)
    }
}

/// The value that the first so many bits stand for: those that begin with zero are negative.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // 15 bits at most
const fn extended(bits: u64, size: u32) -> i16 {
    let value = (bits >> 1 >> (63 - size)).cast_signed();
    let least = (1 << size) - 1;
    (value - (least & !(bits.cast_signed() >> 63))) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_extended_as_the_standard_says() {
        let values: Vec<i16> = (0..8).map(|bits| extended(bits << 61, 3)).collect();
        assert_eq!(values, [-7, -6, -5, -4, 4, 5, 6, 7]);
        assert_eq!(
            (extended(0, 1), extended(1 << 63, 1), extended(0, 0), extended(0, 11)),
            (-1, 1, 0, -2047)
        );
        assert_eq!(extended(u64::MAX, 0), 0);
    }

    #[test]
    fn a_table_with_too_many_codes_is_none() {
        let mut counts = [0; 16];
        counts[0] = 3;
        assert_eq!(Huffman::default().prepare(&counts, &[1, 2, 3], false), None);
        counts[0] = 2;
        assert_eq!(Huffman::default().prepare(&counts, &[1, 2], false), None, "a code that is all ones");
        counts[0] = 1;
        assert_eq!(Huffman::default().prepare(&counts, &[12], true), None, "a difference of 12 bits");
        assert_eq!(Huffman::default().prepare(&counts, &[0x21], false), Some(()));
    }

    /// Bits from the top.
    fn bits(text: &str) -> u64 {
        let set = text.chars().filter(|bit| *bit != ' ').zip((0..64).rev()).filter(|(bit, _)| *bit == '1');
        set.map(|(_, at)| 1 << at).sum()
    }

    #[test]
    fn one_look_gives_codes_and_values() {
        let mut counts = [0; 16];
        (counts[1], counts[2], counts[11]) = (1, 1, 1);
        let mut table = Huffman::default();
        table.prepare(&counts, &[0x23, 0x00, 0x05], false).unwrap();
        let seen = |text| {
            let entry = table.look(bits(text));
            assert!(entry.is_known());
            let values = [entry.first(), entry.second()];
            (entry.length(), [entry.skip(), entry.to_second(), entry.next()], values)
        };
        // Code 00, then 101: two places are skipped, then 5. The same again, with -7.
        assert_eq!(seen("00 101 00 000"), (10, [2, 5, 6], [5, -7]));
        // Nothing more comes; at once, or after one.
        assert_eq!(seen("010"), (3, [128, 129, 129], [0, 0]));
        assert_eq!(seen("00 101 010"), (8, [2, 131, 132], [5, 0]));
        // A code behind it that is longer than a look.
        assert_eq!(seen("00 101 011"), (5, [2, 3, 3], [5, 0]));
        assert!(!table.look(bits("011")).is_known());
    }

    #[test]
    fn one_coefficient_is_given_however_long_it_is() {
        let mut counts = [0; 16];
        (counts[1], counts[3], counts[11]) = (1, 1, 1);
        let mut table = Huffman::default();
        table.prepare(&counts, &[0x23, 0x0a, 0x05], false).unwrap();
        let one = |text| table.one(bits(text));
        // Of two that fit into a look, the first.
        assert!(one("00 101 00 000") == Some(Entry::one(5, 2, 5)));
        // A code of 4 bits with a value of 10, and one of 12 with a value of 5.
        assert!(one("0100 1111111110") == Some(Entry::one(14, 0, 1022)));
        assert!(one("010100000000 00001") == Some(Entry::one(17, 0, -30)));
        assert!(one("010100000001").is_none());
    }

    #[test]
    fn differences_are_read_however_long_they_are() {
        let mut counts = [0; 16];
        (counts[0], counts[1], counts[11]) = (1, 1, 1);
        let mut table = Huffman::default();
        table.prepare(&counts, &[0, 11, 2], true).unwrap();
        assert_eq!(table.difference(bits("0 1111")), Some((1, 0)));
        assert_eq!(table.difference(bits("10 10000000001")), Some((13, 1025)));
        assert_eq!(table.difference(bits("110000000000 01")), Some((14, -2)));
        assert_eq!(table.difference(bits("110000000001")), None);
    }
}
