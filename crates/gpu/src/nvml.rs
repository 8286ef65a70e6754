//! Real GPUs, through the driver's management library. It is loaded at run time, so one binary works everywhere,
//! and asked on a thread of its own with a deadline, because NVML itself can hang.

use std::sync::mpsc;
use std::time::Duration;

use gpulane_model::{Bytes, Gpu};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// A healthy driver answers in well under a second, a cold one (persistence mode off) in a few.
const DEADLINE: Duration = Duration::from_secs(20);

/// What NVML had to say.
pub(crate) enum Answer {
    /// These GPUs, in PCI order.
    Gpus(Vec<Gpu>),
    /// No driver or no device: an ordinary machine without GPUs.
    Absent(String),
    /// A driver is there but does not work.
    Broken(String),
}

/// Asks once.
pub(crate) fn ask() -> Answer {
    let (sender, receiver) = mpsc::sync_channel(1);
    let asking = std::thread::Builder::new().name("nvml".into()).spawn(move || {
        // The receiver may have given up; then nobody is left to tell.
        let _ = sender.send(read());
    });
    if let Err(error) = asking {
        return Answer::Broken(format!("cannot start a thread to ask NVML: {error}"));
    }
    receiver.recv_timeout(DEADLINE).unwrap_or_else(|_| {
        Answer::Broken(format!("NVML did not answer within {} s; does nvidia-smi work?", DEADLINE.as_secs()))
    })
}

fn read() -> Answer {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound) => {
            return Answer::Absent("no NVIDIA driver on this machine".to_owned());
        }
        Err(NvmlError::DriverNotLoaded) => {
            return Answer::Absent("the NVIDIA driver is not loaded".to_owned());
        }
        Err(error) => return Answer::Broken(error.to_string()),
    };
    match list(&nvml) {
        Ok(gpus) if gpus.is_empty() => Answer::Absent("the driver sees no GPU".to_owned()),
        Ok(gpus) => Answer::Gpus(gpus),
        Err(error) => Answer::Broken(error.to_string()),
    }
}

fn list(nvml: &Nvml) -> Result<Vec<Gpu>, NvmlError> {
    // NVML's own order is PCI order.
    (0..nvml.device_count()?)
        .map(|index| {
            let device = nvml.device_by_index(index)?;
            Ok(Gpu {
                uuid: device.uuid()?,
                name: device.name()?,
                memory: Bytes(device.memory_info()?.total),
                reserved: Bytes(0),
            })
        })
        .collect()
}
