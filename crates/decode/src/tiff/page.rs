//! One page: everything its directory says that is needed to read it, and what reading takes.

use crate::colour::Layout;
use crate::{Limits, Rejection, notes};

use super::compression::{Compression, Fax, Jpeg};
use super::directory::{Directory, Order};
use super::grid::Grid;
use super::pixels::{Format, Pixels, Stored, check_inks};
use super::predictor::Predictor;
use super::reasons::{broken, unknown};
use super::unpack::is_as_stored;
use super::ycbcr::grouped_bytes;

const WIDTH: u16 = 256;
const LENGTH: u16 = 257;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const FILL_ORDER: u16 = 266;
const ORIENTATION: u16 = 274;
const GROUP3_OPTIONS: u16 = 292;
const PREDICTOR: u16 = 317;
const JPEG_TABLES: u16 = 347;
const XMP: u16 = 700;

/// How many times its size is read of a file at most, beside what pixels take.
const MOST_TOIL: u64 = 8;

/// What one page is.
pub(super) struct Page<'a> {
    /// Width and height as stored.
    pub(super) sides: (u32, u32),
    /// What its samples are and become.
    pub(super) pixels: Pixels,
    /// Its strips or tiles.
    pub(super) grid: Grid<'a>,
    /// What they are compressed with.
    pub(super) compression: Compression<'a>,
    /// What was done to their samples before.
    pub(super) predictor: Predictor,
    /// The lowest bit of each byte comes first.
    pub(super) reversed: bool,
    /// Of its samples.
    pub(super) order: Order,
    /// How much there is to read for it before its pixels, and beyond what they take.
    pub(super) toil: u64,
}

/// What pages of a stack have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Likeness {
    pub(super) sides: (u32, u32),
    pub(super) layout: Layout,
    bits: u32,
    format: Format,
}

impl<'a> Page<'a> {
    /// What a directory says. `keep`: samples of one channel keep all their bits.
    pub(super) fn of(page: &Directory<'a>, keep: bool, limits: &Limits) -> Result<Self, Rejection> {
        let side = |tag: u16| {
            let length = page.number(tag)?.ok_or_else(|| broken("it does not say how large it is"))?;
            u32::try_from(length).map_err(|_| broken(format!("a side of {length} pixels")))
        };
        let sides = (side(WIDTH)?, side(LENGTH)?);
        limits.check_pixels(sides.0, sides.1)?;
        let compression = compression(page)?;
        check_inks(page)?;
        let pixels = Pixels::of(page, compression, keep)?;
        check_samples(compression, &pixels)?;
        let planes = if pixels.stored.planar { pixels.stored.count } else { 1 };
        let grid = Grid::of(page, sides, planes)?;
        let predictor = predictor(page, compression, &pixels)?;
        let reversed = match page.number_or(FILL_ORDER, 1)? {
            2 => compression.has_bit_order(),
            _ => false,
        };
        let (order, file) = (page.file.order, page.file.bytes.len());
        let mut this = Self { sides, pixels, grid, compression, predictor, reversed, order, toil: 0 };
        this.check_work(limits)?;
        this.toil = this.toil(page);
        check_toil(this.toil, file)?;
        Ok(this)
    }

    pub(super) const fn likeness(&self) -> Likeness {
        let Stored { bits, format, .. } = self.pixels.stored;
        Likeness { sides: self.sides, layout: self.pixels.layout, bits, format }
    }

    /// Bytes of a row of a strip or tile.
    pub(super) fn row_bytes(&self) -> u64 {
        let stored = self.pixels.stored;
        let samples = u64::from(self.grid.width).saturating_mul(stored.side_by_side() as u64);
        samples.saturating_mul(u64::from(stored.bits)).div_ceil(8)
    }

    /// Bytes of so many rows of a strip or tile.
    pub(super) fn chunk_bytes(&self, rows: u32) -> u64 {
        match self.pixels.grouped {
            None => self.row_bytes().saturating_mul(u64::from(rows)),
            Some(groups) => grouped_bytes(self.grid.width as usize, rows as usize, groups) as u64,
        }
    }

