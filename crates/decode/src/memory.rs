//! How much memory an image takes beside its place. Known from its header alone, and claimed before any of it is used.

use crate::fit::Region;
use crate::{Limits, Place, Rejection};
use gpulane_model::{Bytes, Filter};

/// What decoders may allocate before an image's sides are known, and beside its pixels: notes, colour profiles, lists of strips.
pub(crate) const NOTES: u64 = 16 << 20;

/// What a thread keeps between images, at most: fresh memory costs a third of the time a large PNG takes.
const KEEP: u64 = 128 << 20;

/// Below this, a buffer grows in steps of powers of two.
const SMALL: usize = 1 << 20;

impl Limits {
    /// Bytes of buffers that a thread may keep between images, beside what is claimed. Whoever needed more gives all of them back.
    pub(crate) fn keeps(&self) -> u64 {
        (self.max_memory / 16).min(KEEP)
    }

    /// Claims the memory that an image of these sides takes while it is decoded. Comes before the place is asked for room, and
    /// before anything of it is used.
    pub(crate) fn claim(
        &self,
        place: &mut dyn Place,
        sides: (u32, u32),
        bytes: u64,
    ) -> Result<(), Rejection> {
        if bytes > self.max_memory {
            return Err(Rejection::broken(format!(
                "the image has {}×{} pixels, and decoding it takes {} of memory; at most {} are used for one. \
                 Make it smaller, or give the model its own load(path)",
                sides.0,
                sides.1,
                Bytes(bytes),
                Bytes(self.max_memory)
            )));
        }
        place.claim(bytes);
        Ok(())
    }
}

/// Pixels of an image.
pub(crate) const fn area(sides: (u32, u32)) -> u64 {
    sides.0 as u64 * sides.1 as u64
}

/// An image that is to be resized.
pub(crate) struct Resizing {
    /// Its sides, as it is decoded and stored.
    pub(crate) sides: (u32, u32),
    /// What is used of it.
    pub(crate) used: Region,
    /// What that becomes; still lying as the image does.
    pub(crate) to: (u32, u32),
    /// Of a pixel.
    pub(crate) channels: u32,
    /// Whether it does not lie upright.
    pub(crate) turned: bool,
    /// How pixels are made of others.
    pub(crate) filter: Filter,
}

impl Resizing {
    /// Bytes that it takes beside the image and the place.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sides of images
    pub(crate) fn memory(&self) -> u64 {
        let reach: f64 = match self.filter {
            Filter::Nearest | Filter::Box | Filter::Bilinear | Filter::Hamming => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        };
        let line = |used: f64, to: u32| {
            let window = (reach * (used / f64::from(to.max(1))).max(1.0)).ceil() as u64 * 2 + 1;
            // Weights, exact and in whole numbers, and where they begin.
            window * u64::from(to) * 10 + u64::from(to) * 128
        };
        let (used, to, channels) = (self.used, self.to, u64::from(self.channels));
        let rows = |used: f64, to: u32, other: u32| {
            let margin = 2.0 * reach * (used / f64::from(to.max(1))).max(1.0) + 4.0;
            (used + margin).ceil() as u64 * u64::from(other) * channels
        };
        // Columns come first: as high as they will be, and as wide as they were. Or the rows, whichever way they lie.
        let columns_first = rows(used.width, to.0, to.1);
        let between = match self.filter {
            Filter::Nearest => 0,
            Filter::Bilinear | Filter::Hamming => columns_first,
            Filter::Box | Filter::Bicubic | Filter::Lanczos => {
                columns_first.max(rows(used.height, to.1, to.0))
            }
        };
        let lying = match (self.turned, self.filter) {
            (false, _) => 0,
            (true, Filter::Box) => area(self.sides) * channels,
            (true, _) => area(to) * channels,
        };
        line(used.width, to.0) + line(used.height, to.1) + between + lying
    }
}

/// The first `bytes` of a buffer, which is made anew where it is too small. What was in it is of no use to anybody.
pub(crate) fn stretch_to(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes {
        // First gives back what there is: both at once were never claimed.
        *buffer = Vec::new();
        *buffer = vec![0; if bytes < SMALL { bytes.next_power_of_two() } else { bytes }];
    }
    &mut buffer[..bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_grows_and_is_no_larger_than_it_must_be() {
        let mut buffer = Vec::new();
        assert_eq!(stretch_to(&mut buffer, 5).len(), 5);
        assert_eq!(buffer.capacity(), 8);
        stretch_to(&mut buffer, 3 << 20);
        assert_eq!((stretch_to(&mut buffer, 7).len(), buffer.capacity()), (7, 3 << 20));
    }
}
