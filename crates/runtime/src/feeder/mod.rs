//! The feeder: the process beside the workers of a map. It owns the list of items, the threads that load them, the ring, the workers'
//! socket and the parts. A process of its own, so that a decoder that crashes takes down neither the engine nor a worker.

pub(crate) mod orders;

/// The feeder's `main`. Returns its exit code.
pub fn main() -> u8 {
    70
}
