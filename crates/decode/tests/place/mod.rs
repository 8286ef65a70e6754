//! A place that gives room once, and says so if it is asked again.

#![allow(dead_code)] // each test takes what it needs

use std::path::{Path, PathBuf};

use gpulane_decode::{Decoder, Finish, Form, Limits, Place, Rejection};

/// Room for one item, up to a limit.
pub(crate) struct Room {
    /// What was given.
    pub(crate) bytes: Vec<u8>,
    /// How often it was asked.
    pub(crate) asked: u32,
    /// The most it gives.
    pub(crate) most: u64,
    /// What stands in it before; never zero, so that what a decoder leaves out is seen.
    pub(crate) fill: u8,
}

impl Room {
    pub(crate) fn enough() -> Self {
        Self::of(1 << 30)
    }

    pub(crate) fn of(most: u64) -> Self {
        Self { bytes: Vec::new(), asked: 0, most, fill: 0xa5 }
    }
}

impl Place for Room {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.asked += 1;
        if bytes > self.most {
            return None;
        }
        self.bytes = vec![self.fill; usize::try_from(bytes).expect("fits")];
        Some(&mut self.bytes)
    }
}

/// Decodes with a fresh decoder.
pub(crate) fn decoded(encoded: &[u8], decode: &str, finish: Finish) -> Result<(Form, Vec<u8>), Rejection> {
    let mut room = Room::enough();
    let mut decoder = Decoder::new(decode.parse().expect(decode), Limits::default());
    let form = decoder.decode(encoded, finish, &mut room)?;
    assert_eq!(room.asked, 1, "asked exactly once");
    assert_eq!(room.bytes.len() as u64, form.bytes);
    Ok((form, room.bytes))
}

/// A file among the images of these tests.
pub(crate) fn image(name: &str) -> Vec<u8> {
    let path = images().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn images() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images")
}

/// Mean and largest difference of two images.
pub(crate) fn difference(one: &[u8], other: &[u8]) -> (f64, u8) {
    assert_eq!(one.len(), other.len(), "as many bytes");
    let apart = |(one, other): (&u8, &u8)| one.abs_diff(*other);
    let sum: u64 = one.iter().zip(other).map(apart).map(u64::from).sum();
    let most = one.iter().zip(other).map(apart).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss)] // a mean
    let mean = sum as f64 / one.len().max(1) as f64;
    (mean, most)
}
