//! The first frame of a GIF, as Pillow shows it: what the frame does not cover has the transparent colour, or the first.

use gif::{ColorOutput, DecodeOptions, MemoryLimit};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::memory::NOTES;
use crate::still::Still;
use crate::{Element, Limits, Rejection};

pub(crate) fn first_frame<'a>(encoded: &'a [u8], limits: &Limits) -> Result<Still<'a>, Rejection> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // For what stands beside the frames: one of those is read into what we give.
    options.set_memory_limit(
        std::num::NonZeroU64::new(NOTES).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes),
    );
    let mut decoder = options.read_info(encoded).map_err(|error| broken(&error))?;
    let frame = decoder.next_frame_info().map_err(|error| broken(&error))?;
    let Some(frame) = frame else { return Err(Rejection::broken("the GIF has no image in it")) };
    let (left, top, width, height) = (
        usize::from(frame.left),
        usize::from(frame.top),
        usize::from(frame.width),
        usize::from(frame.height),
    );
    let clear = frame.transparent;
    let blank = clear.unwrap_or(0);
    // Some frames are larger than their screen; the screen grows, as it does for Pillow.
    let screen_width = usize::from(decoder.width()).max(left + width);
    let screen_height = usize::from(decoder.height()).max(top + height);
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let sides = (side(screen_width), side(screen_height));
    limits.check_pixels(sides.0, sides.1)?;
    let memory = (width * height) as u64;
    let read = move |target: &mut [u8]| {
        let mut indices = vec![0; width * height];
        decoder.read_into_buffer(&mut indices).map_err(|error| broken(&error))?;
        let palette = decoder.palette().map_err(|error| broken(&error))?;
        let colours = table(palette, clear);
        let (pixels, _) = target.as_chunks_mut::<4>();
        pixels.fill(colours[usize::from(blank)]);
        for (row, indices) in pixels.chunks_mut(screen_width).skip(top).zip(indices.chunks(width.max(1))) {
            for (pixel, index) in row[left..].iter_mut().zip(indices) {
                *pixel = colours[usize::from(*index)];
            }
        }
        Ok(Damage::NONE)
    };
    let layout = Layout { colour: Colour::Rgba, element: Element::U8 };
    Ok(Still { sides, layout, orientation: 1, memory, read: Box::new(read) })
}

/// All 256 colours an index can mean, opaque but for one; black where the palette is shorter.
fn table(palette: &[u8], clear: Option<u8>) -> [[u8; 4]; 256] {
    let (colours, _) = palette.as_chunks::<3>();
    std::array::from_fn(|index| {
        let [red, green, blue] = colours.get(index).copied().unwrap_or_default();
        let alpha = if clear.map(usize::from) == Some(index) { 0 } else { u8::MAX };
        [red, green, blue, alpha]
    })
}

fn broken(error: &gif::DecodingError) -> Rejection {
    match error {
        gif::DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Rejection::broken("truncated: the GIF's data ends too early")
        }
        other => Rejection::broken(format!("broken GIF: {other}")),
    }
}
