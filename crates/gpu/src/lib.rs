//! Which GPUs a run may use, how they do, and who has leased them. Three sources behind one shape: real devices
//! through NVML, simulated ones, none. This room reads and reports; who runs where is the core's decision.

mod checkup;
mod deadline;
mod device;
mod inventory;
mod leases;
mod probe;
mod reading;
mod spec;
mod xid;

pub use checkup::DriverVersions;
pub use deadline::{DEADLINE, readings, with_deadline};
pub use inventory::{Found, GpuError, find};
pub use leases::{
    Holder, Lease, LeaseDirOwner, Leases, Standing, Survey, Take, Ticket, are_leased_to, keepers,
    lease_dir_owner, survey,
};
pub use probe::{NoProbe, Probe, ProbeError};
pub use reading::{Glance, GpuReading, MemoryReading, ProcessReading};
pub use spec::{GpuSpec, SpecError};
pub use xid::{Xid, XidWatch, xid_meaning};
