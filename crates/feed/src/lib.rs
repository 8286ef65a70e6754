//! A map's data path: the ring in shared memory, the threads that fill it, and the frames spoken with workers.
//!
//! Knows nothing of scheduling: who gets which batch, what a failure means and what is durable is decided elsewhere.

pub mod loaders;
pub mod ring;
pub mod wire;
