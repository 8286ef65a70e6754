//! Where pixels go: which part of an image is used, where in the target it lands, how much smaller a JPEG may be
//! decoded. Pure arithmetic, rounded as Pillow rounds.

use gpulane_model::{Fit, Size};

/// A part of an image, in pixels and fractions of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Region {
    /// From the left side.
    pub(crate) left: f64,
    /// From the top.
    pub(crate) top: f64,
    /// Across.
    pub(crate) width: f64,
    /// Down.
    pub(crate) height: f64,
}

/// How an image becomes one of the size asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fitting {
    /// What is used of the image, as it is stored: before orientation.
    pub(crate) used: Region,
    /// Where it lands in the target: left and top, after orientation.
    pub(crate) at: (u32, u32),
    /// Width and height there, after orientation.
    pub(crate) inner: (u32, u32),
}

/// Whether this orientation swaps width and height.
pub(crate) const fn lies_down(orientation: u8) -> bool {
    orientation >= 5
}

/// Width and height as they are after orientation, or back again.
pub(crate) const fn oriented(sides: (u32, u32), orientation: u8) -> (u32, u32) {
    if lies_down(orientation) { (sides.1, sides.0) } else { sides }
}

/// How an image of these stored sides and this orientation becomes one of `size`.
pub(crate) fn fitting(sides: (u32, u32), orientation: u8, size: Size) -> Fitting {
    let upright = oriented(sides, orientation);
    let target = (size.width, size.height);
    let (used, inner) = match size.fit {
        Fit::Stretch => (whole(upright), target),
        Fit::Crop => (middle(upright, target), target),
        Fit::Pad => (whole(upright), contained(upright, target)),
    };
    let at = (centred(target.0 - inner.0), centred(target.1 - inner.1));
    // A centred region stays where it is when the image is mirrored; lying down swaps its sides.
    let used = if lies_down(orientation) {
        Region { left: used.top, top: used.left, width: used.height, height: used.width }
    } else {
        used
    };
    Fitting { used, at, inner }
}

fn whole(sides: (u32, u32)) -> Region {
    Region { left: 0.0, top: 0.0, width: f64::from(sides.0), height: f64::from(sides.1) }
}

/// The largest centred part with the target's proportions: `ImageOps.fit`.
#[allow(clippy::float_cmp)] // as Pillow compares
fn middle(sides: (u32, u32), target: (u32, u32)) -> Region {
    let (width, height) = (f64::from(sides.0), f64::from(sides.1));
    let wanted = f64::from(target.0) / f64::from(target.1);
    let has = width / height;
    let (used_width, used_height) = if has == wanted {
        (width, height)
    } else if has > wanted {
        (wanted * height, height)
    } else {
        (width, width / wanted)
    };
    let (left, top) = ((width - used_width) * 0.5, (height - used_height) * 0.5);
    // Rounding must not carry it over the far side.
    Region { left, top, width: used_width.min(width - left), height: used_height.min(height - top) }
}

/// The largest sides with the image's proportions within the target: `ImageOps.contain`; at least one pixel.
fn contained(sides: (u32, u32), target: (u32, u32)) -> (u32, u32) {
    let (width, height) = (f64::from(sides.0), f64::from(sides.1));
    // Compared as Pillow does: by quotients, not by exact products.
    let (has, wanted) = (width / height, f64::from(target.0) / f64::from(target.1));
    if has > wanted {
        (target.0, side(height / width * f64::from(target.0), target.1))
    } else if has < wanted {
        (side(width / height * f64::from(target.1), target.0), target.1)
    } else {
        target
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped to a u32 right there
fn side(length: f64, most: u32) -> u32 {
    length.round_ties_even().clamp(1.0, f64::from(most)) as u32
}

/// Half of what is left over, a half rounded to even as Python's `round` does.
const fn centred(over: u32) -> u32 {
    let half = over / 2;
    if over % 2 == 1 && half % 2 == 1 { half + 1 } else { half }
}

/// By how much a JPEG may be decoded smaller: 8, 4, 2 or 1. Both sides of what is used stay at or above the target's.
pub(crate) fn shrink(fitting: &Fitting, orientation: u8) -> u32 {
    let (width, height) = oriented(fitting.inner, orientation);
    let stays_large = |by: &u32| {
        fitting.used.width / f64::from(*by) >= f64::from(width)
            && fitting.used.height / f64::from(*by) >= f64::from(height)
    };
    [8, 4, 2].into_iter().find(stays_large).unwrap_or(1)
}

impl Region {
    /// The same part of the image decoded so much smaller.
    pub(crate) fn shrunk(self, by: u32) -> Self {
        let by = f64::from(by);
        Self { left: self.left / by, top: self.top / by, width: self.width / by, height: self.height / by }
    }

    /// Whether it is all of an image of these sides.
    #[allow(clippy::float_cmp)] // whole numbers
    pub(crate) fn is_whole(self, sides: (u32, u32)) -> bool {
        self == whole(sides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32, fit: Fit) -> Size {
        Size { width, height, fit }
    }

    #[test]
    fn padding_lands_where_pillow_puts_it() {
        for (sides, target, at, inner) in [
            ((61, 47), (32, 32), (0, 4), (32, 25)), // 7 left over: 3.5 to even is 4
            ((47, 61), (32, 32), (4, 0), (25, 32)),
            ((100, 50), (30, 30), (0, 8), (30, 15)), // 7.5 to even is 8
            ((64, 64), (32, 32), (0, 0), (32, 32)),
            ((10_000, 1), (8, 8), (0, 4), (8, 1)), // never less than a pixel
        ] {
            let fitting = fitting(sides, 1, size(target.0, target.1, Fit::Pad));
            assert_eq!((fitting.at, fitting.inner), (at, inner), "{sides:?} in {target:?}");
        }
    }

    #[test]
    fn cropping_takes_the_largest_middle() {
        let wide = fitting((100, 50), 1, size(20, 20, Fit::Crop)).used;
        assert_eq!(wide, Region { left: 25.0, top: 0.0, width: 50.0, height: 50.0 });
        let turned = fitting((100, 50), 6, size(20, 40, Fit::Crop)).used;
        assert!(turned.is_whole((100, 50)));
        let turned = fitting((100, 50), 8, size(20, 20, Fit::Crop)).used;
        assert_eq!(turned, Region { left: 25.0, top: 0.0, width: 50.0, height: 50.0 });
    }

    #[test]
    fn a_jpeg_is_never_decoded_smaller_than_asked_for() {
        for (sides, orientation, fit, by) in [
            ((500, 375), 1, Fit::Stretch, 1),
            ((448, 448), 1, Fit::Stretch, 2),
            ((447, 900), 1, Fit::Stretch, 1),
            ((900, 447), 6, Fit::Stretch, 1),
            ((4000, 3000), 1, Fit::Stretch, 8),
            ((4000, 448), 1, Fit::Crop, 2),
            ((4000, 800), 1, Fit::Pad, 8),
        ] {
            let size = size(224, 224, fit);
            assert_eq!(shrink(&fitting(sides, orientation, size), orientation), by, "{sides:?} {fit:?}");
        }
    }
}
