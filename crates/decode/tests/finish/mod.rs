//! Planes to pixels, slow and plain: what a worker does on its GPU, written down. Upsampling and colours are
//! libjpeg-turbo's, resizing is Pillow's.

use gpulane_decode::Form;

/// An RGB image.
#[derive(Clone, Debug)]
pub(crate) struct Rgb {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<[u8; 3]>,
}

/// One plane: rows of `stride`.
struct Plane<'a> {
    samples: &'a [u8],
    stride: usize,
    rows: usize,
}

impl Plane<'_> {
    /// A sample; beyond the sides, the one at the side.
    fn at(&self, x: i64, y: i64) -> i64 {
        let side = |at: i64, length: usize| usize::try_from(at.max(0)).expect("not below").min(length - 1);
        i64::from(self.samples[side(y, self.rows) * self.stride + side(x, self.stride)])
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).expect("small")
}

fn byte(value: i64) -> u8 {
    u8::try_from(value.clamp(0, 255)).expect("clamped")
}

/// Joins the planes: chroma upsampled by the triangle filter, then converted.
pub(crate) fn join(form: &Form, planes: &[u8]) -> Rgb {
    let [height, width, chroma_height, chroma_width] = form.dims.map(|side| side as usize);
    let (stride, rows) = match form.chroma {
        1 => (2 * chroma_width, height),
        2 => (2 * chroma_width, 2 * chroma_height),
        4 => (width, 2 * chroma_height),
        _ => (width, height),
    };
    let (luma, chroma) = planes.split_at(stride * rows);
    let luma = Plane { samples: luma, stride, rows };
    let (blue, red) = chroma.split_at(chroma_height * chroma_width);
    assert_eq!(blue.len(), red.len(), "no bytes are left over");
    let plane = |samples| Plane { samples, stride: chroma_width, rows: chroma_height };
    let (blue, red) = (plane(blue), plane(red));
    let pixel = |x: usize, y: usize| {
        let (x, y) = (whole(x), whole(y));
        if form.chroma == 3 {
            return [byte(luma.at(x, y)); 3];
        }
        colour(luma.at(x, y), upsampled(&blue, form.chroma, x, y), upsampled(&red, form.chroma, x, y))
    };
    let pixels =
        (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| pixel(x, y)).collect();
    Rgb { width, height, pixels }
}

/// The chroma at a pixel: three parts of the sample it lies in, one part of its nearest neighbour, on each halved side.
fn upsampled(plane: &Plane<'_>, chroma: u8, x: i64, y: i64) -> i64 {
    // libjpeg-turbo does not interpolate along rows this short.
    let blunt = plane.stride <= 2 && matches!(chroma, 1 | 2);
    let (column, beside) = (x / 2, if x % 2 == 0 { x / 2 - 1 } else { x / 2 + 1 });
    let (row, near) = (y / 2, if y % 2 == 0 { y / 2 - 1 } else { y / 2 + 1 });
    match chroma {
        1 if blunt => plane.at(column, y),
        2 if blunt => plane.at(column, row),
        1 if beside < 0 || beside >= whole(plane.stride) => plane.at(column, y),
        1 => (3 * plane.at(column, y) + plane.at(beside, y) + 1 + x % 2) >> 2,
        2 => {
            let sum = |column: i64| 3 * plane.at(column, row) + plane.at(column, near);
            (3 * sum(column) + sum(beside) + 8 - x % 2) >> 4
        }
        4 => (3 * plane.at(x, row) + plane.at(x, near) + 1 + y % 2) >> 2,
        _ => plane.at(x, y),
    }
}

/// JFIF's YCbCr in 16 bits of fixed point.
fn colour(luma: i64, blue: i64, red: i64) -> [u8; 3] {
    let (blue, red) = (blue - 128, red - 128);
    let half = 1 << 15;
    [
        byte(luma + ((91_881 * red + half) >> 16)),
        byte(luma + ((-22_554 * blue - 46_802 * red + half) >> 16)),
        byte(luma + ((116_130 * blue + half) >> 16)),
    ]
}

/// Turns it as EXIF says.
pub(crate) fn turned(image: &Rgb, orientation: u8) -> Rgb {
    let (width, height) =
        if orientation >= 5 { (image.height, image.width) } else { (image.width, image.height) };
    let (right, bottom) = (image.width - 1, image.height - 1);
    let from = |x: usize, y: usize| match orientation {
        2 => (right - x, y),
        3 => (right - x, bottom - y),
        4 => (x, bottom - y),
        5 => (y, x),
        6 => (y, bottom - x),
        7 => (right - y, bottom - x),
        8 => (right - y, x),
        _ => (x, y),
    };
    let at = |(x, y): (usize, usize)| image.pixels[y * image.width + x];
    let pixels =
        (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| at(from(x, y))).collect();
    Rgb { width, height, pixels }
}

