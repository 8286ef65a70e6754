//! An open NVML: which GPUs there are and how they do. Loaded at run time, so one binary works everywhere. Any call
//! here may hang for ever with the driver: whoever asks does so on a thread of its own (see [`crate::with_deadline`]).

use std::ffi::OsStr;

use gpulane_model::Gpu;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::device;
use crate::reading::{Glance, GpuReading};

/// The driver's library: by the name programs link to, then by the one that comes with its development files.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The driver's management library, ready to be asked.
#[derive(Debug)]
pub struct Probe {
    nvml: Nvml,
}

/// Why there is nobody to ask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProbe {
    /// No driver or no device: an ordinary machine without GPUs.
    #[error("{0}")]
    Absent(String),
    /// A driver is there but does not work.
    #[error("{0}")]
    Broken(String),
}

/// Why one GPU gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It is gone, or of no use until it is reset.
    #[error("{0}")]
    Lost(String),
    /// It could not be read this time.
    #[error("{0}")]
    Failed(String),
}

/// A GPU with its number in PCI order; slices have their GPU's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) index: u32,
    pub(crate) gpu: Gpu,
}

/// The GPUs of this machine.
pub(crate) struct Census {
    pub(crate) there: Vec<Numbered>,
    /// Those that cannot be used, each with the reason: `GPU 1 is lost: …`.
    pub(crate) missing: Vec<String>,
    /// One of them lets only one process compute at a time.
    pub(crate) exclusive: bool,
}

impl Probe {
    /// Loads and starts NVML.
    pub fn open() -> Result<Self, NoProbe> {
        let [first, second] = LIBRARIES;
        let nvml = match load(first) {
            Err(NvmlError::LibloadingError(_)) => load(second),
            answer => answer,
        };
        match nvml {
            Ok(nvml) => Ok(Self { nvml }),
            Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
                Err(NoProbe::Absent("no NVIDIA driver on this machine".to_owned()))
            }
            Err(NvmlError::DriverNotLoaded) => {
                Err(NoProbe::Absent("the NVIDIA driver is not loaded".to_owned()))
            }
            Err(error) => Err(NoProbe::Broken(error.to_string())),
        }
    }

    /// The GPUs that can be used, in PCI order; slices instead of a GPU that is cut into them. One that does not
    /// answer is left out, unless none does.
    pub fn list(&self) -> Result<Vec<Gpu>, String> {
        Ok(self.numbered()?.there.into_iter().map(|numbered| numbered.gpu).collect())
    }

    pub(crate) fn numbered(&self) -> Result<Census, String> {
        let count = self.nvml.device_count().map_err(|error| error.to_string())?;
        let mut there = Vec::new();
        let mut missing = Vec::new();
        let mut exclusive = false;
        for index in 0..count {
            exclusive |= self.nvml.device_by_index(index).is_ok_and(|device| device::is_exclusive(&device));
            match self.usable(index) {
                Ok(gpus) => there.extend(gpus.into_iter().map(|gpu| Numbered { index, gpu })),
                Err(why) => missing.push(format!("GPU {index} {why}")),
            }
        }
        if there.is_empty() && !missing.is_empty() {
            Err(missing.join("; "))
        } else {
            Ok(Census { there, missing, exclusive })
        }
    }

    /// What of GPU `index` jobs can be given.
    fn usable(&self, index: u32) -> Result<Vec<Gpu>, String> {
        let in_words = |error: NvmlError| device::trouble_in_words(&error);
        let whole = self.nvml.device_by_index(index).map_err(in_words)?;
        let Some(slices) = device::slices(&whole) else {
            if device::is_prohibited(&whole) {
                return Err(
                    "is closed to computing (compute mode prohibited; `nvidia-smi -c 0` opens it)".to_owned()
                );
            }
            return Ok(vec![device::as_gpu(&whole).map_err(in_words)?]);
        };
        let slices: Vec<Gpu> = slices.iter().filter_map(|slice| device::as_gpu(slice).ok()).collect();
        if slices.is_empty() {
            return Err("is in MIG mode but has no slices".to_owned());
        }
        Ok(slices)
    }

    /// Everything about every GPU and slice. A GPU that is lost is there too, with its trouble.
    pub fn readings(&self) -> Vec<GpuReading> {
        let count = self.nvml.device_count().unwrap_or(0);
        (0..count).flat_map(|index| self.readings_of(index)).collect()
    }

    fn readings_of(&self, index: u32) -> Vec<GpuReading> {
        let whole = match self.nvml.device_by_index(index) {
            Ok(whole) => whole,
            Err(error) => {
                let trouble = Some(device::trouble_in_words(&error));
                return vec![GpuReading { index, trouble, ..GpuReading::default() }];
            }
        };
        let reading = device::read(&whole, index);
        let slices = device::slices(&whole).unwrap_or_default();
        let slices: Vec<GpuReading> = slices
            .iter()
            .map(|slice| GpuReading {
                slice_of: Some(reading.uuid.clone()),
                pci: reading.pci.clone(),
                ..device::read(slice, index)
            })
            .collect();
        std::iter::once(reading).chain(slices).collect()
    }

    /// A short look at one GPU or slice.
    pub fn glance(&self, uuid: &str) -> Result<Glance, ProbeError> {
        let device = self.by_uuid(uuid)?;
        let memory = device::memory(&device).map_err(|error| classify(&error))?;
        let processes = device::computing(&device).map_err(|error| classify(&error))?;
        Ok(Glance { memory, load: device::load(&device), processes })
    }

    /// Whose work a GPU did since that moment of its own history, and the moment the answer reaches to. `None`: the driver
    /// does not say.
    pub fn workers(&self, uuid: &str, since: u64) -> Option<(Vec<u32>, u64)> {
        device::workers(&self.by_uuid(uuid).ok()?, since)
    }

    /// Looked up each time: cheap, and a GPU that has gone is noticed right here.
    pub(crate) fn by_uuid(&self, uuid: &str) -> Result<Device<'_>, ProbeError> {
        self.nvml.device_by_uuid(uuid).map_err(|error| match error {
            // What a driver says of a GPU it once knew.
            NvmlError::NotFound => ProbeError::Lost("is not seen by the driver any more".to_owned()),
            other => classify(&other),
        })
    }

    pub(crate) fn nvml(&self) -> &Nvml {
        &self.nvml
    }
}

fn load(library: &str) -> Result<Nvml, NvmlError> {
    Nvml::builder().lib_path(OsStr::new(library)).init()
}

fn classify(error: &NvmlError) -> ProbeError {
    let words = device::trouble_in_words(error);
    if device::means_lost(error) { ProbeError::Lost(words) } else { ProbeError::Failed(words) }
}
