//! A JPEG's markers, as far as they must be known before it is decoded. Reads hostile bytes: every access is checked.

use memchr::memchr;

use crate::notes::Notes;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DHT: u8 = 0xc4;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const APP1: u8 = 0xe1;
const COM: u8 = 0xfe;

/// What the markers before the image data say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Pixels across, before orientation.
    pub(crate) width: u32,
    /// Pixels down, before orientation.
    pub(crate) height: u32,
    /// Components of a pixel.
    pub(crate) components: u8,
    /// From EXIF or XMP; 1 if neither says it.
    pub(crate) orientation: u8,
    /// Baseline, 8 bits, in one scan, with all tables it needs: what every decoder can do, also those in hardware.
    pub(crate) baseline: bool,
    /// Bytes of all its coefficients, where a decoder must keep them until the last scan; 0 where one scan has everything.
    pub(crate) coefficients: u64,
    /// Where the image data of the first scan begins.
    data: usize,
    /// Restarts that a scan with all components has.
    restarts: u64,
}

/// Which tables a file has defined, a bit for each.
#[derive(Default)]
struct Tables {
    /// For quantisation.
    quantised: u16,
    /// For coding: DC, AC.
    codes: [u16; 2],
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
                    // A note whose length is less than its own two bytes is empty, as for libjpeg.
                    let length = if matches!(marker, 0xe0..=0xef | COM) { length.max(2) } else { length };
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
    let mut notes = Notes::default();
    let mut frame = None;
    let mut tables = Tables::default();
    let mut interval = 0;
    loop {
        let Segment { marker, body, at } = segments.next()?;
        match marker {
            DQT => tables.see_quantisation(body),
            DHT => tables.see_codes(body),
            DRI => interval = body.first_chunk().map_or(0, |units| u64::from(u16::from_be_bytes(*units))),
            APP1 => notes.see_app1(body),
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let &[depth, h1, h0, w1, w0, components] =
                    body.first_chunk().ok_or("broken JPEG: a short frame header")?;
                let sides =
                    (u32::from(u16::from_be_bytes([w1, w0])), u32::from(u16::from_be_bytes([h1, h0])));
                let progressive = matches!(marker, 0xc2 | 0xc6 | 0xca | 0xce);
                frame = Some((sides, (marker == 0xc0 && depth == 8, progressive), components, body));
            }
            SOS => {
                let ((width, height), (baseline, progressive), components, described) =
                    frame.ok_or("broken JPEG: image data before the frame header")?;
                let whole = body.first() == Some(&components) && !progressive;
                let baseline = whole && baseline && tables.are_all_for(described, body);
                let coefficients = if whole { 0 } else { coefficients((width, height), described) };
                let orientation = notes.orientation();
                let (units, _) = units((width, height), described);
                let restarts = (units.0 * units.1).saturating_sub(1).checked_div(interval).unwrap_or(0);
                let data = at + body.len();
                return Ok(Header {
                    width,
                    height,
                    components,
                    orientation,
                    baseline,
                    coefficients,
                    data,
                    restarts,
                });
            }
            _ => {}
        }
    }
}

/// Bytes of the coefficients of a frame: blocks of 64, two bytes each, in whole units.
fn coefficients(sides: (u32, u32), frame: &[u8]) -> u64 {
    let (units, blocks) = units(sides, frame);
    units.0 * units.1 * blocks * 128
}

/// Units of a frame across and down, and blocks in each.
fn units(sides: (u32, u32), frame: &[u8]) -> ((u64, u64), u64) {
    let count = usize::from(frame.get(5).copied().unwrap_or(0));
    let factors = frame.get(6..).unwrap_or_default().as_chunks::<3>().0.iter().take(count);
    let factors = factors.map(|[_, both, _]| (u64::from((both >> 4).max(1)), u64::from((both & 15).max(1))));
    let most = factors.clone().fold((1, 1), |most, (h, v)| (most.0.max(h), most.1.max(v)));
    // A scan of one component has its own blocks for units.
    if count == 1 {
        return ((u64::from(sides.0).div_ceil(8), u64::from(sides.1).div_ceil(8)), 1);
    }
    let units = (u64::from(sides.0).div_ceil(8 * most.0), u64::from(sides.1).div_ceil(8 * most.1));
    (units, factors.map(|(h, v)| h * v).sum())
}

impl Tables {
    fn see_quantisation(&mut self, mut body: &[u8]) {
        while let Some((which, rest)) = body.split_first() {
            let length = if which >> 4 == 0 { 64 } else { 128 };
            let Some((_, behind)) = rest.split_at_checked(length) else { return };
            self.quantised |= 1 << (which & 15);
            body = behind;
        }
    }

    fn see_codes(&mut self, mut body: &[u8]) {
        while let Some((which, rest)) = body.split_first() {
            let Some((counts, rest)) = rest.split_first_chunk::<16>() else { return };
            let symbols = counts.iter().map(|count| usize::from(*count)).sum();
            let Some((_, behind)) = rest.split_at_checked(symbols) else { return };
            if let Some(codes) = self.codes.get_mut(usize::from(which >> 4)) {
                *codes |= 1 << (which & 15);
            }
            body = behind;
        }
    }

