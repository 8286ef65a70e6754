//! The steps from planes to pixels, sixteen samples at a time. Numbers have seven bits behind the point until the very end, and
//! fit into 16 bits throughout: 255 is 32640.
#![allow(unsafe_code)] // loads and stores; each says why it may

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm_or_si128, _mm_setr_epi8, _mm_shuffle_epi8, _mm_slli_si128, _mm_srli_si128,
    _mm_storel_epi64, _mm_storeu_si128, _mm256_add_epi16, _mm256_add_epi32, _mm256_adds_epi16,
    _mm256_castsi128_si256, _mm256_castsi256_si128, _mm256_cvtepu8_epi16, _mm256_extracti128_si256,
    _mm256_hadd_epi32, _mm256_inserti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_max_epi16,
    _mm256_min_epi16, _mm256_mulhrs_epi16, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_slli_epi16, _mm256_slli_epi32, _mm256_srai_epi16,
    _mm256_srai_epi32, _mm256_storeu_si256, _mm256_sub_epi16, _mm256_subs_epi16, _mm256_unpackhi_epi16,
    _mm256_unpacklo_epi16,
};

use super::weights::{FEW_TAPS, TAPS, Weights};
use super::{Canvas, Chroma, Planes, Rows};

/// 255 with seven bits behind the point.
const WHITE: i16 = 255 << 7;
/// Room before a row of chroma, for the neighbour of its first sample.
const BEFORE: usize = 16;
/// Pixels that are narrowed at a time.
const STEP: usize = 8;

/// Makes the whole picture: each row in colour once, kept while rows of the result need it.
#[target_feature(enable = "avx2")]
pub(super) fn paint(
    planes: &Planes<'_>,
    (across, down): (&Weights, &Weights),
    rows: &mut Rows,
    canvas: &mut Canvas<'_>,
) {
    let stride = planes.layout.row_in_the_making();
    // All that follows relies on it; it holds for weights of an image of this width.
    if across.starts.iter().any(|start| start + TAPS > stride) {
        return;
    }
    let mut coloured = 0;
    for (row, (start, taps)) in down.starts.iter().zip(&down.taps).enumerate() {
        let taps = &taps[..taps.iter().rposition(|tap| *tap != 0).map_or(1, |last| last + 1)];
        coloured = coloured.max(*start);
        while coloured < start + taps.len() {
            colour(planes, coloured, rows);
            coloured += 1;
        }
        flatten(&rows.coloured, (*start, taps), &mut rows.flat[..3 * stride]);
        let first = row * canvas.stride;
        let pixels = &mut canvas.pixels[first..first + canvas.sides.0 * 3];
        if across.are_few {
            narrow::<FEW_TAPS>(&rows.flat[..3 * stride], across, pixels);
        } else {
            narrow::<TAPS>(&rows.flat[..3 * stride], across, pixels);
        }
    }
}

/// One row in colour, put where the oldest was: red, green, blue.
#[target_feature(enable = "avx2")]
fn colour(planes: &Planes<'_>, row: usize, rows: &mut Rows) {
    for which in [0, 1] {
        widen(planes, (which, row), &mut rows.narrow, &mut rows.wide[which]);
    }
    let stride = planes.layout.row_in_the_making();
    let at = row % Rows::KEPT * 3 * stride;
    let (red, rest) = rows.coloured[at..at + 3 * stride].split_at_mut(stride);
    let (green, blue) = rest.split_at_mut(stride);
    let [bluish, reddish] = &rows.wide;
    let targets = steps_mut(red).iter_mut().zip(steps_mut(green)).zip(steps_mut(blue));
    let chromas = steps(bluish).iter().zip(steps(reddish));
    for ((((red, green), blue), (bluish, reddish)), luma) in
        targets.zip(chromas).zip(planes.row(0, row).as_chunks::<16>().0)
    {
        let luma = _mm256_slli_epi16::<7>(bytes(luma));
        let (bluish, reddish) = (load(bluish), load(reddish));
        // 1.402, 0.344136, 0.714136 and 1.772 of the standard, as fractions of 32768.
        store(red, clamped(_mm256_adds_epi16(luma, _mm256_add_epi16(reddish, part(reddish, 13173)))));
        let greenish = _mm256_add_epi16(part(bluish, 11277), part(reddish, 23401));
        store(green, clamped(_mm256_subs_epi16(luma, greenish)));
        store(blue, clamped(_mm256_adds_epi16(luma, _mm256_add_epi16(bluish, part(bluish, 25297)))));
    }
}

