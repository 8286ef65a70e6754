//! Descriptors that cross an exec: which ones do, and taking them up on the other side.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Lets a descriptor survive exec.
pub(crate) fn inherit(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfd(&fd)?;
    Ok(fcntl_setfd(&fd, flags - FdFlags::CLOEXEC)?)
}

/// Takes a descriptor that who started us has named; what we start will not inherit it.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call that changes flags only.
    if fd <= 2 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::other(format!("no descriptor {fd} was left open for us")));
    }
    // SAFETY: it is open, and the number comes from the process that started us and left exactly this descriptor open
    // for us; each is adopted once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Keeps every descriptor but stdio from the processes we start, also those a shell left open for us.
pub(crate) fn keep_to_ourselves() {
    // SAFETY: a plain system call that changes flags only. Where the kernel does not know it, our own descriptors
    // are closed on exec anyway.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
