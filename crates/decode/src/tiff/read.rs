//! Reading a page: strip by strip or tile by tile, into the place of its pixels.

use crate::damage::Damage;
use crate::{Limits, Rejection};

use super::compression::{Compression, Decompressor, Shape};
use super::page::Page;
use super::pixels::{After, Stored};
use super::predictor::{Predictor, Row, undo_float, undo_horizontal};
use super::reasons::{Fault, broken};
use super::{unpack, ycbcr};

/// What came of one page or of several.
#[derive(Default)]
pub(super) struct Outcome {
    /// What was damaged first.
    damage: Option<String>,
    /// Rows of strips or tiles that came from the file.
    rows: u64,
}

impl Outcome {
    /// Adds what came of another page.
    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.damage = self.damage.take().or(other.damage);
    }

    /// Damage where some rows are there; nothing is made of a file that has none.
    pub(super) fn judged(self) -> Result<Damage, Rejection> {
        match self.damage {
            None => Ok(Damage::NONE),
            Some(what) if self.rows == 0 => Err(Rejection::broken(what)),
            Some(what) => Ok(Damage::of(what)),
        }
    }
}

/// What is needed while a page is read.
struct Reader<'p, 'a> {
    page: &'p Page<'a>,
    decompressor: Decompressor<'a>,
    /// The data of a strip whose bits were the wrong way round.
    turned: Vec<u8>,
    /// A row, for the predictor of floats.
    spare: Vec<u8>,
    /// What was read so far.
    outcome: Outcome,
}

/// Fills `target` with the page's pixels, of which it has exactly the size. Rows that cannot be had are black.
pub(super) fn read(page: &Page<'_>, limits: &Limits, target: &mut [u8]) -> Result<Outcome, Rejection> {
    let spare = if page.predictor == Predictor::Float { length(page.row_bytes())? } else { 0 };
    let mut reader = Reader {
        page,
        decompressor: Decompressor::new(page.compression, limits),
        turned: Vec::new(),
        spare: vec![0; spare],
        outcome: Outcome::default(),
    };
    if page.is_direct() {
        reader.strips(target)?;
    } else {
        let mut room = vec![0; length(page.chunk_bytes(page.chunk_rows()))?];
        for plane in page.planes() {
            reader.plane(*plane, &mut room, target)?;
        }
    }
    match &page.pixels.after {
        After::Nothing => {}
        After::Divide if page.pixels.layout.is_deep_gray_with_alpha() => {
            unpack::divide_by_deep_alpha(target, page.pixels.stored.bits);
        }
        After::Divide => unpack::divide_by_alpha(target, page.pixels.layout.samples()),
        After::Colours(tables) => tables.convert(target),
    }
    Ok(reader.outcome)
}

fn length(bytes: u64) -> Result<usize, Rejection> {
    usize::try_from(bytes).map_err(|_| broken("strips larger than any memory"))
}

impl Reader<'_, '_> {
    /// Strips as wide as the image, each straight to its rows.
    fn strips(&mut self, target: &mut [u8]) -> Result<(), Rejection> {
        let (strip, row) =
            (length(self.page.chunk_bytes(self.page.grid.height))?, length(self.page.row_bytes())?);
        for (index, rows) in (0..).zip(target.chunks_mut(strip)) {
            let whole = self.chunk(index, rows)?;
            unpack::blacken(&self.page.pixels, None, &mut rows[whole * row..]);
        }
        Ok(())
    }

    /// All strips or tiles of one plane, each by way of `room`.
    fn plane(&mut self, plane: usize, room: &mut [u8], target: &mut [u8]) -> Result<(), Rejection> {
        let page = self.page;
        let (grid, (width, height)) = (page.grid, page.sides);
        let pixel = page.pixels.layout.pixel_bytes();
        let stride = width as usize * pixel;
        let row_bytes = length(page.row_bytes())?;
        let only = page.pixels.stored.planar.then_some(plane);
        for down in 0..grid.down {
            let top = down * grid.height;
            let rows = grid.height.min(height - top);
            for across in 0..grid.across {
                let left = across * grid.width;
                let columns = grid.width.min(width - left) as usize;
                let first = grid.chunks() * if only.is_some() { plane as u64 } else { 0 };
                let index = first + u64::from(down) * u64::from(grid.across) + u64::from(across);
                let used = if page.is_filled() { page.chunk_rows() } else { rows };
                let chunk = &mut room[..length(page.chunk_bytes(used))?];
                let whole = self.chunk(index, chunk)?;
                for row in 0..rows as usize {
                    let at = (top as usize + row) * stride + left as usize * pixel;
                    let target = &mut target[at..at + columns * pixel];
                    if row >= whole {
                        unpack::blacken(&page.pixels, only, target);
                    } else if let Some(groups) = page.pixels.grouped {
                        ycbcr::ungroup(chunk, (grid.width as usize, row), groups, target);
                    } else {
                        let packed = &chunk[row * row_bytes..][..row_bytes];
                        unpack::row(&page.pixels, only, packed, target);
                    }
                }
            }
        }
        Ok(())
    }

