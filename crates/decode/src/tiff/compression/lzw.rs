//! LZW as TIFF has it: codes of 9 to 12 bits, the widths growing one code early; and the older kind, its bits the other way round.
//!
//! A string of the table is always something that was written before, so an entry is where it was written and how long it is.
//! Its first eight bytes stand in the entry, too: most strings are no longer, and reading them back from what was just
//! written would wait for the store.

#![allow(clippy::inline_always)] // a quarter slower where it is left to the compiler

use crate::Rejection;

use super::super::reasons::{broken, truncated};

const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;
/// The most codes there are: 12 bits.
const ALL: usize = 4096;

/// A string of the table.
#[derive(Clone, Copy, Default)]
struct Entry {
    /// The first eight bytes of it, the first one lowest.
    bytes: u64,
    /// Where in the output it begins, in the lower half; how many bytes it has, in the upper. Single bytes begin nowhere.
    span: u64,
}

impl Entry {
    #[inline(always)]
    const fn length(self) -> usize {
        (self.span >> 32) as usize
    }

    #[inline(always)]
    const fn start(self) -> usize {
        (self.span & 0xffff_ffff) as usize
    }
}

/// The table of strings. Begins anew with every strip.
pub(super) struct Lzw {
    /// One for each code, and one behind them that is written when there are no more codes. The two that stand for no string have
    /// no bytes.
    entries: Box<[Entry; ALL + 1]>,
}

/// Codes from a strip.
struct Codes<'a, const LOWEST_FIRST: bool> {
    data: &'a [u8],
    /// Up to 64 bits, the next one highest; or lowest, in the older kind.
    bits: u64,
    /// How many of them count.
    held: u32,
}

impl<const LOWEST_FIRST: bool> Codes<'_, LOWEST_FIRST> {
    /// The next code of `width` bits; none at the end of the data.
    #[inline(always)]
    fn next(&mut self, width: u32) -> Option<usize> {
        if self.held < width {
            self.refill();
            if self.held < width {
                return None;
            }
        }
        self.held -= width;
        #[allow(clippy::cast_possible_truncation)] // 12 bits
        if LOWEST_FIRST {
            let code = self.bits as usize & ((1 << width) - 1);
            self.bits >>= width;
            Some(code)
        } else {
            let code = (self.bits >> (64 - width)) as usize;
            self.bits <<= width;
            Some(code)
        }
    }

    #[inline(always)]
    fn refill(&mut self) {
        if let Some(word) = self.data.first_chunk::<8>() {
            // Bits of a byte that is only partly taken are put in again by the next refill: the same ones, in the same place.
            self.bits |= if LOWEST_FIRST {
                u64::from_le_bytes(*word) << self.held
            } else {
                u64::from_be_bytes(*word) >> self.held
            };
            let taken = (63 - self.held) / 8;
            self.data = &self.data[taken as usize..];
            self.held += 8 * taken;
        } else {
            while self.held <= 56
                && let Some((byte, rest)) = self.data.split_first()
            {
                let shift = if LOWEST_FIRST { self.held } else { 56 - self.held };
                self.bits |= u64::from(*byte) << shift;
                (self.data, self.held) = (rest, self.held + 8);
            }
        }
    }
}

impl Lzw {
    pub(super) fn new() -> Self {
        #[allow(clippy::large_stack_arrays)] // 64 KiB, and optimised builds make it where it stays
        let mut entries = Box::new([Entry::default(); ALL + 1]);
        for (byte, entry) in entries.iter_mut().take(CLEAR).enumerate() {
            *entry = Entry { bytes: byte as u64, span: 1 << 32 };
        }
        Self { entries }
    }

    /// Fills `target`; what the data holds beyond that is not looked at.
    pub(super) fn decode(&mut self, data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
        if u32::try_from(target.len()).is_err() {
            return Err(broken("a strip of more than 4 GiB"));
        }
        // The older kind begins with the code that clears the table, 9 bits with the lowest one first.
        let older = matches!(data, [0, second, ..] if second & 1 == 1);
        if older {
            self.fill(Codes::<true> { data, bits: 0, held: 0 }, target)
        } else {
            self.fill(Codes::<false> { data, bits: 0, held: 0 }, target)
        }
    }

