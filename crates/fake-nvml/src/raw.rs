//! The border to C: what a call is, and how answers get into the caller's memory. All `unsafe` is here.

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper_sys::bindings::{
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE,
    nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT as INVALID_ARGUMENT, nvmlReturn_enum_NVML_SUCCESS as SUCCESS,
    nvmlReturn_t,
};

/// An answer, or NVML's number for why there is none.
pub(crate) type Answer<T = ()> = Result<T, nvmlReturn_t>;

/// Exports calls: each first hangs if the script says so, then does what its body says.
macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "` as in nvml.h.")]
        // SAFETY: the name is one of NVML's; whoever loads this library loads it instead of the driver's.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::script::hang_if_told(stringify!($name));
            let answer = || -> $crate::raw::Answer { $body };
            $crate::raw::number(answer())
        }
    )*};
}
pub(crate) use calls;

/// The answer as C has it.
pub(crate) fn number(answer: Answer) -> nvmlReturn_t {
    answer.err().unwrap_or(SUCCESS)
}

/// Hands a value to the caller.
pub(crate) fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and NVML's callers pass places that are valid to write.
    unsafe { place.write(value) };
    Ok(())
}

/// What the caller has put there.
pub(crate) fn get<T: Copy>(place: *const T) -> Answer<T> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and NVML's callers pass places that they have filled.
    Ok(unsafe { place.read() })
}

/// Hands a text to the caller, whose buffer has `size` bytes.
pub(crate) fn put_text(place: *mut c_char, size: c_uint, text: &str) -> Answer {
    let size = usize::try_from(size).unwrap_or(0);
    if text.len() >= size {
        return Err(INSUFFICIENT_SIZE);
    }
    let bytes = text.bytes().chain(std::iter::once(0));
    for (offset, byte) in bytes.enumerate() {
        put(place.wrapping_add(offset), byte.cast_signed())?;
    }
    Ok(())
}

/// A text of the caller's.
pub(crate) fn get_text(place: *const c_char) -> Answer<String> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and NVML's callers pass texts that end in a zero.
    let text = unsafe { CStr::from_ptr(place) };
    text.to_str().map(str::to_owned).map_err(|_| INVALID_ARGUMENT)
}

/// Hands a list to the caller in NVML's way: too little room is answered with the number of entries.
pub(crate) fn put_list<T>(count: *mut c_uint, place: *mut T, list: Vec<T>) -> Answer {
    let room = usize::try_from(get(count)?).unwrap_or(0);
    put(count, c_uint::try_from(list.len()).unwrap_or(c_uint::MAX))?;
    if list.len() > room {
        return Err(INSUFFICIENT_SIZE);
    }
    for (offset, entry) in list.into_iter().enumerate() {
        put(place.wrapping_add(offset), entry)?;
    }
    Ok(())
}
