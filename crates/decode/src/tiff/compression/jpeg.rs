//! Strips and tiles that are JPEGs, by libjpeg-turbo. Their tables may stand apart, and what their components are is said by the
//! TIFF, not by their own markers.

use crate::Rejection;
use crate::damage::Damage;
use crate::jpeg::{Header, part, read_header};

use super::super::reasons::broken;
use super::Shape;

const EOI: u8 = 0xd9;
const APP0: u8 = 0xe0;
const APP14: u8 = 0xee;
const SOS: u8 = 0xda;

/// What is known of a page's JPEGs before they are decoded.
#[derive(Clone, Copy)]
pub(in crate::tiff) struct Jpeg<'a> {
    /// Tables that all of them share; empty where each has its own.
    pub(in crate::tiff) tables: &'a [u8],
    /// Whether luma and chroma are to become RGB. Otherwise the components are samples as they are.
    pub(in crate::tiff) luma: bool,
}

/// Bytes that decoding one takes beside its pixels: its coefficients where it has several scans, rows in the making, and the file that is
/// made of it and the tables.
pub(super) fn memory(data: &[u8], tables: &[u8]) -> u64 {
    let header = read_header(data).ok();
    let seen = header.map_or(0, |header: Header| header.coefficients + 256 * u64::from(header.width));
    seen + 3 * (data.len() + tables.len()) as u64
}

/// Fills `target`, which has room for a whole strip or tile, and says what libjpeg had to conceal. The last strip may have fewer rows than the
/// others.
pub(super) fn decode(
    jpeg: Jpeg<'_>,
    data: &[u8],
    shape: Shape,
    target: &mut [u8],
) -> Result<Damage, Rejection> {
    let whole = joined(jpeg, data, shape.samples)?;
    let header = read_header(&whole).map_err(|reason| broken(format!("a JPEG in it: {reason}")))?;
    if usize::from(header.components) != shape.samples {
        return Err(broken(format!(
            "a JPEG in it has {} components, its pixels {} samples",
            header.components, shape.samples
        )));
    }
    let (width, height) = (header.width as usize, header.height as usize);
    if width != shape.columns || height < shape.rows || width * height * shape.samples > target.len() {
        return Err(broken(format!("a JPEG in it has {width}×{height} pixels")));
    }
    part(&whole, header, target)
}

/// A JPEG file of its own: with the shared tables, and a marker that says what its components are. Markers that would say otherwise are
/// left out.
fn joined(jpeg: Jpeg<'_>, data: &[u8], samples: usize) -> Result<Vec<u8>, Rejection> {
    let body =
        data.strip_prefix(&[0xff, 0xd8]).ok_or_else(|| broken("a strip that should be a JPEG is none"))?;
    let tables = jpeg.tables.strip_prefix(&[0xff, 0xd8]).unwrap_or(jpeg.tables);
    let tables = tables.strip_suffix(&[0xff, EOI]).unwrap_or(tables);
    let transform = u8::from(jpeg.luma && samples == 3);
    let mut whole = Vec::with_capacity(body.len() + tables.len() + 20);
    whole.extend([0xff, 0xd8]);
    if samples > 1 {
        whole.extend([0xff, APP14, 0, 14]);
        whole.extend(b"Adobe\0\x64\0\0\0\0");
        whole.push(transform);
    }
    append(&mut whole, tables);
    append(&mut whole, body);
    Ok(whole)
}

/// Appends segments, less those that name colours; from the image data on, everything as it is. Finds markers as libjpeg does: behind any number
/// of bytes that are none, and of fill bytes.
fn append(whole: &mut Vec<u8>, mut rest: &[u8]) {
    while let Some(start) = memchr::memchr(0xff, rest) {
        let fill = rest[start..].iter().take_while(|byte| **byte == 0xff).count();
        let at = start + fill;
        let Some(marker) = rest.get(at) else { break };
        let length = match (*marker, rest.get(at + 1..at + 3)) {
            // Without a body, or no marker at all.
            (0 | 1 | 0xd0..=EOI, _) => 0,
            (SOS, _) => break,
            (_, Some(&[high, low])) => usize::from(u16::from_be_bytes([high, low])),
            _ => break,
        };
        let Some((segment, behind)) = rest.split_at_checked(at + 1 + length) else { break };
        whole.extend(&segment[..start]);
        if !matches!(*marker, APP0 | APP14) {
            whole.extend(&segment[at - 1..]);
        }
        rest = behind;
    }
    whole.extend(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_that_counts_is_ours() {
        let tables = [0xff, 0xd8, 0xff, 0xdb, 0, 3, 7, 0xff, 0xd9];
        let data = [0xff, 0xd8, 0xff, APP0, 0, 3, 1, 0xff, 0xc0, 0, 3, 2, 0xff, SOS, 0, 2, 9, 9, 0xff, 0xd9];
        let jpeg = Jpeg { tables: &tables, luma: true };
        let whole = joined(jpeg, &data, 3).expect("a JPEG");
        assert_eq!(whole[..6], [0xff, 0xd8, 0xff, APP14, 0, 14]);
        assert_eq!(whole[17], 1, "YCbCr");
        assert_eq!(
            whole[18..],
            [0xff, 0xdb, 0, 3, 7, 0xff, 0xc0, 0, 3, 2, 0xff, SOS, 0, 2, 9, 9, 0xff, 0xd9]
        );
    }
    #[test]
    fn markers_are_found_behind_fill_bytes_and_others() {
        let frame = [0xff, 0xc0, 0, 3, 2];
        let ends = [0xff, SOS, 0, 2, 0xff, APP14, 0, 2];
        let odd: [&[u8]; 5] = [&[0xff, 0xff], &[7, 8], &[0xff, 1], &[0xff, 0xd3], &[0xff, 0]];
        for before in odd {
            for marker in [APP0, APP14] {
                let data = [&[0xff, 0xd8], before, &[0xff, marker, 0, 3, 1], &frame, &ends].concat();
                let jpeg = Jpeg { tables: &[], luma: true };
                let whole = joined(jpeg, &data, 3).expect("a JPEG");
                let kept = if before == [0xff, 0xff] { &[] } else { before };
                assert_eq!(whole[18..], [kept, &frame, &ends].concat(), "{before:?}");
            }
        }
    }

    #[test]
    fn segments_that_reach_beyond_the_end_are_left_to_libjpeg() {
        for cut in [&[0xff][..], &[0xff, 0xff], &[0xff, 0xc0], &[0xff, 0xc0, 9], &[0xff, 0xc0, 9, 9, 9]] {
            let mut whole = Vec::new();
            append(&mut whole, cut);
            assert_eq!(whole, cut);
        }
    }
}
