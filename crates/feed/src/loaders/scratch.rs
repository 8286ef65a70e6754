//! How much memory decoding an item may need beside its place, judged by the first bytes of its file.
//!
//! A judgement, not a check: the decoder has limits of its own. Here it only matters that giants are known as such.

use gpulane_model::Size;

/// Bytes of a pixel while an image is decoded in full: four channels, or three and what a filter needs.
const PIXEL: u64 = 4;
/// Coefficients a progressive JPEG keeps for each pixel, at most: three of two bytes.
const COEFFICIENTS: u64 = 6;
/// What a compressed file of unknown size grows to.
const GROWTH: u64 = 8;

/// Bytes that decoding may need.
pub(super) fn scratch(encoded: &[u8], target: Option<Size>) -> u64 {
    if encoded.starts_with(&[0xFF, 0xD8]) {
        return frame(encoded).map_or(0, |frame| jpeg(frame, target));
    }
    let word = |at: usize| encoded.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let sides = if encoded.starts_with(b"\x89PNG") {
        word(16).zip(word(20)).map(|(width, height)| (u32::from_be_bytes(width), u32::from_be_bytes(height)))
    } else if encoded.starts_with(b"BM") {
        // A height below zero means that the rows go down.
        let height = |bytes| i32::from_le_bytes(bytes).unsigned_abs();
        word(18).zip(word(22)).map(|(width, rows)| (u32::from_le_bytes(width), height(rows)))
    } else {
        None
    };
    let pixels = sides.map(|(width, height)| u64::from(width) * u64::from(height));
    pixels.map_or(encoded.len() as u64 * GROWTH, |pixels| pixels.saturating_mul(PIXEL))
}

/// What the header of a JPEG's frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    width: u16,
    height: u16,
    /// All of it is kept until the last scan.
    progressive: bool,
}

fn jpeg(frame: Frame, target: Option<Size>) -> u64 {
    let pixels = u64::from(frame.width) * u64::from(frame.height);
    let reduced = |by: u32| {
        target.is_some_and(|size| {
            u32::from(frame.width) >= by * size.width && u32::from(frame.height) >= by * size.height
        })
    };
    // Decoded at a part of its size, where that is enough.
    let by = [8, 4, 2].into_iter().find(|by| reduced(*by)).unwrap_or(1);
    let kept = if frame.progressive { pixels * COEFFICIENTS } else { 0 };
    kept + pixels * PIXEL / u64::from(by * by)
}

/// Looks for the frame header among a JPEG's segments.
fn frame(encoded: &[u8]) -> Option<Frame> {
    let mut at = 2;
    loop {
        let [mark, kind, high, low] = *encoded.get(at..at + 4)?.first_chunk()?;
        match (mark, kind) {
            // Fill bytes may stand before any mark.
            (0xFF, 0xFF) => at += 1,
            // Frames are C0 to CF, of which three are other things.
            (0xFF, 0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF) => {
                let sides: [u8; 4] = *encoded.get(at + 5..at + 9)?.first_chunk()?;
                let height = u16::from_be_bytes([sides[0], sides[1]]);
                let width = u16::from_be_bytes([sides[2], sides[3]]);
                return Some(Frame { width, height, progressive: !matches!(kind, 0xC0 | 0xC1) });
            }
            // The picture's data begin without a frame, or this is no segment.
            (0xFF, 0xDA | 0xD9) | (0..=0xFE, _) => return None,
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])),
        }
    }
}

#[cfg(test)]
mod tests {
    use gpulane_model::{Decode, Fit};

    use super::*;

    fn jpeg_file(kind: u8, width: u16, height: u16) -> Vec<u8> {
        let mut file = b"\xFF\xD8\xFF\xE0\x00\x05abc\xFF\xFF".to_vec();
        file.extend([kind, 0, 17, 8]);
        file.extend(height.to_be_bytes());
        file.extend(width.to_be_bytes());
        file
    }

    #[test]
    fn a_jpeg_that_is_reduced_while_decoding_needs_little() {
        let size = Some(Size { width: 224, height: 224, fit: Fit::Stretch });
        for (kind, target, right) in [
            (0xC0, size, 6000 * 4000 * 4 / 64),
            (0xC0, None, 6000 * 4000 * 4),
            (0xC2, size, 6000 * 4000 * 6 + 6000 * 4000 * 4 / 64),
        ] {
            assert_eq!(scratch(&jpeg_file(kind, 6000, 4000), target), right);
        }
    }

    #[test]
    fn png_and_bmp_are_judged_by_their_sides() {
        let png = [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &[0, 0, 1, 0, 0, 0, 2, 0]].concat();
        assert_eq!(scratch(&png, None), 256 * 512 * 4);
        let bmp = [b"BM".as_slice(), &[0; 16], &5_u32.to_le_bytes(), &(-7_i32).to_le_bytes()].concat();
        assert_eq!(scratch(&bmp, None), 5 * 7 * 4);
        assert_eq!(scratch(b"II*\0 and so on", None), 14 * GROWTH);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_judged(
            start in proptest::sample::select(vec![b"\xFF\xD8".as_slice(), b"\x89PNG", b"BM", b""]),
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
        ) {
            let target = "rgb:9x9".parse::<Decode>().unwrap().size();
            scratch(&[start, &bytes].concat(), target);
        }
    }
}
