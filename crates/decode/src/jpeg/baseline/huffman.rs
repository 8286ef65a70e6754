//! A table of codes, made so that one look gives a whole coefficient in most cases: its code and the bits of its value behind it.

/// How many bits are looked up at once. More would find longer codes, and leave less room in the nearest cache.
pub(super) const LOOK: u32 = 10;

/// In an entry: the value's bits did not fit any more.
pub(super) const SHORT: u32 = 1 << 5;
/// In an entry: not even the code did.
pub(super) const LONG: u32 = 1 << 6;
/// So many places are skipped when nothing more comes in a block: past all there are.
pub(super) const END: u32 = 128;

/// What is known after one look: length of what was read in bits 0 to 4, [`SHORT`], [`LONG`], places to skip in bits 8 to 15, and in
/// the upper half the coefficient; with [`SHORT`], the length of its value.
pub(super) type Entry = u32;

/// The codes of one table.
pub(super) struct Huffman {
    /// The table as the file has it: a file with the same one needs no other.
    source: Vec<u8>,
    /// By the next [`LOOK`] bits.
    pub(super) quick: Box<[Entry; 1 << LOOK]>,
    /// By length: one more than the largest code, with zeros up to 16 bits, and what leads from a code to its symbol.
    ends: [(u32, i32); 17],
    symbols: Vec<u8>,
    is_first: bool,
}

impl Default for Huffman {
    fn default() -> Self {
        let quick = Box::new([LONG; 1 << LOOK]);
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
        self.quick.fill(LONG);
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
            *entry = if size > open {
                length | SHORT | skip << 8 | size << 16
            } else {
                let value = extended(behind >> (open - size), size);
                (length + size) | skip << 8 | u32::from(value.cast_unsigned()) << 16
            };
        }
    }

    /// The symbol whose code is longer than a look, and the code's length, from the next 16 bits. `None`: there is no such code.
    pub(super) fn long(&self, next: u32) -> Option<(u32, u32, u32)> {
        for length in LOOK + 1..=16 {
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

/// The value that so many bits stand for: those that begin with zero are negative.
#[inline]
#[allow(clippy::cast_possible_truncation)] // 15 bits at most
pub(super) const fn extended(bits: u32, size: u32) -> i16 {
    if size == 0 {
        return 0;
    }
    let least = if bits >> (size - 1) == 0 { (1 << size) - 1 } else { 0 };
    (bits.cast_signed() - least) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_extended_as_the_standard_says() {
        let values: Vec<i16> = (0..8).map(|bits| extended(bits, 3)).collect();
        assert_eq!(values, [-7, -6, -5, -4, 4, 5, 6, 7]);
        assert_eq!((extended(0, 1), extended(1, 1), extended(0, 0), extended(0, 11)), (-1, 1, 0, -2047));
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

    #[test]
    fn one_look_gives_code_and_value() {
        let mut counts = [0; 16];
        (counts[1], counts[11]) = (1, 1);
        let mut table = Huffman::default();
        table.prepare(&counts, &[0x23, 0x05], false).unwrap();
        // Code 00, then 101: two places are skipped, then 5.
        assert_eq!(table.quick[0b00_1010_0000], 5 | 2 << 8 | 5 << 16);
        assert_eq!(table.quick[0b01_0000_0000], LONG);
        // 0100_0000_0000 in twelve bits.
        assert_eq!(table.long(0b0100_0000_0000_0000), Some((12, 0, 5)));
        assert_eq!(table.long(0b0100_0000_0001_0000), None);
    }
}
