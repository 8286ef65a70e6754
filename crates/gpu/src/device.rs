//! One GPU or slice, as NVML tells of it. What it does not tell is `None`; nothing here decides what that means.

use gpulane_model::{Bytes, Gpu};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{ComputeMode, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::{NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING};

use crate::reading::{GpuReading, MemoryReading, ProcessReading};

/// NVML's word for "MIG is on".
const MIG_ENABLED: u32 = 1;

/// The slices of a GPU in MIG mode; `None` for all others.
pub(crate) fn slices<'probe>(whole: &Device<'probe>) -> Option<Vec<Device<'probe>>> {
    // Most GPUs know no MIG and say so with an error.
    let mode = whole.mig_mode().ok()?;
    if mode.current != MIG_ENABLED {
        return None;
    }
    let most = whole.mig_device_count().unwrap_or(0);
    Some((0..most).filter_map(|index| whole.mig_device_by_index(index).ok()).collect())
}

/// As a run's machine has it.
pub(crate) fn as_gpu(device: &Device) -> Result<Gpu, NvmlError> {
    let memory = memory(device)?;
    Ok(Gpu { uuid: device.uuid()?, name: device.name()?, memory: memory.total, reserved: memory.reserved })
}

/// Everything there is to know, each datum on its own: a GPU that refuses one may still tell the others.
pub(crate) fn read(device: &Device, index: u32) -> GpuReading {
    let (memory, trouble) = match memory(device) {
        Ok(memory) => (memory, worn_rows(device)),
        Err(error) => (MemoryReading::default(), Some(trouble_in_words(&error))),
    };
    GpuReading {
        uuid: device.uuid().unwrap_or_default(),
        index,
        name: device.name().unwrap_or_default(),
        pci: device.pci_info().ok().map(|pci| pci.bus_id),
        slice_of: None,
        memory,
        load: load(device),
        power: device.power_usage().ok().map(watts),
        power_limit: device.enforced_power_limit().ok().map(watts),
        temperature: device.temperature(TemperatureSensor::Gpu).ok(),
        compute_mode: device.compute_mode().ok().map(|mode| compute_mode(mode).to_owned()),
        ecc_errors: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
        trouble,
        processes: everyone(device),
    }
}

/// Its memory, with the driver's part apart from what processes hold.
pub(crate) fn memory(device: &Device) -> Result<MemoryReading, NvmlError> {
    let info = device.memory_info()?;
    Ok(MemoryReading {
        total: Bytes(info.total),
        reserved: Bytes(info.reserved),
        used: Bytes(info.used),
        free: Bytes(info.free),
    })
}

/// How busy it was lately, in percent.
pub(crate) fn load(device: &Device) -> Option<u32> {
    device.utilization_rates().ok().map(|rates| rates.gpu)
}

/// Processes it worked for since then.
pub(crate) fn workers(device: &Device, since: u64) -> Option<(Vec<u32>, u64)> {
    let samples = match device.process_utilization_stats(since) {
        Ok(samples) => samples,
        // Nothing new.
        Err(NvmlError::NotFound) => return Some((Vec::new(), since)),
        Err(_) => return None,
    };
    let until = samples.iter().map(|sample| sample.timestamp).max().unwrap_or(since).max(since);
    let busy = |sample: &&ProcessUtilizationSample| {
        sample.timestamp > since && (sample.sm_util > 0 || sample.mem_util > 0 || sample.enc_util > 0)
    };
    let mut pids: Vec<u32> = samples.iter().filter(busy).map(|sample| sample.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Some((pids, until))
}

/// Processes that compute, those under MPS included.
pub(crate) fn computing(device: &Device) -> Result<Vec<ProcessReading>, NvmlError> {
    let found = match device.running_compute_processes() {
        // More have come since they were counted.
        Err(NvmlError::InsufficientSize(_)) => device.running_compute_processes(),
        // Some drivers never tell; that is not a fault of this GPU.
        Err(NvmlError::NotSupported | NvmlError::NoPermission) => Ok(Vec::new()),
        answer => answer,
    }?;
    let mut processes = Vec::new();
    merge(&mut processes, found, true);
    merge(&mut processes, device.mps_running_compute_processes().unwrap_or_default(), true);
    Ok(processes)
}

/// Those, and processes that only draw.
fn everyone(device: &Device) -> Vec<ProcessReading> {
    let mut processes = computing(device).unwrap_or_default();
    merge(&mut processes, device.running_graphics_processes().unwrap_or_default(), false);
    processes
}

/// A process may be in several of NVML's lists, and each says the same of its memory.
fn merge(known: &mut Vec<ProcessReading>, found: Vec<ProcessInfo>, compute: bool) {
    for process in found {
        let memory = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(Bytes(bytes)),
            UsedGpuMemory::Unavailable => None,
        };
        match known.iter_mut().find(|other| other.pid == process.pid) {
            Some(other) => other.memory = other.memory.max(memory),
            None => known.push(ProcessReading { pid: process.pid, memory, compute }),
        }
    }
}

/// Memory rows that have gone bad: the GPU works, but wants a reset or a replacement.
fn worn_rows(device: &Device) -> Option<String> {
    let set = |id| {
        let sample = device.field_values_for(&[FieldId(id)]).ok()?.pop()?.ok()?;
        Some(match sample.value.ok()? {
            SampleValue::U32(value) => value > 0,
            SampleValue::U64(value) => value > 0,
            _ => false,
        })
    };
    if set(NVML_FI_DEV_REMAPPED_FAILURE) == Some(true) {
        Some("has bad memory that could not be replaced by spare rows".to_owned())
    } else if set(NVML_FI_DEV_REMAPPED_PENDING) == Some(true) {
        Some("has bad memory that is replaced by spare rows at its next reset".to_owned())
    } else {
        None
    }
}

/// Whether the GPU is gone, or of no use until somebody acts.
pub(crate) fn means_lost(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired)
}

/// The error so that it follows the GPU's name.
pub(crate) fn trouble_in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::GpuLost => "is lost: it has fallen off the bus or does not answer the driver".to_owned(),
        NvmlError::ResetRequired => "needs a reset before it can be used again".to_owned(),
        other => format!("cannot be read: {other}"),
    }
}

/// Whether nobody may compute on it.
pub(crate) fn is_prohibited(device: &Device<'_>) -> bool {
    device.compute_mode().is_ok_and(|mode| mode == ComputeMode::Prohibited)
}

/// Whether only one process at a time may compute on it.
pub(crate) fn is_exclusive(device: &Device<'_>) -> bool {
    let exclusive = [ComputeMode::ExclusiveThread, ComputeMode::ExclusiveProcess];
    device.compute_mode().is_ok_and(|mode| exclusive.contains(&mode))
}

const fn compute_mode(mode: ComputeMode) -> &'static str {
    match mode {
        ComputeMode::Default => "default",
        ComputeMode::ExclusiveThread => "exclusive_thread",
        ComputeMode::Prohibited => "prohibited",
        ComputeMode::ExclusiveProcess => "exclusive_process",
    }
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1000.0
}
