//! A file's bytes as memory of this process. Owns the mapping and the pointer; who may use which bytes is `piece.rs`'s.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

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

    /// Gets the memory of this range from the kernel, which clears every page: a third of a second for a GiB. `false`: the kernel is
    /// too old for that, nothing was done.
    pub(super) fn populate(&self, at: usize, bytes: usize) -> io::Result<bool> {
        let Some(start) = self.at(at, bytes) else { return Err(io::ErrorKind::InvalidInput.into()) };
        loop {
            // SAFETY: the range lies within the mapping, and its contents are not changed by this.
            match unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) } {
                Ok(()) => return Ok(true),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::INVAL) => return Ok(false),
                Err(errno) => return Err(errno.into()),
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
