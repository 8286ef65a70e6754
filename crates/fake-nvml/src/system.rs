//! Start, end, and the machine as a whole.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_DRIVER_NOT_LOADED as DRIVER_NOT_LOADED,
    nvmlReturn_enum_NVML_ERROR_UNKNOWN as UNKNOWN,
};

use crate::raw::{Answer, calls, put, put_text};
use crate::script::{self, Init};

calls! {
    fn nvmlInit_v2() {
        init()
    }

    fn nvmlInitWithFlags(_flags: c_uint) {
        init()
    }

    fn nvmlShutdown() {
        Ok(())
    }

    fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) {
        put_text(version, length, "570.00.00")
    }

    fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) {
        put(version, 12_080)
    }

    fn nvmlDeviceGetCount_v2(count: *mut c_uint) {
        put(count, c_uint::try_from(script::read()?.gpus.len()).unwrap_or(c_uint::MAX))
    }
}

fn init() -> Answer {
    match script::read()?.init {
        Init::Ok => Ok(()),
        Init::NoDriver => Err(DRIVER_NOT_LOADED),
        Init::Error => Err(UNKNOWN),
    }
}
