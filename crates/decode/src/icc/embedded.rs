//! The colour profile that a file carries: found, not judged. Reads hostile bytes: every access is checked. What cannot be put
//! together counts as none, as it does for Pillow: a JPEG's profile with a part missing, a PNG's that does not inflate.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;

use super::LARGEST;
use crate::sniff::Format;

/// The profile in these bytes, if there is one. One that is larger than [`LARGEST`] is cut off a byte behind that.
pub(crate) fn embedded(encoded: &[u8], format: Format) -> Option<Cow<'_, [u8]>> {
    let found = match format {
        Format::Jpeg => jpeg(encoded).map(Cow::Owned),
        Format::Png => png(encoded).map(Cow::Owned),
        Format::WebP => webp(encoded).map(Cow::Borrowed),
        Format::Tiff => tiff(encoded).map(Cow::Borrowed),
        Format::Gif => gif(encoded).map(Cow::Owned),
        Format::Bmp => bmp(encoded).map(Cow::Borrowed),
    };
    found.filter(|profile| !profile.is_empty()).map(cut_off)
}

/// What is enough to see that a profile is too large.
fn cut_off(profile: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match profile {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..bytes.len().min(LARGEST + 1)]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(LARGEST + 1);
            Cow::Owned(bytes)
        }
    }
}

/// The `ICC_PROFILE` segments before the image data, in the order of their numbers; all or none.
fn jpeg(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut at = 2;
    loop {
        let from = at + encoded.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        let marker_at = from + encoded[from..].iter().position(|byte| *byte != 0xff)?;
        at = marker_at + 1;
        match encoded[marker_at] {
            0 | 1 | 0xd0..=0xd8 => {}
            0xd9 | 0xda => break,
            marker => {
                let length = usize::from(u16::from_be_bytes(*encoded.get(at..)?.first_chunk()?));
                let body = encoded.get(at + 2..at + length)?;
                if marker == 0xe2 && body.starts_with(b"ICC_PROFILE\0") && body.len() > 13 {
                    parts.push(&body[12..]);
                }
                at += length;
            }
        }
    }
    parts.sort_unstable();
    let whole = parts.first().is_some_and(|first| usize::from(first[1]) == parts.len());
    whole.then(|| parts.iter().flat_map(|part| &part[2..]).copied().take(LARGEST + 1).collect())
}

/// The `iCCP` chunk before the image data.
fn png(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut rest = encoded.get(8..)?;
    loop {
        let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
        let kind = rest.get(4..8)?;
        let body = rest.get(8..8usize.checked_add(length)?)?;
        match kind {
            b"IDAT" | b"IEND" => return None,
            b"iCCP" => {
                let name = body.iter().position(|byte| *byte == 0)?;
                let mut profile = Vec::new();
                let packed = body.get(name + 2..)?;
                ZlibDecoder::new(packed).take(LARGEST as u64 + 1).read_to_end(&mut profile).ok()?;
                return Some(profile);
            }
            _ => rest = rest.get(12usize.checked_add(length)?..)?,
        }
    }
}

/// The `ICCP` chunk.
fn webp(encoded: &[u8]) -> Option<&[u8]> {
    let mut rest = encoded.get(12..)?;
    loop {
        let length = usize::try_from(u32::from_le_bytes(*rest.get(4..)?.first_chunk()?)).ok()?;
        let body = rest.get(8..8usize.checked_add(length)?)?;
        if rest.starts_with(b"ICCP") {
            return Some(body);
        }
        rest = rest.get(8 + length + length % 2..)?;
    }
}

/// Tag 34675 of the first directory.
fn tiff(encoded: &[u8]) -> Option<&[u8]> {
    const PROFILE: u64 = 34_675;
    let big_endian = encoded.first()? == &b'M';
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let raw = encoded.get(at..at.checked_add(bytes)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if big_endian { raw.iter().fold(0, add) } else { raw.iter().rev().fold(0, add) })
    };
    // In a BigTIFF, places and counts have eight bytes.
    let (word, counted) = if number(2, 2)? == 43 { (8, 8) } else { (4, 2) };
    let directory = usize::try_from(number(word, word)?).ok()?;
    let entries = usize::try_from(number(directory, counted)?).ok()?;
    let step = 4 + 2 * word;
    for index in 0..entries {
        let entry = directory.checked_add(counted)?.checked_add(index.checked_mul(step)?)?;
        if number(entry, 2)? == PROFILE {
            let length = usize::try_from(number(entry + 4, word)?).ok()?;
            let value = entry + 4 + word;
            let place = if length <= word { value } else { usize::try_from(number(value, word)?).ok()? };
            return encoded.get(place..place.checked_add(length)?);
        }
    }
    None
}

/// The application extension `ICCRGBG1012` before the first image.
fn gif(encoded: &[u8]) -> Option<Vec<u8>> {
    let colours = |packed: u8| if packed & 0x80 == 0 { 0 } else { 3usize << ((packed & 7) + 1) };
    let mut at = 13 + colours(*encoded.get(10)?);
    while encoded.get(at)? == &0x21 {
        let mut ours = Vec::new();
        let is_profile = encoded.get(at + 1..at + 14)? == b"\xff\x0bICCRGBG1012";
        at += 2;
        let mut first = true;
        loop {
            let length = usize::from(*encoded.get(at)?);
            if length == 0 {
                break;
            }
            let block = encoded.get(at + 1..at + 1 + length)?;
            if is_profile && !first && ours.len() <= LARGEST {
                ours.extend_from_slice(block);
            }
            first = false;
            at += 1 + length;
        }
        if is_profile {
            return Some(ours);
        }
        at += 1;
    }
    None
}

