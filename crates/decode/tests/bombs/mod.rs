//! Small files of every format that take much memory to decode: whole images of one colour, and claims without any image.

#![allow(dead_code)] // each test takes what it needs

/// The image's sides.
pub(crate) type Sides = (u32, u32);

/// So many zeros as zlib compresses them best: one, then runs of 258.
pub(crate) fn zeros(count: u64) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with the codes of the standard; a zero.
    bits.put(0b011, 3);
    bits.put(0b0000_1100, 8);
    let left = count.saturating_sub(1);
    for _ in 0..left / 258 {
        // Length 258 is 11000101, written from its top bit on; distance 1 is 00000.
        bits.put(0b1010_0011, 13);
    }
    for _ in 0..left % 258 {
        bits.put(0b0000_1100, 8);
    }
    // The end of the block.
    bits.put(0, 7);
    let sum = u32::try_from(count % 65_521).expect("small") << 16 | 1;
    [&[0x78, 0x01], bits.bytes.as_slice(), &sum.to_be_bytes()].concat()
}

/// Bits from the lowest on.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, value: u32, count: usize) {
        for at in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if value >> at & 1 == 1 {
                *self.bytes.last_mut().expect("pushed") |= 1 << (self.count % 8);
            }
            self.count += 1;
        }
    }
}

/// A PNG; `kind` is its depth, colour type and whether it is interlaced. `notes` stand before the pixels.
pub(crate) fn png((width, height): Sides, kind: (u8, u8, u8), notes: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let samples = match kind.1 {
        0 | 3 => 1,
        4 => 2,
        2 => 3,
        _ => 4,
    };
    let row = |width: u32| 1 + (u64::from(width) * samples * u64::from(kind.0)).div_ceil(8);
    let data = if kind.2 == 0 {
        u64::from(height) * row(width)
    } else {
        let passes = [
            (0, 8, 0, 8),
            (4, 8, 0, 8),
            (0, 4, 4, 8),
            (2, 4, 0, 4),
            (0, 2, 2, 4),
            (1, 2, 0, 2),
            (0, 1, 1, 2),
        ];
        let side = |length: u32, first: u32, step: u32| length.saturating_sub(first).div_ceil(step);
        passes
            .iter()
            .map(|(x, across, y, down)| u64::from(side(height, *y, *down)) * row(side(width, *x, *across)))
            .sum()
    };
    let header =
        [&width.to_be_bytes(), height.to_be_bytes().as_slice(), &[kind.0, kind.1, 0, 0, kind.2]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    for (name, body) in notes {
        chunk(&mut file, **name, body);
    }
    chunk(&mut file, *b"IDAT", &zeros(data));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], body: &[u8]) {
    file.extend(u32::try_from(body.len()).expect("short").to_be_bytes());
    let start = file.len();
    file.extend(name);
    file.extend(body);
    let bit = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum));
    let sum = file[start..].iter().fold(u32::MAX, byte);
    file.extend((!sum).to_be_bytes());
}

/// A colour profile that grows to so many bytes.
pub(crate) fn profile(bytes: u64) -> Vec<u8> {
    [b"x\0\0".as_slice(), &zeros(bytes)].concat()
}

/// Lossless data of a WebP: all five codes have one symbol, so that a pixel takes no bit.
pub(crate) fn lossless((width, height): Sides, alpha: bool) -> Vec<u8> {
    let header = (width - 1) | (height - 1) << 14 | u32::from(alpha) << 28;
    [&[0x2f], header.to_le_bytes().as_slice(), &single_codes()].concat()
}

/// No transform, no cache, one group of five codes with one symbol each.
fn single_codes() -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0, 3);
    for _ in 0..5 {
        bits.put(0b0001, 4);
    }
    bits.bytes
}

/// Lossy data of a WebP that claims these sides. Its bits are zeros, which are as good as any.
pub(crate) fn lossy((width, height): Sides, bytes: usize) -> Vec<u8> {
    let first = u32::try_from(bytes / 2).expect("short");
    let tag = first << 5 | 0x10;
    let side = |length: u32| u16::try_from(length).expect("short").to_le_bytes();
    [&tag.to_le_bytes()[..3], &[0x9d, 1, 0x2a], &side(width), &side(height), &vec![0; bytes]].concat()
}