    fn fill<const LOWEST_FIRST: bool>(
        &mut self,
        mut codes: Codes<'_, LOWEST_FIRST>,
        target: &mut [u8],
    ) -> Result<(), Rejection> {
        let mut at = 0;
        while at < target.len() {
            // The first string behind a cleared table is a single byte, of which nothing is made yet.
            let code = codes.next(9).ok_or_else(truncated)?;
            match code {
                CLEAR => {}
                END => return Err(truncated()),
                FIRST.. => return Err(nothing()),
                _ => at = self.run(self.entries[code], at, &mut codes, target)?,
            }
        }
        Ok(())
    }

    /// Writes strings from `at` on until the table is cleared or the target full, and says how far it came.
    fn run<const LOWEST_FIRST: bool>(
        &mut self,
        mut before: Entry,
        mut at: usize,
        codes: &mut Codes<'_, LOWEST_FIRST>,
        target: &mut [u8],
    ) -> Result<usize, Rejection> {
        // The newer kind widens its codes one code before it must.
        let early = usize::from(!LOWEST_FIRST);
        let (mut width, mut next, mut widest) = (9, FIRST, (1 << 9) - early);
        before.span |= at as u64;
        write(target, at, before);
        at += before.length();
        while at < target.len() {
            let code = codes.next(width).ok_or_else(truncated)?;
            let mut entry = self.entries[code & (ALL - 1)];
            // What came before, and one byte more: the first of what comes now.
            let first = if code == next { before.bytes } else { entry.bytes } & 0xff;
            let grown = if before.length() < 8 { first << (8 * before.length()) } else { 0 };
            let added = Entry { bytes: before.bytes | grown, span: before.span + (1 << 32) };
            if code >= next {
                if code > next {
                    return Err(nothing());
                }
                entry = added;
            } else if entry.length() == 0 {
                return if code == CLEAR { Ok(at) } else { Err(truncated()) };
            }
            self.entries[next] = added;
            next += 1;
            if next >= widest {
                if width < 12 {
                    width += 1;
                    widest = (1 << width) - early;
                } else {
                    next = next.min(ALL);
                }
            }
            write(target, at, entry);
            before = Entry { bytes: entry.bytes, span: (entry.span & !0xffff_ffff) | at as u64 };
            at += entry.length();
        }
        Ok(at)
    }
}

fn nothing() -> Rejection {
    broken("LZW data with a code that stands for nothing")
}

/// Writes a string at `at`, as far as there is room.
#[inline(always)]
fn write(target: &mut [u8], at: usize, entry: Entry) {
    if let Some(room) = target.get_mut(at..at + 8)
        && entry.length() <= 8
    {
        // What is too much is written over by the strings that follow.
        room.copy_from_slice(&entry.bytes.to_le_bytes());
        return;
    }
    write_long(target, at, entry);
}

