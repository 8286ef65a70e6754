//! Which way a JPEG takes: finished here, as planes, or as it is.

use std::time::Instant;

use gpulane_model::Filter;

use super::Opened;
use super::libjpeg::{Colours, Pixel, Sampling};
use crate::colour::{self, Colour, Wanted, convert};
use crate::damage::Damage;
use crate::decoder::{Decoder, Task};
use crate::fit::{Fitting, fitting, oriented, shrink};
use crate::memory::{Resizing, area, stretch_to};
use crate::orient::turn;
use crate::planes::{Chroma, Layout, Planes};
use crate::shape::{Picture, Pixels};
use crate::{Element, Finish, Form, Kind, Place, Rejection};

/// Bytes that decoders take for each column of an image: rows of four components before and after their inverse DCT, chroma brought
/// to size, and rows in the making.
const ROWS: u64 = 256;

impl Decoder {
    /// Decodes a JPEG as far as `finish` says.
    pub(crate) fn jpeg(
        &mut self,
        encoded: &[u8],
        finish: Finish,
        task: Task,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let mut opened = Opened::new(encoded, &self.limits)?;
        self.settle_conversion(opened.stored().colour)?;
        let unfinished =
            task.size.filter(|size| size.filter == Filter::Bilinear && self.conversion.is_none());
        if let (Wanted::Rgb, Some(size)) = (task.wanted, unfinished) {
            if finish == Finish::Encoded && opened.travels() {
                return self.jpeg_as_it_is(&opened, place);
            }
            if finish != Finish::Here
                && let Some(chroma) = opened.chroma()
            {
                let fitting = fitting(opened.sides(), opened.header.orientation, size);
                return self.jpeg_planes(&mut opened, (&fitting, chroma), place);
            }
        }
        self.jpeg_pixels(&mut opened, task, place)
    }

    fn jpeg_as_it_is(&mut self, opened: &Opened<'_>, place: &mut dyn Place) -> Result<Form, Rejection> {
        let mut form = Form::flat(Kind::Jpeg, opened.encoded.len() as u64);
        form.orientation = opened.header.orientation;
        form.dims = [opened.header.height, opened.header.width, 0, 0];
        self.limits.room(place, form.bytes)?.copy_from_slice(opened.encoded);
        Ok(form)
    }

    fn jpeg_planes(
        &mut self,
        opened: &mut Opened<'_>,
        (fitting, chroma): (&Fitting, u8),
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let (width, height) = opened.sides();
        // Whoever finishes the planes knows whole pixels only: what does not divide evenly would shift the picture.
        let even = |by: &u32| width.is_multiple_of(*by) && height.is_multiple_of(*by);
        // Planes shrink the chroma along with the luma, pixels do not: it stays at or above the target, the luma at twice that.
        let most = shrink(fitting, opened.header.orientation, Filter::Bilinear);
        let by = [8, 4, 2].into_iter().filter(|by| *by <= most).find(even).unwrap_or(1);
        let form = planes_form((width / by, height / by), chroma, opened.header.orientation);
        let ours = opened.layout(by).filter(|_| by == 1).map_or(0, |layout| layout.bytes() as u64);
        self.limits.claim(place, (width, height), ours + opened.memory())?;
        let target = self.limits.room(place, form.bytes)?;
        let began = Instant::now();
        // Smaller planes keep the chroma's proportion, which is not how we decode them.
        let plain = opened.layout(by).filter(|_| by == 1).and_then(|layout| {
            let buffer = stretch_to(&mut self.pixels, layout.bytes());
            self.jpegs.plain_planes(opened, layout, buffer)?;
            pack(&Planes { samples: buffer, layout }, target);
            Some(Damage::NONE)
        });
        let decoded = plain.map_or_else(|| opened.planes(by, target), Ok);
        self.spent.decode += began.elapsed();
        decoded?.judged(self.damaged, form, &mut self.flaw)
    }

