//! The decisions of a map: which worker gets what, what is tried again in smaller pieces, how large a batch is, what is left to
//! the GPU, what limits the whole, which worker is broken, and when there is no hope. Pure like the rest of the core: the feeder tells what happened and does what it is told.

mod bottleneck;
mod dispatch;
mod health;
mod prospects;
mod share;
mod size;

pub use bottleneck::{Bottleneck, Step, Work, bottleneck};
pub use dispatch::{BatchId, Dispatch, Lost, Order, Poison, Span, WorkerId};
pub use health::{Failed, Health, IN_A_ROW, Judgement, Outcome, TRIALS};
pub use prospects::{Hopeless, Prospects};
pub use share::Share;
pub use size::BatchSize;
