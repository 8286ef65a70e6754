//! Evidence about processes: looks at them from outside, without stopping them, and says what they are stuck in.
//! Decides nothing, signals nothing, prints nothing. It is also where a process is read from `/proc` for whoever needs to know
//! what it is called, whose child it is or what its environment says.
//!
//! A look reads `/proc` and the memory of Python interpreters. For a process that is stuck in the kernel such a read may
//! block: whoever must not wait calls [`take`] on a thread of its own.

mod compare;
mod databases;
mod descriptors;
mod diagnose;
mod evidence;
mod frame;
mod full;
mod limits;
mod locks;
mod loops;
mod maps;
mod monitors;
mod native;
mod netlink;
mod proc_files;
mod proof;
mod python;
mod rest;
mod signals;
mod sockets;
mod source;
mod sources;
mod syscall;
mod take;
mod unix;

pub use compare::{Change, GpuUse, Known, compare};
pub use databases::Database;
pub use diagnose::{GpuSight, Surroundings, diagnose};
pub use evidence::{
    Descriptors, Evidence, Frame, Holder, ProcessEvidence, Python, ThreadEvidence, Wait, Wakes,
};
pub use full::in_full;
pub use limits::TimeLimit;
pub use loops::Loop;
pub use monitors::is_monitor;
pub use native::Primitive;
pub use proc_files::{Stat, command_of, descendants, name_of, shortened, stat_of, variable_of};
pub use rest::{Resting, resting};
pub use source::{Source, Tie};
pub use take::take;