/// Brings the part of it from `begin` to `end` to a size: first along the rows, then along the columns, rounded between.
pub(crate) fn resized(image: &Rgb, part: [(f64, f64); 2], (width, height): (usize, usize)) -> Rgb {
    let across = weights(image.width, part[0], width);
    let row = |y: usize| &image.pixels[y * image.width..][..image.width];
    let narrow: Vec<_> =
        (0..image.height).flat_map(|y| across.iter().map(move |taps| blend(taps, |x| row(y)[x]))).collect();
    let down = weights(image.height, part[1], height);
    let pixels = down
        .iter()
        .flat_map(|taps| (0..width).map(|x| blend(taps, |y| narrow[y * width + x])).collect::<Vec<_>>())
        .collect();
    Rgb { width, height, pixels }
}

/// For each pixel of the result: which of the source it is made of, and how much of each.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small, as Pillow does
fn weights(length: usize, (begin, end): (f64, f64), target: usize) -> Vec<Vec<(usize, f64)>> {
    let scale = (end - begin) / target as f64;
    let support = scale.max(1.0);
    (0..target)
        .map(|index| {
            let centre = begin + (index as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let last = ((centre + support + 0.5) as usize).min(length);
            let weight = |at: usize| (1.0 - ((at as f64 - centre + 0.5) / support).abs()).max(0.0);
            let sum: f64 = (first..last).map(weight).sum();
            (first..last).map(|at| (at, weight(at) / sum)).collect()
        })
        .collect()
}

#[allow(clippy::cast_possible_truncation)] // clamped right after
fn blend(taps: &[(usize, f64)], at: impl Fn(usize) -> [u8; 3]) -> [u8; 3] {
    std::array::from_fn(|channel| {
        let sum: f64 = taps.iter().map(|(index, weight)| f64::from(at(*index)[channel]) * weight).sum();
        byte((sum + 0.5).floor() as i64)
    })
}

/// Joined, turned and brought to its size, as `rgb:WxH:fit` means it.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small
pub(crate) fn finished(form: &Form, planes: &[u8], (width, height): (usize, usize), fit: &str) -> Vec<u8> {
    let image = turned(&join(form, planes), form.orientation);
    let (has, wants) = (image.width as f64 / image.height as f64, width as f64 / height as f64);
    let (full_width, full_height) = (image.width as f64, image.height as f64);
    let mut part = [(0.0, full_width), (0.0, full_height)];
    let mut inner = (width, height);
    let half = |over: usize| (over as f64 / 2.0).round_ties_even() as usize;
    let mut at = None;
    match fit {
        "crop" if has > wants => {
            let left = (full_width - wants * full_height) / 2.0;
            part[0] = (left, full_width - left);
        }
        "crop" => {
            let top = (full_height - full_width / wants) / 2.0;
            part[1] = (top, full_height - top);
        }
        "pad" if has > wants => inner.1 = (width as f64 / has).round_ties_even() as usize,
        "pad" => inner.0 = (height as f64 * has).round_ties_even() as usize,
        other => {
            if let Some(short) = other.strip_prefix("short=") {
                let short: usize = short.parse().expect("a length");
                let least = image.width.min(image.height);
                let sides = [short * image.width / least, short * image.height / least];
                for (axis, (side, target)) in sides.into_iter().zip([width, height]).enumerate() {
                    let scale = part[axis].1 / side as f64;
                    let skipped = half(side.saturating_sub(target)) as f64;
                    part[axis] = (skipped * scale, (skipped + side.min(target) as f64) * scale);
                }
                inner = (sides[0].min(width), sides[1].min(height));
                at = Some(((width - inner.0) / 2, (height - inner.1) / 2));
            }
        }
    }
    let small = resized(&image, part, inner);
    let (left, top) = at.unwrap_or_else(|| (half(width - inner.0), half(height - inner.1)));
    let mut target = vec![[0; 3]; width * height];
    for (y, row) in small.pixels.chunks(inner.0).enumerate() {
        target[(top + y) * width + left..][..inner.0].copy_from_slice(row);
    }
    target.concat()
}
