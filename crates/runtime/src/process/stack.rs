//! Enough stack for the main thread, also where `ulimit -s` leaves it next to none.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

/// Below this the main thread works on a stack of its own making.
const ENOUGH: libc::rlim_t = 1 << 20;
/// The size of that one.
const SIZE: usize = 8 << 20;
/// Below it nothing is mapped: running over ends the process instead of overwriting something.
const GUARD: usize = 64 << 10;

thread_local! {
    /// What `begin` is to call, and where it came from. `makecontext` can hand on nothing but integers.
    static CALL: Cell<*mut Call<'static>> = const { Cell::new(null_mut()) };
}

struct Call<'a> {
    work: &'a mut dyn FnMut(),
    back: MaybeUninit<libc::ucontext_t>,
}

/// Does `work` on this same thread, on a stack that is large enough. (Another thread would not do: the kernel hands orphans to the
/// main one, and children die with the thread that started them. Raising the limit would not do either: jobs inherit it.)
pub(crate) fn with_enough<T>(work: impl FnOnce() -> T) -> T {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes the struct it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    if !known || limit.rlim_cur >= ENOUGH {
        return work();
    }
    let (mut work, mut result) = (Some(work), None);
    let switched = on_another(&mut || {
        if let Some(work) = work.take() {
            result = Some(catch_unwind(AssertUnwindSafe(work)));
        }
    });
    match (result, work) {
        (Some(Ok(value)), _) => value,
        (Some(Err(panic)), _) => resume_unwind(panic),
        // No memory for a stack: then on the one there is.
        (None, Some(work)) if !switched => work(),
        (None, _) => unreachable!("the other stack returns only when its work is done"),
    }
}

/// Calls `work` on a stack of its own. `false`: there was none to be had, and nothing was called.
fn on_another(work: &mut dyn FnMut()) -> bool {
    // SAFETY: a fresh private mapping that nobody else knows of.
    let base = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        libc::mmap(null_mut(), SIZE + GUARD, libc::PROT_NONE, flags, -1, 0)
    };
    if base == libc::MAP_FAILED {
        return false;
    }
    let mut call = Call { work, back: MaybeUninit::uninit() };
    let mut there = MaybeUninit::<libc::ucontext_t>::uninit();
    // SAFETY: the upper part of the mapping is made usable before the context that runs on it. `getcontext` initialises `there`;
    // `call` outlives the switch, because `swapcontext` returns here only when `begin` has switched back. `begin` neither unwinds
    // nor returns past that.
    unsafe {
        let bottom = base.cast::<u8>().add(GUARD).cast::<libc::c_void>();
        let ready = libc::mprotect(bottom, SIZE, libc::PROT_READ | libc::PROT_WRITE) == 0
            && libc::getcontext(there.as_mut_ptr()) == 0;
        if ready {
            let context = &mut *there.as_mut_ptr();
            context.uc_stack.ss_sp = bottom;
            context.uc_stack.ss_size = SIZE;
            context.uc_link = null_mut();
            libc::makecontext(there.as_mut_ptr(), begin, 0);
            CALL.set((&raw mut call).cast());
            libc::swapcontext(call.back.as_mut_ptr(), there.as_ptr());
        }
        libc::munmap(base, SIZE + GUARD);
        ready
    }
}

/// The first function on the other stack. Its work catches its own panics.
extern "C" fn begin() {
    // SAFETY: set right before the switch, by a caller that waits for the switch back.
    unsafe {
        let call = CALL.get();
        ((*call).work)();
        libc::setcontext((*call).back.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs far more than a test's thread has.
    #[inline(never)]
    fn deep(levels: u32) -> u32 {
        let frame = std::hint::black_box([levels; 1024]);
        if levels == 0 { 0 } else { 1 + deep(levels - 1) + frame[0] - levels }
    }

    #[test]
    fn another_stack_is_deep_and_comes_back() {
        let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(|| {
            let mut depth = 0;
            assert!(on_another(&mut || depth = deep(200)));
            depth
        });
        assert_eq!(thread.unwrap().join().unwrap(), 200);
    }
}
