//! Pixels to the size and orientation asked for, into the place. Owns the resizer and its buffers.

use fast_image_resize::images::{TypedCroppedImageMut, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3, U8x4};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use gpulane_model::{Filter, Size};

use crate::colour::{Wanted, divide};
use crate::fit::{Fitting, Region, axes, lies_down, oriented};
use crate::memory::stretch_to;
use crate::orient::{pick, turn};
use crate::planes::{Canvas, Finisher, Planes};
use crate::resample::{boxed, columns_first};
use crate::{Element, Form, Limits, Place, Rejection};

/// A whole image.
#[derive(Clone, Copy)]
pub(crate) enum Pixels<'a> {
    /// Finished: row by row, without gaps.
    Packed(&'a [u8]),
    /// Colours that are still to be made.
    Planes(Planes<'a>),
}

/// An image that is not yet of the right size or the right way up.
#[derive(Clone, Copy)]
pub(crate) struct Picture<'a> {
    /// What there is of it.
    pub(crate) pixels: Pixels<'a>,
    /// Width and height as stored, before it was decoded smaller.
    pub(crate) whole: (u32, u32),
    /// By how much it was decoded smaller.
    pub(crate) by: u32,
    /// What a pixel is.
    pub(crate) wanted: Wanted,
    /// How it is to be turned.
    pub(crate) orientation: u8,
    /// Its colours are multiplied by its alpha, which is undone at the end.
    pub(crate) premultiplied: bool,
}

impl Picture<'_> {
    /// Width and height of what there is, as stored.
    const fn sides(&self) -> (u32, u32) {
        (self.whole.0.div_ceil(self.by), self.whole.1.div_ceil(self.by))
    }
}

/// The last step. One per thread.
pub(crate) struct Shaper {
    /// Keeps a buffer between its two passes.
    resizer: Resizer,
    /// What has its size but still lies on its side. Never shortened, so that it is not cleared again and again.
    resized: Vec<u8>,
    /// What has its width but not yet its height, where the order of the two counts.
    between: Vec<u8>,
    /// For planes.
    finisher: Finisher,
}

impl Shaper {
    pub(crate) fn new() -> Self {
        let (resized, between) = (Vec::new(), Vec::new());
        Self { resizer: Resizer::new(), resized, between, finisher: Finisher::default() }
    }

    /// Whether planes of these sides may come instead of pixels; then they must be next.
    pub(crate) fn takes_planes(&mut self, sides: (u32, u32), used: Region, to: (u32, u32)) -> bool {
        self.finisher.takes(sides, used, to)
    }

    /// Brings the picture to `size` as `fitting` says.
    pub(crate) fn resize(
        &mut self,
        picture: Picture<'_>,
        (size, fitting): (Size, &Fitting),
        limits: &Limits,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let channels = picture.wanted.channels();
        let form = Form::image(Element::U8, size.width, size.height, channels);
        let target = limits.room(place, form.bytes)?;
        if fitting.inner != (size.width, size.height) {
            target.fill(0);
        }
        let done = match (picture.pixels, picture.orientation, size.filter) {
            (Pixels::Packed(pixels), _, Filter::Nearest) => {
                pick_nearest(pixels, &picture, (size, fitting), target);
                Ok(())
            }
            (Pixels::Packed(pixels), _, Filter::Box) => {
                self.boxed(pixels, &picture, (size, fitting), target);
                Ok(())
            }
            (_, 1, _) => {
                let whole = Target::of(&picture, size, fitting);
                self.filter(picture, fitting.used.shrunk(picture.by), &whole, target)
            }
            _ => self.turned(picture, fitting.used.shrunk(picture.by), (size, fitting), target),
        };
        done.map_err(|error| Rejection::broken(format!("the image cannot be resized: {error}")))?;
        if picture.premultiplied {
            divide(target);
        }
        Ok(form)
    }