    fn jpeg_pixels(
        &mut self,
        opened: &mut Opened<'_>,
        task: Task,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let orientation = opened.header.orientation;
        let Some(size) = task.size else { return self.jpeg_whole(opened, task, place) };
        let fitting = fitting(opened.sides(), orientation, size);
        let by = shrink(&fitting, orientation, size.filter);
        let sides = opened.shrunk(by);
        let used = fitting.used.shrunk(by);
        let lying = oriented(fitting.inner, orientation);
        let pixels = area(sides) * u64::from(task.wanted.channels());
        let planes = opened.layout(by).map_or(0, |layout| layout.bytes() as u64);
        let (channels, turned) = (task.wanted.channels(), orientation != 1);
        let resized = Resizing { sides, used, to: lying, channels, turned, filter: size.filter }.memory();
        let memory = pixels.max(planes) + self.unconverted(opened, by) + opened.memory().max(resized);
        self.limits.claim(place, opened.sides(), memory)?;
        if (Fitting { used, ..fitting }).keeps(sides, orientation, size) {
            let form = Form::image(Element::U8, sides.0, sides.1, task.wanted.channels());
            let target = self.limits.room(place, form.bytes)?;
            return self.jpeg_into(opened, (by, task.wanted), target)?.judged(
                self.damaged,
                form,
                &mut self.flaw,
            );
        }
        let mut buffer = std::mem::take(&mut self.pixels);
        let finished = opened
            .layout(by)
            .filter(|_| task.wanted == Wanted::Rgb && size.filter == Filter::Bilinear)
            .filter(|_| self.conversion.is_none())
            .filter(|_| self.shaper.takes_planes(sides, used, lying));
        let plain = finished.filter(|layout| self.jpeg_unfinished(opened, *layout, &mut buffer));
        let whole = if let Some(layout) = plain {
            Ok((Pixels::Planes(Planes { samples: &buffer, layout }), Damage::NONE))
        } else {
            let target = stretch_to(&mut buffer, bytes_of(sides, task.wanted.channels()));
            let decoded = self.jpeg_into(opened, (by, task.wanted), target);
            decoded.map(|damage| (Pixels::Packed(target), damage))
        };
        let form = Form::image(Element::U8, size.width, size.height, task.wanted.channels());
        let shaped = whole.and_then(|(pixels, damage)| {
            // What fails is not worth to be resized.
            let damaged = damage.judged(self.damaged, form, &mut self.flaw)?.damaged;
            let began = Instant::now();
            let (whole, wanted) = (opened.sides(), task.wanted);
            let picture = Picture { pixels, whole, by, wanted, orientation, premultiplied: false };
            let shaped = self.shaper.resize(picture, (size, &fitting), &self.limits, place);
            self.spent.resize += began.elapsed();
            shaped.map(|shaped| Form { damaged, ..shaped })
        });
        self.pixels = buffer;
        shaped
    }

    /// Decodes to planes that are finished while they are resized; `false` if the file is not plain.
    fn jpeg_unfinished(&mut self, opened: &Opened<'_>, layout: Layout, buffer: &mut Vec<u8>) -> bool {
        let began = Instant::now();
        let target = stretch_to(buffer, layout.bytes());
        let decoded = self.jpegs.plain_planes(opened, layout, target);
        self.spent.decode += began.elapsed();
        decoded.is_some()
    }

    /// As large as it is.
    fn jpeg_whole(
        &mut self,
        opened: &mut Opened<'_>,
        task: Task,
        place: &mut dyn Place,
    ) -> Result<Form, Rejection> {
        let orientation = opened.header.orientation;
        let (width, height) = oriented(opened.sides(), orientation);
        let form = Form::image(Element::U8, width, height, task.wanted.channels());
        let turned = if orientation == 1 { 0 } else { form.bytes };
        self.limits.claim(place, opened.sides(), turned + self.unconverted(opened, 1) + opened.memory())?;
        let target = self.limits.room(place, form.bytes)?;
        if orientation == 1 {
            return self.jpeg_into(opened, (1, task.wanted), target)?.judged(
                self.damaged,
                form,
                &mut self.flaw,
            );
        }
        let mut pixels = std::mem::take(&mut self.pixels);
        let lying = stretch_to(&mut pixels, target.len());
        let decoded = self.jpeg_into(opened, (1, task.wanted), lying);
        if decoded.is_ok() {
            let began = Instant::now();
            let pixel = task.wanted.channels() as usize;
            turn(lying, opened.sides(), pixel, orientation, target, width as usize * pixel);
            self.spent.resize += began.elapsed();
        }
        self.pixels = pixels;
        decoded?.judged(self.damaged, form, &mut self.flaw)
    }

    /// Bytes of the pixels as they are stored, so many times smaller, where they are not what is wanted, and of their profile.
    fn unconverted(&self, opened: &Opened, by: u32) -> u64 {
        let stored = opened.stored();
        let converted = self.conversion.is_some() || stored.colour == Colour::InvertedCmyk;
        let stored = if converted { area(opened.shrunk(by)) * stored.pixel_bytes() as u64 } else { 0 };
        stored + self.profile_memory
    }

