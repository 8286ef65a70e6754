//! Where pixels go: which part of an image is used, where in the target it lands, how much smaller a JPEG may be
//! decoded. Pure arithmetic, rounded as Pillow rounds.

use gpulane_model::{Filter, Fit, Size};

/// Pixels before the first that is kept whose steps are added up, as Pillow does. Pictures that are resized to a longer side than twice this are
/// made by nobody: with `short=` a picture of one row may ask for 46 billion pixels, of which the middle is kept.
const MOST_STEPS: u64 = 1 << 20;

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
    let upright_sides = oriented(sides, orientation);
    let target = (size.width, size.height);
    let (upright, inner, at) = match size.fit {
        Fit::Stretch => (whole(upright_sides), target, (0, 0)),
        Fit::Crop => (middle(upright_sides, target), target, (0, 0)),
        Fit::Pad => {
            let inner = contained(upright_sides, target);
            let at = |over: u32| u32::try_from(half_to_even(over.into())).unwrap_or(over);
            (whole(upright_sides), inner, (at(target.0 - inner.0), at(target.1 - inner.1)))
        }
        Fit::Short(short) => {
            let (across, down) = cut(upright_sides, short, target);
            let region = Region { left: across.from, top: down.from, width: across.used, height: down.used };
            (region, (across.inner, down.inner), (across.at, down.at))
        }
    };
    let used = match size.fit {
        // A region of whole pixels need not be in the very middle.
        Fit::Short(_) => upright.stored(upright_sides, orientation),
        // A centred region stays where it is when the image is mirrored.
        _ => upright.lying(orientation),
    };
    Fitting { used, at, inner }
}

/// One side of an image whose middle is cut out after its shorter side was brought to a length.
struct Cut {
    /// Where what is used begins.
    from: f64,
    /// How much is used.
    used: f64,
    /// Pixels that it becomes.
    inner: u32,
    /// Where these begin in the target: more than 0 where there are fewer than asked for.
    at: u32,
    /// How long the side is before the middle is cut out.
    resized: u64,
    /// How many of these pixels are left out before the middle.
    skipped: u64,
}

/// Both sides as torchvision has them: `Resize(short)` cuts the fraction of the longer side off; `CenterCrop` rounds half of what it
/// leaves out to even, and half of what it adds down.
fn cut(sides: (u32, u32), short: u32, target: (u32, u32)) -> (Cut, Cut) {
    let longer = |long: u32, other: u32| u64::from(short) * u64::from(long) / u64::from(other.max(1));
    let (width, height) = if sides.0 <= sides.1 {
        (u64::from(short), longer(sides.1, sides.0))
    } else {
        (longer(sides.0, sides.1), u64::from(short))
    };
    (cut_side(sides.0, width, target.0), cut_side(sides.1, height, target.1))
}

#[allow(clippy::cast_precision_loss)] // below 2^53
fn cut_side(side: u32, resized: u64, target: u32) -> Cut {
    let length = f64::from(side);
    if resized <= u64::from(target) {
        let inner = u32::try_from(resized).unwrap_or(target);
        return Cut { from: 0.0, used: length, inner, at: (target - inner) / 2, resized, skipped: 0 };
    }
    let skipped = half_to_even(resized - u64::from(target));
    let scale = length / resized as f64;
    let from = skipped as f64 * scale;
    // Rounding must not carry it over the far side.
    let used = (f64::from(target) * scale).min(length - from);
    Cut { from, used, inner: target, at: 0, resized, skipped }
}

/// One side of an upright image and what becomes of it, in the words of Pillow: a box, the pixels that are made of it, and those of
/// them that are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Axis {
    /// Pixels there are.
    pub(crate) side: u32,
    /// Where the box begins and ends. Pillow keeps it in single precision.
    pub(crate) from: f32,
    pub(crate) to: f32,
    /// Pixels that are made of the box.
    pub(crate) resized: u64,
    /// How many of them are left out before those that are kept.
    pub(crate) skipped: u64,
    /// How many are kept.
    pub(crate) kept: u32,
}

/// Both sides of an upright image, decoded `by` times smaller than `sides`, that becomes one of `size`.
pub(crate) fn axes(sides: (u32, u32), by: u32, size: Size) -> (Axis, Axis) {
    #[allow(clippy::cast_possible_truncation)] // as Pillow
    let axis = |side: u32, (from, length): (f64, f64), (resized, skipped): (u64, u64), kept: u32| {
        let by_all = f64::from(by);
        let (from, to) = ((from / by_all) as f32, ((from + length) / by_all) as f32);
        Axis { side: side.div_ceil(by), from, to, resized, skipped, kept }
    };
    if let Fit::Short(short) = size.fit {
        let (across, down) = cut(sides, short, (size.width, size.height));
        let whole =
            |side: u32, cut: &Cut| axis(side, (0.0, side.into()), (cut.resized, cut.skipped), cut.inner);
        return (whole(sides.0, &across), whole(sides.1, &down));
    }
    let Fitting { used, inner, .. } = fitting(sides, 1, size);
    let across = axis(sides.0, (used.left, used.width), (inner.0.into(), 0), inner.0);
    (across, axis(sides.1, (used.top, used.height), (inner.1.into(), 0), inner.1))
}