/// What the fifth version of the header says is embedded.
fn bmp(encoded: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 14;
    let number = |at: usize| -> Option<usize> {
        usize::try_from(u32::from_le_bytes(*encoded.get(at..)?.first_chunk()?)).ok()
    };
    let embedded = number(HEADER)? >= 124 && encoded.get(70..74)? == b"DEBM";
    let (place, length) = (number(126)?, number(130)?);
    let from = HEADER.checked_add(place)?;
    embedded.then(|| encoded.get(from..from.checked_add(length)?)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jpegs_profile_is_put_together_by_number_or_not_at_all() {
        let part = |number: u8, of: u8, data: &[u8]| {
            let body = [b"ICC_PROFILE\0".as_slice(), &[number, of], data].concat();
            let length = u16::try_from(body.len() + 2).expect("short").to_be_bytes();
            [&[0xff, 0xe2], length.as_slice(), &body].concat()
        };
        let file = |parts: &[Vec<u8>]| [b"\xff\xd8".as_slice(), &parts.concat(), b"\xff\xda"].concat();
        let whole = file(&[part(2, 2, b"def"), part(1, 2, b"abc")]);
        assert_eq!(embedded(&whole, Format::Jpeg).as_deref(), Some(b"abcdef".as_slice()));
        assert_eq!(embedded(&file(&[part(1, 2, b"abc")]), Format::Jpeg), None);
        assert_eq!(embedded(&file(&[]), Format::Jpeg), None);
    }

    #[test]
    fn a_gifs_profile_is_in_its_application_extension() {
        let mut file = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff".to_vec();
        file.extend(b"\x21\xfe\x02hi\0");
        file.extend(b"\x21\xff\x0bICCRGBG1012\x03abc\x02de\0\x2c");
        assert_eq!(embedded(&file, Format::Gif).as_deref(), Some(b"abcde".as_slice()));
    }

    #[test]
    fn of_a_profile_that_is_too_large_no_more_is_handed_out_than_shows_that() {
        let long = vec![7; LARGEST + (1 << 20)];
        let length = u32::try_from(long.len()).unwrap();
        let jpeg_part = |(at, data): (usize, &[u8])| {
            let parts = long.chunks(60_000).len();
            let head = [u8::try_from(at + 1).unwrap(), u8::try_from(parts).unwrap()];
            let length = u16::try_from(data.len() + 16).unwrap().to_be_bytes();
            [b"\xff\xe2".as_slice(), &length, b"ICC_PROFILE\0", &head, data].concat()
        };
        let jpeg: Vec<u8> = long.chunks(60_000).enumerate().flat_map(jpeg_part).collect();
        let gif: Vec<u8> = long
            .chunks(255)
            .flat_map(|block| [&[u8::try_from(block.len()).unwrap()], block].concat())
            .collect();
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, &long).unwrap();
        let packed = [b"a\0\0".as_slice(), &packer.finish().unwrap()].concat();
        let packed_length = u32::try_from(packed.len()).unwrap().to_be_bytes();
        let mut bmp = [b"BM".as_slice(), &[0; 12], &124_u32.to_le_bytes(), &[0; 120]].concat();
        bmp[70..74].copy_from_slice(b"DEBM");
        bmp[126..130].copy_from_slice(&124_u32.to_le_bytes());
        bmp[130..134].copy_from_slice(&length.to_le_bytes());
        let entry = [
            &34_675_u16.to_le_bytes(),
            &7_u16.to_le_bytes()[..],
            &length.to_le_bytes(),
            &26_u32.to_le_bytes(),
        ];
        for (format, file) in [
            (Format::Jpeg, [b"\xff\xd8".as_slice(), &jpeg, b"\xff\xda"].concat()),
            (Format::Png, [&[0; 8], packed_length.as_slice(), b"iCCP", &packed].concat()),
            (Format::WebP, [&[0; 12], b"ICCP".as_slice(), &length.to_le_bytes(), &long].concat()),
            (
                Format::Tiff,
                [b"II\x2a\0\x08\0\0\0\x01\0".as_slice(), &entry.concat(), &[0; 4], &long].concat(),
            ),
            (Format::Gif, [&[0; 13], b"\x21\xff\x0bICCRGBG1012".as_slice(), &gif, b"\0"].concat()),
            (Format::Bmp, [bmp.as_slice(), &[0; 30], &long].concat()),
        ] {
            assert_eq!(embedded(&file, format).map(|found| found.len()), Some(LARGEST + 1), "{format:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>, start in 0usize..6) {
            let starts: [(&[u8], Format); 6] = [
                (b"\xff\xd8\xff\xe2", Format::Jpeg),
                (b"\x89PNG\r\n\x1a\n", Format::Png),
                (b"RIFF\0\0\0\0WEBP", Format::WebP),
                (b"II\x2a\0\x08\0\0\0", Format::Tiff),
                (b"GIF89a\x01\0\x01\0\0\0\0\x21\xff", Format::Gif),
                (b"BM", Format::Bmp),
            ];
            let (begin, format) = starts[start];
            let _ = embedded(&[begin, &bytes].concat(), format);
        }
    }
}
