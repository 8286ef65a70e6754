//! The words of a `decode` text: `KIND[:WIDTHxHEIGHT][:WORD]…`, the words in any order. A wrong one is answered with the nearest
//! right one.

use std::str::FromStr;

use super::{Channels, Decode, DecodeError, Filter, Fit, Image, Size};

const FORMS: &str = "rgb, rgba or gray, each also with a size (rgb:224x224) and words behind it (rgb:224x224:crop), or bytes, npy, text, value or load";

const KINDS: [&str; 8] = ["rgb", "rgba", "gray", "bytes", "npy", "text", "value", "load"];

/// Every word that may stand behind the size.
const WORDS: &str = "stretch, crop, pad, short=N, nearest, box, bilinear, hamming, bicubic, lanczos or srgb";

/// Longer than any side of an image a model is given; keeps every product of sides within 64 bits.
const LONGEST_SIDE: u32 = 65_535;

/// What the words behind the kind say, each at most once.
#[derive(Default)]
struct Said {
    size: Option<(u32, u32)>,
    fit: Option<Fit>,
    filter: Option<Filter>,
    srgb: Option<()>,
}

impl FromStr for Decode {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let mut words = text.split(':');
        let kind = words.next().unwrap_or_default();
        let plain = match kind {
            "rgb" => return image(text, Channels::Rgb, words),
            "rgba" => return image(text, Channels::Rgba, words),
            "gray" | "grey" => return image(text, Channels::Gray, words),
            "bytes" => Self::Bytes,
            "npy" => Self::Npy,
            "text" => Self::Text,
            "value" => Self::Value,
            "load" => Self::Load,
            _ => {
                let meant = did_you_mean(kind, KINDS);
                return Err(DecodeError(format!("`{kind}` is no way to decode{meant}; write {FORMS}")));
            }
        };
        match words.next() {
            None => Ok(plain),
            Some(_) => Err(DecodeError(format!("`{kind}` has no size and no options; write `{kind}`"))),
        }
    }
}

fn image<'t>(
    text: &str,
    channels: Channels,
    words: impl Iterator<Item = &'t str>,
) -> Result<Decode, DecodeError> {
    let mut said = Said::default();
    for word in words {
        said.hear(text, word)?;
    }
    let Said { size, fit, filter, srgb } = said;
    let srgb = srgb.is_some();
    let Some((width, height)) = size else {
        let lonely = fit.map(|_| "a fit").or(filter.map(|_| "a filter"));
        if let Some(lonely) = lonely {
            let kind = channels.word();
            return Err(DecodeError(format!(
                "`{text}` has {lonely} but no size; write `{kind}:WIDTHxHEIGHT{}`, such as {kind}:224x224",
                &text[kind.len()..]
            )));
        }
        return Ok(Decode::Image(Image { channels, size: None, srgb }));
    };
    let size = Size { width, height, fit: fit.unwrap_or_default(), filter: filter.unwrap_or_default() };
    Ok(Decode::Image(Image { channels, size: Some(size), srgb }))
}

impl Said {
    fn hear(&mut self, text: &str, word: &str) -> Result<(), DecodeError> {
        let filter = Filter::ALL.into_iter().find(|filter| filter.word() == word);
        if let Some(filter) = filter {
            return once(text, "filter", &mut self.filter, filter);
        }
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let size = parse_size(text, word)?;
            return once(text, "size", &mut self.size, size);
        }
        if word == "srgb" {
            return once(text, "`srgb`", &mut self.srgb, ());
        }
        let fit = match word.split_once('=') {
            None if word == "stretch" => Fit::Stretch,
            None if word == "crop" => Fit::Crop,
            None if word == "pad" => Fit::Pad,
            Some(("short", side)) => Fit::Short(parse_short(text, side)?),
            None if word == "short" => return Err(no_short(text, word)),
            _ => {
                let known = ["stretch", "crop", "pad", "short=256", "srgb"];
                let known = known.into_iter().chain(Filter::ALL.map(Filter::word));
                let meant = did_you_mean(word, known);
                return Err(DecodeError(format!("`{word}` in `{text}` is unknown{meant}; write {WORDS}")));
            }
        };
        once(text, "fit", &mut self.fit, fit)
    }
}

