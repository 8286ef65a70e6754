//! GPUs and slices: who they are, and what is on them.

use std::ffi::{c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t,
    nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST as GPU_IS_LOST,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_FOUND as NOT_FOUND,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED,
    nvmlReturn_enum_NVML_ERROR_RESET_REQUIRED as RESET_REQUIRED,
};

use crate::claims::Held;
use crate::raw::{Answer, calls, get, get_text, put, put_list, put_text};
use crate::script::{self, Gpu, How, Lost, Process, Script, Slice};

/// NVML's "no such number".
const NONE: u32 = u32::MAX;
/// A handle is a number in a pointer's clothes: the GPU's place from 1, and above it the slice's from 1.
const SLICE_SHIFT: usize = 16;

/// Which device a handle means.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) gpu: usize,
    slice: Option<usize>,
}

impl Handle {
    pub(crate) fn whole(gpu: usize) -> Self {
        Self { gpu, slice: None }
    }

    pub(crate) fn pack(self) -> nvmlDevice_t {
        let number = (self.gpu + 1) | self.slice.map_or(0, |slice| (slice + 1) << SLICE_SHIFT);
        std::ptr::without_provenance_mut(number)
    }

    pub(crate) fn unpack(device: nvmlDevice_t) -> Answer<Self> {
        let number = device.addr();
        let gpu = (number & ((1 << SLICE_SHIFT) - 1)).checked_sub(1).ok_or(INVALID_ARGUMENT)?;
        Ok(Self { gpu, slice: (number >> SLICE_SHIFT).checked_sub(1) })
    }

    fn find(self, script: &Script) -> Answer<(&Gpu, Option<&Slice>)> {
        let gpu = script.gpus.get(self.gpu).ok_or(INVALID_ARGUMENT)?;
        let slices = gpu.mig.as_deref().unwrap_or_default();
        let slice = self.slice.map(|slice| slices.get(slice).ok_or(INVALID_ARGUMENT)).transpose()?;
        Ok((gpu, slice))
    }
}

/// Asks about a device that is well.
pub(crate) fn ask<T>(
    device: nvmlDevice_t,
    about: impl FnOnce(&Script, &Gpu, Option<&Slice>) -> Answer<T>,
) -> Answer<T> {
    let script = script::read()?;
    let (gpu, slice) = Handle::unpack(device)?.find(&script)?;
    match gpu.lost {
        Lost::Plainly(false) => about(&script, gpu, slice),
        Lost::Plainly(true) | Lost::How(How::Gone) => Err(GPU_IS_LOST),
        Lost::How(How::Reset) => Err(RESET_REQUIRED),
    }
}

/// Asks only the whole GPU: a slice does not know.
pub(crate) fn ask_whole<T>(device: nvmlDevice_t, about: impl FnOnce(&Gpu) -> Option<T>) -> Answer<T> {
    ask(device, |_, gpu, slice| if slice.is_some() { None } else { about(gpu) }.ok_or(NOT_SUPPORTED))
}

fn handle_of(script: &Script, uuid: &str) -> Option<Handle> {
    script.gpus.iter().enumerate().find_map(|(number, gpu)| {
        let mut slices = gpu.mig.iter().flatten();
        let slice = slices.position(|slice| slice.uuid == uuid);
        (gpu.uuid == uuid || slice.is_some()).then_some(Handle { gpu: number, slice })
    })
}

fn give_handle(script: &Script, handle: Handle, place: *mut nvmlDevice_t) -> Answer {
    let (gpu, _) = handle.find(script)?;
    if gpu.lost == Lost::How(How::Gone) {
        return Err(GPU_IS_LOST);
    }
    put(place, handle.pack())
}

/// What is held there. A GPU that is cut has what its slices have.
fn held(script: &Script, gpu: &Gpu, slice: Option<&Slice>) -> Held {
    if let Some(slice) = slice {
        return script.held(&slice.uuid, &slice.processes);
    }
    let mut all = script.held(&gpu.uuid, &gpu.processes);
    all.bytes += gpu.used_extra.0;
    for slice in gpu.mig.iter().flatten() {
        let part = script.held(&slice.uuid, &slice.processes);
        all.bytes += part.bytes;
        all.processes.extend(part.processes);
    }
    all
}

fn memory(script: &Script, gpu: &Gpu, slice: Option<&Slice>, version: c_uint) -> nvmlMemory_v2_t {
    let total = slice.map_or(gpu.total.0, |slice| slice.total.0);
    let reserved = if slice.is_some() { 0 } else { gpu.reserved.0 };
    let used = held(script, gpu, slice).bytes.min(total - reserved);
    nvmlMemory_v2_t { version, total, reserved, free: total - reserved - used, used }
}