    /// Decompresses one strip or tile into `rows`, and brings its samples to this machine's order. Says how many of its rows are there.
    fn chunk(&mut self, index: u64, rows: &mut [u8]) -> Result<usize, Rejection> {
        let page = self.page;
        let written = match self.decompress(index, rows) {
            Ok(damage) => {
                self.note(damage.into_reason());
                rows.len()
            }
            Err(Fault::Refused(reason)) => return Err(reason),
            Err(Fault::Damaged(what)) => {
                self.note(Some(what));
                self.salvage(index, rows)
            }
        };
        let (bytes, down) = match page.pixels.grouped {
            Some(groups) => (ycbcr::grouped_bytes(page.grid.width as usize, groups.1, groups), groups.1),
            None => (length(page.row_bytes())?, 1),
        };
        let whole = written / bytes * down;
        self.outcome.rows += whole as u64;
        self.undo(rows)?;
        Ok(whole)
    }

    /// Keeps what was damaged first.
    fn note(&mut self, damage: Option<String>) {
        self.outcome.damage = self.outcome.damage.take().or(damage);
    }

    /// How many bytes at its beginning a damaged strip or tile gives. Whatever they are, they differ from one of two fillings.
    fn salvage(&mut self, index: u64, rows: &mut [u8]) -> usize {
        let mut written = 0;
        for filling in [u8::MAX, 0] {
            rows.fill(filling);
            // Fails as it did before.
            let _ = self.decompress(index, rows);
            let last = rows.iter().rposition(|byte| *byte != filling);
            written = written.max(last.map_or(0, |at| at + 1));
        }
        written
    }

    /// Decompresses one strip or tile.
    fn decompress(&mut self, index: u64, rows: &mut [u8]) -> Result<Damage, Fault> {
        let page = self.page;
        let plain = matches!(page.compression, Compression::None);
        let mut data = page.grid.data(index, plain.then_some(rows.len()))?;
        if page.reversed && !plain {
            self.turned.clear();
            self.turned.extend(data.iter().map(|byte| byte.reverse_bits()));
            data = &self.turned;
        }
        let samples = page.pixels.stored.side_by_side();
        let (columns, height) = (page.grid.width as usize, page.grid.height);
        // Of a picture among the strips, as many rows as the image has of it.
        let top =
            u32::try_from(index % page.grid.chunks() / u64::from(page.grid.across)).unwrap_or(0) * height;
        let shape = Shape { columns, rows: height.min(page.sides.1 - top) as usize, samples };
        self.decompressor.decode(data, shape, rows)
    }

    /// Undoes what was done to samples before they were compressed.
    fn undo(&mut self, rows: &mut [u8]) -> Result<(), Rejection> {
        let page = self.page;
        if page.reversed && matches!(page.compression, Compression::None) {
            for byte in rows.iter_mut() {
                *byte = byte.reverse_bits();
            }
        }
        let Stored { bits, .. } = page.pixels.stored;
        let samples = page.pixels.stored.side_by_side();
        let (row, bytes) = (Row { samples, width: bits as usize / 8 }, length(page.row_bytes())?);
        if page.predictor == Predictor::Float {
            undo_float(rows, bytes, row, &mut self.spare);
            return Ok(());
        }
        if !page.order.is_native() {
            swap(rows, bits);
        }
        if page.predictor == Predictor::Horizontal {
            undo_horizontal(rows, bytes, row)?;
        }
        Ok(())
    }
}

/// Turns the bytes of samples round. Those of other widths are bits from the highest on, in files of either order.
fn swap(rows: &mut [u8], bits: u32) {
    match bits {
        16 => rows.as_chunks_mut::<2>().0.iter_mut().for_each(|sample| sample.reverse()),
        32 => rows.as_chunks_mut::<4>().0.iter_mut().for_each(|sample| sample.reverse()),
        64 => rows.as_chunks_mut::<8>().0.iter_mut().for_each(|sample| sample.reverse()),
        _ => {}
    }
}