/// A row of one chroma, around zero and as wide as the luma: every sample three parts of the nearest and one of the next.
#[target_feature(enable = "avx2")]
fn widen(planes: &Planes<'_>, (which, row): (usize, usize), narrow: &mut [i16], wide: &mut [i16]) {
    if planes.layout.chroma == Chroma::Full {
        return centre(planes.row(1 + which, row), wide);
    }
    let (width, height) = planes.layout.chroma_sides();
    if planes.layout.chroma == Chroma::Quarter {
        let nearest = row / 2;
        let next =
            if row.is_multiple_of(2) { nearest.saturating_sub(1) } else { (nearest + 1).min(height - 1) };
        blend(planes.row(1 + which, nearest), planes.row(1 + which, next), &mut narrow[BEFORE..]);
    } else {
        centre(planes.row(1 + which, row), &mut narrow[BEFORE..]);
    }
    narrow[BEFORE - 1] = narrow[BEFORE];
    narrow[BEFORE + width] = narrow[BEFORE + width - 1];
    let neighbours = steps(&narrow[BEFORE - 1..]).iter().zip(steps(&narrow[BEFORE + 1..]));
    let targets = wide.as_chunks_mut::<32>().0;
    for ((here, (before, after)), target) in steps(&narrow[BEFORE..]).iter().zip(neighbours).zip(targets) {
        let here = load(here);
        let towards = |other| _mm256_add_epi16(here, _mm256_srai_epi16::<2>(_mm256_sub_epi16(other, here)));
        let (even, odd) = (towards(load(before)), towards(load(after)));
        let (low, high) = (_mm256_unpacklo_epi16(even, odd), _mm256_unpackhi_epi16(even, odd));
        if let [first, second] = steps_mut(target) {
            store(first, _mm256_permute2x128_si256::<0x20>(low, high));
            store(second, _mm256_permute2x128_si256::<0x31>(low, high));
        }
    }
}

/// A row of chroma around zero.
#[target_feature(enable = "avx2")]
fn centre(row: &[u8], target: &mut [i16]) {
    let middle = _mm256_set1_epi16(128);
    for (row, target) in row.as_chunks::<16>().0.iter().zip(steps_mut(target)) {
        store(target, _mm256_slli_epi16::<7>(_mm256_sub_epi16(bytes(row), middle)));
    }
}

/// Three parts of one row and one of the other, around zero.
#[target_feature(enable = "avx2")]
fn blend(nearest: &[u8], next: &[u8], target: &mut [i16]) {
    let middle = _mm256_set1_epi16(4 * 128);
    let rows = nearest.as_chunks::<16>().0.iter().zip(next.as_chunks::<16>().0);
    for ((nearest, next), target) in rows.zip(steps_mut(target)) {
        let (nearest, next) = (bytes(nearest), bytes(next));
        let thrice = _mm256_add_epi16(_mm256_add_epi16(nearest, nearest), nearest);
        store(target, _mm256_slli_epi16::<5>(_mm256_sub_epi16(_mm256_add_epi16(thrice, next), middle)));
    }
}

