//! JPEGs by libjpeg-turbo: to pixels or to planes, and what its warnings mean.
//!
//! libjpeg rather warns than refuses and hands out gray where data is missing. Here, missing data is a broken item, as it
//! is for Pillow; what does no harm to the picture is let pass.

#[cfg(test)]
mod agreement_tests;
mod baseline;
mod header;
mod route;

use turbojpeg::{
    Colorspace, DecompressHeader, Decompressor, Error, Image, PixelFormat, ScalingFactor, Subsamp, YuvImage,
};

use crate::planes::Layout;
use crate::{Limits, Rejection};
use baseline::Baseline;
pub(crate) use header::{Header, read as read_header};

/// Progressive files that refine themselves more often than this are made to keep us busy.
pub(crate) const MOST_SCANS: u32 = 500;

/// What one thread keeps between JPEGs: buffers, and tables that a file with the same ones needs not set up again. Nothing of
/// libjpeg-turbo's, which keeps tables from file to file and goes on at an old marker after an error.
pub(crate) struct Jpegs {
    /// A copy of the file being decoded where it had to be mended. Rarely used.
    mended: Vec<u8>,
    /// For plain files.
    baseline: Baseline,
}

/// A JPEG whose header is known.
struct Opened {
    /// libjpeg-turbo's, for this file alone.
    handle: Decompressor,
    /// From our own reading of the markers.
    header: Header,
    /// How the chroma is subsampled, as libjpeg-turbo sees it.
    subsamp: Subsamp,
    /// What the components are.
    colours: Colorspace,
    /// The header made libjpeg warn: [`Jpegs::mended`] is to be decoded instead of the file.
    mended: bool,
}

impl Jpegs {
    pub(crate) fn new() -> Self {
        Self { mended: Vec::new(), baseline: Baseline::default() }
    }

    /// Reads the header and checks what it claims; nothing is allocated for the image yet.
    fn open(&mut self, encoded: &[u8], limits: &Limits) -> Result<Opened, Rejection> {
        let header = header::read(encoded).map_err(Rejection::broken)?;
        limits.check_pixels(header.width, header.height)?;
        let mut handle = fresh()?;
        match handle.read_header(encoded) {
            Ok(seen) => opened(handle, header, &seen, false),
            Err(Error::TurboJpegError(warning)) if is_harmless_in_header(&warning) => {
                header::mend(encoded, &mut self.mended).map_err(Rejection::broken)?;
                let mut handle = fresh()?;
                let seen =
                    handle.read_header(&self.mended).map_err(|error| Rejection::broken(reason(error)))?;
                opened(handle, header, &seen, true)
            }
            Err(error) => Err(Rejection::broken(reason(error))),
        }
    }

    /// Decodes to pixels, `shrink` times smaller.
    fn pixels(
        &mut self,
        encoded: &[u8],
        opened: &mut Opened,
        (shrink, format): (u32, PixelFormat),
        target: &mut [u8],
    ) -> Result<(), Rejection> {
        let factor = ScalingFactor::new(1, shrink as usize);
        let (width, height) = scaled(opened, factor);
        self.attempt(encoded, opened, factor, |handle, encoded| {
            let pitch = width * format.size();
            handle.decompress(encoded, Image { pixels: &mut *target, width, pitch, height, format })
        })
    }

    /// Decodes a plain file to planes. `None`: it is not plain, or broken, and libjpeg-turbo must see it.
    fn plain_planes(
        &mut self,
        encoded: &[u8],
        opened: &Opened,
        layout: Layout,
        target: &mut [u8],
    ) -> Option<()> {
        let plain = opened.header.baseline && !opened.mended;
        if plain { self.baseline.planes(encoded, layout, target) } else { None }
    }

    /// Decodes to planes, `shrink` times smaller. `target` has exactly the bytes they need.
    fn planes(
        &mut self,
        encoded: &[u8],
        opened: &mut Opened,
        shrink: u32,
        target: &mut [u8],
    ) -> Result<(), Rejection> {
        let factor = ScalingFactor::new(1, shrink as usize);
        let (width, height) = scaled(opened, factor);
        let subsamp = opened.subsamp;
        self.attempt(encoded, opened, factor, |handle, encoded| {
            let image = YuvImage { pixels: &mut *target, width, align: 1, height, subsamp };
            handle.decompress_to_yuv(encoded, image)
        })
    }

    /// Decodes, and judges what libjpeg says of it.
    fn attempt(
        &self,
        encoded: &[u8],
        opened: &mut Opened,
        factor: ScalingFactor,
        decode: impl FnOnce(&mut Decompressor, &[u8]) -> turbojpeg::Result<()>,
    ) -> Result<(), Rejection> {
        opened.handle.set_scaling_factor(factor).map_err(|error| Rejection::broken(reason(error)))?;
        let data = if opened.mended { self.mended.as_slice() } else { encoded };
        match decode(&mut opened.handle, data) {
            Ok(()) => Ok(()),
            Err(Error::TurboJpegError(warning)) if warning.to_ascii_lowercase().contains("premature end") => {
                Err(Rejection::broken("truncated: the JPEG's image data ends too early"))
            }
            // Only the first warning is told; with the end in its place, no later one is about missing data.
            Err(Error::TurboJpegError(warning)) if is_harmless(&warning) && header::has_end(data) => Ok(()),
            Err(error) => Err(Rejection::broken(reason(error))),
        }
    }

    /// Bytes of the buffers that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.mended.capacity() + self.baseline.kept()
    }

    /// Gives the buffers back.
    pub(crate) fn give_back(&mut self) {
        self.mended = Vec::new();
        self.baseline.give_back();
    }
}

/// A handle that has seen nothing yet. Every file gets its own, which costs a fifth of a microsecond.
fn fresh() -> Result<Decompressor, Rejection> {
    let mut fresh = Decompressor::new().map_err(|error| Rejection::broken(reason(error)))?;
    fresh.set_scan_limit(MOST_SCANS).map_err(|error| Rejection::broken(reason(error)))?;
    Ok(fresh)
}

fn opened(
    handle: Decompressor,
    header: Header,
    seen: &DecompressHeader,
    mended: bool,
) -> Result<Opened, Rejection> {
    // What is allowed and how much memory it takes was judged by our own reading.
    if (seen.width, seen.height) != (header.width as usize, header.height as usize) {
        return Err(Rejection::broken("broken JPEG: more than one frame header"));
    }
    Ok(Opened { handle, header, subsamp: seen.subsamp, colours: seen.colorspace, mended })
}

fn scaled(opened: &Opened, factor: ScalingFactor) -> (usize, usize) {
    (factor.scale(opened.header.width as usize), factor.scale(opened.header.height as usize))
}

/// Warnings that come with a whole picture.
fn is_harmless(warning: &str) -> bool {
    ["extraneous bytes before marker", "Inconsistent progression sequence"]
        .iter()
        .any(|words| warning.contains(words))
}

/// Warnings about what stands before the image data.
fn is_harmless_in_header(warning: &str) -> bool {
    ["extraneous bytes before marker", "unknown JFIF revision", "Unknown Adobe color transform"]
        .iter()
        .any(|words| warning.contains(words))
}

fn reason(error: Error) -> String {
    match error {
        Error::TurboJpegError(said) => format!("broken JPEG: {said}"),
        other => format!("broken JPEG: {other}"),
    }
}
