//! The colours that a page's samples are numbers of.

use crate::Rejection;

use super::directory::Directory;
use super::reasons::{broken, unknown};

const COLOR_MAP: u16 = 320;

/// The colours of a page whose samples have so many bits: the upper 8 of each 16, as Pillow takes them.
pub(super) fn palette(page: &Directory<'_>, bits: u32) -> Result<Box<[[u8; 3]]>, Rejection> {
    let stored = page.find(COLOR_MAP)?.ok_or_else(|| broken("it has no palette"))?;
    let colours = 1_u64 << bits;
    if stored.count() < 3 * colours {
        return Err(broken(format!(
            "a palette of {} values where {} are needed",
            stored.count(),
            3 * colours
        )));
    }
    let mut most = 0;
    let mut level = |index: u64| {
        let level = stored.number(index)?;
        most = most.max(level);
        Ok(u8::try_from(level >> 8).unwrap_or(u8::MAX))
    };
    let colour = |at: u64| Ok([level(at)?, level(colours + at)?, level(2 * colours + at)?]);
    let palette: Result<Box<[[u8; 3]]>, Rejection> = (0..colours).map(colour).collect();
    // Some writers put 8 bits where 16 belong: nearly black by the book, and what others show is a guess.
    if (1..256).contains(&most) {
        return Err(unknown("a palette of 8 bits, where TIFF has 16"));
    }
    palette
}
