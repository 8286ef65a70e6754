//! The words between the decoder and whoever calls it: what is asked for, where it goes, what came of it.

use std::fmt;
use std::time::Duration;

/// What the decoder may leave to whoever takes the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Nothing: pixels, all done.
    Here,
    /// Colour, orientation and size of JPEGs, which come as planes. Only for `rgb` with a size.
    Planes,
    /// All of a baseline JPEG, which comes as it is, its header checked; other JPEGs as planes. Only for `rgb` with a size.
    Encoded,
}

/// What one item may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pixels an image may have before anything is made of it. Against decompression bombs.
    pub max_pixels: u64,
    /// Bytes a decoded item may have.
    pub max_bytes: u64,
    /// Bytes of memory that decoding one may take beside its place.
    pub max_memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // Where Pillow refuses an image, what a ring's table can address, and what nearly all images of that many pixels take.
        Self { max_pixels: 178_956_970, max_bytes: u64::from(u32::MAX), max_memory: 2 << 30 }
    }
}

/// What an item is after decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Elements of one type in rows: an image, or what a `.npy` file holds.
    Array,
    /// Luma and chroma of a JPEG, still to be joined.
    Planes,
    /// A JPEG file, still to be decoded.
    Jpeg,
    /// A file as it is.
    Bytes,
    /// UTF-8.
    Text,
}

impl Kind {
    /// Its number in the worker protocol.
    pub const fn code(self) -> u8 {
        match self {
            Self::Array => 1,
            Self::Planes => 2,
            Self::Jpeg => 3,
            Self::Bytes => 4,
            Self::Text => 5,
        }
    }
}

/// What an array is made of; always little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Element {
    U8,
    U16,
    I16,
    U32,
    I32,
    F32,
    F64,
    Bool,
    I64,
    U64,
    F16,
    I8,
}

impl Element {
    /// Its number in the worker protocol.
    pub const fn code(self) -> u8 {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::I16 => 3,
            Self::U32 => 4,
            Self::I32 => 5,
            Self::F32 => 6,
            Self::F64 => 7,
            Self::Bool => 8,
            Self::I64 => 9,
            Self::U64 => 10,
            Self::F16 => 11,
            Self::I8 => 12,
        }
    }

    /// Bytes of one.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// How the bytes of a decoded item are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// What it is.
    pub kind: Kind,
    /// What an array is made of; `U8` for all else.
    pub element: Element,
    /// EXIF orientation still to be applied, 1–8; 1 for all but planes and JPEGs.
    pub orientation: u8,
    /// How the chroma of planes is subsampled, by its number in the worker protocol; 0 for all else.
    pub chroma: u8,
    /// An array's shape; planes: height, width, chroma height, chroma width; a JPEG: height, width. Unused ones are 0.
    pub dims: [u32; 4],
    /// How many of `dims` an array has; 0 for all else.
    pub ndim: u32,
    /// How many bytes were asked of the place.
    pub bytes: u64,
    /// Something of the picture was concealed or made up, and it is used all the same.
    pub damaged: bool,
}

impl Form {
    /// A finished image: height × width, with a third dimension of 3 where it has colours.
    pub(crate) const fn image(element: Element, width: u32, height: u32, channels: u32) -> Self {
        let bytes = width as u64 * height as u64 * channels as u64 * element.bytes();
        let dims = if channels == 1 { [height, width, 0, 0] } else { [height, width, channels, 0] };
        let ndim = if channels == 1 { 2 } else { 3 };
        Self { kind: Kind::Array, element, orientation: 1, chroma: 0, dims, ndim, bytes, damaged: false }
    }

    /// Bytes or text: a length and nothing else.
    pub(crate) const fn flat(kind: Kind, bytes: u64) -> Self {
        Self {
            kind,
            element: Element::U8,
            orientation: 1,
            chroma: 0,
            dims: [0; 4],
            ndim: 0,
            bytes,
            damaged: false,
        }
    }
}

/// Where the result goes.
pub trait Place {
    /// Room for exactly so many bytes; none if there is no room. Asked at most once per decode, before anything is
    /// written, and never for more than the limits allow. An item may still be rejected after it was given room.
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]>;

    /// Decoding takes so much memory beside the place, from now on until it is over. Told at most once, before room is asked
    /// for, and never more than the limits allow. A place whose memory is shared waits here until others have given back theirs.
    fn claim(&mut self, _bytes: u64) {}
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// This item cannot be decoded. The reason is for a person, short, and names no path.
    Broken(String),
    /// The place had no room for so many bytes; the same item may be tried elsewhere.
    NoRoom {
        /// What was asked for.
        bytes: u64,
    },
}

impl Rejection {
    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Self::Broken(reason.into())
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(reason) => f.write_str(reason),
            Self::NoRoom { bytes } => write!(f, "no room for {bytes} bytes"),
        }
    }
}

impl std::error::Error for Rejection {}

/// What one decoder has spent so far, by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Encoded bytes to pixels or planes.
    pub decode: Duration,
    /// Pixels to the size asked for, orientation included.
    pub resize: Duration,
    /// Encoded bytes looked at.
    pub encoded_bytes: u64,
    /// Bytes of the items that were decoded.
    pub decoded_bytes: u64,
}

impl Limits {
    /// Refuses what has too many pixels, or none.
    pub(crate) fn check_pixels(&self, width: u32, height: u32) -> Result<(), Rejection> {
        if width == 0 || height == 0 {
            return Err(Rejection::broken(format!("the image has no pixels ({width}×{height})")));
        }
        if u64::from(width) * u64::from(height) > self.max_pixels {
            return Err(Rejection::broken(format!(
                "the image claims {width}×{height} pixels; at most {} are decoded",
                self.max_pixels
            )));
        }
        Ok(())
    }

    /// Asks the place, once it is sure that so much may be asked for.
    pub(crate) fn room<'p>(&self, place: &'p mut dyn Place, bytes: u64) -> Result<&'p mut [u8], Rejection> {
        if bytes > self.max_bytes {
            return Err(Rejection::broken(format!(
                "decoded, the item would have {bytes} bytes; at most {} are taken",
                self.max_bytes
            )));
        }
        let exact = usize::try_from(bytes).ok();
        let given = place.take(bytes).zip(exact).and_then(|(given, exact)| given.get_mut(..exact));
        given.ok_or(Rejection::NoRoom { bytes })
    }
}
