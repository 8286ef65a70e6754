//! A machine: what could keep its GPUs from working, one room per subject. Looks only.

mod containers;
mod disk;
mod driver;
mod gpus;
mod holders;
mod host;
mod leases;
mod limits;
mod mps;
mod orphans;
mod pressure;
mod python;
mod sight;
mod visible;

use std::path::PathBuf;
use std::sync::Arc;

use crate::Finding;
use crate::patience::{self, Look, PATIENCE};
use sight::Sight;

/// What is to be looked at.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// Where runs are kept.
    pub runs: PathBuf,
}

/// A look at one subject.
type Check = fn(&Sight) -> Vec<Finding>;

/// In the order in which a person asks.
const CHECKS: [(&str, Check); 17] = [
    ("driver", driver::check),
    ("GPUs", gpus::check),
    ("GPU order", visible::check),
    ("GPU memory", holders::check),
    ("leases", leases::check),
    ("leftovers", orphans::check),
    ("MPS", mps::check),
    ("Python", python::check),
    ("/dev/shm", disk::shared_memory),
    ("disk", disk::check),
    ("limits", limits::check),
    ("container", containers::check),
    ("memory", host::memory),
    ("pressure", pressure::check),
    ("stacks", host::stacks),
    ("core dumps", host::core_dumps),
    ("system", host::system),
];

/// Looks at everything, the driver first: other looks go by what it says.
pub fn machine(options: &MachineOptions) -> Vec<Finding> {
    let sight = Arc::new(Sight::take(options));
    let looks = CHECKS.map(|(topic, check)| {
        let sight = Arc::clone(&sight);
        Look { topic, look: Box::new(move || check(&sight)) }
    });
    patience::all(looks.into(), PATIENCE)
}