fn processes(
    device: nvmlDevice_t,
    count: *mut c_uint,
    place: *mut nvmlProcessInfo_t,
    wanted: fn(&Process) -> bool,
) -> Answer {
    let list = ask(device, |script, gpu, slice| {
        let found = held(script, gpu, slice).processes.into_iter().filter(wanted);
        let as_told = |process: Process| nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: process.used.map_or(u64::MAX, |used| used.0),
            gpuInstanceId: NONE,
            computeInstanceId: NONE,
        };
        Ok(found.map(as_told).collect())
    })?;
    put_list(count, place, list)
}

calls! {
    fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut nvmlDevice_t) {
        let gpu = usize::try_from(index).map_err(|_| INVALID_ARGUMENT)?;
        give_handle(&script::read()?, Handle::whole(gpu), device)
    }

    fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut nvmlDevice_t) {
        let script = script::read()?;
        let handle = handle_of(&script, &get_text(uuid)?).ok_or(NOT_FOUND)?;
        give_handle(&script, handle, device)
    }

    // Who it is the driver remembers of a lost GPU, too.
    fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: *mut c_char, length: c_uint) {
        let script = script::read()?;
        let (gpu, slice) = Handle::unpack(device)?.find(&script)?;
        put_text(uuid, length, slice.map_or(&gpu.uuid, |slice| &slice.uuid))
    }

    fn nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: c_uint) {
        let script = script::read()?;
        let (gpu, slice) = Handle::unpack(device)?.find(&script)?;
        put_text(name, length, slice.map_or(&gpu.name, |slice| &slice.name))
    }

    fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, pci: *mut nvmlPciInfo_t) {
        let bus = c_uint::try_from(Handle::unpack(device)?.gpu).unwrap_or(0) + 0x10;
        ask_whole(device, |_| Some(()))?;
        let mut info = nvmlPciInfo_t {
            busIdLegacy: [0; 16], domain: 0, bus, device: 0, pciDeviceId: 0, pciSubSystemId: 0, busId: [0; 32],
        };
        put_text(info.busId.as_mut_ptr(), 32, &format!("00000000:{bus:02X}:00.0"))?;
        put_text(info.busIdLegacy.as_mut_ptr(), 16, &format!("0000:{bus:02X}:00.0"))?;
        put(pci, info)
    }

    fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, info: *mut nvmlMemory_v2_t) {
        let version = get(info)?.version;
        put(info, ask(device, |script, gpu, slice| Ok(memory(script, gpu, slice, version)))?)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t,
    ) {
        processes(device, count, infos, |process| !process.graphics && !process.mps)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t,
    ) {
        processes(device, count, infos, |process| process.graphics)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        device: nvmlDevice_t, count: *mut c_uint, infos: *mut nvmlProcessInfo_t,
    ) {
        processes(device, count, infos, |process| process.mps)
    }

    fn nvmlDeviceGetMigMode(device: nvmlDevice_t, current: *mut c_uint, pending: *mut c_uint) {
        let enabled = ask_whole(device, |gpu| Some(gpu.mig.is_some()))?;
        put(current, enabled.into())?;
        put(pending, enabled.into())
    }

    fn nvmlDeviceGetMaxMigDeviceCount(device: nvmlDevice_t, count: *mut c_uint) {
        // As on real ones: the most there could be, not what there is.
        put(count, ask_whole(device, |gpu| gpu.mig.as_ref().map(|_| 7))?)
    }

    fn nvmlDeviceGetMigDeviceHandleByIndex(device: nvmlDevice_t, index: c_uint, slice: *mut nvmlDevice_t) {
        let there = ask_whole(device, |gpu| gpu.mig.as_ref().map(Vec::len))?;
        let number = usize::try_from(index).ok().filter(|number| *number < there).ok_or(NOT_FOUND)?;
        put(slice, Handle { slice: Some(number), ..Handle::unpack(device)? }.pack())
    }

    fn nvmlDeviceIsMigDeviceHandle(device: nvmlDevice_t, is_slice: *mut c_uint) {
        put(is_slice, Handle::unpack(device)?.slice.is_some().into())
    }

    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice: nvmlDevice_t, device: *mut nvmlDevice_t) {
        put(device, Handle::whole(Handle::unpack(slice)?.gpu).pack())
    }
}
