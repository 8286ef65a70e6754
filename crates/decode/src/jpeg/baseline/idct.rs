//! From coefficients to samples, two blocks at a time: the inverse DCT of Loeffler, Ligtenberg and Moschytz in whole numbers, with the
//! roundings of libjpeg's slow but accurate one, so that samples are the same to the bit.
#![allow(unsafe_code)] // loads and stores; each says why it may

use std::arch::x86_64::{
    __m256i, _mm_storel_epi64, _mm_unpackhi_epi64, _mm256_add_epi32, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_mullo_epi16, _mm256_packs_epi32,
    _mm256_packus_epi16, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srai_epi32, _mm256_sub_epi32,
    _mm256_unpackhi_epi8, _mm256_unpackhi_epi16, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi8, _mm256_unpacklo_epi16, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
};

/// Coefficients of two blocks: eight rows of both, a row of the first before the same of the second. Behind them, room for what is to be
/// forgotten: so much that any byte is a place in either.
pub(super) type Blocks = [i16; 8 + 256];

/// What each coefficient is multiplied with.
pub(super) type Rows = [[i16; 16]; 8];

/// Samples of two blocks: two rows of the first, then the same two of the second, and so on.
#[derive(Clone, Copy)]
pub(super) struct Samples([__m256i; 4]);

/// Samples of two blocks, each with its quantisation, `SIDE` (8, 4 or 2) across and down; what lies beyond is of no meaning.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn samples<const SIDE: usize>(blocks: &Blocks, quantisation: &Rows) -> Samples {
    let mut rows = [_mm256_setzero_si256(); 8];
    for ((row, coefficients), quantisation) in rows.iter_mut().zip(blocks.as_chunks().0).zip(quantisation) {
        *row = _mm256_mullo_epi16(load(coefficients), load(quantisation));
    }
    // Two bits more than the samples have are kept between the passes. In the second, 128 is added: samples lie around zero.
    match SIDE {
        8 => {
            let columns = transposed(pass::<11>(rows, 1 << 10));
            upright(pass::<18>(columns, (1 << 17) + (128 << 18)))
        }
        4 => {
            let columns = transposed(pass_to_four::<12>(rows, 1 << 11));
            upright(pass_to_four::<19>(columns, (1 << 18) + (128 << 19)))
        }
        _ => {
            let columns = transposed(pass_to_two::<13>(rows, 1 << 12));
            upright(pass_to_two::<20>(columns, (1 << 19) + (128 << 20)))
        }
    }
}

/// As [`pass`], to half as many rows: the inverse DCT of which every second sample is left out.
#[inline]
#[target_feature(enable = "avx2")]
fn pass_to_four<const BITS: i32>(x: [__m256i; 8], round: i32) -> [__m256i; 8] {
    let none = _mm256_setzero_si256();
    let (x26, x75, x31) = (pairs(x[2], x[6]), pairs(x[7], x[5]), pairs(x[3], x[1]));
    let base = plus(dot(pairs(x[0], none), 16384, 0), [_mm256_set1_epi32(round); 2]);
    let even = dot(x26, 15137, -6270);
    let (outer, inner) = (plus(base, even), minus(base, even));
    let odd_inner = plus(dot(x75, -1730, 11893), dot(x31, -17799, 8697));
    let odd_outer = plus(dot(x75, -4176, -4926), dot(x31, 7373, 20995));
    [
        rounded::<BITS>(plus(outer, odd_outer)),
        rounded::<BITS>(plus(inner, odd_inner)),
        rounded::<BITS>(minus(inner, odd_inner)),
        rounded::<BITS>(minus(outer, odd_outer)),
        none,
        none,
        none,
        none,
    ]
}

/// As [`pass`], to two rows.
#[inline]
#[target_feature(enable = "avx2")]
fn pass_to_two<const BITS: i32>(x: [__m256i; 8], round: i32) -> [__m256i; 8] {
    let none = _mm256_setzero_si256();
    let base = plus(dot(pairs(x[0], x[0]), 16384, 16384), [_mm256_set1_epi32(round); 2]);
    let odd = plus(dot(pairs(x[7], x[5]), -5906, 6967), dot(pairs(x[3], x[1]), -10426, 29692));
    let (first, second) = (rounded::<BITS>(plus(base, odd)), rounded::<BITS>(minus(base, odd)));
    [first, second, none, none, none, none, none, none]
}

/// One pass over eight rows, all columns at once; `round` is added before the last `BITS` bits go.
#[inline]
#[target_feature(enable = "avx2")]
fn pass<const BITS: i32>(x: [__m256i; 8], round: i32) -> [__m256i; 8] {
    // Products of pairs, exact in 32 bits; the constants are sums of the algorithm's, in 8192nds.
    let (x04, x26) = (pairs(x[0], x[4]), pairs(x[2], x[6]));
    let (x17, x35) = (pairs(x[1], x[7]), pairs(x[3], x[5]));
    let round = _mm256_set1_epi32(round);
    let sum = plus(dot(x04, 8192, 8192), [round; 2]);
    let difference = plus(dot(x04, 8192, -8192), [round; 2]);
    let (even0, even1) = (dot(x26, 10703, 4433), dot(x26, 4433, -10704));
    let (e0, e3) = (plus(sum, even0), minus(sum, even0));
    let (e1, e2) = (plus(difference, even1), minus(difference, even1));
    let o0 = plus(dot(x17, 11363, 2260), dot(x35, 9633, 6437));
    let o1 = plus(dot(x17, 9633, -6436), dot(x35, -2259, -11362));
    let o2 = plus(dot(x17, 6437, 9633), dot(x35, -11362, 2261));
    let o3 = plus(dot(x17, 2260, -11363), dot(x35, -6436, 9633));
    [
        rounded::<BITS>(plus(e0, o0)),
        rounded::<BITS>(plus(e1, o1)),
        rounded::<BITS>(plus(e2, o2)),
        rounded::<BITS>(plus(e3, o3)),
        rounded::<BITS>(minus(e3, o3)),
        rounded::<BITS>(minus(e2, o2)),
        rounded::<BITS>(minus(e1, o1)),
        rounded::<BITS>(minus(e0, o0)),
    ]
}

