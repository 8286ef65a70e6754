//! The one call into libwebp: the data of one picture to pixels in memory that the caller owns. Files and chunks are read elsewhere.

#![allow(unsafe_code)] // C, called

use libwebp_sys::{VP8StatusCode, WEBP_CSP_MODE, WebPDecode, WebPDecoderConfig};

/// Why there are no pixels, or not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The data ends before the picture does.
    Cut,
    /// The data makes no sense.
    Broken,
    /// No memory for libwebp's own buffers.
    NoMemory,
}

/// Decodes `data` (a lossy or lossless bitstream, or an alpha chunk and what follows it) into rows of `target` that begin `stride` bytes
/// apart, as RGB, or as RGBA with `alpha`. After a failure `target` may have any pixels in it.
pub(super) fn decode(data: &[u8], alpha: bool, target: &mut [u8], stride: usize) -> Result<(), Failure> {
    let Ok(mut config) = WebPDecoderConfig::new() else { return Err(Failure::Broken) };
    config.output.colorspace = if alpha { WEBP_CSP_MODE::MODE_RGBA } else { WEBP_CSP_MODE::MODE_RGB };
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = target.as_mut_ptr();
    config.output.u.RGBA.stride = i32::try_from(stride).map_err(|_| Failure::Broken)?;
    config.output.u.RGBA.size = target.len();
    // SAFETY: `data` and `target` are borrowed for the whole call and given with their lengths. libwebp compares the sides that stand in
    // the bitstream with stride and size of the memory it was given before it writes, and refuses what does not fit. What it allocates for
    // itself it has given back when it returns: nothing is kept, and `config` owns nothing.
    let status = unsafe { WebPDecode(data.as_ptr(), data.len(), &raw mut config) };
    match status {
        VP8StatusCode::VP8_STATUS_OK => Ok(()),
        VP8StatusCode::VP8_STATUS_OUT_OF_MEMORY => Err(Failure::NoMemory),
        VP8StatusCode::VP8_STATUS_SUSPENDED | VP8StatusCode::VP8_STATUS_NOT_ENOUGH_DATA => Err(Failure::Cut),
        _ => Err(Failure::Broken),
    }
}