impl Axis {
    /// How much of the image is in a pixel that is made of it.
    #[allow(clippy::cast_precision_loss)] // below 2^53
    pub(crate) fn scale(&self) -> f64 {
        f64::from(self.to - self.from) / self.resized as f64
    }

    /// The middle of the first pixel that is kept, in pixels of the image, and how many steps were added up to come there.
    #[allow(clippy::cast_precision_loss)] // below 2^53
    fn first(&self) -> (f64, u64) {
        let step = self.scale();
        let begin = f64::from(self.from) + step * 0.5;
        if self.skipped > MOST_STEPS {
            return (begin + step * self.skipped as f64, 0);
        }
        ((0..self.skipped).fold(begin, |at, _| at + step), self.skipped)
    }

    /// For every pixel that is kept: which of the image it is a copy of, without a filter. Steps are added up, as Pillow does: a
    /// product would differ where a step ends between two pixels.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped to the side
    pub(crate) fn nearest(&self) -> Vec<usize> {
        let (step, (mut at, _)) = (self.scale(), self.first());
        let last = self.side.saturating_sub(1) as usize;
        let mut next = || {
            let here = (at as usize).min(last);
            at += step;
            here
        };
        (0..self.kept).map(|_| next()).collect()
    }
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
const fn half_to_even(over: u64) -> u64 {
    let half = over / 2;
    if over % 2 == 1 && half % 2 == 1 { half + 1 } else { half }
}

/// By how much a JPEG may be decoded smaller: 8, 4, 2 or 1. Both sides of what is used stay at least twice as long as the target's, so that the filter that follows
/// does most of the work, as it does for an image that was decoded in full; longer where the filter looks at more of them for each of its pixels. What is not
/// filtered is not decoded smaller.
pub(crate) fn shrink(fitting: &Fitting, orientation: u8, filter: Filter) -> u32 {
    let least = match filter {
        Filter::Nearest => return 1,
        Filter::Box | Filter::Bilinear | Filter::Hamming | Filter::Bicubic => 2.0,
        Filter::Lanczos => 3.0,
    };
    let (width, height) = oriented(fitting.inner, orientation);
    let stays_large = |by: &u32| {
        fitting.used.width / f64::from(*by) >= least * f64::from(width)
            && fitting.used.height / f64::from(*by) >= least * f64::from(height)
    };
    [8, 4, 2].into_iter().find(stays_large).unwrap_or(1)
}

impl Fitting {
    /// Whether an image of these stored sides comes out as it is: neither resized nor turned.
    pub(crate) fn keeps(&self, sides: (u32, u32), orientation: u8, size: Size) -> bool {
        let target = (size.width, size.height);
        orientation == 1 && sides == target && self.inner == target && self.used.is_whole(sides)
    }
}

impl Region {
    /// A part of the upright image before orientation swaps its sides, if it does.
    fn lying(self, orientation: u8) -> Self {
        if lies_down(orientation) {
            Self { left: self.top, top: self.left, width: self.height, height: self.width }
        } else {
            self
        }
    }

    /// A part of the upright image, of these sides, in the image as it is stored.
    fn stored(self, upright: (u32, u32), orientation: u8) -> Self {
        let sides = oriented(upright, orientation);
        let mut lying = self.lying(orientation);
        // Rounding must not carry it over the near side.
        let mirrored = |side: u32, from: f64, length: f64| (f64::from(side) - from - length).max(0.0);
        if matches!(orientation, 2 | 3 | 7 | 8) {
            lying.left = mirrored(sides.0, lying.left, lying.width);
        }
        if matches!(orientation, 3 | 4 | 6 | 7) {
            lying.top = mirrored(sides.1, lying.top, lying.height);
        }
        lying
    }

    /// The same part of the image decoded so much smaller.
    pub(crate) fn shrunk(self, by: u32) -> Self {
        let by = f64::from(by);
        Self { left: self.left / by, top: self.top / by, width: self.width / by, height: self.height / by }
    }

