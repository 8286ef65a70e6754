//! What strips and tiles are compressed with, and their way back to rows of samples.

mod fax;
mod jpeg;
mod lzw;
mod packbits;
mod webp;

use std::io::{ErrorKind, Read};

use flate2::{Decompress, FlushDecompress, Status};
use lzma_rust2::XzReader;

use crate::damage::Damage;
use crate::{Limits, Rejection};

use super::reasons::{Fault, broken, truncated, unknown};
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

    /// Whether a tile is decompressed to its end, also where that lies below the image: libtiff does so, and sees damage there.
    pub(super) const fn fills_tiles(self) -> bool {
        !matches!(self, Self::None | Self::Fax(_))
    }

    /// Bytes that are read with the data of each strip or tile.
    pub(super) const fn shared_bytes(self) -> usize {
        match self {
            Self::Jpeg(jpeg) => jpeg.tables.len(),
            _ => 0,
        }
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

    /// Fills `target` with rows of samples, and says what had to be made up. Data may hold more than that, not less.
    pub(super) fn decode(&mut self, data: &[u8], shape: Shape, target: &mut [u8]) -> Result<Damage, Fault> {
        match self.compression {
            Compression::None => {
                let there = data.len().min(target.len());
                target[..there].copy_from_slice(&data[..there]);
                if there < target.len() {
                    return Err(truncated().into());
                }
            }
            Compression::Lzw => self.lzw.get_or_insert_with(Lzw::new).decode(data, target)?,
            Compression::Deflate => {
                inflate(self.inflate.get_or_insert_with(|| Decompress::new(true)), data, target)?;
            }
            Compression::PackBits => packbits::decode(data, target)?,
            Compression::Fax(kind) => fax::decode(kind, data, shape.columns, target)?,
            Compression::Jpeg(jpeg) => return Ok(jpeg::decode(jpeg, data, shape, target)?),
            Compression::Zstd => zstd(data, target)?,
            Compression::Lzma => lzma(data, target)?,
            Compression::WebP => return webp::decode(data, shape, &self.limits, target),
        }
        Ok(Damage::NONE)
    }
}

fn inflate(inflate: &mut Decompress, data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
    inflate.reset(true);
    let failed = |error| broken(format!("Deflate data: {error}"));
    let mut done = inflate.decompress(data, target, FlushDecompress::Finish).map_err(failed)?;
    if inflate.total_out() != target.len() as u64 {
        return Err(truncated());
    }
    // A checksum behind rows that were not asked for tells damage of these, too. Data that only ends before it is whole.
    let mut scratch = [0; 4096];
    while done != Status::StreamEnd && inflate.total_out() <= 2 * target.len() as u64 {
        let before = inflate.total_out();
        let rest = usize::try_from(inflate.total_in()).ok().and_then(|taken| data.get(taken..));
        let rest = rest.unwrap_or_default();
        done = inflate.decompress(rest, &mut scratch, FlushDecompress::Finish).map_err(failed)?;
        if inflate.total_out() == before {
            break;
        }
    }
    Ok(())
}

fn zstd(data: &[u8], target: &mut [u8]) -> Result<(), Fault> {
    let failed = |error: std::io::Error| broken(format!("Zstandard data: {error}"));
    let mut whole = zstd::bulk::Decompressor::new().map_err(failed)?;
    if whole.decompress_to_buffer(data, target).is_ok_and(|bytes| bytes == target.len()) {
        return Ok(());
    }
    // More rows than are needed, or damaged.
    let mut rows = zstd::stream::read::Decoder::with_buffer(data).map_err(failed)?;
    rows.window_log_max(ZSTD_WINDOW).map_err(failed)?;
    filled(rows, target, "Zstandard")
}

fn lzma(data: &[u8], target: &mut [u8]) -> Result<(), Fault> {
    filled(XzReader::new_mem_limit(data, false, LZMA_KIB), target, "LZMA")
}

/// Fills `target`, then looks for the end and its checksum, within as many bytes again. Data that only ends before that is whole.
fn filled(mut reader: impl Read, target: &mut [u8], name: &str) -> Result<(), Fault> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => truncated().into(),
        ErrorKind::OutOfMemory => Fault::Refused(unknown(format!("{name} data that takes much memory"))),
        _ => Fault::from(broken(format!("{name} data: {error}"))),
    };
    reader.read_exact(target).map_err(failed)?;
    let mut scratch = [0; 4096];
    let mut left = target.len();
    loop {
        match reader.read(&mut scratch) {
            Ok(more) if more > 0 && more < left => left -= more,
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}