    /// Whether each strip or tile is decompressed to its end, also where that lies below the image.
    pub(super) const fn is_filled(&self) -> bool {
        self.compression.gives_all() || self.grid.tiled && self.compression.fills_tiles()
    }

    /// Rows of a strip or tile that there must be room for: those of the image, or all.
    pub(super) fn chunk_rows(&self) -> u32 {
        if self.is_filled() { self.grid.height } else { self.grid.height.min(self.sides.1) }
    }

    /// Whether strips are decompressed to where their pixels belong, and need no room of their own.
    pub(super) fn is_direct(&self) -> bool {
        self.grid.width == self.sides.0
            && !self.pixels.stored.planar
            && !self.compression.gives_all()
            && (!self.is_filled() || self.sides.1.is_multiple_of(self.grid.height))
            && is_as_stored(&self.pixels)
    }

    /// Planes that are read, by number.
    pub(super) fn planes(&self) -> &[usize] {
        if self.pixels.stored.planar { &self.pixels.taken } else { &[0] }
    }

    /// Bytes that reading takes beside the pixels: a strip or tile, its data where bits are the wrong way round, a row, and what
    /// decompresses it.
    pub(super) fn memory(&self, limits: &Limits) -> u64 {
        let chunk = self.chunk_bytes(self.chunk_rows());
        let room = if self.is_direct() { 0 } else { chunk };
        let all = || (0..self.chunks()).filter_map(|index| self.grid.data(index, None).ok());
        let reversed = if self.reversed && !matches!(self.compression, Compression::None) {
            all().map(<[u8]>::len).max().unwrap_or(0) as u64
        } else {
            0
        };
        let row = if self.predictor == Predictor::Float { self.row_bytes() } else { 0 };
        let shape = (u64::from(self.grid.width), chunk, self.pixels.stored.side_by_side());
        let decompressing = self.compression.memory(shape, all(), limits);
        [room, reversed, row, decompressing, self.pixels.memory(), 64 << 10]
            .into_iter()
            .fold(0_u64, u64::saturating_add)
            .min(1 << 60)
    }

    /// Bytes that are read for the page before its pixels, and of its data beyond twice what its pixels take: what these take is checked by itself.
    fn toil(&self, page: &Directory<'_>) -> u64 {
        let known = page.bytes() as u64 + 8 * (self.chunks() + self.pixels.stored.count as u64);
        if matches!(self.compression, Compression::None) {
            return known;
        }
        let (usual, shared) =
            (2 * self.chunk_bytes(self.chunk_rows()), self.compression.shared_bytes() as u64);
        let beyond = |data: &[u8]| (data.len() as u64 + shared).saturating_sub(usual);
        let all = (0..self.chunks()).filter_map(|index| self.grid.data(index, None).ok());
        all.map(beyond).fold(known, u64::saturating_add)
    }

    fn chunks(&self) -> u64 {
        let planes = if self.pixels.stored.planar { self.pixels.stored.count } else { 1 };
        self.grid.chunks().saturating_mul(planes as u64)
    }

    /// Refuses what decompresses to far more than the pixels that are wanted: strips may share their data, so that a small file can
    /// hold any number of samples that nobody asked for.
    fn check_work(&self, limits: &Limits) -> Result<(), Rejection> {
        let strips = self.grid.chunks().saturating_mul(self.planes().len() as u64);
        let bytes = self.chunk_bytes(self.chunk_rows()).saturating_mul(strips);
        if bytes > 8 * limits.max_memory.max(limits.max_bytes) {
            return Err(unknown(format!(
                "{} samples a pixel in {strips} strips or tiles, {} bytes when decompressed",
                self.pixels.stored.count, bytes
            )));
        }
        Ok(())
    }
}

