//! A map's results on disk: part files, `failed.jsonl`, `damaged.jsonl`, and `commits.jsonl`, the ledger that says what is
//! durable. Every item stands exactly once in parts or failures, whenever the process ends.
//!
//! A commit goes in steps: the part under a hidden name and the failures are made durable, then one
//! checksummed line in the ledger is (the commit point), then the part gets its name. [`Writer::open`] undoes
//! or finishes whatever was under way. Columns that were empty at first are added to the parts that lack them in the
//! same way, by [`Writer::make_alike`]. Who works on what, and when to commit, is decided elsewhere.

mod bits;
mod block;
mod builder;
mod cell;
mod columns;
mod convert;
mod element;
mod error;
mod failures;
mod flaws;
mod json;
mod jsonl;
mod kind;
mod ledger;
mod parquet;
mod pending;
mod renewal;
mod repair;
mod writer;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod exact_tests;
#[cfg(test)]
mod renewal_tests;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod schema_tests;

pub use bits::Bits;
pub use block::{Block, Column, Data, Element};
pub use error::PartsError;
pub use failures::{Failure, Recorded, first_failures, forget_failed, read_commits};
pub use gpulane_model::Format;
pub use repair::check;
pub use writer::{Commit, Pending, Settled, Writer};