/// A lossless picture of alpha alone.
pub(crate) fn alpha() -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0, 3);
    for _ in 0..5 {
        bits.put(0b0001, 4);
    }
    [&[1], bits.bytes.as_slice()].concat()
}

/// A WebP of these chunks, filled up to `least` bytes.
pub(crate) fn webp(chunks: &[(&[u8; 4], Vec<u8>)], least: usize) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    body.extend(riff(chunks));
    body.resize(body.len().max(least.saturating_sub(8)), 0);
    [b"RIFF", u32::try_from(body.len()).expect("short").to_le_bytes().as_slice(), &body].concat()
}

fn riff(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, body) in chunks {
        bytes.extend(*name);
        bytes.extend(u32::try_from(body.len()).expect("short").to_le_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
    }
    bytes
}

/// The chunk that says what an extended WebP is: 0x10 for alpha, 0x02 for an animation.
pub(crate) fn canvas((width, height): Sides, flags: u8) -> Vec<u8> {
    let side = |length: u32| (length - 1).to_le_bytes();
    [&[flags, 0, 0, 0], &side(width)[..3], &side(height)[..3]].concat()
}

/// A frame of an animation, as large as its canvas.
pub(crate) fn frame((width, height): Sides, chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let side = |length: u32| (length - 1).to_le_bytes();
    [&[0; 6], &side(width)[..3], &side(height)[..3], &[0, 0, 0, 0], &riff(chunks)].concat()
}

/// A GIF of one frame, as large as its screen, all of one colour.
pub(crate) fn gif((width, height): Sides) -> Vec<u8> {
    let side = |length: u32| u16::try_from(length).expect("short").to_le_bytes();
    let sides = [side(width), side(height)].concat();
    let mut file =
        [b"GIF89a".as_slice(), &sides, &[0x80, 0, 0, 9, 9, 9, 200, 200, 200, 0x2c, 0, 0, 0, 0]].concat();
    file.extend(&sides);
    file.extend([0, 2]);
    // Codes that grow: each is what was before and one more, until the table is full and is cleared.
    let mut bits = Bits::default();
    let (mut left, mut next, mut size) = (u64::from(width) * u64::from(height), 6_u32, 3);
    bits.put(4, 3);
    let (mut run, mut code) = (1_u64, 0_u32);
    while left > 0 {
        bits.put(code, size);
        left = left.saturating_sub(run);
        (run, code) = (run + 1, next);
        if code > 4_094 {
            bits.put(4, 12);
            (next, size, run, code) = (6, 3, 1, 0);
            continue;
        }
        next += 1;
        size = if next > 1 << size && size < 12 { size + 1 } else { size };
    }
    bits.put(5, size);
    for block in bits.bytes.chunks(255) {
        file.push(u8::try_from(block.len()).expect("at most 255"));
        file.extend(block);
    }
    file.extend([0, 0x3b]);
    file
}

/// A BMP of 256 colours that leaves out all rows: they are of the first one.
pub(crate) fn bmp((width, height): Sides) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    for word in [0, 0, 54 + 1024, 40, width, height, 1 | 8 << 16, 1, 0, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend([7; 1024]);
    for _ in 0..height.div_ceil(255) {
        file.extend([0, 2, 0, 255]);
    }
    file.extend([0, 1]);
    file
}

/// What stands in a TIFF's directory: tag, type, count, value or data.
pub(crate) type Entry = (u16, u16, u32, Vec<u8>);

pub(crate) fn short(tag: u16, values: &[u16]) -> Entry {
    (
        tag,
        3,
        u32::try_from(values.len()).expect("few"),
        values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    )
}

pub(crate) fn long(tag: u16, value: u32) -> Entry {
    (tag, 4, 1, value.to_le_bytes().to_vec())
}

/// A TIFF's tags for where its only strip is, and how long.
pub(crate) const STRIP: (u16, u16) = (273, 279);
/// The same for a tile.
pub(crate) const TILE: (u16, u16) = (324, 325);