/// Refuses a file of which far more is to be read than there is of it: parts of it are meant to be read again and again. Files that are not made
/// for that share at most what is small beside their pixels.
pub(super) fn check_toil(toil: u64, file: usize) -> Result<(), Rejection> {
    if toil > MOST_TOIL.saturating_mul(file as u64) {
        return Err(unknown("strips, tiles or pages that share their data, so that it is read too often"));
    }
    Ok(())
}

/// How the page is to be turned: by its tag, or by XMP where it has none, as Pillow does it.
pub(super) fn orientation(page: &Directory<'_>) -> u8 {
    let told = match page.find(ORIENTATION) {
        Ok(Some(value)) => value.number(0).ok().and_then(|value| u8::try_from(value).ok()),
        _ => page.find(XMP).ok().flatten().and_then(|xmp| notes::in_xmp(xmp.bytes())),
    };
    told.filter(|value| (1..=8).contains(value)).unwrap_or(1)
}

fn compression<'a>(page: &Directory<'a>) -> Result<Compression<'a>, Rejection> {
    Ok(match page.number_or(COMPRESSION, 1)? {
        1 => Compression::None,
        2 => Compression::Fax(Fax::Rows),
        3 if page.number_or(GROUP3_OPTIONS, 0)? & 1 == 1 => Compression::Fax(Fax::Group3Differences),
        3 => Compression::Fax(Fax::Group3),
        4 => Compression::Fax(Fax::Group4),
        5 => Compression::Lzw,
        7 => {
            let tables = page.find(JPEG_TABLES)?.map(|tables| tables.bytes()).unwrap_or_default();
            Compression::Jpeg(Jpeg { tables, luma: page.number(PHOTOMETRIC)? == Some(6) })
        }
        8 | 32_946 => Compression::Deflate,
        32_773 => Compression::PackBits,
        34_925 => Compression::Lzma,
        50_000 => Compression::Zstd,
        50_001 => Compression::WebP,
        6 => return Err(unknown("JPEG as TIFF 6.0 had it at first")),
        33_003 | 33_004 | 33_005 | 34_712 => return Err(unknown("JPEG 2000")),
        34_887 => return Err(unknown("LERC")),
        50_002 | 52_546 => return Err(unknown("JPEG XL")),
        other => return Err(unknown(format!("Compression {other}"))),
    })
}

/// Whether samples like these can be compressed this way.
fn check_samples(compression: Compression<'_>, pixels: &Pixels) -> Result<(), Rejection> {
    let stored = pixels.stored;
    let fits = match compression {
        Compression::Fax(_) => stored.bits == 1 && stored.side_by_side() == 1,
        Compression::Jpeg(_) | Compression::WebP if stored.bits != 8 || stored.format != Format::Unsigned => {
            false
        }
        Compression::Jpeg(jpeg) if jpeg.luma && !stored.planar => stored.count == 3,
        Compression::Jpeg(_) if !matches!(stored.side_by_side(), 1 | 3 | 4) => {
            return Err(unknown(format!("JPEGs of {} components", stored.side_by_side())));
        }
        Compression::WebP => matches!(stored.count, 3 | 4) && !stored.planar,
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(unknown(format!("{} samples of {} bits in its compression", stored.count, stored.bits)))
    }
}

fn predictor(
    page: &Directory<'_>,
    compression: Compression<'_>,
    pixels: &Pixels,
) -> Result<Predictor, Rejection> {
    if !compression.predicts() {
        return Ok(Predictor::None);
    }
    let (predictor, stored) = (Predictor::of(page.number_or(PREDICTOR, 1)?)?, pixels.stored);
    // The standard does not say what is to the left of what in a group, and libtiff's own programs write no such file.
    if predictor != Predictor::None && pixels.grouped.is_some() {
        return Err(unknown("differences of pixels that share their chroma"));
    }
    let fits = match predictor {
        Predictor::None => true,
        Predictor::Horizontal => matches!(stored.bits, 8 | 16 | 32 | 64),
        Predictor::Float => stored.format == Format::Float,
    };
    if fits {
        Ok(predictor)
    } else {
        Err(unknown(format!("{predictor:?} prediction of samples of {} bits", stored.bits)))
    }
}
