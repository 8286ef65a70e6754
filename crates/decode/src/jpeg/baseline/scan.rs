//! Units of a scan, one after the other: coefficients from bits, samples from coefficients, into their planes.

use super::bits::{Bits, Stretches};
use super::huffman::{Huffman, LONG, LOOK, SHORT, extended};
use super::idct::{self, Block, RowPairs};
use super::tables::{Component, Frame, PLACES, Tables};
use crate::planes::Layout;

/// Most blocks of a unit: four of luma, one of each chroma.
const MOST: usize = 6;

/// A block of a unit: whose it is, and where its samples go from where the component's do.
#[derive(Clone, Copy, Default)]
struct Spot {
    component: usize,
    offset: usize,
}

/// Where a component's samples lie.
#[derive(Clone, Copy, Default)]
struct Plane {
    first: usize,
    stride: usize,
    /// Samples on the sides of a block.
    block: usize,
    /// From one unit to the next, across and down.
    step: (usize, usize),
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
    let planes = planes(frame, layout);
    let (spots, count) = spots(&frame.components, &planes);
    let spots = &spots[..count];
    let mut blocks: [Block; MOST] = [[0; 128]; MOST];
    let mut unit = 0;
    for mut bits in stretches.iter() {
        let mut last = [0i32; 3];
        for _ in 0..each.min(total - unit) {
            for (spot, block) in spots.iter().zip(&mut blocks) {
                let component = &frame.components[spot.component];
                let codes = (&tables.first[component.codes.0], &tables.others[component.codes.1]);
                bits = read(bits, codes, &mut last[spot.component], block)?;
            }
            let place = (unit % layout.units.0, unit / layout.units.0);
            for (spots, blocks) in spots.chunks(2).zip(blocks.chunks(2)) {
                put(spots, blocks, (frame, tables), (&planes, place), target)?;
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
    block: &mut Block,
) -> Option<Bits<'a>> {
    block[..64].fill(0);
    bits.refill();
    let entry = look(bits, codes.0);
    let difference = if entry & (SHORT | LONG) == 0 {
        bits.skip(entry & 31);
        value(entry)
    } else {
        let (rest, _, difference) = slow(bits, codes.0, entry)?;
        bits = rest;
        difference
    };
    *last = last.wrapping_add(i32::from(difference));
    // As libjpeg stores it.
    #[allow(clippy::cast_possible_truncation)]
    let first = *last as i16;
    block[0] = first;
    let mut at = 1usize;
    while at < 64 {
        bits.refill();
        let entry = look(bits, codes.1);
        if entry & (SHORT | LONG) == 0 {
            bits.skip(entry & 31);
            at += (entry >> 8 & 255) as usize;
            block[place(at)] = value(entry);
            at += 1;
            if at >= 64 {
                break;
            }
            // Enough bits are left for one more of any kind.
            let entry = look(bits, codes.1);
            if entry & (SHORT | LONG) == 0 {
                bits.skip(entry & 31);
                at += (entry >> 8 & 255) as usize;
                block[place(at)] = value(entry);
                at += 1;
                continue;
            }
        }
        let entry = look(bits, codes.1);
        let (rest, skip, value) = slow(bits, codes.1, entry)?;
        bits = rest;
        at += skip as usize;
        block[place(at)] = value;
        at += 1;
    }
    // Exactly full, or told that nothing more comes.
    (at == 64 || at > 128).then_some(bits)
}

#[inline(always)]
fn look(bits: Bits<'_>, codes: &Huffman) -> u32 {
    codes.quick[bits.peek(LOOK) as usize & ((1 << LOOK) - 1)]
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // the upper half
const fn value(entry: u32) -> i16 {
    ((entry >> 16) as u16).cast_signed()
}

/// Where a coefficient stands, or is forgotten.
#[inline(always)]
fn place(at: usize) -> usize {
    usize::from(PLACES[at & 255]) & 127
}

/// A coefficient that one look did not give.
#[inline(never)]
fn slow<'a>(mut bits: Bits<'a>, codes: &Huffman, entry: u32) -> Option<(Bits<'a>, u32, i16)> {
    let (length, skip, size) = if entry & SHORT != 0 {
        (entry & 31, entry >> 8 & 255, entry >> 16)
    } else {
        codes.long(bits.peek(16))?
    };
    bits.skip(length);
    if size == 0 {
        return Some((bits, skip, 0));
    }
    let value = extended(bits.peek(size), size);
    bits.skip(size);
    Some((bits, skip, value))
}

/// Samples of one or two blocks into their planes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn put(
    spots: &[Spot],
    blocks: &[Block],
    (frame, tables): (&Frame<'_>, &Tables),
    (planes, place): (&[Plane; 3], (usize, usize)),
    target: &mut [u8],
) -> Option<()> {
    let first = spots.first()?;
    let second = spots.get(1).unwrap_or(first);
    let quantisation = |spot: &Spot| &tables.quantisation[frame.components[spot.component].quantisation];
    if planes[first.component].block == 1 {
        for (spot, block) in spots.iter().zip(blocks) {
            let plane = &planes[spot.component];
            let at = plane.first + spot.offset + place.0 * plane.step.0 + place.1 * plane.step.1;
            *target.get_mut(at)? = only(block[0].wrapping_mul(quantisation(spot)[0]));
        }
        return Some(());
    }
    let blocks = [blocks.first()?, blocks.get(1).or(blocks.first())?];
    let quantisation = [quantisation(first), quantisation(second)];
    let samples = match (planes[first.component].block, planes[second.component].block) {
        (8, 8) => idct::samples::<8>(blocks, quantisation),
        (4, 4) => idct::samples::<4>(blocks, quantisation),
        (2, 2) => idct::samples::<2>(blocks, quantisation),
        // Pairs are of one component, or of both chromas, unless all three are alike.
        _ => return None,
    };
    for (half, spot) in spots.iter().enumerate() {
        let plane = &planes[spot.component];
        let at = plane.first + spot.offset + place.0 * plane.step.0 + place.1 * plane.step.1;
        let target = target.get_mut(at..at + (plane.block - 1) * plane.stride + plane.block)?;
        if plane.block == 8 {
            for (row, target) in target.chunks_mut(plane.stride).enumerate() {
                target[..8].copy_from_slice(row_of(&samples, half, row));
            }
        } else {
            for (row, target) in target.chunks_mut(plane.stride).enumerate() {
                target[..plane.block].copy_from_slice(&row_of(&samples, half, row)[..plane.block]);
            }
        }
    }
    Some(())
}

/// The one sample of a block that is decoded to one: an eighth of its first coefficient.
#[inline(always)]
fn only(first: i16) -> u8 {
    let sample = ((i32::from(first) + 4) >> 3) + 128;
    u8::try_from(sample.clamp(0, 255)).unwrap_or_default()
}

/// Eight samples of the first or second block.
#[inline(always)]
fn row_of(samples: &RowPairs, half: usize, row: usize) -> &[u8; 8] {
    const NONE: [u8; 8] = [0; 8];
    let at = half * 16 + row % 2 * 8;
    samples[row / 2 % 4].get(at..).and_then(|row| row.first_chunk()).unwrap_or(&NONE)
}

fn planes(frame: &Frame<'_>, layout: Layout) -> [Plane; 3] {
    let mut planes = [Plane::default(); 3];
    for (which, (plane, component)) in planes.iter_mut().zip(&frame.components).enumerate() {
        let (first, stride) = layout.plane(which);
        let block = if which == 0 { layout.block.0 } else { layout.block.1 };
        let step = (component.blocks.0 * block, component.blocks.1 * block * stride);
        *plane = Plane { first, stride, block, step };
    }
    planes
}

fn spots(components: &[Component; 3], planes: &[Plane; 3]) -> ([Spot; MOST], usize) {
    let (mut spots, mut count) = ([Spot::default(); MOST], 0);
    for (component, (described, plane)) in components.iter().zip(planes).enumerate() {
        for down in 0..described.blocks.1 {
            for across in 0..described.blocks.0 {
                if let Some(spot) = spots.get_mut(count) {
                    *spot = Spot { component, offset: (down * plane.stride + across) * plane.block };
                    count += 1;
                }
            }
        }
    }
    (spots, count)
}
