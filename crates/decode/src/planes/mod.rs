//! Planes to pixels of the size asked for, in one go: chroma brought to the luma's size, colours, resizing. Row by row, so that
//! what is in the making stays in the nearest cache; in `avx2.rs`, where the processor has that. Elsewhere, libjpeg-turbo makes
//! the colours and the general resizer follows.
//!
//! The colours are made at full size and cut off where they leave the range, as libjpeg-turbo does: resizing planes first would
//! be cheaper, and wrong wherever a colour is saturated.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod weights;

use weights::{Line, Weights};

use crate::fit::Region;

/// What rows of planes are padded to, so that they can be read in whole steps.
pub(crate) const ALIGN: usize = 32;

/// How the chroma lies beside the luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chroma {
    /// As many samples.
    Full,
    /// Half as many across.
    HalfAcross,
    /// Half as many across and down.
    Quarter,
}

/// How planes lie in memory: luma, then both chromas, each in whole units of the JPEG, rows padded to [`ALIGN`] samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Width and height of the image, as it is decoded.
    pub(crate) sides: (usize, usize),
    /// How large the chromas are, as they are decoded.
    pub(crate) chroma: Chroma,
    /// Units across and down.
    pub(crate) units: (usize, usize),
    /// Blocks of luma in a unit, across and down; of each chroma there is one.
    pub(crate) blocks: (usize, usize),
    /// Samples on the sides of a block: luma, chroma.
    pub(crate) block: (usize, usize),
}

/// A decoded JPEG before its colours are made.
#[derive(Clone, Copy)]
pub(crate) struct Planes<'a> {
    /// Luma, then both chromas.
    pub(crate) samples: &'a [u8],
    /// Where they are.
    pub(crate) layout: Layout,
}

/// Where the pixels go: within rows of so many bytes.
pub(crate) struct Canvas<'a> {
    /// From the first pixel on.
    pub(crate) pixels: &'a mut [u8],
    /// From one row to the next.
    pub(crate) stride: usize,
    /// How large the picture becomes.
    pub(crate) sides: (usize, usize),
}

/// The buffers of one thread.
#[derive(Default)]
pub(crate) struct Finisher {
    across: Weights,
    down: Weights,
    rows: Rows,
}

/// What is in the making: rows with seven bits behind the point.
#[derive(Default)]
struct Rows {
    /// The last few rows in colour: red, green and blue each in full.
    coloured: Vec<i16>,
    /// One row as high as it will be, but not yet as wide.
    flat: Vec<i16>,
    /// One chroma of a row, as wide as it is stored.
    narrow: Vec<i16>,
    /// Both chromas of a row, as wide as the luma.
    wide: [Vec<i16>; 2],
}

impl Finisher {
    /// Whether the part `used` of an image of these sides can be finished here.
    pub(crate) fn takes(&mut self, sides: (u32, u32), used: Region, to: (u32, u32)) -> bool {
        has_avx2()
            && self.across.prepare(Line {
                from: sides.0 as usize,
                used: (used.left, used.width),
                to: to.0 as usize,
            })
            && self.down.prepare(Line {
                from: sides.1 as usize,
                used: (used.top, used.height),
                to: to.1 as usize,
            })
    }

    /// Makes the picture. What [`Self::takes`] was asked last is what is done; `false` if these planes do not fit that.
    pub(crate) fn finish(&mut self, planes: &Planes<'_>, canvas: &mut Canvas<'_>) -> bool {
        let (width, height) = canvas.sides;
        let fits = self.across.starts.len() == width
            && self.down.starts.len() == height
            && planes.samples.len() >= planes.layout.bytes()
            && canvas.stride >= width * 3
            && height > 0
            && canvas.pixels.len() >= (height - 1) * canvas.stride + width * 3;
        fits && self.paint(planes, canvas)
    }

    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    fn paint(&mut self, planes: &Planes<'_>, canvas: &mut Canvas<'_>) -> bool {
        if !has_avx2() {
            return false;
        }
        self.rows.make_room(planes.layout);
        // SAFETY: this processor has AVX2, asked right above.
        unsafe { avx2::paint(planes, (&self.across, &self.down), &mut self.rows, canvas) };
        true
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn paint(&mut self, _planes: &Planes<'_>, _canvas: &mut Canvas<'_>) -> bool {
        false
    }
}

impl Rows {
    /// Rows that are kept: as many as a row of the result is made of.
    const KEPT: usize = weights::TAPS;