/// Sets what was not set yet.
fn once<T>(text: &str, what: &str, place: &mut Option<T>, value: T) -> Result<(), DecodeError> {
    if place.replace(value).is_some() {
        return Err(DecodeError(format!("`{text}` has more than one {what}; write one of them")));
    }
    Ok(())
}

fn side(word: &str) -> Option<u32> {
    word.parse().ok().filter(|side| (1..=LONGEST_SIDE).contains(side))
}

fn parse_size(text: &str, size: &str) -> Result<(u32, u32), DecodeError> {
    let sides = size.split_once(['x', '×']);
    sides.and_then(|(width, height)| Some((side(width)?, side(height)?))).ok_or_else(|| {
        DecodeError(format!(
            "`{size}` in `{text}` is no size; write WIDTHxHEIGHT with sides from 1 to {LONGEST_SIDE}, such as 224x224"
        ))
    })
}

fn parse_short(text: &str, length: &str) -> Result<u32, DecodeError> {
    side(length).ok_or_else(|| no_short(text, &format!("short={length}")))
}

fn no_short(text: &str, word: &str) -> DecodeError {
    DecodeError(format!(
        "`{word}` in `{text}` is no length of the shorter side; write short=N with N from 1 to {LONGEST_SIDE}, such as short=256"
    ))
}

/// ` (did you mean `x`?)` where one of the right words is near.
fn did_you_mean<'w>(word: &str, right: impl IntoIterator<Item = &'w str>) -> String {
    let word = word.to_lowercase();
    let near = |right: &&str| strsim::normalized_damerau_levenshtein(&word, right);
    let nearest = right.into_iter().max_by(|one, other| near(one).total_cmp(&near(other)));
    let nearest = nearest.filter(|right| near(right) >= 0.5);
    nearest.map(|right| format!(" (did you mean `{right}`?)")).unwrap_or_default()
}

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
            "rgb:224x224:short=256",
            "rgb:224x224:short=256:bicubic",
            "rgb:9x8:nearest",
            "rgba",
            "rgb:srgb",
            "gray:8x9:crop:box:srgb",
            "rgba:32x32:pad:lanczos",
            "gray",
            "gray:8x9",
            "gray:8x9:box",
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
    fn words_in_any_order_are_written_in_one() {
        for (text, written) in [
            ("rgb:bicubic:short=256:224x224", "rgb:224x224:short=256:bicubic"),
            ("rgb:8x8:lanczos:crop", "rgb:8x8:crop:lanczos"),
            ("rgb:8x8:bilinear:stretch", "rgb:8x8"),
            ("grey:8×8", "gray:8x8"),
            ("rgb:srgb:bicubic:8x8:pad", "rgb:8x8:pad:bicubic:srgb"),
        ] {
            assert_eq!(text.parse::<Decode>().expect(text).to_string(), written);
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, word) in [
            ("rbg:224x224", "did you mean `rgb`"),
            ("rgb:224", "WIDTHxHEIGHT"),
            ("rgb:0x4", "WIDTHxHEIGHT"),
            ("rgb:4x99999999999", "WIDTHxHEIGHT"),
            ("rgb:4x4:zoom", "write stretch, crop, pad, short=N, nearest"),
            ("rgb:4x4:bicubik", "did you mean `bicubic`?"),
            ("rgb:4x4:cropp", "did you mean `crop`?"),
            ("rgb:4x4:shrt=256", "did you mean `short=256`?"),
            ("rgb:4x4:short", "write short=N"),
            ("rgb:4x4:short=0", "`short=0`"),
            ("rgb:4x4:crop:pad", "more than one fit"),
            ("rgb:4x4:short=9:pad", "more than one fit"),
            ("rgb:4x4:box:box", "more than one filter"),
            ("rgb:srgb:srgb", "more than one `srgb`"),
            ("rgb:4x4:8x8", "more than one size"),
            ("rgb:bicubic", "has a filter but no size; write `rgb:WIDTHxHEIGHT:bicubic`"),
            ("gray:short=256", "has a fit but no size"),
            ("bytes:4x4", "write `bytes`"),
            ("text:crop", "write `text`"),
            ("", "write rgb"),
        ] {
            let error = text.parse::<Decode>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
