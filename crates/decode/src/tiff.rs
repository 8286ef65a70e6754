//! TIFF by the `tiff` crate: the first page as an image, or all pages of one shape as a stack.

use std::io::Cursor;

use tiff::ColorType;
use tiff::TiffError;
use tiff::decoder::Decoder;
use tiff::tags::{SampleFormat, Tag};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::memory::NOTES;
use crate::still::Still;
use crate::{Element, Form, Kind, Limits, Rejection, notes};

/// Bytes that the `tiff` crate keeps for each strip: where it begins, how long it is, and both once more while they are read.
const STRIP: u64 = 64;

/// The tag that holds XMP.
const XMP: Tag = Tag::Unknown(700);

type Reader<'a> = Decoder<Cursor<&'a [u8]>>;

/// Several pages of one channel, one shape and one element.
pub(crate) struct Stack<'a> {
    /// The file, at any page.
    reader: Reader<'a>,
    /// How many pages there are.
    pages: u32,
    /// What each of them is.
    page: Page,
}

/// What one page is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Page {
    /// Width and height as stored.
    sides: (u32, u32),
    /// How its pixels lie.
    layout: Layout,
    /// Bytes of them.
    bytes: usize,
    /// Bytes that reading them takes.
    memory: u64,
}

/// The first page.
pub(crate) fn first_page<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Still<'a>, Rejection> {
    let mut reader = open(encoded)?;
    let page = page(&mut reader, limits)?;
    let orientation = orientation(&mut reader);
    let read = move |target: &mut [u8]| {
        reader.read_image_bytes(target).map(|()| Damage::NONE).map_err(|error| broken(&error))
    };
    let Page { sides, layout, memory, .. } = page;
    Ok(Still { sides, layout, orientation, memory, read: Box::new(read) })
}

/// All pages, if there are several, all alike, in one channel and upright; otherwise nothing.
pub(crate) fn stack<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Option<Stack<'a>>, Rejection> {
    let mut reader = open(encoded)?;
    let first = page(&mut reader, limits)?;
    if !reader.more_images() || first.layout.samples() != 1 || orientation(&mut reader) != 1 {
        return Ok(None);
    }
    let mut pages = 1;
    while reader.more_images() {
        reader.next_image().map_err(|error| broken(&error))?;
        if page(&mut reader, limits)? != first {
            return Ok(None);
        }
        pages += 1;
    }
    Ok(Some(Stack { reader, pages, page: first }))
}

impl Stack<'_> {
    /// Width and height of each page.
    pub(crate) const fn sides(&self) -> (u32, u32) {
        self.page.sides
    }

    /// Bytes that reading takes beside the place.
    pub(crate) const fn memory(&self) -> u64 {
        self.page.memory
    }

    /// Pages × height × width.
    pub(crate) fn form(&self) -> Form {
        let (width, height) = self.page.sides;
        let bytes = u64::from(self.pages) * self.page.bytes as u64;
        let dims = [self.pages, height, width, 0];
        Form {
            kind: Kind::Array,
            element: self.page.layout.element,
            orientation: 1,
            chroma: 0,
            dims,
            ndim: 3,
            bytes,
            damaged: false,
        }
    }

    /// Reads page after page into `target`, which has room for all.
    pub(crate) fn read(&mut self, target: &mut [u8]) -> Result<Damage, Rejection> {
        for (index, room) in target.chunks_exact_mut(self.page.bytes).enumerate() {
            self.reader.seek_to_image(index).map_err(|error| broken(&error))?;
            self.reader.read_image_bytes(room).map_err(|error| broken(&error))?;
        }
        Ok(Damage::NONE)
    }
}

fn open(encoded: &[u8]) -> Result<Reader<'_>, Rejection> {
    let mut allowed = tiff::decoder::Limits::default();
    // What stands in a directory. Pixels are read into what we give, and their compressed data where it lies.
    allowed.decoding_buffer_size = usize::try_from(NOTES).unwrap_or(usize::MAX);
    allowed.intermediate_buffer_size = usize::MAX;
    Ok(Decoder::new(Cursor::new(encoded)).map_err(|error| broken(&error))?.with_limits(allowed))
}

