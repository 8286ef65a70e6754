//! The decisions of a map: which worker gets what, what is tried again in smaller pieces, how large a batch is, what is left to
//! the GPU, and what limits the whole. Pure like the rest of the core: the feeder tells what happened and does what it is told.

mod bottleneck;
mod dispatch;
mod share;
mod size;

pub use bottleneck::{Bottleneck, Step, Work, bottleneck};
pub use dispatch::{BatchId, Dispatch, Lost, Order, Poison, Span, WorkerId};
pub use share::Share;
pub use size::BatchSize;
