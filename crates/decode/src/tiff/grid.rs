//! Where the data of a page lies: its strips or tiles, how large they are and which bytes of the file are theirs.

use crate::Rejection;

use super::directory::{Directory, File, Values};
use super::reasons::{Fault, broken, truncated, unknown};

const STRIP_OFFSETS: u16 = 273;
const ROWS_PER_STRIP: u16 = 278;
const STRIP_BYTE_COUNTS: u16 = 279;
const TILE_WIDTH: u16 = 322;
const TILE_LENGTH: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTE_COUNTS: u16 = 325;

/// The strips or tiles of a page, of each of its planes in turn: rows of them, from the top left on.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    /// Where they lie.
    file: File<'a>,
    /// Chunks are tiles, not strips.
    pub(super) tiled: bool,
    /// Pixels across one. Tiles may reach beyond the image.
    pub(super) width: u32,
    /// Pixels down one. The last ones may have fewer rows, and of tiles there may be more than the image has.
    pub(super) height: u32,
    /// How many lie side by side.
    pub(super) across: u32,
    /// How many lie one below the other.
    pub(super) down: u32,
    /// Where each begins.
    offsets: Values<'a>,
    /// How many bytes each has, where the file says.
    counts: Option<Values<'a>>,
}

impl<'a> Grid<'a> {
    /// The strips or tiles of an image of these sides, with so many planes.
    pub(super) fn of(page: &Directory<'a>, sides: (u32, u32), planes: usize) -> Result<Self, Rejection> {
        let tiled = page.find(TILE_WIDTH)?.is_some();
        let side = |tag: u16, absent: u32| {
            let length = page.number_or(tag, u64::from(absent))?;
            // Larger than any image, as the number that stands for "all rows".
            Ok(u32::try_from(length).unwrap_or(u32::MAX))
        };
        let (width, height) = if tiled {
            (side(TILE_WIDTH, 0)?, side(TILE_LENGTH, 0)?)
        } else {
            (sides.0, side(ROWS_PER_STRIP, sides.1)?.min(sides.1))
        };
        if width == 0 || height == 0 {
            return Err(broken(format!("strips or tiles of {width}×{height} pixels")));
        }
        let either = |tag: u16, other: u16| {
            let (first, second) = if tiled { (tag, other) } else { (other, tag) };
            Ok(page.find(first)?.or(page.find(second)?))
        };
        let offsets = either(TILE_OFFSETS, STRIP_OFFSETS)?;
        let counts = either(TILE_BYTE_COUNTS, STRIP_BYTE_COUNTS)?;
        let offsets = offsets.ok_or_else(|| broken("it does not say where its pixels are"))?;
        let (across, down) = (sides.0.div_ceil(width), sides.1.div_ceil(height));
        let grid = Self { file: page.file, tiled, width, height, across, down, offsets, counts };
        let all = grid.chunks().saturating_mul(planes as u64);
        if offsets.count() < all {
            return Err(broken("it does not say where all of its pixels are"));
        }
        if !offsets.holds(all) || counts.is_some_and(|counts| !counts.holds(all.min(counts.count()))) {
            return Err(truncated());
        }
        Ok(grid)
    }

    /// Strips or tiles of one plane.
    pub(super) fn chunks(&self) -> u64 {
        u64::from(self.across) * u64::from(self.down)
    }

    /// The data of one strip or tile, as far as the file goes. `exact`: it is not compressed, and should have so many bytes.
    pub(super) fn data(&self, index: u64, exact: Option<usize>) -> Result<&'a [u8], Fault> {
        let offset = self.offsets.number(index)?;
        let from = self.file.from(offset);
        let counts = self.counts.filter(|counts| index < counts.count());
        let count = counts.map(|counts| counts.number(index)).transpose()?;
        let bytes = match (count, exact) {
            (Some(0), Some(exact)) => {
                self.without_count(index, offset, exact)?;
                exact as u64
            }
            (None, Some(exact)) => exact as u64,
            (Some(0), None) if offset == 0 => {
                let reason = unknown("a strip or tile that was left out, so that it has no pixels");
                return Err(Fault::Refused(reason));
            }
            (Some(count), _) => count,
            (None, None) if self.offsets.count() == 1 => from.len() as u64,
            (None, None) => return Err(broken("it does not say how long its strips are").into()),
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if offset == 0 || from.is_empty() {
            return Err(truncated().into());
        }
        Ok(&from[..from.len().min(bytes)])
    }

    /// Whether data that is not compressed can be there although its count is 0: there are readers that never look at it, and so writers that
    /// leave it at that. It must not run into what comes next.
    fn without_count(&self, index: u64, offset: u64, exact: usize) -> Result<(), Rejection> {
        let next = index + 1;
        if next < self.offsets.count() && self.offsets.number(next)? < offset.saturating_add(exact as u64) {
            return Err(truncated());
        }
        Ok(())
    }
}
