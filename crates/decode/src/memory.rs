//! How much memory an image takes beside its place. Known from its header alone, and claimed before any of it is used.

use crate::fit::Region;
use crate::{Limits, Place, Rejection};
use gpulane_model::Bytes;

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

/// What resizing takes: `used` of an image to `to`, which still lies as the image does.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sides of images
pub(crate) fn resizing(used: Region, to: (u32, u32), channels: u32, turned: bool) -> u64 {
    let line = |used: f64, to: u32| {
        let window = (used / f64::from(to.max(1))).max(1.0).ceil() as u64 * 2 + 1;
        // Weights, exact and in whole numbers, and where they begin.
        window * u64::from(to) * 10 + u64::from(to) * 128
    };
    // Rows come first: as high as they will be, and as wide as they were.
    let between = (used.width.ceil() as u64 + 2) * u64::from(to.1) * u64::from(channels);
    let lying = if turned { area(to) * u64::from(channels) } else { 0 };
    line(used.width, to.0) + line(used.height, to.1) + between + lying
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
