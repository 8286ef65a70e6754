//! What the readers of all formats but JPEG have in common: what is known before the pixels are read, and how to read them.

use crate::Rejection;
use crate::colour::Layout;
use crate::damage::Damage;

/// Writes an image's pixels into a slice of exactly their size, and says what it had to conceal.
pub(crate) type ReadPixels<'a> = Box<dyn FnOnce(&mut [u8]) -> Result<Damage, Rejection> + 'a>;

/// An image whose header is known; its pixels come when they are asked for.
pub(crate) struct Still<'a> {
    /// Width and height as stored.
    pub(crate) sides: (u32, u32),
    /// How its pixels will lie.
    pub(crate) layout: Layout,
    /// How they are to be turned.
    pub(crate) orientation: u8,
    /// Bytes that reading takes beside the slice that is filled.
    pub(crate) memory: u64,
    /// How to get them.
    pub(crate) read: ReadPixels<'a>,
}

/// Why samples like these are not brought to 8 bits.
pub(crate) fn not_eight_bits(layout: Layout) -> String {
    format!(
        "{:?} samples have no fixed range to bring to 8 bits; decode it as `gray` without a size, or give the model its own load(path)",
        layout.element
    )
}
