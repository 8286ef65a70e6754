//! Units of a scan, one after the other: coefficients from bits, samples from coefficients, into their planes.

use super::bits::{Bits, Stretches};
use super::huffman::{Entry, Huffman};
use super::idct::{self, Blocks, Rows};
use super::tables::{Frame, PLACES, Tables};
use crate::planes::Layout;

/// Looks between two refills. Of the 56 bits that are there, a coefficient of any kind takes 31 and leaves enough for the other looks.
const LOOKS: u32 = 3;

/// A block of a unit: how it is coded, and where its samples go.
#[derive(Clone, Copy)]
struct Spot<'t> {
    component: usize,
    codes: (&'t Huffman, &'t Huffman),
    quantisation: &'t [[i16; 8]; 8],
    /// Of the first unit: where its samples begin.
    first: usize,
    stride: usize,
    /// Samples on the sides of a block.
    side: usize,
    /// From one unit to the next, across and down.
    step: (usize, usize),
}

/// Blocks that become samples together: two, or one that is left over.
struct Pair<'s, 't> {
    spots: &'s [Spot<'t>],
    quantisation: Rows,
}

/// Decodes all units. `None`: something is not as it should be.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn decode(
    frame: &Frame<'_>,
    tables: &Tables,
    stretches: &Stretches,
    layout: Layout,
    target: &mut [u8],
) -> Option<()> {
    let total = layout.units.0 * layout.units.1;
    let each = if frame.restart == 0 { total } else { frame.restart };
    if total == 0 || frame.components[0].blocks != layout.blocks || stretches.len() != total.div_ceil(each) {
        return None;
    }
    let spots = spots(frame, tables, layout);
    let pairs = spots.chunks(2).map(Pair::new).collect::<Option<Vec<_>>>()?;
    let mut blocks: Blocks = [0; 264];
    let mut unit = 0;
    for mut bits in stretches.iter() {
        let mut last = [0i32; 3];
        for _ in 0..each.min(total - unit) {
            let place = (unit % layout.units.0, unit / layout.units.0);
            for pair in &pairs {
                blocks[..128].fill(0);
                for (spot, half) in pair.spots.iter().zip([0, 8]) {
                    let block = blocks[half..].first_chunk_mut()?;
                    bits = read(bits, spot.codes, &mut last[spot.component], block)?;
                }
                pair.put(&blocks, place, target)?;
            }
            unit += 1;
        }
        if !bits.is_used_up() {
            return None;
        }
    }
    Some(())
}

/// One block's coefficients, and what comes after them.
#[inline(always)]
fn read<'a>(
    mut bits: Bits<'a>,
    codes: (&Huffman, &Huffman),
    last: &mut i32,
    block: &mut [i16; 256],
) -> Option<Bits<'a>> {
    bits.refill();
    let (length, difference) = codes.0.difference(bits.next())?;
    bits.skip(length);
    *last = last.wrapping_add(i32::from(difference));
    // As libjpeg stores it.
    #[allow(clippy::cast_possible_truncation)]
    let first = *last as i16;
    block[0] = first;
    let mut at = 1;
    loop {
        bits.refill();
        for _ in 0..LOOKS {
            // One coefficient or two; what is no second is a zero, where nothing stands yet.
            let mut entry = codes.1.look(bits.next());
            if !entry.is_known() {
                bits.refill();
                entry = codes.1.one(bits.next())?;
            }
            block[usize::from(PLACES[at + entry.skip()])] = entry.first();
            block[usize::from(PLACES[at + entry.to_second()])] = entry.second();
            if at + entry.next() >= 64 {
                return ended(bits, codes.1, at, entry);
            }
            bits.skip(entry.length());
            at += entry.next();
        }
    }
}

/// What comes after a block whose last coefficients these are. `None`: there are more than it has room for.
#[inline(always)]
fn ended<'a>(mut bits: Bits<'a>, codes: &Huffman, at: usize, last: Entry) -> Option<Bits<'a>> {
    match at + last.skip() {
        // Full with the first, and what was taken for a second is the next block's.
        63 if last.next() > last.skip() + 1 => bits.skip(codes.one(bits.next())?.length()),
        64..=128 => return None,
        // Full with the second, or told that nothing more comes.
        _ if at + last.next() == 64 || at + last.next() > 128 => bits.skip(last.length()),
        _ => return None,
    }
    Some(bits)
}

impl<'s, 't> Pair<'s, 't> {
    /// `None`: they are not of one size.
    fn new(spots: &'s [Spot<'t>]) -> Option<Self> {
        let mut quantisation = [[0; 16]; 8];
        for (spot, half) in spots.iter().zip([0, 8]) {
            for (both, row) in quantisation.iter_mut().zip(spot.quantisation) {
                both[half..half + 8].copy_from_slice(row);
            }
        }
        let alike = spots.iter().all(|spot| spot.side == spots[0].side);
        alike.then_some(Self { spots, quantisation })
    }

    /// Samples into their planes.
    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    fn put(&self, blocks: &Blocks, place: (usize, usize), target: &mut [u8]) -> Option<()> {
        let samples = match self.spots.first()?.side {
            8 => idct::samples::<8>(blocks, &self.quantisation),
            4 => idct::samples::<4>(blocks, &self.quantisation),
            2 => idct::samples::<2>(blocks, &self.quantisation),
            _ => return self.put_ones(blocks, place, target),
        };
        for (half, spot) in self.spots.iter().enumerate() {
            let target = target.get_mut(spot.at(place)..)?;
            if spot.side == 8 {
                samples.put(half == 1, target, spot.stride)?;
                continue;
            }
            let rows = samples.rows(half == 1);
            for (row, target) in rows.iter().zip(target.chunks_mut(spot.stride)).take(spot.side) {
                target.get_mut(..spot.side)?.copy_from_slice(&row[..spot.side]);
            }
        }
        Some(())
    }

    /// One sample for each block: an eighth of its first coefficient.
    fn put_ones(&self, blocks: &Blocks, place: (usize, usize), target: &mut [u8]) -> Option<()> {
        for (spot, half) in self.spots.iter().zip([0, 8]) {
            let first = blocks[half].wrapping_mul(self.quantisation[0][half]);
            let sample = ((i32::from(first) + 4) >> 3) + 128;
            *target.get_mut(spot.at(place))? = u8::try_from(sample.clamp(0, 255)).unwrap_or_default();
        }
        Some(())
    }
}

impl Spot<'_> {
    /// Where its samples begin in a unit.
    #[inline(always)]
    const fn at(&self, place: (usize, usize)) -> usize {
        self.first + place.0 * self.step.0 + place.1 * self.step.1
    }
}

/// The blocks of a unit, in their order. Pairs are of one component, or of both chromas, unless all three are alike.
fn spots<'t>(frame: &Frame<'_>, tables: &'t Tables, layout: Layout) -> Vec<Spot<'t>> {
    let mut spots = Vec::new();
    for (component, described) in frame.components.iter().enumerate() {
        let (first, stride) = layout.plane(component);
        let side = if component == 0 { layout.block.0 } else { layout.block.1 };
        let (across, down) = described.blocks;
        for at in 0..across * down {
            spots.push(Spot {
                component,
                codes: (&tables.first[described.codes.0], &tables.others[described.codes.1]),
                quantisation: &tables.quantisation[described.quantisation],
                first: first + (at / across * stride + at % across) * side,
                stride,
                side,
                step: (across * side, down * side * stride),
            });
        }
    }
    spots
}
