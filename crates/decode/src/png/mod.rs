//! PNG by the `png` crate, row by row, turned as its notes say. What is wrong beside the pixels does not count: sums of chunks that
//! no pixel depends on, what stands behind the last row, a missing end.

mod chunks;

use std::io::{Cursor, ErrorKind};

use png::{
    BitDepth, ColorType, DecodeOptions, Decoder, DecodingError, InterlaceInfo, Reader, Transformations,
};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::memory::NOTES;
use crate::still::Still;
use crate::{Element, Limits, Rejection};
use chunks::Altered;

const CUT: &str = "truncated: the PNG's data ends too early";
const OTHER_PIXELS: &str = "broken PNG: its pixels do not match their checksum";
const ALTERED: &str = "damaged PNG: a chunk before its pixels does not match its checksum";

/// What is known of a PNG before its pixels are read.
pub(crate) fn open<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Still<'a>, Rejection> {
    let side = |at: usize| encoded.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
    let (Some(width), Some(height)) = (side(16), side(20)) else { return Err(Rejection::broken(CUT)) };
    limits.check_pixels(width, height)?;
    let altered = chunks::altered(encoded);
    if altered == Altered::Header {
        return Err(Rejection::broken("broken PNG: its header or palette does not match its checksum"));
    }
    // Four samples of 16 bits are the most a pixel can have.
    let row = 8 * u64::from(width);
    let mut reader = reader(encoded, NOTES + row).map_err(|error| Rejection::broken(reason(&error)))?;
    if (reader.info().width, reader.info().height) != (width, height) {
        return Err(Rejection::broken("broken PNG: it does not begin with its header"));
    }
    if reader.info().frame_control().is_some_and(|frame| (frame.width, frame.height) != (width, height)) {
        return Err(Rejection::broken("broken PNG: its first frame is not as large as the image"));
    }
    let layout = layout(&reader);
    // Rows before and after their filter, in a buffer that doubles; how many, is decided by the `png` crate.
    let rows = (layout.pixel_bytes() as u64 * u64::from(width) + 1) * u64::from(height.min(8));
    let memory = 2 * rows + 2 * row + (1 << 20);
    let orientation = chunks::notes(encoded).orientation();
    let read = move |target: &mut [u8]| {
        let damage = read(&mut reader, layout, target)?;
        Ok(match altered {
            _ if damage != Damage::NONE => damage,
            Altered::Beside => Damage::of(ALTERED),
            _ if chunks::contradicts_its_sum(encoded, target.len() as u64) => Damage::of(OTHER_PIXELS),
            _ => Damage::NONE,
        })
    };
    Ok(Still { sides: (width, height), layout, orientation, memory, read: Box::new(read) })
}

type Bytes<'a> = Cursor<&'a [u8]>;

/// A reader that stands before the pixels. Notes are none of its business.
fn reader(encoded: &[u8], most: u64) -> Result<Reader<Bytes<'_>>, DecodingError> {
    let mut options = DecodeOptions::default();
    // The sum over all rows is checked instead of those of chunks.
    options.set_ignore_crc(true);
    options.set_ignore_adler32(false);
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut decoder = Decoder::new_with_options(Cursor::new(encoded), options);
    decoder.set_limits(png::Limits { bytes: usize::try_from(most).unwrap_or(usize::MAX) });
    decoder.set_transformations(Transformations::EXPAND);
    decoder.read_info()
}

fn layout(reader: &Reader<Bytes<'_>>) -> Layout {
    let (kind, depth) = reader.output_color_type();
    let colour = match kind {
        ColorType::Grayscale => Colour::Gray,
        ColorType::GrayscaleAlpha => Colour::GrayAlpha,
        ColorType::Rgba => Colour::Rgba,
        // Indices have become colours.
        ColorType::Rgb | ColorType::Indexed => Colour::Rgb,
    };
    Layout { colour, element: if depth == BitDepth::Sixteen { Element::U16 } else { Element::U8 } }
}

/// Reads row after row. Rows that cannot be read are black.
fn read(reader: &mut Reader<Bytes<'_>>, layout: Layout, target: &mut [u8]) -> Result<Damage, Rejection> {
    let stride = reader.info().width as usize * layout.pixel_bytes();
    let failed = if reader.info().interlaced {
        target.fill(0);
        interlaced(reader, layout, target, stride)
    } else {
        let mut rows = target.chunks_exact_mut(stride);
        let failed = rows.by_ref().find_map(|row| reader.read_row(row).err().inspect(|_| row.fill(0)));
        rows.for_each(|row| row.fill(0));
        failed
    };
    if layout.element == Element::U16 {
        target
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .for_each(|sample| *sample = u16::from_be_bytes(*sample).to_ne_bytes());
    }
    match failed {
        Some(DecodingError::LimitsExceeded) => Err(Rejection::broken(reason(&DecodingError::LimitsExceeded))),
        Some(error) => Ok(Damage::of(reason(&error))),
        // All rows are there. What stands behind them counts only if it says that they are wrong.
        None => Ok(match reader.next_row() {
            Err(error) if error.to_string().contains("WrongChecksum") => Damage::of(OTHER_PIXELS),
            _ => Damage::NONE,
        }),
    }
}

/// Reads the rows of all seven passes, and writes their pixels where they belong.
fn interlaced(
    reader: &mut Reader<Bytes<'_>>,
    layout: Layout,
    target: &mut [u8],
    stride: usize,
) -> Option<DecodingError> {
    let bits = u8::try_from(layout.pixel_bytes() * 8).unwrap_or(u8::MAX);
    for _ in 0..rows_of_passes(reader.info().width, reader.info().height) {
        match reader.next_interlaced_row() {
            Ok(Some(row)) => {
                let InterlaceInfo::Adam7(place) = row.interlace() else { return None };
                png::expand_interlaced_row(target, stride, row.data(), place, bits);
            }
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
    None
}

/// How many rows the seven passes of an interlaced picture have together. A pass without columns has none.
fn rows_of_passes(width: u32, height: u32) -> u64 {
    /// First column, columns from one to the next, and the same for rows.
    const PASSES: [(u32, u32, u32, u32); 7] =
        [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)];
    let count = |length: u32, first: u32, step: u32| u64::from(length.saturating_sub(first).div_ceil(step));
    let rows = |(x, across, y, down): &(u32, u32, u32, u32)| {
        if count(width, *x, *across) == 0 { 0 } else { count(height, *y, *down) }
    };
    PASSES.iter().map(rows).sum()
}

fn reason(error: &DecodingError) -> String {
    let said = error.to_string();
    let cut = matches!(error, DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof);
    // The crate has no kinds for these.
    let short = ["unexpected end of file", "UnexpectedEof", "InsufficientInput", "not have enough data"];
    if cut || short.iter().any(|words| said.contains(words)) {
        return CUT.to_owned();
    }
    format!("broken PNG: {said}")
}
