//! Low priority for who imports, so that running jobs are not slowed; taken back when it becomes a job. Where it could not be taken
//! back, it is not given.

use rustix::process::{Pid, getpriority_process, setpriority_pgrp, setpriority_process};

/// How much nicer than a job.
const NICER: i32 = 10;

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
        let trial = std::thread::spawn(|| {
            let usual = getpriority_process(None).ok()?;
            setpriority_process(None, usual + 1).ok()?;
            setpriority_process(None, usual).ok()?;
            Some(usual)
        });
        Self { usual: trial.join().ok().flatten() }
    }

    /// Whether importing costs the jobs next to nothing.
    pub(super) fn can_be_low(self) -> bool {
        self.usual.is_some()
    }

    /// Right after its start: what it starts later inherits it.
    pub(super) fn lower(self, pid: Pid) {
        if let Some(usual) = self.usual {
            let _ = setpriority_process(Some(pid), usual + NICER);
        }
    }

    /// All threads of all processes of its group, which is its own.
    pub(super) fn restore(self, pid: Pid) {
        if let Some(usual) = self.usual {
            let _ = setpriority_pgrp(Some(pid), usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn what_is_lowered_comes_back() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (priority, before) = (Priority::try_out(), getpriority_process(Some(pid)).unwrap());
        priority.lower(pid);
        let low = getpriority_process(Some(pid)).unwrap();
        priority.restore(pid);
        let after = getpriority_process(Some(pid)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(after, before);
        assert_eq!(low > before, priority.can_be_low());
    }
}
