//! Run directories and the crash-safe journal in them: what is on disk, and in which order it gets there.
//! Decides nothing about jobs and prints nothing; it keeps what others decided.
//!
//! One engine at a time writes ([`RunDir::lock`], then [`Journal::open`]); any number of views read
//! ([`Follower`]).

mod disk;
mod error;
mod find;
mod follower;
mod line;
mod lock;
mod reader;
mod repair;
mod rundir;
mod salvage;
mod trust;
mod writer;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod sample;

pub use error::{JournalError, RunDirError, io_hint, is_refused_by_disk};
pub use follower::Follower;
pub use line::{LineError, decode, encode};
pub use lock::RunLock;
pub use repair::{Mode, Repair, Salvage};
pub use rundir::RunDir;
pub use trust::{Exposure, private_directory};
pub use writer::{Commit, Journal};

/// The newest journal format this gpulane writes and reads: `run_started`'s `format`.
pub const JOURNAL_FORMAT: u32 = 1;
