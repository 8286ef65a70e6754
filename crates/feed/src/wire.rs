//! The frames that workers, loaders and the feeder speak, as `docs/map-protocol.md` has them.
//!
//! Owns their form and the way they get through a socket; what they lead to is the feeder's.

mod frames;
mod outbox;
mod reader;
mod socket;

pub use frames::{
    BytesMoved, FailedAt, FromWorker, GpuMemory, ResultsHead, Role, SecondsSpent, ToWorker, encode,
};
pub use outbox::{Outbox, send_with_fd};
pub use reader::{FrameReader, Progress, RawFrame, WireError};
pub use socket::{SOCKET, listen};

/// The version of the protocol spoken here.
pub const PROTOCOL: u8 = 1;
/// Bytes of a frame before its head.
const PREFIX: usize = 16;
/// What every frame begins with.
const MAGIC: [u8; 2] = *b"GL";
/// Longest head.
const MOST_HEAD: u32 = 16 << 20;
/// Longest body.
const MOST_BODY: u64 = 4 << 30;
