//! Undoing what a writer did to samples before it compressed them: differences along a row, and bytes of floats apart.

use crate::Rejection;

use super::reasons::{broken, unknown};

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    /// Each sample is the difference from the one to its left.
    Horizontal,
    /// The bytes of a row's floats, highest first, each kind together, then as differences.
    Float,
}

impl Predictor {
    /// By its number in TIFF.
    pub(super) fn of(number: u64) -> Result<Self, Rejection> {
        match number {
            1 => Ok(Self::None),
            2 => Ok(Self::Horizontal),
            3 => Ok(Self::Float),
            other => Err(unknown(format!("Predictor {other}"))),
        }
    }
}

/// How the samples of a row lie.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// Samples of a pixel that lie side by side.
    pub(super) samples: usize,
    /// Bytes of each: 1, 2, 4 or 8, in this machine's order.
    pub(super) width: usize,
}

/// Undoes differences in whole rows of `bytes` each.
pub(super) fn undo_horizontal(rows: &mut [u8], bytes: usize, row: Row) -> Result<(), Rejection> {
    for line in rows.chunks_exact_mut(bytes) {
        match (row.width, row.samples) {
            (1, 1) => sum_bytes::<1>(line),
            (1, 2) => sum_bytes::<2>(line),
            (1, 3) => sum_bytes::<3>(line),
            (1, 4) => sum_bytes::<4>(line),
            (1, samples) => sum_apart(line, samples),
            (2, samples) => {
                sum::<2>(line, samples, |one, other| {
                    u16::from_ne_bytes(one).wrapping_add(u16::from_ne_bytes(other)).to_ne_bytes()
                });
            }
            (4, samples) => {
                sum::<4>(line, samples, |one, other| {
                    u32::from_ne_bytes(one).wrapping_add(u32::from_ne_bytes(other)).to_ne_bytes()
                });
            }
            (8, samples) => {
                sum::<8>(line, samples, |one, other| {
                    u64::from_ne_bytes(one).wrapping_add(u64::from_ne_bytes(other)).to_ne_bytes()
                });
            }
            _ => return Err(broken("differences of samples that are no whole bytes")),
        }
    }
    Ok(())
}

/// Running sums of pixels with so many samples of a byte.
fn sum_bytes<const SAMPLES: usize>(line: &mut [u8]) {
    let (pixels, _) = line.as_chunks_mut::<SAMPLES>();
    let mut sums = [0_u8; SAMPLES];
    for pixel in pixels {
        for (sum, sample) in sums.iter_mut().zip(pixel) {
            *sum = sum.wrapping_add(*sample);
            *sample = *sum;
        }
    }
}

fn sum_apart(line: &mut [u8], samples: usize) {
    for at in samples..line.len() {
        line[at] = line[at].wrapping_add(line[at - samples]);
    }
}

fn sum<const WIDTH: usize>(
    line: &mut [u8],
    samples: usize,
    add: impl Fn([u8; WIDTH], [u8; WIDTH]) -> [u8; WIDTH],
) {
    let (line, _) = line.as_chunks_mut::<WIDTH>();
    for at in samples..line.len() {
        line[at] = add(line[at], line[at - samples]);
    }
}

/// Undoes it for floats, in whole rows of `bytes` each. `spare` has room for a row.
pub(super) fn undo_float(rows: &mut [u8], bytes: usize, row: Row, spare: &mut [u8]) {
    let spare = &mut spare[..bytes];
    for line in rows.chunks_exact_mut(bytes) {
        sum_apart(line, row.samples);
        spare.copy_from_slice(line);
        let count = bytes / row.width;
        for (at, sample) in line.chunks_exact_mut(row.width).enumerate() {
            for (rank, byte) in sample.iter_mut().enumerate() {
                let rank = if cfg!(target_endian = "little") { row.width - 1 - rank } else { rank };
                *byte = spare[rank * count + at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_become_sums_in_every_width() {
        for (width, samples) in [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (2, 3), (4, 2), (8, 1)] {
            let ones: Vec<u8> =
                (0..samples * 3).flat_map(|_| 1_u64.to_le_bytes()[..width].to_vec()).collect();
            let mut rows = [ones.clone(), ones].concat();
            let bytes = rows.len() / 2;
            undo_horizontal(&mut rows, bytes, Row { samples, width }).expect("whole bytes");
            let sums: Vec<u8> = rows.chunks(width).map(|sample| sample[0]).collect();
            let wanted: Vec<u8> = [1, 2, 3, 1, 2, 3].iter().flat_map(|sum| vec![*sum; samples]).collect();
            assert_eq!(sums, wanted, "{width} {samples}");
        }
    }

    #[test]
    fn bytes_of_floats_come_together() {
        let floats = [1.5_f32, -2.25, 1e9];
        let mut row: Vec<u8> =
            (0..4).flat_map(|rank| floats.map(|float| float.to_be_bytes()[rank])).collect();
        for at in (1..row.len()).rev() {
            row[at] = row[at].wrapping_sub(row[at - 1]);
        }
        undo_float(&mut row, 12, Row { samples: 1, width: 4 }, &mut [0; 12]);
        let (made, _) = row.as_chunks::<4>();
        assert_eq!(made.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect::<Vec<_>>(), floats);
    }
}
