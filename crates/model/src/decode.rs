//! How the items of a map are decoded: `rgb:224x224`, `gray`, `bytes` and so on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What the model gets of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Decode {
    /// An image in three colours, 8 bits each.
    Rgb(Option<Size>),
    /// An image in one channel. 8 bits, or 16 where the file has them and the size is left as it is.
    Gray(Option<Size>),
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

/// The size every image is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// How, where the proportions differ.
    pub fit: Fit,
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
}

/// Why a text is no [`Decode`], and what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

const FORMS: &str =
    "rgb, rgb:224x224, rgb:224x224:crop, rgb:224x224:pad, gray, gray:WxH, bytes, npy, text, value or load";
/// Larger than any image a model is given; keeps every product below within 64 bits.
const LONGEST_SIDE: u32 = 65_535;

impl Decode {
    /// The size of every decoded image, where one is asked for.
    pub const fn size(self) -> Option<Size> {
        match self {
            Self::Rgb(size) | Self::Gray(size) => size,
            _ => None,
        }
    }

    /// Bytes of every decoded item, where all have the same.
    pub const fn item_bytes(self) -> Option<u64> {
        match self {
            Self::Rgb(Some(size)) => Some(size.width as u64 * size.height as u64 * 3),
            Self::Gray(Some(size)) => Some(size.width as u64 * size.height as u64),
            _ => None,
        }
    }
}

impl FromStr for Decode {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let size = words.next().map(|size| parse_size(text, size, words.next())).transpose()?;
        if words.next().is_some() {
            return Err(DecodeError(format!("`{text}` has too many parts; write {FORMS}")));
        }
        match (kind, size) {
            ("rgb", size) => Ok(Self::Rgb(size)),
            ("gray" | "grey", size) => Ok(Self::Gray(size)),
            ("bytes", None) => Ok(Self::Bytes),
            ("npy", None) => Ok(Self::Npy),
            ("text", None) => Ok(Self::Text),
            ("value", None) => Ok(Self::Value),
            ("load", None) => Ok(Self::Load),
            ("bytes" | "npy" | "text" | "value" | "load", Some(_)) => {
                Err(DecodeError(format!("`{kind}` has no size; write `{kind}`")))
            }
            _ => Err(DecodeError(format!("`{kind}` is no way to decode; write {FORMS}"))),
        }
    }
}

fn parse_size(text: &str, size: &str, fit: Option<&str>) -> Result<Size, DecodeError> {
    let side = |word: &str| word.parse().ok().filter(|side| (1..=LONGEST_SIDE).contains(side));
    let sides = size.split_once(['x', '×']).and_then(|(width, height)| Some((side(width)?, side(height)?)));
    let Some((width, height)) = sides else {
        return Err(DecodeError(format!(
            "`{size}` in `{text}` is no size; write WIDTHxHEIGHT with sides from 1 to {LONGEST_SIDE}, such as 224x224"
        )));
    };
    let fit = match fit {
        None | Some("stretch") => Fit::Stretch,
        Some("crop") => Fit::Crop,
        Some("pad") => Fit::Pad,
        Some(other) => {
            return Err(DecodeError(format!("`{other}` in `{text}` is unknown; write stretch, crop or pad")));
        }
    };
    Ok(Size { width, height, fit })
}

impl fmt::Display for Decode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rgb(size) => write_sized(f, "rgb", *size),
            Self::Gray(size) => write_sized(f, "gray", *size),
            Self::Bytes => f.write_str("bytes"),
            Self::Npy => f.write_str("npy"),
            Self::Text => f.write_str("text"),
            Self::Value => f.write_str("value"),
            Self::Load => f.write_str("load"),
        }
    }
}

fn write_sized(f: &mut fmt::Formatter<'_>, kind: &str, size: Option<Size>) -> fmt::Result {
    let Some(Size { width, height, fit }) = size else { return f.write_str(kind) };
    let fit = match fit {
        Fit::Stretch => "",
        Fit::Crop => ":crop",
        Fit::Pad => ":pad",
    };
    write!(f, "{kind}:{width}x{height}{fit}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "rgb",
            "rgb:224x224",
            "rgb:640x480:crop",
            "rgb:1x65535:pad",
            "gray",
            "gray:8x9",
            "bytes",
            "npy",
            "text",
            "value",
            "load",
        ] {
            assert_eq!(text.parse::<Decode>().map(|decode| decode.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, word) in [
            ("rbg:224x224", "write rgb"),
            ("rgb:224", "WIDTHxHEIGHT"),
            ("rgb:0x4", "WIDTHxHEIGHT"),
            ("rgb:4x99999999999", "WIDTHxHEIGHT"),
            ("rgb:4x4:zoom", "stretch, crop or pad"),
            ("bytes:4x4", "write `bytes`"),
            ("rgb:4x4:crop:x", "too many parts"),
            ("", "write rgb"),
        ] {
            let error = text.parse::<Decode>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