    /// Turned as large as it is, then resized: half a pixel counts on one side only, so it matters which way the picture lies.
    fn boxed(
        &mut self,
        pixels: &[u8],
        picture: &Picture<'_>,
        (size, fitting): (Size, &Fitting),
        target: &mut [u8],
    ) {
        let pixel = picture.wanted.channels() as usize;
        let upright = oriented(picture.sides(), picture.orientation);
        let pixels = if picture.orientation == 1 {
            pixels
        } else {
            let turned = stretch_to(&mut self.resized, pixels.len());
            turn(pixels, picture.sides(), pixel, picture.orientation, turned, upright.0 as usize * pixel);
            turned
        };
        let whole = oriented(picture.whole, picture.orientation);
        let (across, down) = axes(whole, picture.by, size);
        let stride = size.width as usize * pixel;
        let first = fitting.at.1 as usize * stride + fitting.at.0 as usize * pixel;
        boxed(pixels, pixel, (&across, &down), &mut self.between, (&mut target[first..], stride));
    }

    /// Resized as it lies, then turned: turning the few pixels that remain is cheaper, and the filter is the same on
    /// either side.
    fn turned(
        &mut self,
        picture: Picture<'_>,
        used: Region,
        (size, fitting): (Size, &Fitting),
        target: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let lying = oriented(fitting.inner, picture.orientation);
        let pixel = picture.wanted.channels() as usize;
        let bytes = lying.0 as usize * lying.1 as usize * pixel;
        let mut resized = std::mem::take(&mut self.resized);
        let (filter, rows_first) = (size.filter, rows_first(&picture, size));
        let whole = Target { sides: lying, at: (0, 0), inner: lying, filter, rows_first };
        let done = self.filter(picture, used, &whole, stretch_to(&mut resized, bytes));
        self.resized = resized;
        done?;
        let stride = size.width as usize * pixel;
        let first = fitting.at.1 as usize * stride + fitting.at.0 as usize * pixel;
        turn(&self.resized[..bytes], lying, pixel, picture.orientation, &mut target[first..], stride);
        Ok(())
    }

    /// By the kind of pixel at compile time: only three of the library's dozen are built, each twice.
    fn filter(
        &mut self,
        picture: Picture<'_>,
        used: Region,
        whole: &Target,
        target: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let pixels = match picture.pixels {
            Pixels::Packed(pixels) => pixels,
            Pixels::Planes(planes) => return self.finish(&planes, whole, target),
        };
        let between = whole.rows_first.then_some(&mut self.between);
        let (resizer, from) = (&mut self.resizer, (pixels, picture.sides()));
        match picture.wanted {
            Wanted::Rgb => filter::<U8x3>(resizer, between, from, used, whole, target),
            Wanted::Rgba => filter::<U8x4>(resizer, between, from, used, whole, target),
            Wanted::Gray => filter::<U8>(resizer, between, from, used, whole, target),
        }
    }

    fn finish(
        &mut self,
        planes: &Planes<'_>,
        whole: &Target,
        target: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let stride = whole.sides.0 as usize * 3;
        let first = whole.at.1 as usize * stride + whole.at.0 as usize * 3;
        let sides = (whole.inner.0 as usize, whole.inner.1 as usize);
        let pixels = target.get_mut(first..).unwrap_or_default();
        let done = self.finisher.finish(planes, &mut Canvas { pixels, stride, sides });
        if done { Ok(()) } else { Err("its planes are not as announced".into()) }
    }

    /// Bytes of the buffers that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.resized.capacity() + self.between.capacity() + self.resizer.size_of_internal_buffers()
    }

    /// Gives the buffers back.
    pub(crate) fn give_back(&mut self) {
        (self.resized, self.between) = (Vec::new(), Vec::new());
        self.resizer.reset_internal_buffers();
    }
}

/// Where pixels go: a part of an image.
struct Target {
    /// Of the whole image.
    sides: (u32, u32),
    /// Where the part begins.
    at: (u32, u32),
    /// How large it is.
    inner: (u32, u32),
    /// How its pixels are made.
    filter: Filter,
    /// The first pass goes along the rows as they are stored.
    rows_first: bool,
}

impl Target {
    fn of(picture: &Picture<'_>, size: Size, fitting: &Fitting) -> Self {
        let (sides, rows_first) = ((size.width, size.height), rows_first(picture, size));
        Self { sides, at: fitting.at, inner: fitting.inner, filter: size.filter, rows_first }
    }
}

