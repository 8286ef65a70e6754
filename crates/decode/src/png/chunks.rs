//! The chunks of a PNG that say how it is to be turned, wherever they stand. Reads hostile bytes: every access is checked.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress, Status};

use crate::notes::Notes;

/// A PNG's chunks begin here.
pub(super) const SIGNATURE: usize = 8;

/// What a text may grow to; longer ones are no notes.
const LONGEST_TEXT: usize = 1 << 20;
/// Texts of one keyword that are unpacked until one can be.
const MOST_READ: usize = 4;

/// A chunk of a PNG.
pub(super) struct Chunk<'a> {
    /// What it is.
    pub(super) name: [u8; 4],
    /// What stands in it.
    pub(super) body: &'a [u8],
    /// The checksum of both, as the file has it; nothing where the file ends before it.
    sum: Option<u32>,
}

/// Chunks one after the other, until the file or one of them ends too early.
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    pub(super) fn of(encoded: &'a [u8]) -> Self {
        Self { rest: encoded.get(SIGNATURE..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_first_chunk::<4>()?;
        let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let sum = rest.first_chunk().copied().map(u32::from_be_bytes);
        self.rest = rest.get(4..).unwrap_or_default();
        Some(Chunk { name: *name, body, sum })
    }
}

impl Chunk<'_> {
    /// Whether what stands in it is what was written.
    fn is_whole(&self) -> bool {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&self.name);
        sum.update(self.body);
        self.sum == Some(sum.finalize())
    }
}

/// Which chunks before the pixels are not as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Altered {
    /// None.
    Nothing,
    /// One that may have said how the picture is to be turned, or what is transparent: its name cannot be trusted either.
    Beside,
    /// The header or the palette.
    Header,
}

/// Compares the chunks before the pixels with their checksums, as Pillow does. Of the pixels' own data the sum over all rows is checked, and
/// what stands behind it is not looked at.
pub(super) fn altered(encoded: &[u8]) -> Altered {
    let mut found = Altered::Nothing;
    for chunk in Chunks::of(encoded).take_while(|chunk| &chunk.name != b"IDAT") {
        match &chunk.name {
            _ if chunk.is_whole() => {}
            b"IHDR" | b"PLTE" => return Altered::Header,
            _ => found = Altered::Beside,
        }
    }
    found
}

/// Bytes that end the pixels' data: the last bits of its codes and their checksum.
const DATA_END: usize = 6;

/// Whether the pixels' data contradicts its checksum where the `png` crate does not look: where the sum does not lie in one chunk with the
/// last codes, which few encoders do. Then all is inflated once more; `most` bounds what may come out of it.
pub(super) fn contradicts_its_sum(encoded: &[u8], most: u64) -> bool {
    let data = || Chunks::of(encoded).filter(|chunk| &chunk.name == b"IDAT");
    if data().last().is_none_or(|last| last.body.len() >= DATA_END) {
        return false;
    }
    let (mut inflate, mut scratch) = (Decompress::new(true), vec![0; 1 << 15]);
    for mut rest in data().map(|chunk| chunk.body) {
        while !rest.is_empty() {
            let before = inflate.total_in();
            match inflate.decompress(rest, &mut scratch, FlushDecompress::None) {
                Ok(Status::Ok) if inflate.total_out() <= 2 * most + (1 << 20) => {}
                Ok(_) => return false,
                Err(_) => return true,
            }
            let taken = usize::try_from(inflate.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
        }
    }
    false
}

/// The notes of a PNG: its own chunk for EXIF, or what `ImageMagick` puts into a text; and XMP. Of several the last one counts. What
/// stands behind the next frame of an animation does not.
pub(super) fn notes(encoded: &[u8]) -> Notes<'_> {
    let (mut found, mut seen_data, mut moving) = (Notes::default(), false, false);
    let (mut profiles, mut packets) = (Vec::new(), Vec::new());
    for Chunk { name, body, .. } in Chunks::of(encoded) {
        match &name {
            b"eXIf" => found.exif = Some(Cow::Borrowed(body)),
            b"tEXt" | b"zTXt" | b"iTXt" => match text(name, body) {
                Some((b"exif", text)) if &name == b"tEXt" => found.exif = Some(Cow::Borrowed(text.stored)),
                Some((b"Raw profile type exif", text)) => profiles.push(text),
                Some((b"XML:com.adobe.xmp", text)) => packets.push(text),
                _ => {}
            },
            b"acTL" => moving = true,
            b"IDAT" => seen_data = true,
            b"fcTL" if seen_data && moving => break,
            b"IEND" => break,
            _ => {}
        }
    }
    if found.exif.is_none() {
        found.exif = last(&profiles, Text::read).and_then(|text| raw_profile(&text)).map(Cow::Owned);
    }
    found.xmp = last(&packets, Text::read);
    found
}

/// A text as it is stored.
#[derive(Clone, Copy)]
struct Text<'a> {
    packed: bool,
    stored: &'a [u8],
}

impl<'a> Text<'a> {
    /// What it says, unless it cannot be unpacked or is too long.
    fn read(self) -> Option<Cow<'a, [u8]>> {
        if self.packed {
            fdeflate::decompress_to_vec_bounded(self.stored, LONGEST_TEXT).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(self.stored))
        }
    }
}

/// The last of these texts that can be read, of the last few: a file may have hundreds of thousands, each of which becomes a thousand times
/// its size.
fn last<'a>(
    texts: &[Text<'a>],
    mut read: impl FnMut(Text<'a>) -> Option<Cow<'a, [u8]>>,
) -> Option<Cow<'a, [u8]>> {
    texts.iter().rev().take(MOST_READ).find_map(|text| read(*text))
}

