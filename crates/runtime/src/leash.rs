//! A program that starts gpulane and may be killed at any moment holds the other end of a pipe. gpulane inherits this one with its
//! start, so there is no moment in which it would outlive that program unnoticed.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, read};
use rustix::process::{Signal, getpid, kill_process};

use crate::process::descriptors::adopt;
use crate::process::inherited::hear_interrupts;
use crate::process::signals::{deaf_thread, end_now};

/// Whether signals are read as data here, and one of them ends a run in order.
static HEARD: Mutex<bool> = Mutex::new(false);

/// As by SIGTERM.
const ENDED: i32 = 128 + 15;

/// Before the pipe is asked about again, where that fails.
const PAUSE: Duration = Duration::from_millis(100);

/// From now on this process ends when the other end of the pipe is closed, and by SIGINT: whoever holds the other end sends that to
/// stop a run, and may ignore it for itself, as a notebook's kernel does.
pub fn hold_leash(pipe: RawFd) -> io::Result<()> {
    let pipe = adopt(pipe)?;
    let kind = FileType::from_raw_mode(fstat(&pipe)?.st_mode);
    let readable = fcntl_getfl(&pipe)? & OFlags::ACCMODE != OFlags::WRONLY;
    if !readable || !matches!(kind, FileType::Fifo | FileType::Socket) {
        return Err(io::Error::other("this descriptor is no pipe that can be read"));
    }
    hear_interrupts();
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
        if poll(&mut [PollFd::new(pipe, PollFlags::IN)], None).is_err_and(|error| error != Errno::INTR) {
            // The kernel is out of memory; asking at once would not help.
            std::thread::sleep(PAUSE);
        }
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