    /// Whether all are there that a frame and its scan name. Decoders differ in what they take for one that is not.
    fn are_all_for(&self, frame: &[u8], scan: &[u8]) -> bool {
        let has = |tables: u16, which: u8| which < 16 && tables >> which & 1 == 1;
        let components = frame.get(6..).unwrap_or_default().as_chunks::<3>().0;
        let coded = scan.get(1..).unwrap_or_default().as_chunks::<2>().0;
        let count = usize::from(scan.first().copied().unwrap_or(0));
        components.len() >= count
            && coded.len() >= count
            && components[..count].iter().all(|[_, _, which]| has(self.quantised, *which))
            && coded[..count]
                .iter()
                .all(|[_, which]| has(self.codes[0], which >> 4) && has(self.codes[1], which & 15))
    }
}

impl Header {
    /// Whether the one scan of a baseline file has as many stretches as it should, parted by restarts in their order, and is followed by the end of
    /// the image. Looks at marks alone, not at the codes between them.
    pub(super) fn has_all_marks(&self, encoded: &[u8]) -> bool {
        let mut rest = encoded.get(self.data..).unwrap_or_default();
        let mut restarts = 0;
        while let Some((mark, behind)) = memchr(0xff, rest).and_then(|at| rest.get(at + 1..)?.split_first()) {
            match mark {
                0 => {}
                0xd0..=0xd7 if u64::from(mark & 7) == restarts % 8 => restarts += 1,
                _ => return *mark == EOI && restarts == self.restarts,
            }
            rest = behind;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table for quantisation and one of each kind for codes, all with the number 0.
    fn tables() -> Vec<u8> {
        let quantisation = [&[0xff, DQT, 0, 67, 0], [1; 64].as_slice()].concat();
        let code = |kind: u8| [&[0xff, DHT, 0, 20, kind, 1], [0; 15].as_slice(), &[0]].concat();
        [quantisation, code(0), code(16)].concat()
    }

    /// A header with `between` before its frame, and nothing after. Luma is twice as fine across.
    fn file(between: &[u8], frame: u8, components: u8, scanned: u8) -> Vec<u8> {
        let mut file = vec![0xff, SOI];
        file.extend(between);
        file.extend([0xff, frame, 0, 8 + 3 * components, 8, 1, 2, 3, 4, components]);
        file.extend((1..=components).flat_map(|name| [name, if name == 1 { 0x21 } else { 0x11 }, 0]));
        file.extend([0xff, SOS, 0, 6 + 2 * scanned, scanned]);
        file.extend((1..=scanned).flat_map(|name| [name, 0]));
        file.extend([0, 63, 0, 0xff, EOI]);
        file
    }

    #[test]
    fn sides_kind_and_scans_are_read() {
        let plain = read(&file(&tables(), 0xc0, 3, 3));
        let file_length = file(&tables(), 0xc0, 3, 3).len();
        let header = Header {
            width: 772,
            height: 258,
            components: 3,
            orientation: 1,
            baseline: true,
            coefficients: 0,
            data: file_length - 2,
            restarts: 0,
        };
        assert_eq!(plain, Ok(header));
        // 49 × 33 units of four blocks.
        let kept = Header { baseline: false, coefficients: 49 * 33 * 4 * 128, ..header };
        let first = Header { data: header.data - 4, ..kept };
        assert_eq!(read(&file(&tables(), 0xc0, 3, 1)), Ok(first), "in several scans");
        assert_eq!(read(&file(&tables(), 0xc2, 3, 3)), Ok(kept), "progressive");
        let junk = [b"junk\xff\xff\xff\x01".as_slice(), &tables()].concat();
        assert_eq!(read(&file(&junk, 0xc0, 3, 3)), Ok(Header { data: header.data + 8, ..header }));
    }

    #[test]
    fn a_file_that_lacks_a_table_is_not_for_every_decoder() {
        let all = tables();
        for lacking in [0..69, 69..91, 91..113, 0..0] {
            let some = [&all[..lacking.start], &all[lacking.end..]].concat();
            let baseline = read(&file(&some, 0xc0, 3, 3)).map(|header| header.baseline);
            assert_eq!(baseline, Ok(lacking.is_empty()), "without {lacking:?}");
        }
    }

    #[test]
    fn marks_are_looked_for_where_they_should_be() {
        // Of 49 × 33 units, 800 before each restart.
        let before = [tables().as_slice(), &[0xff, DRI, 0, 4, 3, 0x20]].concat();
        let head = file(&before, 0xc0, 3, 3);
        let head = &head[..head.len() - 2];
        for (scan, right) in [
            (&b"a\xff\0b\xff\xd0c\xff\xd1d\xff\xd9"[..], true),
            (b"\xff\xd0\xff\xd1\xff\xd9trailer", true),
            (b"a\xff\0b\xff\xd0c\xff\xd9", false),
            (b"a\xff\xd0c\xff\xd2d\xff\xd9", false),
            (b"a\xff\xd0c\xff\xd1d\xff\xd2e\xff\xd9", false),
            (b"a\xff\xd0c\xff\xd1d\xff\xfe\xff\xd9", false),
            (b"a\xff\xd0c\xff\xd1d\xff", false),
            (b"a\xff\xd0c\xff\xd1d", false),
        ] {
            let file = [head, scan].concat();
            let header = read(&file).expect("a header");
            assert_eq!((header.restarts, header.has_all_marks(&file)), (2, right), "{scan:?}");
        }
    }

    #[test]
    fn a_file_cut_anywhere_in_its_header_says_so() {
        let whole = file(&[0xff, 0xe5, 0, 4, 0, 0], 0xc0, 3, 3);
        for length in 2..whole.len() - 5 {
            let error = read(&whole[..length]).expect_err("cut");
            assert!(error.contains("truncated"), "{length}: {error}");
        }
    }
}
