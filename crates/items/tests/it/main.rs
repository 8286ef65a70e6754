//! What inputs mean, seen from outside.

#![allow(clippy::unwrap_used)] // a test fails by panicking

mod frozen;
mod hostile;
mod place;
mod shards;
mod sources;
mod tables;