/// Columns become rows, in each block.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(x: [__m256i; 8]) -> [__m256i; 8] {
    let by_two = |low: [usize; 2]| {
        let (a, b) = (x[low[0]], x[low[1]]);
        (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b))
    };
    let ((a0, a1), (b0, b1)) = (by_two([0, 1]), by_two([2, 3]));
    let ((c0, c1), (d0, d1)) = (by_two([4, 5]), by_two([6, 7]));
    let by_four = |a, b| (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let ((e0, e1), (f0, f1)) = (by_four(a0, b0), by_four(c0, d0));
    let ((g0, g1), (h0, h1)) = (by_four(a1, b1), by_four(c1, d1));
    let low = |a, b| _mm256_unpacklo_epi64(a, b);
    let high = |a, b| _mm256_unpackhi_epi64(a, b);
    [
        low(e0, f0),
        high(e0, f0),
        low(e1, f1),
        high(e1, f1),
        low(g0, h0),
        high(g0, h0),
        low(g1, h1),
        high(g1, h1),
    ]
}

/// Columns of samples to rows of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn upright(x: [__m256i; 8]) -> Samples {
    // Columns 0 and 4, 1 and 5, ...: the halves that interleave to neighbours.
    let c04 = _mm256_packus_epi16(x[0], x[4]);
    let c15 = _mm256_packus_epi16(x[1], x[5]);
    let c26 = _mm256_packus_epi16(x[2], x[6]);
    let c37 = _mm256_packus_epi16(x[3], x[7]);
    let (c01, c45) = (_mm256_unpacklo_epi8(c04, c15), _mm256_unpackhi_epi8(c04, c15));
    let (c23, c67) = (_mm256_unpacklo_epi8(c26, c37), _mm256_unpackhi_epi8(c26, c37));
    let (left_top, left_bottom) = (_mm256_unpacklo_epi16(c01, c23), _mm256_unpackhi_epi16(c01, c23));
    let (right_top, right_bottom) = (_mm256_unpacklo_epi16(c45, c67), _mm256_unpackhi_epi16(c45, c67));
    Samples([
        _mm256_unpacklo_epi32(left_top, right_top),
        _mm256_unpackhi_epi32(left_top, right_top),
        _mm256_unpacklo_epi32(left_bottom, right_bottom),
        _mm256_unpackhi_epi32(left_bottom, right_bottom),
    ])
}

/// Two rows side by side, sample by sample: the first four columns, then the others.
type Pairs = [__m256i; 2];

#[inline]
#[target_feature(enable = "avx2")]
fn pairs(a: __m256i, b: __m256i) -> Pairs {
    [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)]
}

/// So much of the first of each pair and so much of the second.
#[inline]
#[target_feature(enable = "avx2")]
fn dot(pairs: Pairs, first: i16, second: i16) -> Pairs {
    let both = i32::from(first) & 0xffff | i32::from(second) << 16;
    let both = _mm256_set1_epi32(both);
    [_mm256_madd_epi16(pairs[0], both), _mm256_madd_epi16(pairs[1], both)]
}

#[inline]
#[target_feature(enable = "avx2")]
fn plus(a: Pairs, b: Pairs) -> Pairs {
    [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn minus(a: Pairs, b: Pairs) -> Pairs {
    [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
fn rounded<const BITS: i32>(sums: Pairs) -> __m256i {
    _mm256_packs_epi32(_mm256_srai_epi32::<BITS>(sums[0]), _mm256_srai_epi32::<BITS>(sums[1]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(row: &[i16; 16]) -> __m256i {
    // SAFETY: 32 bytes that may be read, at any alignment.
    unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }
}

impl Samples {
    /// Eight rows of eight of the first or the second block, `stride` apart. `None`: there is no room for them.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn put(self, second: bool, target: &mut [u8], stride: usize) -> Option<()> {
        let needed = stride.checked_mul(7)?.checked_add(8)?;
        let to = target.get_mut(..needed)?.as_mut_ptr();
        for (pair, rows) in self.0.into_iter().enumerate() {
            let rows =
                if second { _mm256_extracti128_si256::<1>(rows) } else { _mm256_castsi256_si128(rows) };
            // SAFETY: eight bytes each from `2 * pair` and `2 * pair + 1` times `stride`; the last of them, at 7 times, end where `target` was
            // cut off right above.
            unsafe {
                let to = to.add(2 * pair * stride);
                _mm_storel_epi64(to.cast(), rows);
                _mm_storel_epi64(to.add(stride).cast(), _mm_unpackhi_epi64(rows, rows));
            }
        }
        Some(())
    }

    /// Eight samples of each row of the first or the second block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn rows(self, second: bool) -> [[u8; 8]; 8] {
        let mut rows = [[0; 8]; 8];
        self.put(second, rows.as_flattened_mut(), 8);
        rows
    }
}
