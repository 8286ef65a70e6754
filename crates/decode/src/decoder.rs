//! The decoder of one thread: what an item is, which way it takes, and the buffers that are kept between items.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_model::{DamagePolicy, Decode, Filter, Image, Size};

use crate::colour::{Colour, Wanted, convert, gray_of_deep, premultiply};
use crate::fit::{fitting, oriented};
use crate::icc::{Conversion, Profiles, embedded};
use crate::jpeg::Jpegs;
use crate::memory::{Resizing, area, stretch_to};
use crate::orient::turn;
use crate::shape::{Picture, Pixels, Shaper};
use crate::sniff::Format;
use crate::still::{self, Still};
use crate::{
    Element, Finish, Form, Limits, Place, Rejection, Spent, bmp, gif, npy, plain, png, sniff, tiff, webp,
};

/// Decodes items one after the other; each thread has its own. Buffers are reused, and given back after a giant.
pub struct Decoder {
    /// What every item is to become.
    decode: Decode,
    /// What one item may cost.
    pub(crate) limits: Limits,
    /// What becomes of damaged pictures.
    pub(crate) damaged: DamagePolicy,
    /// What is damaged of the item at hand, if that is used all the same.
    pub(crate) flaw: Option<String>,
    /// libjpeg-turbo's handle.
    pub(crate) jpegs: Jpegs,
    /// Brings pixels to their size.
    pub(crate) shaper: Shaper,
    /// Pixels as a file has them, where they still must be converted.
    pub(crate) raw: Vec<u8>,
    /// Pixels of the right kind, where they still must be resized or turned.
    pub(crate) pixels: Vec<u8>,
    /// Colour profiles that were seen before.
    profiles: Profiles,
    /// What brings the colours of the item at hand to sRGB; none where that was not asked for or nothing is to be done.
    pub(crate) conversion: Option<Arc<Conversion>>,
    /// Bytes that the profile of the item at hand takes: itself, what is kept of it, and what Little CMS reads of it.
    pub(crate) profile_memory: u64,
    /// For the line that says what the bottleneck is.
    pub(crate) spent: Spent,
}

/// What is made of an image.
#[derive(Clone, Copy)]
pub(crate) struct Task {
    /// Colours, with alpha or without, or gray.
    pub(crate) wanted: Wanted,
    /// The size it is brought to, if to any.
    pub(crate) size: Option<Size>,
    /// Whether an embedded colour profile is applied.
    srgb: bool,
}

impl Decoder {
    /// A decoder that makes `decode` of every item. Costs nothing until it is used.
    pub fn new(decode: Decode, limits: Limits) -> Self {
        Self {
            decode,
            limits,
            damaged: DamagePolicy::Fail,
            flaw: None,
            jpegs: Jpegs::new(),
            shaper: Shaper::new(),
            raw: Vec::new(),
            pixels: Vec::new(),
            profiles: Profiles::default(),
            conversion: None,
            profile_memory: 0,
            spent: Spent::default(),
        }
    }

    /// What becomes of pictures of which something had to be concealed; they fail where this was not said.
    #[must_use]
    pub fn with_damaged(mut self, damaged: DamagePolicy) -> Self {
        self.damaged = damaged;
        self
    }

    /// Decodes `encoded` into what `place` gives, as far as `finish` says.
    pub fn decode(
        &mut self,
        encoded: &[u8],
        finish: Finish,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        self.flaw = None;
        let made = match self.decode {
            Decode::Image(Image { channels, size, srgb }) => {
                self.image(encoded, finish, Task { wanted: channels.into(), size, srgb }, place)
            }
            Decode::Bytes => plain::bytes(encoded, &self.limits, place),
            Decode::Text => plain::text(encoded, &self.limits, place),
            Decode::Npy => npy::array(encoded, &self.limits, place),
            Decode::Value | Decode::Load => Err(Rejection::broken(format!(
                "`{}` is not for the decoder: nothing is read for it",
                self.decode
            ))),
        };
        self.spent.encoded_bytes += encoded.len() as u64;
        self.spent.decoded_bytes += made.as_ref().map_or(0, |form| form.bytes);
        self.relax();
        made
    }

