//! JPEGs by libjpeg-turbo, or by ourselves where they are plain: to pixels or to planes, and whether all of a picture is there.
//!
//! libjpeg rather warns than refuses and hands out gray where data is missing. What it conceals is damage, which others decide about; what
//! does no harm to the picture is let pass.

#[cfg(test)]
mod agreement_tests;
mod baseline;
#[cfg(test)]
mod damage_tests;
mod header;
mod leftover;
mod libjpeg;
mod route;
mod verdict;

use crate::damage::Damage;
use crate::planes::Layout;
use crate::{Limits, Rejection};
use baseline::Baseline;
pub(crate) use header::{Header, read as read_header};
use libjpeg::{Colours, Handle, Pixel, Said, Sampling};

/// Progressive files that refine themselves more often than this are made to keep us busy.
const MOST_SCANS: u32 = 500;

/// What one thread keeps between JPEGs: buffers, and tables that a file with the same ones needs not set up again. Nothing of
/// libjpeg-turbo's, which keeps tables from file to file and goes on at an old marker after an error.
pub(crate) struct Jpegs {
    /// For plain files.
    baseline: Baseline,
}

/// A JPEG whose header is known.
struct Opened<'e> {
    /// libjpeg-turbo's, for this file alone.
    handle: Handle<'e>,
    /// From our own reading of the markers.
    header: Header,
    /// How the chroma is subsampled, as libjpeg-turbo sees it.
    sampling: Sampling,
    /// What the components are.
    colours: Colours,
    /// The header made libjpeg warn: not every decoder may make the same of it.
    odd: bool,
    /// The file.
    encoded: &'e [u8],
}

impl Jpegs {
    pub(crate) fn new() -> Self {
        Self { baseline: Baseline::default() }
    }

    /// Decodes a plain file to planes. `None`: it is not plain, or broken, and libjpeg-turbo must see it.
    fn plain_planes(&mut self, opened: &Opened<'_>, layout: Layout, target: &mut [u8]) -> Option<()> {
        let plain = opened.header.baseline && !opened.odd;
        if plain { self.baseline.planes(opened.encoded, layout, target) } else { None }
    }

    /// Bytes of the buffers that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.baseline.kept()
    }

    /// Gives the buffers back.
    pub(crate) fn give_back(&mut self) {
        self.baseline.give_back();
    }
}

impl<'e> Opened<'e> {
    /// Reads the header and checks what it claims; nothing is allocated for the image yet.
    fn new(encoded: &'e [u8], limits: &Limits) -> Result<Self, Rejection> {
        let header = header::read(encoded).map_err(Rejection::broken)?;
        limits.check_pixels(header.width, header.height)?;
        let mut handle = Handle::new(encoded).map_err(Rejection::broken)?;
        let seen = handle.header().map_err(|said| broken(&said))?;
        // What is allowed and how much memory it takes was judged by our own reading.
        if (seen.width, seen.height) != (header.width as usize, header.height as usize) {
            return Err(Rejection::broken("broken JPEG: more than one frame header"));
        }
        Ok(Self { handle, header, sampling: seen.sampling, colours: seen.colours, odd: seen.odd, encoded })
    }

    /// Decodes to pixels, `shrink` times smaller.
    fn pixels(&mut self, shrink: u32, pixel: Pixel, target: &mut [u8]) -> Result<Damage, Rejection> {
        let said = self.handle.pixels(shrink as usize, pixel, target);
        self.judged(said)
    }

    /// Decodes to planes, `shrink` times smaller. `target` has exactly the bytes they need.
    fn planes(&mut self, shrink: u32, target: &mut [u8]) -> Result<Damage, Rejection> {
        let said = self.handle.planes(shrink as usize, target);
        self.judged(said)
    }

    fn judged(&self, said: Result<Said, String>) -> Result<Damage, Rejection> {
        said.map(|said| verdict::damage(&said, self.encoded)).map_err(|said| broken(&said))
    }
}

/// Decodes a JPEG that is part of another file into `target`, which has room for its pixels: as many samples of each as it has components, 1, 3 or
/// 4. Judged as files of their own are.
pub(crate) fn part(encoded: &[u8], header: Header, target: &mut [u8]) -> Result<Damage, Rejection> {
    let pixel = match header.components {
        1 => Pixel::Gray,
        3 => Pixel::Rgb,
        4 => Pixel::Cmyk,
        other => return Err(broken(&format!("{other} components"))),
    };
    let mut handle = Handle::new(encoded).map_err(Rejection::broken)?;
    let seen = handle.header().map_err(|said| broken(&said))?;
    if (seen.width, seen.height) != (header.width as usize, header.height as usize) {
        return Err(broken("more than one frame header"));
    }
    let said = handle.pixels(1, pixel, target).map_err(|said| broken(&said))?;
    Ok(verdict::damage(&said, encoded))
}

fn broken(said: &str) -> Rejection {
    Rejection::broken(format!("broken JPEG: {said}"))
}