/// What the page the reader stands at is.
fn page(reader: &mut Reader<'_>, limits: &Limits) -> Result<Page, Rejection> {
    let sides = reader.dimensions().map_err(|error| broken(&error))?;
    limits.check_pixels(sides.0, sides.1)?;
    let kind = reader.colortype().map_err(|error| broken(&error))?;
    let seen = reader.image_buffer_layout().map_err(|error| broken(&error))?;
    let layout = layout(kind, seen.sample_format)?;
    let bytes = sides.0 as usize * sides.1 as usize * layout.pixel_bytes();
    if seen.planes != 1 {
        return Err(Rejection::broken(
            "a TIFF with its colours apart is not decoded; give the model its own load(path)",
        ));
    }
    if seen.len != bytes {
        return Err(Rejection::broken("broken TIFF: its pixels do not add up"));
    }
    let memory = memory(reader, layout).map_err(|error| broken(&error))?;
    Ok(Page { sides, layout, bytes, memory })
}

/// Bytes that reading a page takes beside its pixels: a row of a strip or tile, of whatever width it claims and with samples that
/// nobody asked for; where the strips are; and what decompresses them.
fn memory(reader: &mut Reader<'_>, layout: Layout) -> Result<u64, TiffError> {
    let samples = reader.find_tag_unsigned::<u64>(Tag::SamplesPerPixel)?.unwrap_or(1);
    let (width, height) = reader.chunk_dimensions();
    let row = u64::from(width).saturating_mul(samples).saturating_mul(layout.element.bytes());
    let (all_width, all_height) = reader.dimensions()?;
    let strips = u64::from(all_width.div_ceil(width.max(1))) * u64::from(all_height.div_ceil(height.max(1)));
    Ok(row.saturating_add(strips * STRIP).saturating_add(1 << 20))
}

fn layout(kind: ColorType, format: SampleFormat) -> Result<Layout, Rejection> {
    let colour = match kind {
        ColorType::Gray(_) => Colour::Gray,
        ColorType::GrayA(_) | ColorType::Multiband { num_samples: 2, .. } => Colour::GrayAlpha,
        ColorType::RGB(_) => Colour::Rgb,
        ColorType::RGBA(_) => Colour::Rgba,
        ColorType::CMYK(_) => Colour::Cmyk,
        other => return Err(unknown(other, format)),
    };
    let element = match (format, kind.bit_depth()) {
        (SampleFormat::Uint, 8) => Element::U8,
        (SampleFormat::Uint, 16) => Element::U16,
        (SampleFormat::Uint, 32) => Element::U32,
        (SampleFormat::Uint, 64) => Element::U64,
        (SampleFormat::Int, 8) => Element::I8,
        (SampleFormat::Int, 16) => Element::I16,
        (SampleFormat::Int, 32) => Element::I32,
        (SampleFormat::Int, 64) => Element::I64,
        (SampleFormat::IEEEFP, 16) => Element::F16,
        (SampleFormat::IEEEFP, 32) => Element::F32,
        (SampleFormat::IEEEFP, 64) => Element::F64,
        _ => return Err(unknown(kind, format)),
    };
    Ok(Layout { colour, element })
}

fn unknown(kind: ColorType, format: SampleFormat) -> Rejection {
    Rejection::broken(format!(
        "TIFF pixels of the kind {kind:?} ({format:?}) are not decoded; give the model its own load(path)"
    ))
}

fn orientation(reader: &mut Reader<'_>) -> u8 {
    match reader.find_tag(Tag::Orientation).ok().flatten() {
        Some(tag) => {
            let value = tag
                .clone()
                .into_u64()
                .ok()
                .or_else(|| tag.into_i64().ok().and_then(|value| value.try_into().ok()));
            value.and_then(|value| u8::try_from(value).ok()).filter(|value| (1..=8).contains(value))
        }
        None => reader.get_tag_u8_vec(XMP).ok().and_then(|xmp| notes::in_xmp(&xmp)),
    }
    .unwrap_or(1)
}

fn broken(error: &TiffError) -> Rejection {
    match error {
        TiffError::IoError(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Rejection::broken("truncated: the TIFF's data ends too early")
        }
        TiffError::UnsupportedError(what) => Rejection::broken(format!(
            "a TIFF gpulane does not decode ({what}); give the model its own load(path)"
        )),
        other => Rejection::broken(format!("broken TIFF: {other}")),
    }
}
