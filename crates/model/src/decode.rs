//! How the items of a map are decoded: `rgb:224x224`, `gray`, `bytes` and so on. `words.rs` reads the text; here is what it
//! means, and the one way it is written back.

mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the model gets of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Decode {
    /// An image as pixels.
    Image(Image),
    /// The file as it is.
    Bytes,
    /// A `NumPy` array from a `.npy` file.
    Npy,
    /// The file as UTF-8 text.
    Text,
    /// The item itself, as text: nothing is read. For columns that hold the texts.
    Value,
    /// What the model's own `load(path)` makes of it.
    Load,
}

/// What every image becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// What a pixel has.
    pub channels: Channels,
    /// The size it is brought to; none: it stays as large as it is.
    pub size: Option<Size>,
    /// Whether a colour profile in the file is applied, so that colours are sRGB's.
    pub srgb: bool,
}

/// What a pixel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Three colours, 8 bits each.
    Rgb,
    /// Three colours and how opaque they are, 8 bits each.
    Rgba,
    /// One channel. 8 bits, or 16 where the file has them and nothing is computed from them.
    Gray,
}

/// The size every image is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// How, where the proportions differ.
    pub fit: Fit,
    /// How pixels are made of others.
    pub filter: Filter,
}

/// What happens to an image whose proportions are not those asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// It is stretched.
    #[default]
    Stretch,
    /// The middle is cut out, as large as possible.
    Crop,
    /// All of it is kept, centred, with black bars.
    Pad,
    /// The shorter side is brought to this length with the proportions kept, then the middle is cut out, with black bars where
    /// there is less than that: torchvision's `Resize(256)` and `CenterCrop(224)`.
    Short(u32),
}

/// How pixels of another size are made: Pillow's `Resampling`, all but `Nearest` antialiased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the field's names
pub enum Filter {
    Nearest,
    Box,
    #[default]
    Bilinear,
    Hamming,
    Bicubic,
    Lanczos,
}

/// Why a text is no [`Decode`], and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl Decode {
    /// `rgb`: images in colour, each as large as it is.
    pub const RGB: Self = Self::Image(Image { channels: Channels::Rgb, size: None, srgb: false });

    /// Bytes of every decoded item, where all have the same.
    pub const fn item_bytes(self) -> Option<u64> {
        match self {
            Self::Image(Image { channels, size: Some(size), .. }) => {
                Some(size.width as u64 * size.height as u64 * channels.count() as u64)
            }
            _ => None,
        }
    }

    /// Whether workers that can do it may be given JPEGs that are still to be brought to colour and size. All else comes finished.
    pub const fn is_finished_by_workers(self) -> bool {
        let Self::Image(Image { channels: Channels::Rgb, size: Some(size), .. }) = self else { return false };
        matches!(size.filter, Filter::Bilinear)
    }
}

impl Channels {
    /// How many there are.
    pub const fn count(self) -> u32 {
        match self {
            Self::Rgb => 3,
            Self::Rgba => 4,
            Self::Gray => 1,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Rgb => "rgb",
            Self::Rgba => "rgba",
            Self::Gray => "gray",
        }
    }
}

impl Filter {
    const ALL: [Self; 6] =
        [Self::Nearest, Self::Box, Self::Bilinear, Self::Hamming, Self::Bicubic, Self::Lanczos];

    /// Its name in a `decode` text.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Box => "box",
            Self::Bilinear => "bilinear",
            Self::Hamming => "hamming",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }
}

impl fmt::Display for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => image.fmt(f),
            Self::Bytes => f.write_str("bytes"),
            Self::Npy => f.write_str("npy"),
            Self::Text => f.write_str("text"),
            Self::Value => f.write_str("value"),
            Self::Load => f.write_str("load"),
        }
    }
}

/// The one order: kind, size, fit, filter, profile. What is the default is left out, so that a text from before there was a choice is
/// written as it was read.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.channels.word())?;
        if let Some(Size { width, height, fit, filter }) = self.size {
            write!(f, ":{width}x{height}")?;
            match fit {
                Fit::Stretch => {}
                Fit::Crop => f.write_str(":crop")?,
                Fit::Pad => f.write_str(":pad")?,
                Fit::Short(side) => write!(f, ":short={side}")?,
            }
            if filter != Filter::default() {
                write!(f, ":{}", filter.word())?;
            }
        }
        if self.srgb { f.write_str(":srgb") } else { Ok(()) }
    }
}

impl TryFrom<String> for Decode {
    type Error = DecodeError;

    fn try_from(text: String) -> Result<Self, DecodeError> {
        text.parse()
    }
}

impl From<Decode> for String {
    fn from(decode: Decode) -> Self {
        decode.to_string()
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}
