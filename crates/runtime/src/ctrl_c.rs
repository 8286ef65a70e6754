//! Ctrl-C as an answer instead of an end, for commands that only look: they end with success.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::process::signals::Signals;

/// Hears that a person has seen enough.
pub struct CtrlC {
    signals: Signals,
}

impl CtrlC {
    /// Listens from now on. Call it before other threads are started: in them the signal would still end the process.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { signals: Signals::listen(&[libc::SIGINT])? })
    }

    /// Waits this long, or until Ctrl-C; says whether it came.
    pub fn wait(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).ok();
        let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
        // Interrupted or refused, the caller looks once more and comes back.
        let _ = poll(&mut polled, timeout.as_ref());
        !self.signals.take().is_empty()
    }
}

impl std::fmt::Debug for CtrlC {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CtrlC").finish_non_exhaustive()
    }
}
