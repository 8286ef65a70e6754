//! A JPEG's markers, as far as they must be known before it is decoded. Reads hostile bytes: every access is checked.

use crate::exif;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const APP0: u8 = 0xe0;
const APP1: u8 = 0xe1;
const APP14: u8 = 0xee;

/// How far from its end a file is searched for the mark that ends a JPEG. Cameras append a little; files that were cut
/// have none.
const TAIL: usize = 4096;

/// What the markers before the image data say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Pixels across, before orientation.
    pub(crate) width: u32,
    /// Pixels down, before orientation.
    pub(crate) height: u32,
    /// From EXIF; 1 if there is none.
    pub(crate) orientation: u8,
    /// Baseline, 8 bits, in one scan: what every decoder can do, also those in hardware.
    pub(crate) baseline: bool,
}

/// One marker and what it holds.
pub(super) struct Segment<'a> {
    /// Which.
    pub(super) marker: u8,
    /// What stands in it, without its length.
    pub(super) body: &'a [u8],
    /// Where in the file its body begins.
    pub(super) at: usize,
}

/// The segments up to and with the start of the image data.
pub(super) struct Segments<'a> {
    /// The file.
    encoded: &'a [u8],
    /// Where to look for the next marker.
    at: usize,
}

impl<'a> Segments<'a> {
    pub(super) const fn of(encoded: &'a [u8]) -> Self {
        Self { encoded, at: 2 }
    }

    pub(super) fn next(&mut self) -> Result<Segment<'a>, &'static str> {
        const CUT: &str = "truncated: the JPEG ends within its header";
        loop {
            let rest = self.encoded.get(self.at..).ok_or(CUT)?;
            self.at += rest.iter().position(|byte| *byte == 0xff).ok_or(CUT)?;
            let rest = self.encoded.get(self.at..).ok_or(CUT)?;
            self.at += rest.iter().position(|byte| *byte != 0xff).ok_or(CUT)? + 1;
            match self.encoded[self.at - 1] {
                // Without a body, or no marker at all.
                0 | 1 | 0xd0..=0xd7 | SOI => {}
                EOI => return Err("the JPEG has no image in it"),
                marker => {
                    let rest = self.encoded.get(self.at..).ok_or(CUT)?;
                    let length = usize::from(u16::from_be_bytes(*rest.first_chunk().ok_or(CUT)?));
                    let body = rest.get(2..length).ok_or(if length < 2 {
                        "broken JPEG: a marker without length"
                    } else {
                        CUT
                    })?;
                    let at = self.at + 2;
                    self.at += length;
                    return Ok(Segment { marker, body, at });
                }
            }
        }
    }
}

/// Reads the markers up to the image data.
pub(crate) fn read(encoded: &[u8]) -> Result<Header, &'static str> {
    let mut segments = Segments::of(encoded);
    let mut orientation = None;
    let mut frame = None;
    loop {
        let Segment { marker, body, .. } = segments.next()?;
        match marker {
            APP1 if orientation.is_none() && body.starts_with(b"Exif\0\0") => {
                orientation = Some(exif::orientation(body));
            }
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let &[depth, h1, h0, w1, w0, components] =
                    body.first_chunk().ok_or("broken JPEG: a short frame header")?;
                let sides =
                    (u32::from(u16::from_be_bytes([w1, w0])), u32::from(u16::from_be_bytes([h1, h0])));
                frame = Some((sides, marker == 0xc0 && depth == 8, components));
            }
            SOS => {
                let ((width, height), baseline, components) =
                    frame.ok_or("broken JPEG: image data before the frame header")?;
                let baseline = baseline && body.first() == Some(&components);
                return Ok(Header { width, height, orientation: orientation.unwrap_or(1), baseline });
            }
            _ => {}
        }
    }
}

/// Whether the mark that ends a JPEG stands near the end of the file.
pub(crate) fn has_end(encoded: &[u8]) -> bool {
    let tail = &encoded[encoded.len().saturating_sub(TAIL)..];
    tail.windows(2).any(|pair| pair == [0xff, EOI])
}

/// Writes the file into `mended` without what decoders only warn of: bytes between markers, and marks of applications
/// that are out of the ordinary.
pub(crate) fn mend(encoded: &[u8], mended: &mut Vec<u8>) -> Result<(), &'static str> {
    mended.clear();
    mended.extend([0xff, SOI]);
    let mut segments = Segments::of(encoded);
    loop {
        let Segment { marker, body, at } = segments.next()?;
        let harmless = match marker {
            APP0 => body.starts_with(b"JFIF\0\x01"),
            APP14 => body.get(11).is_some_and(|transform| *transform <= 2),
            APP1..=0xef | 0xfe => false,
            _ => true,
        };
        if marker == SOS {
            mended.extend([0xff, SOS]);
            mended.extend_from_slice(&encoded[at - 2..]);
            return Ok(());
        }
        if harmless {
            mended.extend([0xff, marker]);
            mended.extend_from_slice(&encoded[at - 2..at + body.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with `between` before its frame, and nothing after.
    fn file(between: &[u8], frame: u8, components: u8, scanned: u8) -> Vec<u8> {
        let mut file = vec![0xff, SOI];
        file.extend(between);
        file.extend([0xff, frame, 0, 8, 8, 1, 2, 3, 4, components]);
        file.extend([0xff, SOS, 0, 3, scanned, 0xff, EOI]);
        file
    }

    #[test]
    fn sides_kind_and_scans_are_read() {
        let plain = read(&file(&[], 0xc0, 3, 3));
        let header = Header { width: 772, height: 258, orientation: 1, baseline: true };
        assert_eq!(plain, Ok(header));
        assert_eq!(
            read(&file(&[], 0xc0, 3, 1)),
            Ok(Header { baseline: false, ..header }),
            "in several scans"
        );
        assert_eq!(read(&file(&[], 0xc2, 3, 3)), Ok(Header { baseline: false, ..header }));
        assert_eq!(read(&file(b"junk\xff\xff\xff\x01", 0xc0, 3, 3)), Ok(header));
    }

    #[test]
    fn a_file_cut_anywhere_in_its_header_says_so() {
        let whole = file(&[0xff, 0xe5, 0, 4, 0, 0], 0xc0, 3, 3);
        for length in 2..whole.len() - 2 {
            let error = read(&whole[..length]).expect_err("cut");
            assert!(error.contains("truncated"), "{length}: {error}");
        }
    }

    #[test]
    fn mending_leaves_a_file_that_reads_the_same() {
        let odd = file(b"junk\xff\xe0\0\x08JFIF\0\x02", 0xc0, 3, 3);
        let mut mended = Vec::new();
        assert_eq!(mend(&odd, &mut mended), Ok(()));
        assert_eq!(mended, file(&[], 0xc0, 3, 3));
    }
}