    /// Decodes into `target`, which has the bytes for it. Ink, and what a profile describes, goes through a buffer of its own.
    fn jpeg_into(
        &mut self,
        opened: &mut Opened<'_>,
        (by, wanted): (u32, Wanted),
        target: &mut [u8],
    ) -> Result<Damage, Rejection> {
        let began = Instant::now();
        let (stored, conversion) = (opened.stored(), self.conversion.clone());
        let decoded = if conversion.is_some() || stored.colour == Colour::InvertedCmyk {
            let pixel = match stored.colour {
                Colour::InvertedCmyk => Pixel::Cmyk,
                Colour::Gray => Pixel::Gray,
                _ => Pixel::Rgb,
            };
            let bytes = area(opened.shrunk(by)) * stored.pixel_bytes() as u64;
            let raw = stretch_to(&mut self.raw, usize::try_from(bytes).unwrap_or(usize::MAX));
            opened.pixels(by, pixel, raw).inspect(|_| match &conversion {
                Some(conversion) => conversion.convert(raw, stored, wanted, target),
                None => convert(raw, stored, wanted, target),
            })
        } else {
            let pixel = match wanted {
                Wanted::Rgb => Pixel::Rgb,
                Wanted::Rgba => Pixel::Rgba,
                Wanted::Gray => Pixel::Gray,
            };
            opened.pixels(by, pixel, target)
        };
        self.spent.decode += began.elapsed();
        decoded
    }
}

impl Opened<'_> {
    const fn sides(&self) -> (u32, u32) {
        (self.header.width, self.header.height)
    }

    const fn shrunk(&self, by: u32) -> (u32, u32) {
        (self.header.width.div_ceil(by), self.header.height.div_ceil(by))
    }

    /// Bytes that libjpeg-turbo takes to decode it: coefficients where it keeps them, and some rows; or we ourselves: a copy of the
    /// image data.
    fn memory(&self) -> u64 {
        let rows = ROWS * u64::from(self.header.width) + (1 << 20);
        self.header.coefficients + rows + 2 * self.encoded.len() as u64
    }

    /// How its pixels lie if they are decoded as they are stored.
    const fn stored(&self) -> colour::Layout {
        let colour = match self.colours {
            Colours::Ink => Colour::InvertedCmyk,
            Colours::Gray => Colour::Gray,
            _ => Colour::Rgb,
        };
        colour::Layout { colour, element: Element::U8 }
    }

    /// The protocol's number for how its chroma is subsampled; none if its planes cannot be described with one.
    pub(super) const fn chroma(&self) -> Option<u8> {
        match (self.colours, self.sampling) {
            (Colours::Gray, Sampling::Gray) => Some(3),
            (Colours::YCbCr, Sampling::Full) => Some(0),
            (Colours::YCbCr, Sampling::HalfAcross) => Some(1),
            (Colours::YCbCr, Sampling::Quarter) => Some(2),
            (Colours::YCbCr, Sampling::HalfDown) => Some(4),
            _ => None,
        }
    }

    /// How planes lie that we decode ourselves.
    pub(super) fn layout(&self, by: u32) -> Option<Layout> {
        let chroma = match self.chroma()? {
            0 => Chroma::Full,
            1 => Chroma::HalfAcross,
            2 => Chroma::Quarter,
            _ => return None,
        };
        Layout::new((self.header.width as usize, self.header.height as usize), chroma, by as usize)
    }

    /// Whether any decoder will make the same of it: plain, and its marks all in their places. Codes that are wrong in between are not seen, since
    /// looking for them takes as long as decoding.
    fn travels(&self) -> bool {
        self.header.baseline
            && !self.odd
            && matches!(self.chroma(), Some(0..=3))
            && self.header.has_all_marks(self.encoded)
    }
}

/// Planes without what fills them up, one row behind the other: as [`planes_form`] says.
pub(super) fn pack(planes: &Planes<'_>, target: &mut [u8]) {
    let mut rest = target;
    for which in 0..3 {
        for row in planes.rows(which) {
            let (here, behind) = rest.split_at_mut(row.len().min(rest.len()));
            here.copy_from_slice(&row[..here.len()]);
            rest = behind;
        }
    }
}

/// How planes of these sides lie: luma rounded up to what the chroma covers.
pub(super) const fn planes_form((width, height): (u32, u32), chroma: u8, orientation: u8) -> Form {
    let (across, down) = match chroma {
        1 => (2, 1),
        2 => (2, 2),
        4 => (1, 2),
        _ => (1, 1),
    };
    let (chroma_width, chroma_height) =
        if chroma == 3 { (0, 0) } else { (width.div_ceil(across), height.div_ceil(down)) };
    let luma = width.next_multiple_of(across) as u64 * height.next_multiple_of(down) as u64;
    let bytes = luma + 2 * chroma_width as u64 * chroma_height as u64;
    let dims = [height, width, chroma_height, chroma_width];
    Form {
        kind: Kind::Planes,
        element: Element::U8,
        orientation,
        chroma,
        dims,
        ndim: 0,
        bytes,
        damaged: false,
    }
}

const fn bytes_of(sides: (u32, u32), channels: u32) -> usize {
    sides.0 as usize * sides.1 as usize * channels as usize
}