/// Writes a string that is long, or for which there is hardly room.
fn write_long(target: &mut [u8], at: usize, entry: Entry) {
    let room = entry.length().min(target.len() - at);
    if entry.length() <= 8 {
        target[at..at + room].copy_from_slice(&entry.bytes.to_le_bytes()[..room]);
        return;
    }
    let start = entry.start();
    let written = room.min(at - start);
    target.copy_within(start..start + written, at);
    // The last byte of a string that was made of the one before is the first one that is written now.
    if written < room {
        target[at + written] = target[at];
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Compresses, in either kind.
    fn encode(data: &[u8], lowest_first: bool) -> Vec<u8> {
        let (mut bits, mut width) = (Vec::new(), 9);
        let mut put = |code: usize, width: usize| {
            let ones = (0..width).map(|at| code >> if lowest_first { at } else { width - 1 - at } & 1 == 1);
            bits.extend(ones);
        };
        let mut table: HashMap<Vec<u8>, usize> = HashMap::new();
        let code_of = |table: &HashMap<Vec<u8>, usize>, string: &[u8]| match string {
            [byte] => usize::from(*byte),
            _ => table[string],
        };
        put(CLEAR, 9);
        let mut string: Vec<u8> = Vec::new();
        for byte in data {
            let longer = [string.as_slice(), &[*byte]].concat();
            if longer.len() == 1 || table.contains_key(&longer) {
                string = longer;
                continue;
            }
            put(code_of(&table, &string), width);
            table.insert(longer, FIRST + table.len());
            string = vec![*byte];
            // The decoder is one entry behind.
            let next = FIRST + table.len() - 1;
            width = (9..=12).find(|width| next + usize::from(!lowest_first) < 1 << width).unwrap_or(12);
            if next > 4090 {
                put(CLEAR, width);
                (table, width) = (HashMap::new(), 9);
            }
        }
        put(code_of(&table, &string), width);
        let next = FIRST + table.len();
        put(END, (9..=12).find(|width| next + usize::from(!lowest_first) < 1 << width).unwrap_or(12));
        let byte = |bits: &[bool]| {
            let set = |at: usize| u8::from(bits.get(at).copied().unwrap_or(false));
            (0..8).fold(0, |byte, at| byte | set(at) << if lowest_first { at } else { 7 - at })
        };
        bits.chunks(8).map(byte).collect()
    }

    #[test]
    fn what_was_compressed_comes_back_in_both_kinds() {
        let mut state = 7_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        let noisy: Vec<u8> = (0..20_000).map(|_| noise()).collect();
        let mixed: Vec<u8> =
            noisy.iter().enumerate().map(|(at, byte)| if at % 700 < 500 { 3 } else { byte & 3 }).collect();
        for data in [b"abababababa".to_vec(), vec![7; 9000], noisy, mixed] {
            for lowest_first in [false, true] {
                let encoded = encode(&data, lowest_first);
                let mut lzw = Lzw::new();
                for length in [data.len(), data.len() - 1, data.len() / 2, 9, 1] {
                    let mut target = vec![0xee; length];
                    lzw.decode(&encoded, &mut target).expect("whole");
                    assert!(target == data[..length], "{length} of {}", data.len());
                }
                let mut more = vec![0; data.len() + 1];
                assert_eq!(lzw.decode(&encoded, &mut more), Err(truncated()));
                let cut = &encoded[..encoded.len() / 2];
                assert_eq!(lzw.decode(cut, &mut more), Err(truncated()));
            }
        }
    }

    #[test]
    fn the_example_of_the_standard() {
        let codes = [256, 7, 258, 8, 8, 258, 6, 6, 257];
        let bits: Vec<u32> =
            codes.iter().flat_map(|code| (0..9).rev().map(move |at| code >> at & 1)).collect();
        let data: Vec<u8> = bits
            .chunks(8)
            .map(|bits| {
                u8::try_from(bits.iter().fold(0, |byte, bit| byte << 1 | bit) << (8 - bits.len()))
                    .expect("a byte")
            })
            .collect();
        let mut target = [0; 9];
        Lzw::new().decode(&data, &mut target).expect("whole");
        assert_eq!(target, [7, 7, 7, 8, 8, 7, 7, 6, 6]);
    }

    #[test]
    fn codes_that_stand_for_nothing_are_noticed() {
        for codes in [[256, 300, 0], [256, 258, 0], [300, 0, 0], [256, 7, 259]] {
            let bits: Vec<u32> =
                codes.iter().flat_map(|code| (0..9).rev().map(move |at| code >> at & 1)).collect();
            let mut data: Vec<u8> = bits
                .chunks_exact(8)
                .map(|bits| u8::try_from(bits.iter().fold(0, |byte, bit| byte << 1 | bit)).expect("a byte"))
                .collect();
            data.extend([0; 8]);
            assert!(Lzw::new().decode(&data, &mut [0; 9]).is_err(), "{codes:?}");
        }
    }
}
