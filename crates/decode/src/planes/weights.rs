//! How much each sample of a line counts for each sample of the resized line: Pillow's antialiased bilinear filter, in whole
//! numbers.
#![allow(clippy::cast_precision_loss)] // sides of images

/// What a sample of the result is made of at most. Shrinking by more than 7.5 needs more, and is left to the general way.
pub(super) const TAPS: usize = 16;
/// What it is made of in most cases: shrinking by no more than 3.5.
pub(super) const FEW_TAPS: usize = 8;

/// Weights are fractions of this.
const ONE: i16 = 1 << 14;

/// For every sample of the resized line: where its samples begin, and how much each counts.
#[derive(Default)]
pub(super) struct Weights {
    /// What they are for, so that the next image of the same sides finds them ready.
    line: Option<Line>,
    /// The first of the [`TAPS`] samples.
    pub(super) starts: Vec<usize>,
    /// Fractions of 16384 that add up to it; zero beyond those that count.
    pub(super) taps: Vec<[i16; TAPS]>,
    /// Only the first [`FEW_TAPS`] of each count.
    pub(super) are_few: bool,
}

/// A line of samples and what is made of it.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Samples there are.
    pub(super) from: usize,
    /// Where what is used begins, and how long it is.
    pub(super) used: (f64, f64),
    /// Samples there will be.
    pub(super) to: usize,
}

impl Weights {
    /// Sets them up for a line; `false` if a sample would need more than [`TAPS`].
    pub(super) fn prepare(&mut self, line: Line) -> bool {
        if self.line == Some(line) {
            return true;
        }
        self.line = None;
        let scale = line.used.1 / line.to as f64;
        let reach = scale.max(1.0);
        // The window can begin and end anywhere within a sample.
        if !reach.is_finite() || line.to == 0 || 2.0 * reach + 1.0 > TAPS as f64 {
            return false;
        }
        self.are_few = 2.0 * reach + 1.0 <= FEW_TAPS as f64;
        self.starts.clear();
        self.taps.clear();
        for sample in 0..line.to {
            let centre = (sample as f64 + 0.5) * scale + line.used.0;
            self.add(centre, reach, line.from);
        }
        self.line = Some(line);
        true
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the line
    fn add(&mut self, centre: f64, reach: f64, from: usize) {
        let first = (centre - reach + 0.5).floor().clamp(0.0, from as f64 - 1.0) as usize;
        let end = ((centre + reach + 0.5).floor().max(0.0) as usize)
            .clamp(first + 1, from.min(first + TAPS).max(first + 1));
        let mut exact = [0.0; TAPS];
        for (tap, sample) in exact.iter_mut().zip(first..end) {
            *tap = (1.0 - ((sample as f64 - centre + 0.5) / reach).abs()).max(0.0);
        }
        let sum: f64 = exact.iter().sum();
        let mut taps = [0i16; TAPS];
        if sum > 0.0 {
            for (tap, exact) in taps.iter_mut().zip(exact) {
                *tap = (exact / sum * f64::from(ONE)).round() as i16;
            }
        } else {
            taps[0] = ONE;
        }
        settle(&mut taps);
        self.starts.push(first);
        self.taps.push(taps);
    }
}

/// What rounding took or gave goes to the largest, so that an even surface stays as it is.
fn settle(taps: &mut [i16; TAPS]) {
    let over = ONE - taps.iter().sum::<i16>();
    if let Some(largest) = taps.iter_mut().max() {
        *largest += over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(from: usize, to: usize) -> Weights {
        let mut weights = Weights::default();
        assert!(weights.prepare(Line { from, used: (0.0, from as f64), to }));
        weights
    }

    #[test]
    fn all_of_a_sample_is_used_and_nothing_beyond_the_line() {
        for (from, to) in
            [(500, 224), (375, 224), (224, 224), (10, 24), (1, 5), (700, 200), (3, 1), (1500, 200), (7, 1)]
        {
            let weights = weights(from, to);
            assert_eq!(weights.are_few, from * 2 <= to * 7, "{from} to {to}");
            assert_eq!((weights.starts.len(), weights.taps.len()), (to, to));
            for (start, taps) in weights.starts.iter().zip(&weights.taps) {
                assert_eq!(taps.iter().map(|tap| i32::from(*tap)).sum::<i32>(), 16384);
                assert!(!weights.are_few || taps[FEW_TAPS..] == [0; TAPS - FEW_TAPS]);
                let beyond = taps.iter().enumerate().filter(|(at, tap)| start + at >= from && **tap != 0);
                assert_eq!(beyond.count(), 0, "{from} to {to}");
                assert!(taps.iter().all(|tap| *tap >= 0));
            }
        }
    }

    #[test]
    fn a_line_that_keeps_its_length_is_left_alone() {
        let weights = weights(9, 9);
        for (at, (start, taps)) in weights.starts.iter().zip(&weights.taps).enumerate() {
            assert_eq!(taps[at - start], 16384);
        }
    }

    #[test]
    fn too_much_shrinking_is_left_to_others() {
        let mut weights = Weights::default();
        assert!(!weights.prepare(Line { from: 760, used: (0.0, 760.0), to: 100 }));
        assert!(weights.prepare(Line { from: 750, used: (0.0, 750.0), to: 100 }));
    }
}
