//! Whether bytes behind a scan are more of its image data: a damaged scan often has all its units before its data ends, and what is left
//! then are the last units of the picture. Slow and checked at every step: few files come here.

use super::header::{Segment, Segments};

/// One table of codes, as the file has it: how many codes have each length, and what they mean.
type Codes<'e> = (&'e [u8; 16], &'e [u8]);

/// What the header says of how a scan is coded.
#[derive(Default)]
struct Coding<'e> {
    /// For first coefficients and for the others.
    tables: [[Option<Codes<'e>>; 4]; 2],
    /// The blocks of a unit, in their order: which table of either kind.
    unit: Vec<(usize, usize)>,
}

/// Bits of what is left, from the first that belongs to nothing.
struct Bits<'b> {
    bytes: &'b [u8],
    /// Counted from the first byte's top.
    at: usize,
}

impl Bits<'_> {
    fn next(&mut self) -> Option<u16> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u16::from(bit))
    }

    fn skip(&mut self, count: u8) -> Option<()> {
        self.at += usize::from(count);
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    /// Whether nothing is left but ones that fill up a byte.
    fn is_at_end(&self) -> bool {
        let left = self.bytes.len() * 8 - self.at;
        let ones = (1u16 << left.min(8)) - 1;
        left < 8 && self.bytes.last().is_none_or(|last| u16::from(*last) & ones == ones)
    }
}

/// Whether `stuffed`, which follows the last byte of a sequential scan, of which `bits` are unread, goes on with whole blocks up to its very end.
/// `None`: this cannot be known, since the file is coded in another way.
pub(super) fn goes_on(encoded: &[u8], (bits, padding): (u32, u32), stuffed: &[u8]) -> Option<bool> {
    let coding = Coding::read(encoded)?;
    let mut bytes = vec![u8::try_from(padding).ok()?];
    let mut last = 0;
    for byte in stuffed {
        if (last, *byte) != (0xff, 0) {
            bytes.push(*byte);
        }
        last = *byte;
    }
    let mut bits = Bits { bytes: &bytes, at: 8 - bits as usize };
    for (first, others) in coding.unit.iter().cycle() {
        if coding.block(&mut bits, (*first, *others)).is_none() {
            return Some(false);
        }
        if bits.is_at_end() {
            return Some(true);
        }
    }
    None
}

impl<'e> Coding<'e> {
    /// From the header of a sequential file whose first scan has all components.
    fn read(encoded: &'e [u8]) -> Option<Self> {
        let mut coding = Self::default();
        let mut segments = Segments::of(encoded);
        let mut components = &[][..];
        loop {
            let Segment { marker, body, .. } = segments.next().ok()?;
            match marker {
                0xc4 => coding.define(body)?,
                0xc0 | 0xc1 => components = body.get(6..)?.as_chunks::<3>().0,
                0xc2..=0xcf => return None,
                0xda => {
                    let (count, scanned) = body.split_first()?;
                    let scanned = scanned.as_chunks::<2>().0.get(..usize::from(*count))?;
                    if scanned.len() != components.len() {
                        return None;
                    }
                    for ([_, factors, _], [_, tables]) in components.iter().zip(scanned) {
                        let blocks = if scanned.len() == 1 { 1 } else { (factors >> 4) * (factors & 15) };
                        let tables = (usize::from(tables >> 4), usize::from(tables & 15));
                        coding.unit.extend((0..blocks).map(|_| tables));
                    }
                    return Some(coding);
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, mut body: &'e [u8]) -> Option<()> {
        while let Some((which, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let total = counts.iter().map(|count| usize::from(*count)).sum();
            let (symbols, behind) = rest.split_at_checked(total)?;
            *self.tables.get_mut(usize::from(which >> 4))?.get_mut(usize::from(which & 15))? =
                Some((counts, symbols));
            body = behind;
        }
        Some(())
    }

    /// Reads one block. `None`: there is none.
    fn block(&self, bits: &mut Bits<'_>, tables: (usize, usize)) -> Option<()> {
        let table = |kind: usize, which: usize| self.tables[kind].get(which).copied().flatten();
        let size = symbol(table(0, tables.0)?, bits)?;
        bits.skip(size)?;
        let mut at = 1;
        while at < 64 {
            let symbol = symbol(table(1, tables.1)?, bits)?;
            match (symbol >> 4, symbol & 15) {
                (15, 0) => at += 16,
                (_, 0) => return Some(()),
                (run, size) => {
                    at += usize::from(run) + 1;
                    bits.skip(size)?;
                }
            }
        }
        (at == 64).then_some(())
    }
}

/// What the next code means. `None`: there is no such code.
fn symbol((counts, symbols): Codes<'_>, bits: &mut Bits<'_>) -> Option<u8> {
    let (mut code, mut first, mut before) = (0u16, 0u16, 0usize);
    for count in counts {
        code = code << 1 | bits.next()?;
        let offset = code.wrapping_sub(first);
        if offset < u16::from(*count) {
            return symbols.get(before + usize::from(offset)).copied();
        }
        before += usize::from(*count);
        first = first.wrapping_add(u16::from(*count)) << 1;
    }
    None
}
