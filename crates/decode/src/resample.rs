//! Resizing in Pillow's own arithmetic, to the bit, for the filter where the last bit of a weight decides whether a pixel counts at
//! all: a box ends between two pixels as often as within one. Slower than `fast_image_resize`, which does all others.

use crate::fit::Axis;
use crate::memory::stretch_to;

/// Bits behind the point of a weight.
const PRECISION: u32 = 32 - 8 - 2;

/// The pixels one is made of.
struct Window {
    /// The first of them.
    first: usize,
    /// How much each of them counts.
    weights: Vec<i32>,
}

/// An upright image of `pixel` bytes a pixel becomes what `across` and `down` say, in rows that begin `stride` bytes apart. `between`
/// is for the rows after the first pass.
pub(crate) fn boxed(
    pixels: &[u8],
    pixel: usize,
    (across, down): (&Axis, &Axis),
    between: &mut Vec<u8>,
    (target, stride): (&mut [u8], usize),
) {
    let (columns, rows) = (windows(across), windows(down));
    let (Some(top), Some(end)) =
        (rows.iter().map(|row| row.first).min(), rows.iter().map(|row| row.first + row.weights.len()).max())
    else {
        return;
    };
    let wide = across.side as usize * pixel;
    let narrow = columns.len() * pixel;
    if columns_first(across, down) {
        let left = columns.iter().map(|column| column.first).min().unwrap_or(0);
        let right = columns.iter().map(|column| column.first + column.weights.len()).max().unwrap_or(left);
        let used = (right - left) * pixel;
        let between = stretch_to(between, used * rows.len());
        for (window, target) in rows.iter().zip(between.chunks_exact_mut(used)) {
            along_columns(&pixels[window.first * wide + left * pixel..], wide, window, target);
        }
        for (row, target) in between.chunks_exact(used).zip(target.chunks_mut(stride)) {
            along_row(row, left, pixel, &columns, target);
        }
        return;
    }
    let between = stretch_to(between, narrow * (end - top));
    for (row, target) in pixels.chunks_exact(wide).skip(top).zip(between.chunks_exact_mut(narrow)) {
        along_row(row, 0, pixel, &columns, target);
    }
    for (window, target) in rows.iter().zip(target.chunks_mut(stride)) {
        along_columns(&between[(window.first - top) * narrow..], narrow, window, &mut target[..narrow]);
    }
}

/// Whether Pillow's first pass goes along the columns of the upright picture: since version 13, where the height shrinks by more than twice what
/// the width does.
pub(crate) fn columns_first(across: &Axis, down: &Axis) -> bool {
    let less = |axis: &Axis| i128::from(axis.side) - i128::from(axis.resized);
    less(down) > 0 && less(down) > 2 * less(across)
}

/// One row, which begins with the pixel `left`, made narrower or wider.
fn along_row(row: &[u8], left: usize, pixel: usize, columns: &[Window], target: &mut [u8]) {
    for (window, target) in columns.iter().zip(target.chunks_exact_mut(pixel)) {
        for (channel, target) in target.iter_mut().enumerate() {
            let samples = row[(window.first - left) * pixel + channel..].iter().step_by(pixel);
            *target = weighed(samples, &window.weights);
        }
    }
}

/// One row made of the rows from the window's first on, which begin `length` bytes apart.
fn along_columns(rows: &[u8], length: usize, window: &Window, target: &mut [u8]) {
    for (at, target) in target.iter_mut().enumerate() {
        *target = weighed(rows[at..].iter().step_by(length), &window.weights);
    }
}

fn weighed<'s>(samples: impl Iterator<Item = &'s u8>, weights: &[i32]) -> u8 {
    let half = 1 << (PRECISION - 1);
    let sum: i32 = samples.zip(weights).map(|(sample, weight)| i32::from(*sample) * weight).sum();
    u8::try_from(((sum + half) >> PRECISION).clamp(0, 255)).unwrap_or(u8::MAX)
}

/// What Pillow's `precompute_coeffs` gives for a box.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // within the side
fn windows(axis: &Axis) -> Vec<Window> {
    let scale = axis.scale();
    let filter_scale = scale.max(1.0);
    let (support, step) = (0.5 * filter_scale, 1.0 / filter_scale);
    let window = |at: u64| {
        let centre = f64::from(axis.from) + (at as f64 + 0.5) * scale;
        let last = axis.side.saturating_sub(1) as usize;
        let first = ((centre - support + 0.5).max(0.0) as usize).min(last);
        let end = ((centre + support + 0.5).max(0.0) as usize).clamp(first + 1, last + 1);
        let counts = |place: usize| {
            let away = ((place - first) as f64 + first as f64 - centre + 0.5) * step;
            away > -0.5 && away <= 0.5
        };
        let exact: Vec<f64> = (first..end).map(|place| f64::from(u8::from(counts(place)))).collect();
        let sum: f64 = exact.iter().sum();
        let share = if sum == 0.0 { 1.0 } else { 1.0 / sum };
        let whole = |weight: f64| (0.5 + weight * share * f64::from(1 << PRECISION)) as i32;
        Window { first, weights: exact.into_iter().map(whole).collect() }
    };
    (axis.skipped..axis.skipped + u64::from(axis.kept)).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_on_the_border_belongs_to_the_box_before_it() {
        let axis = Axis { side: 5, from: 0.0, to: 5.0, resized: 2, skipped: 0, kept: 2 };
        let windows = windows(&axis);
        let counted: Vec<_> = windows.iter().map(|window| (window.first, window.weights.len())).collect();
        assert_eq!(counted, [(0, 3), (3, 2)]);
    }

    #[test]
    fn what_is_made_of_an_even_surface_is_as_it_was() {
        let across = Axis { side: 7, from: 0.5, to: 6.75, resized: 3, skipped: 0, kept: 3 };
        let down = Axis { side: 2, from: 0.0, to: 2.0, resized: 9, skipped: 2, kept: 5 };
        let mut target = vec![0; 20 * 5];
        boxed(&[77; 42], 3, (&across, &down), &mut Vec::new(), (&mut target, 20));
        assert!(target.chunks(20).all(|row| row[..9] == [77; 9] && row[9..] == [0; 11]));
    }
}
