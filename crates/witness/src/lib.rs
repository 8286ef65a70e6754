//! Evidence about processes: looks at them from outside, without stopping them, and says what they are stuck in.
//! Decides nothing, signals nothing, prints nothing.
//!
//! A look reads `/proc` and the memory of Python interpreters. For a process that is stuck in the kernel such a read may
//! block: whoever must not wait calls [`take`] on a thread of its own.

mod compare;
mod descriptors;
mod diagnose;
mod evidence;
mod frame;
mod full;
mod locks;
mod monitors;
mod proc_files;
mod python;
mod sockets;
mod syscall;
mod take;

pub use compare::{Change, compare};
pub use diagnose::{GpuSight, Surroundings, diagnose};
pub use evidence::{Descriptors, Evidence, Frame, Holder, ProcessEvidence, Python, ThreadEvidence, Wait};
pub use full::in_full;
pub use monitors::is_monitor;
pub use proc_files::descendants;
pub use take::take;
