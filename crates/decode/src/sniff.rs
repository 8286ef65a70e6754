//! What a file is, by its first bytes. Never by its name.

use crate::Rejection;

/// What gpulane can make an image of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Jpeg,
    Png,
    Tiff,
    WebP,
    Gif,
    Bmp,
}

/// What people have among their images, by name, so that the reason says more than "unknown".
const KNOWN: [(usize, &[u8], &str); 10] = [
    (4, b"ftypavif", "an AVIF image"),
    (4, b"ftypheic", "a HEIC image"),
    (4, b"ftypmif1", "a HEIF image"),
    (4, b"jP  \r\n\x87\n", "a JPEG 2000 image"),
    (4, b"JXL ", "a JPEG XL image"),
    (0, b"\xff\x0a", "a JPEG XL image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x1f\x8b", "a gzip file"),
    (0, b"PK\x03\x04", "a zip file"),
    (0, b"\x93NUMPY", "a NumPy array, which `npy` decodes"),
];

/// The image format of these bytes, or why they are none.
pub(crate) fn format(encoded: &[u8]) -> Result<Format, Rejection> {
    match encoded {
        [] => Err(Rejection::broken("empty file")),
        [0xff, 0xd8, 0xff, ..] => Ok(Format::Jpeg),
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Ok(Format::Png),
        // 43 is BigTIFF.
        [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => Ok(Format::Tiff),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Format::WebP),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Format::Gif),
        [b'B', b'M', ..] if encoded.len() > 25 => Ok(Format::Bmp),
        _ => Err(Rejection::broken(stranger(encoded))),
    }
}

fn stranger(encoded: &[u8]) -> String {
    let named =
        KNOWN.iter().find(|(at, magic, _)| encoded.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    let what = match named {
        Some((_, _, name)) => format!("it is {name}"),
        None if encoded.iter().all(|byte| *byte == 0) => "all its bytes are zero".to_owned(),
        None => format!("starts with {}", beginning(encoded)),
    };
    format!("not an image gpulane knows ({what}); give the model its own load(path)")
}

/// The first bytes, as text where they are text.
fn beginning(encoded: &[u8]) -> String {
    let text: String = encoded.iter().take(16).map_while(|byte| printable(*byte)).collect();
    let text = text.trim();
    if text.len() >= 3 {
        return format!("`{text}`");
    }
    encoded.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn printable(byte: u8) -> Option<char> {
    let letter = if byte.is_ascii_whitespace() { ' ' } else { char::from(byte) };
    (letter.is_ascii_graphic() || letter == ' ').then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_described_so_that_a_person_can_act() {
        for (encoded, words) in [
            (b"".as_slice(), "empty file"),
            (b"<html><body>404 not found</body>", "starts with `<html><body>404`"),
            (b"\0\0\0\0\0\0\0\0", "all its bytes are zero"),
            (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08", "starts with 00 01 02 03 04 05 06 07"),
            (b"\0\0\0\x20ftypheic", "it is a HEIC image"),
            (b"\x93NUMPY\x01\0", "`npy` decodes"),
            (b"no", "starts with 6e 6f"),
        ] {
            let Err(Rejection::Broken(reason)) = format(encoded) else { panic!("{encoded:?} is an image") };
            assert!(reason.contains(words), "{reason}");
        }
    }
}