/// A TIFF with one piece of data, whose place stands in the tags of `at`.
pub(crate) fn tiff(mut entries: Vec<Entry>, data: &[u8], at: (u16, u16)) -> Vec<u8> {
    entries.push(long(at.0, 8));
    entries.push(long(at.1, u32::try_from(data.len()).expect("short")));
    entries.sort_by_key(|entry| entry.0);
    let mut file = b"II\x2a\0".to_vec();
    let values: usize = entries.iter().map(|entry| entry.3.len().next_multiple_of(2)).sum();
    let directory = 8 + data.len().next_multiple_of(2) + values;
    file.extend(u32::try_from(directory).expect("short").to_le_bytes());
    file.extend(data);
    file.resize(file.len().next_multiple_of(2), 0);
    let mut places = Vec::new();
    for (_, _, _, value) in &entries {
        places.push(u32::try_from(file.len()).expect("short"));
        file.extend(value);
        file.resize(file.len().next_multiple_of(2), 0);
    }
    file.extend(u16::try_from(entries.len()).expect("few").to_le_bytes());
    for ((tag, kind, count, value), place) in entries.iter().zip(places) {
        file.extend(tag.to_le_bytes());
        file.extend(kind.to_le_bytes());
        file.extend(count.to_le_bytes());
        let mut field = place.to_le_bytes();
        if value.len() <= 4 {
            field = [0; 4];
            field[..value.len()].copy_from_slice(value);
        }
        file.extend(field);
    }
    file.extend([0; 4]);
    file
}

/// A TIFF in one strip: RGB or RGBA with so many bits a sample.
pub(crate) fn tiff_strip((width, height): Sides, samples: u16, bits: u16) -> Vec<u8> {
    let mut entries = vec![
        long(256, width),
        long(257, height),
        short(258, &vec![bits; usize::from(samples)]),
        short(259, &[8]),
        short(262, &[2]),
        short(277, &[samples]),
        long(278, height),
    ];
    entries.extend((samples > 3).then(|| short(338, &[2])));
    let bytes = u64::from(width) * u64::from(height) * u64::from(samples) * u64::from(bits / 8);
    tiff(entries, &zeros(bytes), STRIP)
}

/// A TIFF in one strip of any kind: its bits, compression, meaning and samples, and what else its directory says.
pub(crate) fn tiff_page((width, height): Sides, kind: [u16; 4], more: Vec<Entry>, data: &[u8]) -> Vec<u8> {
    let [bits, compression, meaning, samples] = kind;
    let mut entries = vec![
        long(256, width),
        long(257, height),
        short(258, &vec![bits; usize::from(samples)]),
        short(259, &[compression]),
        short(262, &[meaning]),
        short(277, &[samples]),
    ];
    let at = if more.iter().any(|entry| entry.0 == 322) { TILE } else { STRIP };
    entries.extend(more);
    tiff(entries, data, at)
}

/// A whole JPEG of one colour.
pub(crate) fn plain_jpeg((width, height): Sides) -> Vec<u8> {
    let (width, height) = (width as usize, height as usize);
    let pixels = vec![90; width * height * 3];
    let format = turbojpeg::PixelFormat::RGB;
    let image = turbojpeg::Image { pixels: pixels.as_slice(), width, pitch: width * 3, height, format };
    turbojpeg::compress(image, 80, turbojpeg::Subsamp::Sub2x2).expect("compresses").to_vec()
}

/// A JPEG with other sides than it was made with. Most of its data is missing then, which is noticed last.
pub(crate) fn jpeg(file: &[u8], (width, height): Sides) -> Vec<u8> {
    let (mut file, mut at) = (file.to_vec(), 2);
    while !matches!(file[at + 1], 0xc0..=0xc2 | 0xc9 | 0xca) {
        at += 2 + usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
    }
    let side = |length: u32| u16::try_from(length).expect("short").to_be_bytes();
    file[at + 5..at + 7].copy_from_slice(&side(height));
    file[at + 7..at + 9].copy_from_slice(&side(width));
    file
}
