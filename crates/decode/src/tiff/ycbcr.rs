//! Luma and chroma of pages that are no JPEGs: how pixels share their chroma, and their way to RGB, rounded as libtiff does.

use crate::Rejection;

use super::compression::Compression;
use super::directory::Directory;
use super::pixels::{Format, Stored};
use super::reasons::{broken, unknown};

const COEFFICIENTS: u16 = 529;
const SUBSAMPLING: u16 = 530;
const REFERENCE_BLACK_WHITE: u16 = 532;

/// How many pixels across and down share their chroma, where they lie in such groups; `None` where each has its own, or a JPEG takes
/// care of it.
pub(super) fn groups(
    page: &Directory<'_>,
    compression: Compression<'_>,
    stored: Stored,
) -> Result<Option<(usize, usize)>, Rejection> {
    if matches!(compression, Compression::Jpeg(_)) && !stored.planar {
        return Ok(None);
    }
    let (across, down) = match page.find(SUBSAMPLING)? {
        Some(shared) => (shared.number(0)?, shared.number(1)?),
        None => (2, 2),
    };
    match (across, down) {
        (1, 1) => Ok(None),
        _ if stored.planar => Err(unknown("chroma in smaller planes of its own")),
        _ if (stored.bits, stored.count, stored.format) != (8, 3, Format::Unsigned) => Err(unknown(format!(
            "pixels that share their chroma, with {} samples of {} bits",
            stored.count, stored.bits
        ))),
        (1 | 2 | 4, 1 | 2 | 4) => {
            Ok(Some((usize::try_from(across).unwrap_or(4), usize::try_from(down).unwrap_or(4))))
        }
        _ => Err(broken(format!("chroma shared by {across}×{down} pixels"))),
    }
}

/// What each value of luma and chroma adds to red, green and blue.
pub(super) struct Tables {
    luma: [i32; 256],
    red: [i32; 256],
    blue: [i32; 256],
    /// In parts of 65,536.
    green_by_red: [i32; 256],
    green_by_blue: [i32; 256],
}

impl Tables {
    /// By what the page says of its colours, and by the standard's defaults.
    pub(super) fn of(page: &Directory<'_>) -> Result<Self, Rejection> {
        let mut weights = [0.299, 0.587, 0.114];
        if let Some(stored) = page.find(COEFFICIENTS)? {
            for (index, weight) in (0..).zip(&mut weights) {
                *weight = stored.fraction(index)?;
            }
        }
        let mut levels = [0.0, 255.0, 128.0, 255.0, 128.0, 255.0];
        if let Some(stored) = page.find(REFERENCE_BLACK_WHITE)? {
            for (index, level) in (0..).zip(&mut levels) {
                *level = stored.fraction(index)?;
            }
        }
        if weights[1] <= 0.0 || weights.iter().any(|weight| !(0.0..=1.0).contains(weight)) {
            return Err(broken("weights of red, green and blue that make no gray"));
        }
        Ok(Self::made(weights, levels))
    }

    #[allow(clippy::cast_possible_truncation)] // clamped where it is not small
    fn made([red, green, blue]: [f64; 3], levels: [f64; 6]) -> Self {
        let fixed = |factor: f64| (factor.clamp(0.0, 2.0) * 65_536.0 + 0.5) as i32;
        let by_red = 2.0 - 2.0 * red;
        let by_blue = 2.0 - 2.0 * blue;
        let factors =
            [fixed(by_red), -fixed(red * by_red / green), fixed(by_blue), -fixed(blue * by_blue / green)];
        // A stored value between black and white as one between 0 and `most`.
        let level = |value: f64, black: f64, white: f64, most: f64| {
            let span = if (white - black).abs() < 1e-6 { 1.0 } else { white - black };
            ((value - black) * most / span).clamp(-4096.0, 4096.0) as i32
        };
        let mut tables = Self {
            luma: [0; 256],
            red: [0; 256],
            blue: [0; 256],
            green_by_red: [0; 256],
            green_by_blue: [0; 256],
        };
        for value in 0..256_usize {
            let stored = f64::from(u8::try_from(value).unwrap_or(u8::MAX));
            let chroma_blue = level(stored - 128.0, levels[2] - 128.0, levels[3] - 128.0, 127.0);
            let chroma_red = level(stored - 128.0, levels[4] - 128.0, levels[5] - 128.0, 127.0);
            tables.luma[value] = level(stored, levels[0], levels[1], 255.0);
            tables.red[value] = (factors[0] * chroma_red + 32_768) >> 16;
            tables.blue[value] = (factors[2] * chroma_blue + 32_768) >> 16;
            tables.green_by_red[value] = factors[1] * chroma_red;
            tables.green_by_blue[value] = factors[3] * chroma_blue + 32_768;
        }
        tables
    }

    fn rgb(&self, [luma, blue, red]: [u8; 3]) -> [u8; 3] {
        let (luma, blue, red) = (self.luma[usize::from(luma)], usize::from(blue), usize::from(red));
        let green = (self.green_by_blue[blue] + self.green_by_red[red]) >> 16;
        [luma + self.red[red], luma + green, luma + self.blue[blue]]
            .map(|level| u8::try_from(level.clamp(0, 255)).unwrap_or(u8::MAX))
    }

    /// Luma and chroma of each pixel to its RGB, in place.
    pub(super) fn convert(&self, pixels: &mut [u8]) {
        let (pixels, _) = pixels.as_chunks_mut::<3>();
        for pixel in pixels {
            *pixel = self.rgb(*pixel);
        }
    }
}

/// Bytes of a strip or tile of so many pixels across and down whose chroma is shared.
pub(super) const fn grouped_bytes(columns: usize, rows: usize, (across, down): (usize, usize)) -> usize {
    columns.div_ceil(across).saturating_mul(rows.div_ceil(down)).saturating_mul(across * down + 2)
}

/// Writes row `row` of a strip or tile of `columns` pixels across, whose groups lie in `packed`, as luma and chroma of each pixel.
pub(super) fn ungroup(
    packed: &[u8],
    (columns, row): (usize, usize),
    (across, down): (usize, usize),
    target: &mut [u8],
) {
    let group = across * down + 2;
    let line = columns.div_ceil(across) * group;
    let groups = packed[row / down * line..][..line].chunks_exact(group);
    for (pixels, group) in target.chunks_mut(3 * across).zip(groups) {
        let lumas = &group[row % down * across..];
        for (pixel, luma) in pixels.chunks_exact_mut(3).zip(lumas) {
            pixel.copy_from_slice(&[*luma, group[across * down], group[across * down + 1]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_jpegs() {
        let tables = Tables::made([0.299, 0.587, 0.114], [0.0, 255.0, 128.0, 255.0, 128.0, 255.0]);
        assert_eq!(tables.rgb([77, 128, 128]), [77, 77, 77]);
        assert_eq!(tables.rgb([76, 85, 255]), [254, 0, 0]);
        assert_eq!(tables.rgb([29, 255, 107]), [0, 0, 254]);
    }

    #[test]
    fn groups_at_the_edge_are_whole() {
        let packed = [1, 2, 3, 4, 90, 91, 5, 0, 6, 0, 92, 93];
        let mut rows = [[0; 9]; 2];
        for (at, row) in rows.iter_mut().enumerate() {
            ungroup(&packed, (3, at), (2, 2), row);
        }
        assert_eq!(rows[0], [1, 90, 91, 2, 90, 91, 5, 92, 93]);
        assert_eq!(rows[1], [3, 90, 91, 4, 90, 91, 6, 92, 93]);
        assert_eq!(grouped_bytes(3, 2, (2, 2)), packed.len());
    }
}