    /// What is damaged of the picture that was decoded last, where its form says that something is.
    pub fn take_flaw(&mut self) -> Option<String> {
        self.flaw.take()
    }

    /// Time and bytes spent so far, by step.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    fn image(
        &mut self,
        encoded: &[u8],
        finish: Finish,
        task: Task,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let limits = self.limits;
        let alpha = task.wanted == Wanted::Rgba;
        let format = sniff::format(encoded)?;
        (self.conversion, self.profile_memory) = (None, 0);
        if task.srgb
            && let Some(profile) = embedded(encoded, format)
        {
            self.profile_memory = crate::icc::COPIES * profile.len() as u64;
            self.conversion = Some(self.profiles.conversion(&profile)?);
        }
        let still = match format {
            Format::Jpeg => return self.jpeg(encoded, finish, task, place),
            Format::Tiff if task.wanted == Wanted::Gray && task.size.is_none() && !task.srgb => {
                if let Some(stack) = guarded(|| tiff::stack(encoded, &limits))? {
                    return self.stack(stack, place);
                }
                guarded(|| tiff::first_page(encoded, true, &limits))?
            }
            Format::Tiff => guarded(|| tiff::first_page(encoded, false, &limits))?,
            Format::Png => guarded(|| png::open(encoded, &limits))?,
            Format::WebP => guarded(|| webp::open(encoded, alpha, &limits))?,
            Format::Bmp => guarded(|| bmp::open(encoded, alpha, &limits))?,
            Format::Gif => guarded(|| gif::first_frame(encoded, alpha, &limits))?,
        };
        self.limits.check_pixels(still.sides.0, still.sides.1)?;
        self.still(still, task, place)
    }

    /// Pages of one shape, each straight into its part of the place.
    fn stack(&mut self, mut stack: tiff::Stack<'_>, place: &mut dyn Place) -> Result<Form, Rejection> {
        let form = stack.form();
        self.limits.claim(place, stack.sides(), stack.memory())?;
        let target = self.limits.room(place, form.bytes)?;
        timed(&mut self.spent.decode, || guarded(|| stack.read(target)))?.judged(
            self.damaged,
            form,
            &mut self.flaw,
        )
    }

    /// Leaves the item's colours as they are where its profile changes none of this kind; an error where it is for others.
    pub(crate) fn settle_conversion(&mut self, colour: Colour) -> Result<(), Rejection> {
        let concerns = self.conversion.as_ref().map(|conversion| conversion.concerns(colour)).transpose()?;
        if concerns == Some(false) {
            self.conversion = None;
        }
        Ok(())
    }

    /// Anything but a JPEG: read, converted, turned and resized, leaving out what is not needed.
    fn still(&mut self, still: Still<'_>, task: Task, place: &mut dyn Place) -> Result<Form, Rejection> {
        let Still { sides, layout, orientation, memory, read } = still;
        self.settle_conversion(layout.colour)?;
        let conversion = self.conversion.clone();
        let upright = oriented(sides, orientation);
        let size = task.size.filter(|size| !fitting(upright, 1, *size).keeps(upright, 1, *size));
        // More than 8 bits are kept where nothing is to be computed from them.
        let plain_gray = task.wanted == Wanted::Gray && task.size.is_none() && !task.srgb;
        let deep_gray = plain_gray && layout.is_deep_gray_with_alpha();
        let keeps = plain_gray && layout.samples() == 1;
        let ready = keeps || (layout == task.wanted.layout() && conversion.is_none());
        if !ready && !layout.converts() {
            return Err(Rejection::broken(still::not_eight_bits(layout)));
        }
        let element = if keeps || deep_gray { layout.element } else { Element::U8 };
        let form = Form::image(element, upright.0, upright.1, task.wanted.channels());
        // What a reader takes, it has given back before anything is made of the pixels.
        let raw = area(sides) * layout.pixel_bytes() as u64;
        if size.is_none() && orientation == 1 {
            let memory = memory + if ready { 0 } else { raw };
            self.limits.claim(place, sides, memory + self.profile_memory)?;
        } else {
            let wide = if deep_gray { 2 } else { 1 };
            let converted = if ready { 0 } else { area(sides) * u64::from(task.wanted.channels()) * wide };
            let resized = size.map_or(0, |size| {
                let fitting = fitting(sides, orientation, size);
                let to = oriented(fitting.inner, orientation);
                let (channels, turned) = (task.wanted.channels(), orientation != 1);
                Resizing { sides, used: fitting.used, to, channels, turned, filter: size.filter }.memory()
            });
            let memory = raw + memory.max(converted + resized);
            self.limits.claim(place, sides, memory + self.profile_memory)?;
        }
        if size.is_none() && ready && orientation == 1 {
            let target = self.limits.room(place, form.bytes)?;
            return timed(&mut self.spent.decode, || guarded(|| read(target)))?.judged(
                self.damaged,
                form,
                &mut self.flaw,
            );
        }
        let area = sides.0 as usize * sides.1 as usize;
        let raw = stretch_to(&mut self.raw, area * layout.pixel_bytes());
        let damage = timed(&mut self.spent.decode, || guarded(|| read(raw)))?;
        // What fails is not worth to be converted.
        let form = damage.judged(self.damaged, form, &mut self.flaw)?;
        let convert = |from: &[u8], to: &mut [u8]| match &conversion {
            Some(conversion) => conversion.convert(from, layout, task.wanted, to),
            None if deep_gray => gray_of_deep(from, to),
            None => convert(from, layout, task.wanted, to),
        };
        if size.is_none() && orientation == 1 {
            convert(raw, self.limits.room(place, form.bytes)?);
            return Ok(form);
        }
        let pixels = if ready {
            raw
        } else {
            let pixel = task.wanted.channels() as usize * if deep_gray { 2 } else { 1 };
            let pixels = stretch_to(&mut self.pixels, area * pixel);
            convert(raw, pixels);
            pixels
        };
        timed(&mut self.spent.resize, || match size {
            Some(size) => {
                let wanted = task.wanted;
                let premultiplied =
                    wanted == Wanted::Rgba && layout.has_alpha() && size.filter != Filter::Nearest;
                if premultiplied {
                    premultiply(pixels);
                }
                let pixels = Pixels::Packed(pixels);
                let picture = Picture { pixels, whole: sides, by: 1, wanted, orientation, premultiplied };
                let fitting = fitting(sides, orientation, size);
                let shaped = self.shaper.resize(picture, (size, &fitting), &self.limits, place);
                shaped.map(|shaped| Form { damaged: form.damaged, ..shaped })
            }
            None => self.limits.room(place, form.bytes).map(|target| {
                let pixel = pixels.len() / area;
                turn(pixels, sides, pixel, orientation, target, upright.0 as usize * pixel);
                form
            }),
        })
    }

    /// Gives back what only a giant needed.
    fn relax(&mut self) {
        let own = self.raw.capacity() + self.pixels.capacity();
        self.conversion = None;
        let others = self.shaper.kept() + self.jpegs.kept() + self.profiles.kept();
        if (own + others) as u64 > self.limits.keeps() {
            (self.raw, self.pixels) = (Vec::new(), Vec::new());
            self.shaper.give_back();
            self.jpegs.give_back();
            self.profiles.give_back();
        }
    }
}

/// Adds what `work` takes to `spent`.
fn timed<T>(spent: &mut Duration, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let made = work();
    *spent += began.elapsed();
    made
}

/// Runs a decoder that was not written by us: what it panics with becomes the item's reason. The hook that reports panics
/// is left alone, so the log has the place.
fn guarded<T>(work: impl FnOnce() -> Result<T, Rejection>) -> Result<T, Rejection> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
        Err(Rejection::broken(format!("the decoder failed: {}", said.unwrap_or("no reason given"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_decoder_is_the_items_reason() {
        let failed = guarded::<()>(|| panic!("index {} out of range", 7));
        assert_eq!(failed, Err(Rejection::broken("the decoder failed: index 7 out of range")));
    }
}