    /// The first of the rows that a filter of this reach looks at, and how many they are, where the region becomes `to` rows.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the image
    pub(crate) fn rows_seen(self, to: u32, height: u32, reach: f64) -> (u32, u32) {
        let seen = reach * (self.height / f64::from(to.max(1))).max(1.0) + 1.0;
        let first = (self.top - seen).floor().max(0.0) as u32;
        let end = ((self.top + self.height + seen).ceil() as u32).min(height);
        (first, end.saturating_sub(first))
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
        Size { width, height, fit, filter: Filter::Bilinear }
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
    fn a_jpeg_is_never_decoded_smaller_than_twice_what_is_asked_for() {
        for (sides, orientation, fit, by) in [
            ((500, 375), 1, Fit::Stretch, 1),
            ((640, 480), 1, Fit::Stretch, 1),
            ((896, 896), 1, Fit::Stretch, 2),
            ((895, 1800), 1, Fit::Stretch, 1),
            ((1800, 895), 6, Fit::Stretch, 1),
            ((4000, 3000), 1, Fit::Stretch, 4),
            ((4000, 3584), 1, Fit::Stretch, 8),
            ((4000, 896), 1, Fit::Crop, 2),
            ((4000, 800), 1, Fit::Pad, 8),
        ] {
            let size = size(224, 224, fit);
            let fitting = fitting(sides, orientation, size);
            assert_eq!(shrink(&fitting, orientation, Filter::Bilinear), by, "{sides:?} {fit:?}");
            assert_eq!(shrink(&fitting, orientation, Filter::Nearest), 1, "{sides:?} {fit:?}");
            assert!(shrink(&fitting, orientation, Filter::Lanczos) <= by, "{sides:?} {fit:?}");
        }
    }

    #[test]
    fn the_shorter_side_and_the_middle_are_torchvisions() {
        // What `Resize(short)` and `CenterCrop((height, width))` do, by its own arithmetic: the size in between, what is left out
        // before the middle, what is added before it.
        for (sides, short, target, resized, skipped, at) in [
            ((500, 375), 256, (224, 224), (341, 256), (58, 16), (0, 0)), // 58.5 to even
            ((375, 500), 256, (224, 224), (256, 341), (16, 58), (0, 0)),
            ((640, 481), 256, (224, 224), (340, 256), (58, 16), (0, 0)), // 340.6 cut off
            ((100, 100), 30, (33, 31), (30, 30), (0, 0), (1, 0)),        // 1.5 and 0.5 down
            ((100, 40), 30, (20, 40), (75, 30), (28, 0), (0, 5)),        // 27.5 to even
            ((1, 60_000), 256, (224, 224), (256, 15_360_000), (16, 7_679_888), (0, 0)),
        ] {
            let (across, down) = cut(sides, short, target);
            assert_eq!((across.resized, down.resized), resized, "{sides:?}");
            assert_eq!((across.skipped, down.skipped), skipped, "{sides:?}");
            assert_eq!((across.at, down.at), at, "{sides:?}");
        }
    }

    #[test]
    fn the_middle_of_a_picture_of_one_row_is_found_without_counting_up_to_it() {
        let wide = Size { filter: Filter::Nearest, ..size(224, 224, Fit::Short(256)) };
        let (across, down) = axes((178_956_970, 1), 1, wide);
        assert!(across.skipped > 1 << 34);
        let (_, steps) = across.first();
        assert!(steps <= MOST_STEPS, "{steps}");
        let middle = across.nearest();
        // As exact as a box in single precision, which is Pillow's.
        assert!(middle.iter().all(|at| at.abs_diff(178_956_970 / 2) <= 4), "{middle:?}");
        assert_eq!(down.nearest(), [0; 224]);
        // On either side of the bound the same pixels are taken.
        let axis = |skipped| Axis { side: 3000, from: 0.0, to: 3000.0, resized: 4 << 20, skipped, kept: 4 };
        let (added, computed) = (axis(MOST_STEPS).first(), axis(MOST_STEPS + 1).first());
        assert_eq!((added.1, computed.1), (MOST_STEPS, 0));
        assert!((computed.0 - added.0 - axis(0).scale()).abs() < 1e-6);
    }

    #[test]
    fn what_is_cut_out_is_the_same_part_whichever_way_the_image_lies() {
        let size = size(224, 224, Fit::Short(256));
        // 341 pixels across: 58 are left out before the middle, 59 behind it.
        let scale = 500.0 / 341.0;
        let (before, behind, used) = (58.0 * scale, 59.0 * scale, 224.0 * scale);
        for (orientation, sides, place) in [
            (1, (500, 375), Some(before)),
            (2, (500, 375), Some(behind)),
            (3, (500, 375), Some(behind)),
            (4, (500, 375), Some(before)),
            (5, (375, 500), None),
            (8, (375, 500), None),
        ] {
            let Region { left, top, width, height } = fitting(sides, orientation, size).used;
            let (from, length) = if place.is_some() { (left, width) } else { (top, height) };
            assert!((from - place.unwrap_or(before)).abs() < 1e-9, "{orientation}: {from}");
            assert!((length - used).abs() < 1e-9);
        }
        let lying = fitting((375, 500), 6, size).used;
        assert!((lying.top - behind).abs() < 1e-9, "{lying:?}");
    }
}