/// Keyword and text of those chunks that can be notes.
fn text(name: [u8; 4], body: &[u8]) -> Option<(&[u8], Text<'_>)> {
    let (keyword, rest) = split(body)?;
    if !matches!(keyword, b"exif" | b"Raw profile type exif" | b"XML:com.adobe.xmp") {
        return None;
    }
    let (packed, text) = match &name {
        b"tEXt" => (false, rest),
        b"zTXt" => (true, rest.strip_prefix(&[0])?),
        _ => {
            let (&[packed, method], rest) = rest.split_first_chunk::<2>()?;
            let (_, text) = split(split(rest)?.1)?;
            if packed != 0 && method != 0 {
                return None;
            }
            (packed != 0, text)
        }
    };
    Some((keyword, Text { packed, stored: text }))
}

/// What stands before the first zero, and behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(0, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// What `ImageMagick` writes: an empty line, the name, the length, and bytes in hexadecimal.
fn raw_profile(text: &[u8]) -> Option<Vec<u8>> {
    let digits =
        text.split(|byte| *byte == b'\n').skip(3).flatten().filter(|byte| !byte.is_ascii_whitespace());
    let values: Option<Vec<u8>> = digits
        .map(|digit| char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok()))
        .collect();
    values.map(|values| values.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(name: &[u8], body: &[u8]) -> Vec<u8> {
        let mut sum = crc32fast::Hasher::new();
        sum.update(name);
        sum.update(body);
        let length = u32::try_from(body.len()).expect("short");
        [&length.to_be_bytes(), name, body, &sum.finalize().to_be_bytes()].concat()
    }

    #[test]
    fn a_chunk_before_the_pixels_that_was_altered_is_noticed() {
        let (head, note, data) = (chunk(b"IHDR", b"head"), chunk(b"eXIf", b"note"), chunk(b"IDAT", b"data"));
        let file = |chunks: &[&[u8]]| [b"\x89PNG\r\n\x1a\n", chunks.concat().as_slice()].concat();
        assert_eq!(altered(&file(&[&head, &note, &data])), Altered::Nothing);
        let flipped = |chunk: &[u8], at: usize| {
            let mut chunk = chunk.to_vec();
            chunk[at] ^= 4;
            chunk
        };
        // What stands in it, its name, its sum.
        for at in [9, 5, 13] {
            assert_eq!(altered(&file(&[&head, &flipped(&note, at), &data])), Altered::Beside, "{at}");
            assert_eq!(
                altered(&file(&[&head, &data, &flipped(&note, at)])),
                Altered::Nothing,
                "{at}, behind"
            );
        }
        assert_eq!(altered(&file(&[&flipped(&head, 9), &note, &data])), Altered::Header);
        assert_eq!(
            altered(&file(&[&head, &note, &flipped(&data, 9)])),
            Altered::Nothing,
            "has a sum of its own"
        );
    }

    #[test]
    fn a_sum_in_a_chunk_of_its_own_is_compared() {
        // Zlib's data: three bytes as they are, and their sum.
        let stored = |bytes: &[u8; 3], sum: u32| {
            [&[0x78, 1, 1, 3, 0, 0xfc, 0xff], bytes.as_slice(), &sum.to_be_bytes()].concat()
        };
        let right = 0x024d_0127; // of `abc`
        for behind in 1..=5 {
            for (bytes, sum, wrong) in
                [(b"abc", right, false), (b"abd", right, true), (b"abc", right ^ 1, true)]
            {
                let data = stored(bytes, sum);
                let (first, last) = data.split_at(data.len() - behind);
                let file =
                    [b"\x89PNG\r\n\x1a\n".as_slice(), &chunk(b"IDAT", first), &chunk(b"IDAT", last)].concat();
                assert_eq!(contradicts_its_sum(&file, 3), wrong, "{behind} {bytes:?}");
            }
        }
        // In one piece the `png` crate compares it.
        let whole = [b"\x89PNG\r\n\x1a\n".as_slice(), &chunk(b"IDAT", &stored(b"abd", right))].concat();
        assert!(!contradicts_its_sum(&whole, 3));
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        [b"XML:com.adobe.xmp\0\0".as_slice(), &fdeflate::compress_to_vec(text)].concat()
    }

    #[test]
    fn of_many_texts_few_are_unpacked() {
        let long = Text { packed: true, stored: &fdeflate::compress_to_vec(&vec![b' '; LONGEST_TEXT]) };
        let mut unpacked = 0;
        let mut counted = |text: Text<'static>| {
            unpacked += 1;
            text.read()
        };
        let long = Text { stored: Box::leak(Box::from(long.stored)), ..long };
        assert_eq!(last(&vec![long; 100_000], &mut counted).map(|text| text.len()), Some(LONGEST_TEXT));
        let broken = Text { stored: b"no zlib", ..long };
        assert_eq!(last(&vec![broken; 100_000], &mut counted), None);
        assert_eq!(unpacked, 1 + MOST_READ);
    }

    #[test]
    fn the_last_text_that_can_be_read_counts() {
        let start = [0; SIGNATURE].to_vec();
        let texts = [packed(b"one"), packed(b"two"), b"XML:com.adobe.xmp\0\0no zlib".to_vec()];
        let file = texts.iter().fold(start, |file, text| [file, chunk(b"zTXt", text)].concat());
        assert_eq!(notes(&file).xmp.as_deref(), Some(b"two".as_slice()));
    }
}
