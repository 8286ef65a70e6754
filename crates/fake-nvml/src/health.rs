//! How a GPU does: load, power, heat, errors.

use std::ffi::{c_int, c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::field_id::{NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING};
use nvml_wrapper_sys::bindings::{
    nvmlComputeMode_t, nvmlDevice_t, nvmlEccCounterType_t, nvmlFieldValue_t, nvmlMemoryErrorType_t,
    nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED as NOT_SUPPORTED, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    nvmlTemperatureSensors_t, nvmlUtilization_t, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
};

use crate::devices::{ask, ask_whole};
use crate::raw::{calls, get, put};
use crate::script::{ComputeMode, Rows};

calls! {
    fn nvmlDeviceGetUtilizationRates(device: nvmlDevice_t, rates: *mut nvmlUtilization_t) {
        put(rates, nvmlUtilization_t { gpu: ask_whole(device, |gpu| gpu.load)?, memory: 0 })
    }

    fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, milliwatts: *mut c_uint) {
        put(milliwatts, ask_whole(device, |gpu| gpu.power.map(in_milliwatts))?)
    }

    fn nvmlDeviceGetEnforcedPowerLimit(device: nvmlDevice_t, milliwatts: *mut c_uint) {
        put(milliwatts, ask_whole(device, |gpu| gpu.power_limit.map(in_milliwatts))?)
    }

    fn nvmlDeviceGetTemperature(
        device: nvmlDevice_t, _sensor: nvmlTemperatureSensors_t, degrees: *mut c_uint,
    ) {
        put(degrees, ask_whole(device, |gpu| gpu.temperature)?)
    }

    fn nvmlDeviceGetComputeMode(device: nvmlDevice_t, mode: *mut nvmlComputeMode_t) {
        let told = ask(device, |_, gpu, _| Ok(gpu.compute_mode))?;
        put(mode, match told {
            ComputeMode::Default => 0,
            ComputeMode::Prohibited => 2,
            ComputeMode::ExclusiveProcess => 3,
        })
    }

    fn nvmlDeviceGetTotalEccErrors(
        device: nvmlDevice_t, _kind: nvmlMemoryErrorType_t, _since: nvmlEccCounterType_t,
        count: *mut c_ulonglong,
    ) {
        put(count, ask_whole(device, |gpu| gpu.ecc)?)
    }

    fn nvmlDeviceGetFieldValues(device: nvmlDevice_t, count: c_int, values: *mut nvmlFieldValue_t) {
        let rows = ask(device, |_, gpu, _| Ok(gpu.rows))?;
        for offset in 0..usize::try_from(count).unwrap_or(0) {
            let place = values.wrapping_add(offset);
            let mut value = get(place)?;
            let told = match value.fieldId {
                NVML_FI_DEV_REMAPPED_PENDING => Some(rows == Some(Rows::Pending)),
                NVML_FI_DEV_REMAPPED_FAILURE => Some(rows == Some(Rows::Failed)),
                _ => None,
            };
            value.valueType = UNSIGNED_INT;
            value.nvmlReturn = told.map_or(NOT_SUPPORTED, |_| SUCCESS);
            value.value = nvmlValue_t { uiVal: told.unwrap_or(false).into() };
            put(place, value)?;
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a script's watts are few and positive
fn in_milliwatts(watts: f64) -> c_uint {
    (watts * 1000.0) as c_uint
}
