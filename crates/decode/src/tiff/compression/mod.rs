//! What strips and tiles are compressed with, and their way back to rows of samples.

mod fax;
mod jpeg;
mod lzw;
mod packbits;
mod webp;

use std::io::Read;

use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::XzReader;

use crate::{Limits, Rejection};

use super::reasons::{broken, truncated, unknown};
pub(super) use fax::Fax;
pub(super) use jpeg::Jpeg;
use lzw::Lzw;

/// The window of a Zstandard frame whose end is not asked for, as a power of two. What is asked for to the end needs none.
const ZSTD_WINDOW: u32 = 23;

/// The largest dictionary of LZMA that is borne, in KiB: that of its highest setting, and what its decoder takes beside.
const LZMA_KIB: u32 = 66 << 10;

/// How the data of a page is compressed.
#[derive(Clone, Copy)]
pub(super) enum Compression<'a> {
    None,
    Lzw,
    Deflate,
    PackBits,
    Fax(Fax),
    Jpeg(Jpeg<'a>),
    Zstd,
    Lzma,
    WebP,
}

/// How large a strip or tile is.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Pixels of a row.
    pub(super) columns: usize,
    /// Rows that are needed. Data may hold more.
    pub(super) rows: usize,
    /// Samples of a pixel that lie side by side.
    pub(super) samples: usize,
}

impl Compression<'_> {
    /// Whether a predictor may have been at work before it. Others are said to have one by mistake, and readers agree to ignore that.
    pub(super) const fn predicts(self) -> bool {
        matches!(self, Self::Lzw | Self::Deflate | Self::Zstd | Self::Lzma)
    }

    /// Whether it gives a whole strip or tile, or nothing: there must be room also for rows below the image.
    pub(super) const fn gives_all(self) -> bool {
        matches!(self, Self::Jpeg(_) | Self::WebP)
    }

    /// Whether bytes whose lowest bit comes first may lie in it. JPEGs are never written that way.
    pub(super) const fn has_bit_order(self) -> bool {
        !matches!(self, Self::Jpeg(_))
    }

    /// Bytes that it takes to decompress strips of so many columns, bytes, and samples side by side, one after the other, beside the room for them. `data` are all the strips.
    pub(super) fn memory<'d>(
        self,
        (columns, bytes, samples): (u64, u64, usize),
        data: impl Iterator<Item = &'d [u8]>,
        limits: &Limits,
    ) -> u64 {
        match self {
            Self::None | Self::PackBits => 0,
            Self::Lzw | Self::Deflate => 128 << 10,
            Self::Fax(_) => fax::memory(columns),
            Self::Zstd => (1 << 20) + bytes.min(1 << ZSTD_WINDOW),
            Self::Lzma => (1 << 20) + bytes.min(u64::from(LZMA_KIB) << 10),
            Self::Jpeg(jpeg) => {
                (1 << 20) + data.map(|data| jpeg::memory(data, jpeg.tables)).max().unwrap_or(0)
            }
            Self::WebP => data.map(|data| webp::memory(data, samples, limits)).max().unwrap_or(0),
        }
    }
}

/// What decompresses the strips of one page. Nothing of it outlasts the page.
pub(super) struct Decompressor<'a> {
    compression: Compression<'a>,
    /// For whole pictures among the strips.
    limits: Limits,
    /// Made when it is first needed, then used again: its table begins anew with each strip.
    lzw: Option<Lzw>,
    /// The state of Deflate, kept likewise.
    inflate: Option<Decompress>,
}

impl<'a> Decompressor<'a> {
    pub(super) fn new(compression: Compression<'a>, limits: &Limits) -> Self {
        Self { compression, limits: *limits, lzw: None, inflate: None }
    }

    /// Fills `target` with rows of samples. Data may hold more than that, not less.
    pub(super) fn decode(&mut self, data: &[u8], shape: Shape, target: &mut [u8]) -> Result<(), Rejection> {
        match self.compression {
            Compression::None => {
                target.copy_from_slice(data.get(..target.len()).ok_or_else(truncated)?);
                Ok(())
            }
            Compression::Lzw => self.lzw.get_or_insert_with(Lzw::new).decode(data, target),
            Compression::Deflate => {
                inflate(self.inflate.get_or_insert_with(|| Decompress::new(true)), data, target)
            }
            Compression::PackBits => packbits::decode(data, target),
            Compression::Fax(kind) => fax::decode(kind, data, shape.columns, target),
            Compression::Jpeg(jpeg) => jpeg::decode(jpeg, data, shape, target),
            Compression::Zstd => zstd(data, target),
            Compression::Lzma => lzma(data, target),
            Compression::WebP => webp::decode(data, shape, &self.limits, target),
        }
    }
}

fn inflate(inflate: &mut Decompress, data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
    inflate.reset(true);
    let done = inflate.decompress(data, target, FlushDecompress::Finish);
    // Its checksum may stand behind rows that were not asked for; where it follows these, it must be theirs.
    match done {
        Ok(_) if inflate.total_out() == target.len() as u64 => Ok(()),
        Ok(Status::Ok | Status::BufError | Status::StreamEnd) => Err(truncated()),
        Err(error) => Err(broken(format!("Deflate data: {error}"))),
    }
}

fn zstd(data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
    let failed = |error: std::io::Error| broken(format!("Zstandard data: {error}"));
    let mut whole = zstd::bulk::Decompressor::new().map_err(failed)?;
    if whole.decompress_to_buffer(data, target).is_ok_and(|bytes| bytes == target.len()) {
        return Ok(());
    }
    // More rows than are needed, or damaged.
    let mut rows = zstd::stream::read::Decoder::with_buffer(data).map_err(failed)?;
    rows.window_log_max(ZSTD_WINDOW).map_err(failed)?;
    filled(rows.read_exact(target), "Zstandard")
}

fn lzma(data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
    let mut reader = XzReader::new_mem_limit(data, false, LZMA_KIB);
    filled(reader.read_exact(target), "LZMA")
}

fn filled(read: std::io::Result<()>, name: &str) -> Result<(), Rejection> {
    use std::io::ErrorKind;
    read.map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => truncated(),
        ErrorKind::OutOfMemory => unknown(format!("{name} data that takes much memory")),
        _ => broken(format!("{name} data: {error}")),
    })
}
