//! Turning and mirroring pixels as EXIF's orientation says.

use crate::fit::oriented;

/// Turns an image of stored `sides` with `pixel` bytes a pixel into `target`, whose rows begin `stride` bytes apart.
/// The caller sees to it that both are large enough.
pub(crate) fn turn(
    source: &[u8],
    sides: (u32, u32),
    pixel: usize,
    orientation: u8,
    target: &mut [u8],
    stride: usize,
) {
    match pixel {
        1 => turn_pixels::<1>(source, sides, orientation, target, stride),
        2 => turn_pixels::<2>(source, sides, orientation, target, stride),
        3 => turn_pixels::<3>(source, sides, orientation, target, stride),
        4 => turn_pixels::<4>(source, sides, orientation, target, stride),
        _ => turn_pixels::<8>(source, sides, orientation, target, stride),
    }
}

/// For each row of the result: which pixel of the source comes first, and how far apart those that follow are.
fn turn_pixels<const PIXEL: usize>(
    source: &[u8],
    sides: (u32, u32),
    orientation: u8,
    target: &mut [u8],
    stride: usize,
) {
    let (pixels, _) = source.as_chunks::<PIXEL>();
    let (width, height) = (sides.0 as usize, sides.1 as usize);
    let (out_width, out_height) = oriented(sides, orientation);
    let row_bytes = out_width as usize * PIXEL;
    for (y, row) in target.chunks_mut(stride).take(out_height as usize).enumerate() {
        let (row, _) = row[..row_bytes].as_chunks_mut::<PIXEL>();
        match orientation {
            2 => copy(row, pixels[y * width..][..width].iter().rev()),
            3 => copy(row, pixels[(height - 1 - y) * width..][..width].iter().rev()),
            4 => copy(row, pixels[(height - 1 - y) * width..][..width].iter()),
            5 => copy(row, pixels[y..].iter().step_by(width)),
            6 => copy(row, pixels[y..].iter().step_by(width).take(height).rev()),
            7 => copy(row, pixels[width - 1 - y..].iter().step_by(width).take(height).rev()),
            8 => copy(row, pixels[width - 1 - y..].iter().step_by(width)),
            _ => copy(row, pixels[y * width..][..width].iter()),
        }
    }
}

/// Copies single pixels of an image of stored `sides`: those at `columns` and `rows` of the upright one. Rows of the target begin
/// `stride` bytes apart.
pub(crate) fn pick(
    (source, sides, orientation): (&[u8], (u32, u32), u8),
    pixel: usize,
    (columns, rows): (&[usize], &[usize]),
    target: &mut [u8],
    stride: usize,
) {
    let (width, height) = (sides.0 as usize, sides.1 as usize);
    let (right, bottom) = (width.saturating_sub(1), height.saturating_sub(1));
    let stored = |x: usize, y: usize| match orientation {
        2 => (right - x, y),
        3 => (right - x, bottom - y),
        4 => (x, bottom - y),
        5 => (y, x),
        6 => (y, bottom - x),
        7 => (right - y, bottom - x),
        8 => (right - y, x),
        _ => (x, y),
    };
    for (row, y) in target.chunks_mut(stride).zip(rows) {
        for (to, x) in row.chunks_exact_mut(pixel).zip(columns) {
            let (x, y) = stored(*x, *y);
            to.copy_from_slice(&source[(y * width + x) * pixel..][..pixel]);
        }
    }
}

fn copy<'p, const PIXEL: usize>(row: &mut [[u8; PIXEL]], from: impl Iterator<Item = &'p [u8; PIXEL]>) {
    for (to, from) in row.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `abc` over `def`, turned; rows joined by `/`.
    fn turned(orientation: u8) -> String {
        let (width, height) = oriented((3, 2), orientation);
        let mut target = vec![b' '; (width as usize + 1) * height as usize];
        turn(b"abcdef", (3, 2), 1, orientation, &mut target, width as usize + 1);
        String::from_utf8(target).expect("letters").trim_end().replace(' ', "/")
    }

    #[test]
    fn all_eight_are_as_exif_means_them() {
        let all: Vec<_> = (1..=8).map(turned).collect();
        assert_eq!(
            all,
            ["abc/def", "cba/fed", "fed/cba", "def/abc", "ad/be/cf", "da/eb/fc", "fc/eb/da", "cf/be/ad"]
        );
    }

    #[test]
    fn single_pixels_are_picked_as_they_lie_when_turned() {
        for orientation in 1..=8 {
            let (width, height) = oriented((3, 2), orientation);
            let (columns, rows): (Vec<usize>, Vec<usize>) =
                ((0..width as usize).collect(), (0..height as usize).collect());
            let mut target = vec![b' '; (width as usize + 1) * height as usize];
            let from = (b"abcdef".as_slice(), (3, 2), orientation);
            pick(from, 1, (&columns, &rows), &mut target, width as usize + 1);
            let picked = String::from_utf8(target).expect("letters");
            assert_eq!(picked.trim_end().replace(' ', "/"), turned(orientation), "{orientation}");
        }
    }

    #[test]
    fn pixels_of_several_bytes_stay_together() {
        let mut target = [0; 12];
        turn(b"abcdefghijkl", (2, 2), 3, 3, &mut target, 6);
        assert_eq!(&target, b"jklghidefabc");
    }
}
