//! Which GPUs a run may use. Three sources behind one shape: real devices through NVML, simulated ones, none.
//! This room reads and reports; who runs where is the core's decision.

mod inventory;
mod nvml;
mod reading;
mod spec;

pub use inventory::{Found, GpuError, find};
pub use reading::{Glance, GpuReading, MemoryReading, ProcessReading};
pub use spec::{GpuSpec, SpecError};