/// Whether the first pass must go along the stored rows. What goes beyond black or white is cut off after each pass, so it matters which comes
/// first; with other filters it does not.
fn rows_first(picture: &Picture<'_>, size: Size) -> bool {
    if !matches!(size.filter, Filter::Bicubic | Filter::Lanczos) {
        return false;
    }
    let (across, down) = axes(oriented(picture.whole, picture.orientation), picture.by, size);
    columns_first(&across, &down) == lies_down(picture.orientation)
}

/// Every pixel of the target a copy of one of the picture's.
fn pick_nearest(pixels: &[u8], picture: &Picture<'_>, (size, fitting): (Size, &Fitting), target: &mut [u8]) {
    let (across, down) = axes(oriented(picture.whole, picture.orientation), picture.by, size);
    let pixel = picture.wanted.channels() as usize;
    let stride = size.width as usize * pixel;
    let first = fitting.at.1 as usize * stride + fitting.at.0 as usize * pixel;
    let from = (pixels, picture.sides(), picture.orientation);
    pick(from, pixel, (&across.nearest(), &down.nearest()), &mut target[first..], stride);
}

/// `between`: first along the rows, into this buffer, then along the columns. Otherwise both at once, columns first.
fn filter<P: PixelTrait>(
    resizer: &mut Resizer,
    between: Option<&mut Vec<u8>>,
    (pixels, sides): (&[u8], (u32, u32)),
    used: Region,
    whole: &Target,
    target: &mut [u8],
) -> Result<(), Box<dyn std::error::Error>> {
    let source = TypedImageRef::<P>::from_buffer(sides.0, sides.1, pixels)?;
    let Some(between) = between else { return filter_into(resizer, &source, used, whole, target) };
    let (top, rows) = used.rows_seen(whole.inner.1, sides.1, 3.0);
    let width = whole.inner.0;
    let bytes = width as usize * rows as usize * P::size();
    let narrow = stretch_to(between, bytes);
    let strip = Region { top: f64::from(top), height: f64::from(rows), ..used };
    let part = Target { sides: (width, rows), at: (0, 0), inner: (width, rows), ..*whole };
    filter_into(resizer, &source, strip, &part, narrow)?;
    let source = TypedImageRef::<P>::from_buffer(width, rows, narrow)?;
    let used = Region { left: 0.0, top: used.top - f64::from(top), width: f64::from(width), ..used };
    filter_into(resizer, &source, used, whole, target)
}

fn filter_into<P: PixelTrait>(
    resizer: &mut Resizer,
    source: &TypedImageRef<'_, P>,
    used: Region,
    whole: &Target,
    target: &mut [u8],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut target = TypedImage::<P>::from_buffer(whole.sides.0, whole.sides.1, target)?;
    let options = options(used, whole.filter);
    if whole.inner == whole.sides {
        resizer.resize_typed(source, &mut target, &options)?;
    } else {
        let ((left, top), (width, height)) = (whole.at, whole.inner);
        let mut inner = TypedCroppedImageMut::from_ref(&mut target, left, top, width, height)?;
        resizer.resize_typed(source, &mut inner, &options)?;
    }
    Ok(())
}

/// Alpha is a channel like the others here: colours were multiplied by it before, in Pillow's way.
fn options(used: Region, filter: Filter) -> ResizeOptions {
    let algorithm = match filter {
        Filter::Nearest => ResizeAlg::Nearest,
        Filter::Box => ResizeAlg::Convolution(FilterType::Box),
        Filter::Bilinear => ResizeAlg::Convolution(FilterType::Bilinear),
        Filter::Hamming => ResizeAlg::Convolution(FilterType::Hamming),
        Filter::Bicubic => ResizeAlg::Convolution(FilterType::CatmullRom),
        Filter::Lanczos => ResizeAlg::Convolution(FilterType::Lanczos3),
    };
    let whole = ResizeOptions::new().resize_alg(algorithm).use_alpha(false);
    whole.crop(used.left, used.top, used.width, used.height)
}
