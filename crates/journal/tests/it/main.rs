//! The crate from outside, on real files.

// In helpers too, not only where clippy sees `#[test]`.
#![allow(clippy::unwrap_used)]

mod follow;
mod full_disk;
mod journal;
mod run;
mod rundir;
mod speed;
