//! Events: each number in a GPU's `xid` comes once to each set that the GPU is registered in.

use std::collections::HashMap;
use std::ffi::{c_uint, c_ulonglong};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlEventData_t, nvmlEventSet_t, nvmlEventTypeXidCriticalError as XID,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_enum_NVML_ERROR_TIMEOUT as TIMEOUT,
};

use crate::devices::{Handle, ask_whole};
use crate::raw::{Answer, calls, put};
use crate::script;

/// For each set by its number: its GPUs by place, and how many of their Xids it has delivered.
static SETS: Mutex<Vec<Option<HashMap<usize, usize>>>> = Mutex::new(Vec::new());

calls! {
    fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) {
        let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push(Some(HashMap::new()));
        put(set, std::ptr::without_provenance_mut(sets.len()))
    }

    fn nvmlEventSetFree(set: nvmlEventSet_t) {
        let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
        let freed = set.addr().checked_sub(1).and_then(|number| sets.get_mut(number)?.take());
        freed.map(drop).ok_or(INVALID_ARGUMENT)
    }

    fn nvmlDeviceGetSupportedEventTypes(device: nvmlDevice_t, types: *mut c_ulonglong) {
        ask_whole(device, |_| Some(()))?;
        put(types, XID.into())
    }

    fn nvmlDeviceRegisterEvents(device: nvmlDevice_t, _types: c_ulonglong, set: nvmlEventSet_t) {
        if !ask_whole(device, |gpu| Some(gpu.events))? {
            return Err(NOT_SUPPORTED);
        }
        let gpu = Handle::unpack(device)?.gpu;
        in_set(set, |gpus| {
            gpus.entry(gpu).or_insert(0);
        })
    }

    fn nvmlEventSetWait_v2(set: nvmlEventSet_t, data: *mut nvmlEventData_t, timeout: c_uint) {
        let deadline = Instant::now() + Duration::from_millis(timeout.into());
        loop {
            if let Some((gpu, xid)) = next(set)? {
                return put(data, nvmlEventData_t {
                    device: Handle::whole(gpu).pack(),
                    eventType: XID.into(),
                    eventData: xid,
                    gpuInstanceId: u32::MAX,
                    computeInstanceId: u32::MAX,
                });
            }
            if Instant::now() >= deadline {
                return Err(TIMEOUT);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn in_set<T>(set: nvmlEventSet_t, change: impl FnOnce(&mut HashMap<usize, usize>) -> T) -> Answer<T> {
    let mut sets = SETS.lock().unwrap_or_else(PoisonError::into_inner);
    let gpus = set.addr().checked_sub(1).and_then(|number| sets.get_mut(number)?.as_mut());
    gpus.map(change).ok_or(INVALID_ARGUMENT)
}

/// An Xid that this set has not seen.
fn next(set: nvmlEventSet_t) -> Answer<Option<(usize, u64)>> {
    let script = script::read()?;
    in_set(set, |gpus| {
        gpus.iter_mut().find_map(|(place, delivered)| {
            let xid = *script.gpus.get(*place)?.xid.get(*delivered)?;
            *delivered += 1;
            Some((*place, xid))
        })
    })
}
