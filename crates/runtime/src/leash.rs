//! A program that starts gpulane and may be killed at any moment holds the other end of a pipe. gpulane inherits this one with its
//! start, so there is no moment in which it would outlive that program unnoticed.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use rustix::io::{read, retry_on_intr};
use rustix::process::{Signal, getpid, kill_process};

use crate::process::descriptors::adopt;
use crate::process::signals::deaf_thread;

/// From now on this process gets a SIGTERM when the other end of the pipe is closed.
pub fn hold_leash(pipe: RawFd) -> io::Result<()> {
    let pipe = adopt(pipe)?;
    deaf_thread("leash", move || wait(&pipe))
}

fn wait(pipe: &OwnedFd) {
    // Nothing is ever said there; not to be heard any more is the same as gone.
    while retry_on_intr(|| read(pipe, &mut [0u8; 16])).is_ok_and(|bytes| bytes > 0) {}
    let _ = kill_process(getpid(), Signal::TERM);
}
