//! Low priority for who imports, so that running jobs are not slowed; taken back when it becomes a job. Where it could not be taken
//! back, it is not given.
//!
//! Linux shares a core among sessions first where it groups tasks by them, whatever their processes' nice values say. So the
//! session is made nice, too: `/proc/PID/autogroup`, which anyone may do and undo.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::time::Duration;

use rustix::process::{Pid, getpriority_process, setpriority_pgrp, setpriority_process};

/// How much nicer than a job.
const NICER: i32 = 19;
/// A minute's worth.
const MOST_TRIES: u32 = 1000;

/// What can be done about priorities here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Priority {
    /// What jobs run at, where a process can be brought back to it.
    usual: Option<i32>,
}

impl Priority {
    /// Tries on a thread of its own whether a priority that was lowered can be raised again: that takes a right which the
    /// system says in several places.
    pub(super) fn try_out() -> Self {
        let trial = std::thread::Builder::new().spawn(|| {
            let usual = getpriority_process(None).ok()?;
            setpriority_process(None, usual + 1).ok()?;
            setpriority_process(None, usual).ok()?;
            Some(usual)
        });
        Self { usual: trial.ok().and_then(|trial| trial.join().ok().flatten()) }
    }

    /// Whether importing costs the jobs next to nothing.
    pub(super) fn can_be_low(self) -> bool {
        self.usual.is_some()
    }

    /// Right after its start: what it starts later inherits it.
    pub(super) fn lower(self, pid: Pid) {
        let _ = set_session(pid, NICER);
        if let Some(usual) = self.usual {
            let _ = setpriority_process(Some(pid), usual + NICER);
        }
    }

    /// All threads of all processes of its group, which is its own.
    pub(super) fn restore(self, pid: Pid) {
        if let Some(usual) = self.usual {
            let _ = setpriority_pgrp(Some(pid), usual);
        }
        if matches!(set_session(pid, 0), Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            let _ = std::thread::Builder::new().spawn(move || insist(pid));
        }
    }
}

/// Every session begins at 0.
fn set_session(pid: Pid, nice: i32) -> io::Result<()> {
    let path = format!("/proc/{}/autogroup", pid.as_raw_nonzero());
    OpenOptions::new().write(true).open(path)?.write_all(nice.to_string().as_bytes())
}

/// Without the rights of root, Linux does this ten times a second at most, for all who ask. Over when it is done, the process is
/// gone, or so many others ask that it must stay as it is.
fn insist(pid: Pid) {
    for _ in 0..MOST_TRIES {
        if !matches!(set_session(pid, 0), Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            return;
        }
        std::thread::sleep(Duration::from_millis(60));
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use gpulane_testkit::{skip, wait_until};

    use super::*;
    use crate::process::tree;

    /// A process in a session of its own.
    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            let sleeper = Self(Command::new("setsid").args(["sleep", "60"]).spawn().unwrap());
            let pid = sleeper.pid();
            let session = || tree::look(pid).map(|process| process.session);
            wait_until("its session", || session() == Some(pid.as_raw_pid()));
            sleeper
        }

        fn pid(&self) -> Pid {
            Pid::from_child(&self.0)
        }

        /// Empty where the kernel does not group tasks by session.
        fn session(&self) -> String {
            std::fs::read_to_string(format!("/proc/{}/autogroup", self.0.id())).unwrap_or_default()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_session_is_made_nice_and_is_as_ever_again() {
        let sleeper = Sleeper::new();
        if !sleeper.session().starts_with("/autogroup") {
            return skip("a session is made nice", "this kernel does not group tasks by session");
        }
        // Others may ask at the same time; then it is left, but not for good.
        wait_until("a nice session", || set_session(sleeper.pid(), NICER).is_ok());
        assert!(sleeper.session().trim_end().ends_with(" nice 19"));
        Priority::default().restore(sleeper.pid());
        wait_until("the usual", || sleeper.session().trim_end().ends_with(" nice 0"));
    }

    #[test]
    fn what_is_lowered_comes_back() {
        let sleeper = Sleeper::new();
        let pid = sleeper.pid();
        let (priority, before) = (Priority::try_out(), getpriority_process(Some(pid)).unwrap());
        priority.lower(pid);
        let low = getpriority_process(Some(pid)).unwrap();
        priority.restore(pid);
        let after = getpriority_process(Some(pid)).unwrap();
        assert_eq!(after, before);
        assert_eq!(low > before, priority.can_be_low());
    }
}
