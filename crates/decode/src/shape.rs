//! Pixels to the size and orientation asked for, into the place. Owns the resizer and its buffers.

use fast_image_resize::images::{TypedCroppedImageMut, TypedImage, TypedImageRef};
use fast_image_resize::pixels::{U8, U8x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use gpulane_model::Size;

use crate::colour::Wanted;
use crate::fit::{Fitting, Region, oriented};
use crate::memory::stretch_to;
use crate::orient::turn;
use crate::planes::{Canvas, Finisher, Planes};
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
    /// Width and height as stored.
    pub(crate) sides: (u32, u32),
    /// What a pixel is.
    pub(crate) wanted: Wanted,
    /// How it is to be turned.
    pub(crate) orientation: u8,
}

/// The last step. One per thread.
pub(crate) struct Shaper {
    /// Keeps a buffer between its two passes.
    resizer: Resizer,
    /// What has its size but still lies on its side. Never shortened, so that it is not cleared again and again.
    resized: Vec<u8>,
    /// For planes.
    finisher: Finisher,
}

impl Shaper {
    pub(crate) fn new() -> Self {
        Self { resizer: Resizer::new(), resized: Vec::new(), finisher: Finisher::default() }
    }

    /// Whether planes of these sides may come instead of pixels; then they must be next.
    pub(crate) fn takes_planes(&mut self, sides: (u32, u32), used: Region, to: (u32, u32)) -> bool {
        self.finisher.takes(sides, used, to)
    }

    /// Brings `used` of the picture to `size`, where `fitting` says.
    pub(crate) fn resize(
        &mut self,
        picture: Picture<'_>,
        used: Region,
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
        let done = if picture.orientation == 1 {
            self.straight(picture, used, (size, fitting), target)
        } else {
            self.turned(picture, used, (size, fitting), target)
        };
        done.map_err(|error| Rejection::broken(format!("the image cannot be resized: {error}")))?;
        Ok(form)
    }

    /// Already the right way up: from the picture into the place in one go.
    fn straight(
        &mut self,
        picture: Picture<'_>,
        used: Region,
        (size, fitting): (Size, &Fitting),
        target: &mut [u8],
    ) -> Result<(), Box<dyn std::error::Error>> {
        let whole = Target { sides: (size.width, size.height), at: fitting.at, inner: fitting.inner };
        self.filter(picture, used, &whole, target)
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
        let whole = Target { sides: lying, at: (0, 0), inner: lying };
        let done = self.filter(picture, used, &whole, stretch_to(&mut resized, bytes));
        self.resized = resized;
        done?;
        let stride = size.width as usize * pixel;
        let first = fitting.at.1 as usize * stride + fitting.at.0 as usize * pixel;
        turn(&self.resized[..bytes], lying, pixel, picture.orientation, &mut target[first..], stride);
        Ok(())
    }

    /// By the kind of pixel at compile time: only two of the library's dozen are built, each twice.
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
        match picture.wanted {
            Wanted::Rgb => filter::<U8x3>(&mut self.resizer, (pixels, picture.sides), used, whole, target),
            Wanted::Gray => filter::<U8>(&mut self.resizer, (pixels, picture.sides), used, whole, target),
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
        self.resized.capacity() + self.resizer.size_of_internal_buffers()
    }

    /// Gives the buffers back.
    pub(crate) fn give_back(&mut self) {
        self.resized = Vec::new();
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
}

fn filter<P: PixelTrait>(
    resizer: &mut Resizer,
    (pixels, sides): (&[u8], (u32, u32)),
    used: Region,
    whole: &Target,
    target: &mut [u8],
) -> Result<(), Box<dyn std::error::Error>> {
    let source = TypedImageRef::<P>::from_buffer(sides.0, sides.1, pixels)?;
    let mut target = TypedImage::<P>::from_buffer(whole.sides.0, whole.sides.1, target)?;
    if whole.inner == whole.sides {
        resizer.resize_typed(&source, &mut target, &options(used))?;
    } else {
        let ((left, top), (width, height)) = (whole.at, whole.inner);
        let mut inner = TypedCroppedImageMut::from_ref(&mut target, left, top, width, height)?;
        resizer.resize_typed(&source, &mut inner, &options(used))?;
    }
    Ok(())
}

fn options(used: Region) -> ResizeOptions {
    ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).crop(
        used.left,
        used.top,
        used.width,
        used.height,
    )
}
