//! Blue, green, red to red, green, blue, sixteen bytes at a time where the processor can.

#![allow(unsafe_code)] // the call of a function that needs such a processor

/// Rows of three bytes a pixel.
pub(super) fn three(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("ssse3") {
        // SAFETY: the processor has what the function was compiled for; it takes slices.
        unsafe { wide::shuffle::<15, 15>(from, to, &[2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15]) };
        return;
    }
    each::<3>(from, to);
}

/// Rows of four bytes a pixel, of which the last is left out.
pub(super) fn four(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("ssse3") {
        // SAFETY: the processor has what the function was compiled for; it takes slices.
        unsafe {
            wide::shuffle::<16, 12>(from, to, &[2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, 15, 15, 15, 15]);
        };
        return;
    }
    each::<4>(from, to);
}

/// Pixel by pixel.
fn each<const PIXEL: usize>(from: &[u8], to: &mut [u8]) {
    let (pixels, _) = from.as_chunks::<PIXEL>();
    let (targets, _) = to.as_chunks_mut::<3>();
    for (to, from) in targets.iter_mut().zip(pixels) {
        *to = [from[2], from[1], from[0]];
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{_mm_cvtsi128_si64, _mm_set_epi64x, _mm_shuffle_epi8, _mm_unpackhi_epi64};

    /// Moves sixteen bytes at a time as `order` says, of which `USED` are read and `MADE` stay: the next ones are written over the rest.
    /// The end of a row is done pixel by pixel.
    #[target_feature(enable = "ssse3")]
    pub(super) fn shuffle<const USED: usize, const MADE: usize>(
        from: &[u8],
        to: &mut [u8],
        order: &[u8; 16],
    ) {
        let order = register(order);
        let (mut read, mut written) = (0, 0);
        while let (Some(sixteen), Some(room)) = (
            from.get(read..).and_then(<[u8]>::first_chunk::<16>),
            to.get_mut(written..).and_then(<[u8]>::first_chunk_mut::<16>),
        ) {
            let moved = _mm_shuffle_epi8(register(sixteen), order);
            let (low, high) = (_mm_cvtsi128_si64(moved), _mm_cvtsi128_si64(_mm_unpackhi_epi64(moved, moved)));
            room[..8].copy_from_slice(&low.to_le_bytes());
            room[8..].copy_from_slice(&high.to_le_bytes());
            (read, written) = (read + USED, written + MADE);
        }
        let (from, to) = (&from[read.min(from.len())..], &mut to[written..]);
        if USED == 16 { super::each::<4>(from, to) } else { super::each::<3>(from, to) }
    }

    #[target_feature(enable = "ssse3")]
    fn register(bytes: &[u8; 16]) -> std::arch::x86_64::__m128i {
        let (halves, _) = bytes.as_chunks::<8>();
        _mm_set_epi64x(i64::from_le_bytes(halves[1]), i64::from_le_bytes(halves[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_swapped_and_nothing_beside_them_is_touched() {
        for pixels in 0..40_usize {
            let bytes: Vec<u8> = (0..pixels * 4).map(|at| u8::try_from(at % 251).expect("a byte")).collect();
            let (mut plain, mut quick) = (vec![7; pixels * 3], vec![9; pixels * 3]);
            each::<3>(&bytes[..pixels * 3], &mut plain);
            three(&bytes[..pixels * 3], &mut quick);
            assert_eq!(plain, quick, "{pixels} of 3");
            each::<4>(&bytes, &mut plain);
            four(&bytes, &mut quick);
            assert_eq!(plain, quick, "{pixels} of 4");
        }
    }
}
