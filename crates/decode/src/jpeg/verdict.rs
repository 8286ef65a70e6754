//! What libjpeg's warnings mean for the picture: whether a unit of it was concealed or made up, or only something beside it is odd.

use super::leftover::goes_on;
use super::libjpeg::{Kind, Leftover, Said};
use crate::damage::Damage;

/// Bytes behind the image data that are taken for no more than that, whatever they are, unless they are whole blocks.
const FEW: usize = 32;
/// Bytes that tell text, or a filling, from image data.
const ENOUGH: usize = 4;

/// What a kind of warning says of the picture, once and many times; `None`: every unit of it is there all the same.
const fn harm(kind: Kind) -> Option<(&'static str, &'static str)> {
    match kind {
        // Pixels do not come from these, or as they do for every other program that uses libjpeg. What was left unread is judged by itself,
        // and so is a file that lacks its end.
        Kind::Other | Kind::Colours | Kind::Order | Kind::HeaderJunk | Kind::ScanJunk | Kind::End => None,
        Kind::Precision => {
            Some(("a scan that does not fit those before it", "scans that do not fit those before them"))
        }
        Kind::BadCode => Some(("a code that does not exist", "codes that do not exist")),
        Kind::Missing => Some(("a truncated stretch of image data", "truncated stretches of image data")),
        Kind::Restart => Some(("a wrong restart mark", "wrong restart marks")),
    }
}

/// What is damaged of a file of which this was said.
pub(super) fn damage(said: &Said, encoded: &[u8]) -> Damage {
    if said.is_nothing() {
        return Damage::NONE;
    }
    let cut = said.count(Kind::Missing) > 0 || !said.complete || said.arithmetic;
    if said.count(Kind::End) > 0 && cut {
        return Damage::of("truncated: the JPEG's image data ends too early");
    }
    let warned = Kind::ALL.into_iter().filter_map(|kind| Some((said.count(kind), harm(kind)?)));
    let overlong = ("a stretch of image data that is too long", "stretches of image data that are too long");
    // Where data is missing, what seems to be left is what libjpeg put in its place.
    let beyond = u32::from(said.count(Kind::Missing) == 0 && !is_harmless(&said.last, encoded));
    let unread =
        [(said.unfinished, overlong), (beyond, ("more image data than the picture has room for", ""))];
    let lacking = ("no image data for one of its components", "components without image data");
    let found: Vec<String> = warned
        .chain(unread)
        .chain([(said.lacking, lacking)])
        .filter(|(count, _)| *count > 0)
        .map(|(count, (one, many))| if count == 1 { one.to_owned() } else { format!("{count} {many}") })
        .collect();
    if found.is_empty() { Damage::NONE } else { Damage::of(format!("damaged JPEG: {}", found.join(", "))) }
}

/// Whether what the last scan left unread is no image data. A scan that was damaged often ends before its data does; but there are cameras
/// that fill files up, and programs that append to the data. Encoders end a scan with ones up to the next byte, and what follows is none of
/// its blocks.
fn is_harmless(left: &Leftover, encoded: &[u8]) -> bool {
    let count = left.bytes as usize;
    if count == 0 {
        return true;
    }
    let Some(junk) =
        encoded.get(..left.end).and_then(|before| before.get(before.len().checked_sub(count)?..))
    else {
        return false;
    };
    let ones = left.padding + 1 == 1 << left.bits;
    // The mark for the end itself, of which the first byte is not what it was.
    if left.end == encoded.len() && matches!(junk, [_, 0xd9]) {
        return ones;
    }
    if junk.iter().all(|byte| *byte == 0) {
        return ones || left.padding == 0;
    }
    let blank = junk.iter().all(|byte| *byte == junk[0]);
    let text = junk.iter().all(|byte| matches!(byte, 0 | b'\t'..=b'\r' | b' '..=b'~'));
    // Where it cannot be tried whether it goes on, it must look like something else.
    let stranger = match goes_on(encoded, (left.bits, left.padding), junk) {
        Some(goes_on) => !goes_on && (blank || text || count <= FEW),
        None => (blank || text) && count >= ENOUGH,
    };
    ones && stranger
}
