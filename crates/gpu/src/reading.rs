//! What a look at the GPUs tells: the same shape for real, fake and simulated ones.

use gpulane_model::Bytes;
use serde::Serialize;

/// One GPU, or one MIG slice of one, at one moment. What the driver does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GpuReading {
    /// What goes into `CUDA_VISIBLE_DEVICES`.
    pub uuid: String,
    /// Its number in PCI order, as nvidia-smi counts; slices have their GPU's.
    pub index: u32,
    /// The product's name.
    pub name: String,
    /// Where it sits, such as `00000000:1B:00.0`.
    pub pci: Option<String>,
    /// For a MIG slice: the UUID of the GPU it is cut from.
    pub slice_of: Option<String>,
    /// Its memory.
    pub memory: MemoryReading,
    /// How busy it was lately, in percent.
    pub load: Option<u32>,
    /// In watts.
    pub power: Option<f64>,
    /// The most it may draw, in watts.
    pub power_limit: Option<f64>,
    /// In degrees Celsius.
    pub temperature: Option<u32>,
    /// Who may use it: `default`, `exclusive_process`, `prohibited`.
    pub compute_mode: Option<String>,
    /// Memory errors that could not be corrected, since the driver was loaded.
    pub ecc_errors: Option<u64>,
    /// What is wrong with it, if anything is: lost, needs a reset, rows to be remapped.
    pub trouble: Option<String>,
    /// Who uses it.
    pub processes: Vec<ProcessReading>,
}

/// A GPU's memory, as nvidia-smi shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReading {
    /// All of it.
    pub total: Bytes,
    /// The driver's own part, not counted as used.
    pub reserved: Bytes,
    /// Held by processes.
    pub used: Bytes,
    /// What can be had.
    pub free: Bytes,
}

/// A process on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessReading {
    /// Its id as the driver sees it; in a container that may not be an id we know.
    pub pid: u32,
    /// What it holds; `None` where the driver does not say.
    pub memory: Option<Bytes>,
    /// It computes; otherwise it only draws (a desktop).
    pub compute: bool,
}

/// A look meant to be taken often: memory and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// Its memory.
    pub memory: MemoryReading,
    /// How busy it was lately, in percent.
    pub load: Option<u32>,
    /// Processes that compute on it.
    pub processes: Vec<ProcessReading>,
}
