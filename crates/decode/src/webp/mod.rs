//! WebP by libwebp: still pictures, and the first frame of animations.

mod library;
mod outline;

use crate::colour::{Colour, Layout};
use crate::damage::Damage;
use crate::still::Still;
use crate::{Element, Limits, Rejection};
use library::Failure;
use outline::Outline;

/// What is known of a WebP before its pixels are read. They come with alpha where the file has it and `alpha` asks for it.
pub(crate) fn open<'a>(encoded: &'a [u8], alpha: bool, limits: &Limits) -> Result<Still<'a>, Rejection> {
    let outline = outline::outline(encoded).map_err(Rejection::broken)?;
    limits.check_pixels(outline.sides.0, outline.sides.1)?;
    let alpha = alpha && outline.alpha;
    let layout = Layout { colour: if alpha { Colour::Rgba } else { Colour::Rgb }, element: Element::U8 };
    let (sides, orientation, memory) = (outline.sides, outline.orientation, outline.memory(alpha));
    let read = move |target: &mut [u8]| read(&outline, alpha, target);
    Ok(Still { sides, layout, orientation, memory, read: Box::new(read) })
}

/// Writes the picture, or the first frame where it stands on the canvas, which is black and clear elsewhere.
fn read(outline: &Outline<'_>, alpha: bool, target: &mut [u8]) -> Result<Damage, Rejection> {
    let pixel = if alpha { 4 } else { 3 };
    let stride = outline.sides.0 as usize * pixel;
    if outline.frame != outline.sides {
        target.fill(0);
    }
    let data = if alpha { outline.with_alpha } else { outline.data };
    let first = outline.at.1 as usize * stride + outline.at.0 as usize * pixel;
    let room = target.get_mut(first..).unwrap_or_default();
    let failure = match library::decode(data, alpha, room, stride) {
        Ok(()) => return Ok(outline.wrong.map_or(Damage::NONE, Damage::of)),
        Err(Failure::NoMemory) => {
            return Err(Rejection::broken("no memory to decode the WebP; try again with fewer --threads"));
        }
        Err(failure) => failure,
    };
    // What a failed attempt has written is not known. Of a second one, what it left out is black.
    target.fill(0);
    let _ = library::decode(data, alpha, target.get_mut(first..).unwrap_or_default(), stride);
    let unread = match failure {
        Failure::Cut => outline::CUT,
        _ => "broken WebP: its image data makes no sense",
    };
    Ok(Damage::of(outline.wrong.unwrap_or(unread)))
}