/// The rows that a row of the result is made of, weighed and added up.
#[target_feature(enable = "avx2")]
fn flatten(coloured: &[i16], (start, taps): (usize, &[i16]), flat: &mut [i16]) {
    match taps.len() {
        1 => weigh::<1>(coloured, (start, taps), flat),
        2 => weigh::<2>(coloured, (start, taps), flat),
        3 => weigh::<3>(coloured, (start, taps), flat),
        4 => weigh::<4>(coloured, (start, taps), flat),
        5 => weigh::<5>(coloured, (start, taps), flat),
        6 => weigh::<6>(coloured, (start, taps), flat),
        7 | 8 => weigh::<8>(coloured, (start, taps), flat),
        9 | 10 => weigh::<10>(coloured, (start, taps), flat),
        11 | 12 => weigh::<12>(coloured, (start, taps), flat),
        _ => weigh::<TAPS>(coloured, (start, taps), flat),
    }
}

/// [`flatten`] for so many rows; those without a weight count nothing.
#[target_feature(enable = "avx2")]
fn weigh<const ROWS: usize>(coloured: &[i16], (start, taps): (usize, &[i16]), flat: &mut [i16]) {
    let samples = flat.len();
    let flat = steps_mut(flat);
    let rows: [&[[i16; 16]]; ROWS] = std::array::from_fn(|at| {
        let first = (start + at) % Rows::KEPT * samples;
        &steps(&coloured[first..first + samples])[..flat.len()]
    });
    // All of one row would be 32768, one more than there is room for.
    let weights: [__m256i; ROWS] =
        std::array::from_fn(|at| _mm256_set1_epi16(taps.get(at).map_or(0, |tap| tap.saturating_mul(2))));
    for (at, target) in flat.iter_mut().enumerate() {
        let mut sum = _mm256_setzero_si256();
        for (row, weight) in rows.iter().zip(&weights) {
            sum = _mm256_add_epi16(sum, _mm256_mulhrs_epi16(load(&row[at]), *weight));
        }
        store(target, sum);
    }
}

/// A row of the result: three colours as wide as the image to pixels as many as asked for, each made of up to so many samples.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow<const MOST: usize>(flat: &[i16], across: &Weights, pixels: &mut [u8]) {
    let (red, rest) = flat.split_at(flat.len() / 3);
    let (green, blue) = rest.split_at(flat.len() / 3);
    let starts = across.starts.chunks(STEP);
    let taps = across.taps.chunks(STEP);
    for ((starts, taps), pixels) in starts.zip(taps).zip(pixels.chunks_mut(STEP * 3)) {
        let (Some(starts), Some(taps), Some(pixels)) = (
            starts.first_chunk::<STEP>(),
            taps.first_chunk::<STEP>(),
            pixels.first_chunk_mut::<{ STEP * 3 }>(),
        ) else {
            // The last few.
            for ((start, taps), pixel) in starts.iter().zip(taps).zip(pixels.as_chunks_mut::<3>().0) {
                *pixel = [red, green, blue].map(|colour| one(&colour[*start..], taps));
            }
            return;
        };
        // SAFETY: `paint` has looked at all starts.
        let (red, green, blue) = unsafe {
            (
                eight::<MOST>(red, starts, taps),
                eight::<MOST>(green, starts, taps),
                eight::<MOST>(blue, starts, taps),
            )
        };
        let (green, blue) = (_mm256_slli_epi32::<8>(green), _mm256_slli_epi32::<16>(blue));
        put(_mm256_or_si256(red, _mm256_or_si256(green, blue)), pixels);
    }
}

