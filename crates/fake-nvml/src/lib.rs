//! For tests: a `libnvidia-ml.so.1` of our own. It says what the JSON file named in `FAKE_NVML` says, which is read
//! again at every call, so that a test can break a GPU, fill it or bring it back at any time. Only the calls that
//! gpulane makes are here; what a script can hold is in `script.rs`.

// A C library is made of raw pointers; every use of one is in `raw.rs`.
#![allow(unsafe_code)]
// The names are NVML's, not ours.
#![allow(non_snake_case)]
// It is loaded, never linked: its calls have to be exported, and what they mean stands in nvml.h.
#![allow(unreachable_pub)]

mod claims;
mod devices;
mod events;
mod health;
mod raw;
mod script;
mod system;
