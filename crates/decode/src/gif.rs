//! The first frame of a GIF, as Pillow shows it: what the frame does not cover has the transparent colour, or the first.

use std::io::{Cursor, Read};

use gif::{ColorOutput, DecodeOptions, MemoryLimit};

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::memory::NOTES;
use crate::still::Still;
use crate::{Element, Limits, Rejection};

/// What is known of the first frame before its pixels are read. They come with alpha where `alpha` asks for it.
pub(crate) fn first_frame<'a>(
    encoded: &'a [u8],
    alpha: bool,
    limits: &Limits,
) -> Result<Still<'a>, Rejection> {
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // Bytes between blocks are passed over, as by Pillow.
    options.allow_unknown_blocks(true);
    // For what stands beside the frames: one of those is read into what we give.
    options.set_memory_limit(
        std::num::NonZeroU64::new(NOTES).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes),
    );
    let mut decoder = options.read_info(with_palette(encoded)).map_err(|error| broken(&error))?;
    let frame = decoder.next_frame_info().map_err(|error| broken(&error))?;
    let Some(frame) = frame else { return Err(Rejection::broken("the GIF has no image in it")) };
    let shown = Frame {
        at: (usize::from(frame.left), usize::from(frame.top)),
        sides: (usize::from(frame.width), usize::from(frame.height)),
        clear: frame.transparent,
    };
    // Some frames are larger than their screen; the screen grows, as it does for Pillow.
    let screen_width = usize::from(decoder.width()).max(shown.at.0 + shown.sides.0);
    let screen_height = usize::from(decoder.height()).max(shown.at.1 + shown.sides.1);
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let sides = (side(screen_width), side(screen_height));
    limits.check_pixels(sides.0, sides.1)?;
    let memory = (shown.sides.0 * shown.sides.1) as u64;
    let read = move |target: &mut [u8]| {
        let mut indices = vec![shown.clear.unwrap_or(0); shown.sides.0 * shown.sides.1];
        // What was unpacked before the failure stays.
        let failed = decoder.read_into_buffer(&mut indices).err();
        let colours = table(decoder.palette().map_err(|error| broken(&error))?, shown.clear);
        if alpha {
            shown.paint::<4>(&indices, &colours, screen_width, target);
        } else {
            let opaque = colours.map(|[red, green, blue, _]| [red, green, blue]);
            shown.paint::<3>(&indices, &opaque, screen_width, target);
        }
        Ok(failed.map_or(Damage::NONE, |error| Damage::of(reason(&error))))
    };
    let layout = Layout { colour: if alpha { Colour::Rgba } else { Colour::Rgb }, element: Element::U8 };
    Ok(Still { sides, layout, orientation: 1, memory, read: Box::new(read) })
}

/// The file, with grays for a palette where it has none for all frames: an index is a gray then, as it is for Pillow.
fn with_palette(encoded: &[u8]) -> impl Read + '_ {
    let (head, rest) = encoded.split_at(encoded.len().min(13));
    let mut head = head.to_vec();
    if let Some(flags) = head.get_mut(10).filter(|flags| **flags & 0x80 == 0 && encoded.len() > 13) {
        *flags |= 0x87;
        head.extend((0..=u8::MAX).flat_map(|gray| [gray; 3]));
    }
    Cursor::new(head).chain(rest)
}

/// The first frame.
#[derive(Clone, Copy)]
struct Frame {
    /// Where it stands on its screen: left and top.
    at: (usize, usize),
    /// Width and height.
    sides: (usize, usize),
    /// The index that is transparent.
    clear: Option<u8>,
}

impl Frame {
    /// Writes the colours of the frame, and around it the transparent or the first one.
    fn paint<const PIXEL: usize>(
        &self,
        indices: &[u8],
        colours: &[[u8; PIXEL]; 256],
        screen_width: usize,
        target: &mut [u8],
    ) {
        let (pixels, _) = target.as_chunks_mut::<PIXEL>();
        if indices.len() < pixels.len() {
            pixels.fill(colours[usize::from(self.clear.unwrap_or(0))]);
        }
        let rows = pixels.chunks_mut(screen_width).skip(self.at.1);
        for (row, indices) in rows.zip(indices.chunks(self.sides.0.max(1))) {
            for (pixel, index) in row[self.at.0..].iter_mut().zip(indices) {
                *pixel = colours[usize::from(*index)];
            }
        }
    }
}

/// All 256 colours an index can mean, opaque but for one; black where the palette is shorter.
fn table(palette: &[u8], clear: Option<u8>) -> [[u8; 4]; 256] {
    std::array::from_fn(|index| {
        let byte = u8::try_from(index).unwrap_or(u8::MAX);
        let [red, green, blue] = palette.as_chunks::<3>().0.get(index).copied().unwrap_or_default();
        [red, green, blue, if clear == Some(byte) { 0 } else { u8::MAX }]
    })
}

fn broken(error: &gif::DecodingError) -> Rejection {
    Rejection::broken(reason(error))
}

fn reason(error: &gif::DecodingError) -> String {
    match error {
        gif::DecodingError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "truncated: the GIF's data ends too early".to_owned()
        }
        other if other.to_string().contains("Unexpected End of File") => {
            "truncated: the GIF's data ends too early".to_owned()
        }
        other => format!("broken GIF: {other}"),
    }
}
