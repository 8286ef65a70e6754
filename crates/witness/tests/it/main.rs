//! What the witness sees of real Python processes, and what it makes of evidence written by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod by_hand;
mod causes;
mod compared;
mod compiled;
mod followed;
mod full;
mod inside;
mod living;
mod native;
mod open;
mod outside;
mod polls;
mod proofs;
mod subject;
mod zoo;