/// Eight samples of the result, each in 32 bits.
///
/// # Safety
///
/// From every start, the row goes on for [`TAPS`] samples.
#[inline]
#[target_feature(enable = "avx2")]
// SAFETY: reads rows without asking where they end; what the caller must see to stands above.
unsafe fn eight<const MOST: usize>(
    row: &[i16],
    starts: &[usize; STEP],
    taps: &[[i16; TAPS]; STEP],
) -> __m256i {
    let pair = |at: usize| {
        let (low, high) = (row.as_ptr().wrapping_add(starts[at]), row.as_ptr().wrapping_add(starts[at + 4]));
        // SAFETY: the caller's promise: so many samples may be read from each start.
        let (low, high): (&[i16; TAPS], &[i16; TAPS]) = unsafe { (&*low.cast(), &*high.cast()) };
        let (low, more_low) = halves(low);
        let (high, more_high) = halves(high);
        let ((first, more_first), (second, more_second)) = (halves(&taps[at]), halves(&taps[at + 4]));
        let sum = _mm256_madd_epi16(two(low, high), two(first, second));
        if MOST == FEW_TAPS {
            return sum;
        }
        _mm256_add_epi32(sum, _mm256_madd_epi16(two(more_low, more_high), two(more_first, more_second)))
    };
    let first = _mm256_hadd_epi32(pair(0), pair(1));
    let second = _mm256_hadd_epi32(pair(2), pair(3));
    let sums = _mm256_hadd_epi32(first, second);
    // Seven bits and the weights' fourteen go, rounded.
    _mm256_srai_epi32::<21>(_mm256_add_epi32(sums, _mm256_set1_epi32(1 << 20)))
}

/// One sample of the result, as [`eight`] makes them.
fn one(samples: &[i16], taps: &[i16; TAPS]) -> u8 {
    let sum: i32 = samples.iter().zip(taps).map(|(sample, tap)| i32::from(*sample) * i32::from(*tap)).sum();
    u8::try_from((sum + (1 << 20)) >> 21).unwrap_or(u8::MAX)
}

/// The first eight and the others.
#[inline]
fn halves(all: &[i16; TAPS]) -> (&[i16; FEW_TAPS], &[i16; FEW_TAPS]) {
    let [first, second] = all.as_chunks().0 else { unreachable!("sixteen are twice eight") };
    (first, second)
}

#[inline]
fn steps(row: &[i16]) -> &[[i16; 16]] {
    row.as_chunks().0
}

#[inline]
fn steps_mut(row: &mut [i16]) -> &mut [[i16; 16]] {
    row.as_chunks_mut().0
}

/// So many parts of 32768, rounded.
#[inline]
#[target_feature(enable = "avx2")]
fn part(of: __m256i, parts: i16) -> __m256i {
    _mm256_mulhrs_epi16(of, _mm256_set1_epi16(parts))
}

#[inline]
#[target_feature(enable = "avx2")]
fn clamped(colour: __m256i) -> __m256i {
    _mm256_min_epi16(_mm256_max_epi16(colour, _mm256_setzero_si256()), _mm256_set1_epi16(WHITE))
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes(from: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes that may be read, at any alignment.
    _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[i16; 16]) -> __m256i {
    // SAFETY: 32 bytes that may be read, at any alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// One in the lower half, the other in the upper.
#[inline]
#[target_feature(enable = "avx2")]
fn two(low: &[i16; FEW_TAPS], high: &[i16; FEW_TAPS]) -> __m256i {
    // SAFETY: 16 bytes each that may be read, at any alignment.
    let (low, high) =
        unsafe { (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())) };
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(to: &mut [i16; 16], from: __m256i) {
    // SAFETY: 32 bytes that may be written, at any alignment.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), from) }
}

/// Eight pixels of four bytes each as eight of three.
#[inline]
#[target_feature(enable = "avx2")]
fn put(from: __m256i, to: &mut [u8; STEP * 3]) {
    let twelve = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    let first = _mm_shuffle_epi8(_mm256_castsi256_si128(from), twelve);
    let second = _mm_shuffle_epi8(_mm256_extracti128_si256::<1>(from), twelve);
    let (to, end) = (to.as_mut_ptr(), _mm_or_si128(_mm_srli_si128::<8>(first), _mm_slli_si128::<4>(second)));
    // SAFETY: 24 bytes that may be written: 8 of the first twelve, then their other 4 and all of the second.
    unsafe {
        _mm_storel_epi64(to.cast(), first);
        _mm_storeu_si128(to.add(8).cast(), end);
    }
}