    fn make_room(&mut self, layout: Layout) {
        let stride = layout.row_in_the_making();
        stretch(&mut self.coloured, Self::KEPT * 3 * stride);
        stretch(&mut self.flat, 3 * stride);
        stretch(&mut self.narrow, stride);
        for wide in &mut self.wide {
            stretch(wide, stride);
        }
    }
}

fn stretch(buffer: &mut Vec<i16>, samples: usize) {
    if buffer.len() < samples {
        buffer.resize(samples, 0);
    }
}

impl Layout {
    /// Of an image of these sides, whose chroma is stored like this, decoded so many times smaller. `None`: not with these.
    pub(crate) fn new(whole: (usize, usize), stored: Chroma, by: usize) -> Option<Self> {
        let blocks = stored.finer();
        // Narrow chroma is not smoothed by libjpeg-turbo; of what is decoded smaller, only these have chroma of the luma's size.
        if whole.0 <= 4 || by > 8 || !by.is_power_of_two() || (by > 1 && stored == Chroma::HalfAcross) {
            return None;
        }
        let (luma, mut chroma) = (8 / by, 8 / by);
        if by > 1 && stored == Chroma::Quarter {
            // As libjpeg-turbo does it: rather larger blocks than interpolation.
            chroma *= 2;
        }
        Some(Self {
            sides: (whole.0.div_ceil(by), whole.1.div_ceil(by)),
            chroma: if by > 1 { Chroma::Full } else { stored },
            units: (whole.0.div_ceil(8 * blocks.0), whole.1.div_ceil(8 * blocks.1)),
            blocks,
            block: (luma, chroma),
        })
    }

    /// Bytes that planes of these sides take.
    pub(crate) fn bytes(self) -> usize {
        self.luma_stride() * self.luma_rows() + 2 * self.chroma_stride() * self.chroma_rows()
    }

    /// Where a plane begins, and from one row to the next: luma, then both chromas.
    pub(crate) fn plane(self, which: usize) -> (usize, usize) {
        if which == 0 {
            return (0, self.luma_stride());
        }
        let before = (which - 1) * self.chroma_stride() * self.chroma_rows();
        (self.luma_stride() * self.luma_rows() + before, self.chroma_stride())
    }

    /// Samples of a row in the making: the luma's, and room to look beyond either end.
    fn row_in_the_making(self) -> usize {
        self.luma_stride() + 2 * ALIGN
    }

    fn chroma_sides(self) -> (usize, usize) {
        let finer = self.chroma.finer();
        (self.sides.0.div_ceil(finer.0), self.sides.1.div_ceil(finer.1))
    }

    fn luma_stride(self) -> usize {
        (self.units.0 * self.blocks.0 * self.block.0).next_multiple_of(ALIGN)
    }

    fn luma_rows(self) -> usize {
        self.units.1 * self.blocks.1 * self.block.0
    }

    fn chroma_stride(self) -> usize {
        (self.units.0 * self.block.1).next_multiple_of(ALIGN)
    }

    fn chroma_rows(self) -> usize {
        self.units.1 * self.block.1
    }
}

impl Chroma {
    /// By how much the luma is finer, across and down.
    const fn finer(self) -> (usize, usize) {
        match self {
            Self::Full => (1, 1),
            Self::HalfAcross => (2, 1),
            Self::Quarter => (2, 2),
        }
    }
}

impl Planes<'_> {
    /// The rows of a plane, as long as the chroma covers them and as many.
    pub(crate) fn rows(&self, which: usize) -> impl Iterator<Item = &[u8]> {
        let (across, down) = if which == 0 { self.layout.chroma.finer() } else { (1, 1) };
        let (width, height) = self.layout.chroma_sides();
        (0..height * down).map(move |row| &self.row(which, row)[..width * across])
    }

    /// A row of a plane, padding included.
    fn row(&self, which: usize, row: usize) -> &[u8] {
        let (first, stride) = self.layout.plane(which);
        &self.samples[first + row * stride..first + (row + 1) * stride]
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx2() -> bool {
    false
}
