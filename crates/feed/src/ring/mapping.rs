//! A file's bytes as memory of this process. Owns the mapping and the pointer; who may use which bytes is `piece.rs`'s.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::thread::ScopedJoinHandle;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Threads that get memory at once: the kernel clears every page, which takes a third of a second per GiB for one.
const AT_ONCE: usize = 8;
/// Not worth a thread.
const LITTLE: usize = 32 << 20;

/// A shared mapping that ends with this value.
#[derive(Debug)]
pub(super) struct Mapping {
    /// Its first byte.
    start: NonNull<u8>,
    /// How long it is.
    bytes: usize,
}

// SAFETY: it is a pointer to memory of the process, not of a thread, and gives no references by itself; those who make
// references of it (`Piece`) see to it that they do not overlap.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a file that has at least so many and cannot shrink.
    pub(super) fn new(file: impl AsFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the address is the kernel's choice, so nothing that exists is mapped over.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Gets all of its memory from the kernel. `false`: the kernel is too old for that, nothing was done.
    pub(super) fn populate(&self) -> io::Result<bool> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = (self.bytes / LITTLE).clamp(1, AT_ONCE.min(cores));
        let step = self.bytes.div_ceil(threads).next_multiple_of(4096);
        let got: Vec<Result<(), Errno>> = std::thread::scope(|scope| {
            let part = |at: usize| self.get(at, step.min(self.bytes - at));
            let start = |at| (at, std::thread::Builder::new().spawn_scoped(scope, move || part(at)));
            let parts: Vec<_> = (0..self.bytes).step_by(step).map(start).collect();
            let join = |(at, started): (usize, io::Result<ScopedJoinHandle<'_, _>>)| match started {
                Ok(thread) => thread.join().unwrap_or(Err(Errno::NOMEM)),
                // There may be no more threads: then this one does it.
                Err(_) => part(at),
            };
            parts.into_iter().map(join).collect()
        });
        match got.into_iter().find_map(Result::err) {
            None => Ok(true),
            Some(Errno::INVAL) => Ok(false),
            Some(errno) => Err(errno.into()),
        }
    }

    fn get(&self, at: usize, bytes: usize) -> Result<(), Errno> {
        let Some(start) = self.at(at, bytes) else { return Err(Errno::INVAL) };
        loop {
            // SAFETY: the range lies within the mapping, and its contents are not changed by this.
            match unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    /// Where the byte `at` is, if `bytes` from there on are within the mapping.
    pub(super) fn at(&self, at: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = at.checked_add(bytes)?;
        // SAFETY: `at` lies within the mapping or right at its end.
        (end <= self.bytes).then(|| unsafe { self.start.add(at) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the range that was mapped; pieces hold the ring, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
