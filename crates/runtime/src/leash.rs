//! A program that starts gpulane and may be killed at any moment holds the other end of a pipe. gpulane inherits this one with its
//! start, so there is no moment in which it would outlive that program unnoticed.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, read};
use rustix::process::{Signal, getpid, kill_process};

use crate::process::descriptors::adopt;
use crate::process::signals::{deaf_thread, end_now};

/// Whether signals are read as data here, and one of them ends a run in order.
static HEARD: Mutex<bool> = Mutex::new(false);

/// As by SIGTERM.
const ENDED: i32 = 128 + 15;

/// From now on this process ends when the other end of the pipe is closed.
pub fn hold_leash(pipe: RawFd) -> io::Result<()> {
    let pipe = adopt(pipe)?;
    let kind = FileType::from_raw_mode(fstat(&pipe)?.st_mode);
    let readable = fcntl_getfl(&pipe)? & OFlags::ACCMODE != OFlags::WRONLY;
    if !readable || !matches!(kind, FileType::Fifo | FileType::Socket) {
        return Err(io::Error::other("this descriptor is no pipe that can be read"));
    }
    deaf_thread("leash", move || {
        wait(&pipe);
        end();
    })
}

/// From now on a signal ends what was started, in order.
pub(crate) fn signals_are_heard() {
    *heard() = true;
}

fn heard() -> MutexGuard<'static, bool> {
    HEARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is ever said there; not to be heard any more is the same as gone.
fn wait(pipe: &OwnedFd) {
    loop {
        let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], None);
        match read(pipe, &mut [0u8; 16]) {
            Ok(1..) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// While signals are not heard, nothing has been started. Then it is over at once, also where a signal would be ignored, as it is by the
/// first process of a container.
fn end() {
    let heard = heard();
    if *heard {
        let _ = kill_process(getpid(), Signal::TERM);
    } else {
        end_now(ENDED);
    }
}
