//! What inputs mean, seen from outside.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod frozen;
mod hostile;
mod packed;
mod place;
mod shards;
mod sources;
mod tables;
