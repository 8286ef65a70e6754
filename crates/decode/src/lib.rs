//! Bytes of a file to pixels, in place. Knows nothing of rings, items and schedules.
//!
//! What is decoded is told by the content, never by a file's name. An item that cannot be decoded is a [`Rejection`]
//! with a reason for a person, not an error of ours.
//!
//! What the pixels are, so that a model trained on Pillow's sees the same:
//!
//! - `rgb` is `ImageOps.exif_transpose(image).convert("RGB")`, then `resize(…)`, `ImageOps.fit` (crop), `ImageOps.pad` (pad) or
//!   torchvision's `Resize` and `CenterCrop` (short), with the filter asked for. Alpha is dropped. Animations give their first frame,
//!   TIFF files their first page.
//! - `srgb` is `ImageCms.profileToProfile` with the file's own profile before all of this, perceptual; without it profiles are ignored.
//! - `rgba` is the same with `convert("RGBA")`: resized with colours multiplied by alpha, as Pillow does it.
//! - `gray` is Pillow's `L`. A JPEG gives its luma, without the detour through RGB.
//! - 16 bits brought to 8 are shifted (`value >> 8`), also where Pillow would clip a gray image to white.
//! - `gray` without a size keeps the samples of a one-channel file with more than 8 bits, and a TIFF file of several
//!   such pages of one shape gives pages × height × width. Where the pages differ, the first one counts.
//! - A JPEG much larger than asked for is decoded at 1/2, 1/4 or 1/8 of its size (by the inverse DCT), as long as both
//!   sides of what is used stay at least twice as long as the target's. This differs slightly from decoding in full: it
//!   averages where Pillow's filter weighs.
//! - Plain JPEGs are decoded by ourselves, to the same planes as libjpeg-turbo's, and finished with more bits between the steps
//!   than Pillow keeps: at most 1 apart.
//! - A JPEG without Huffman tables has the standard's. What is made of a file never depends on what was decoded before.
//! - Orientation is looked for where Pillow looks: EXIF (also behind a PNG's pixels, or in `ImageMagick`'s text), the TIFF tag, and XMP
//!   where these have no such tag.

mod bmp;
mod colour;
mod damage;
mod decoder;
mod exif;
mod fit;
mod form;
mod gif;
mod icc;
mod jpeg;
mod memory;
mod notes;
mod npy;
mod orient;
mod plain;
mod planes;
mod png;
mod resample;
mod shape;
mod sniff;
mod still;
mod tiff;
mod webp;

pub use decoder::Decoder;
pub use form::{Element, Finish, Form, Kind, Limits, Place, Rejection, Spent};
