//! Ends what runs that are over have left behind, and nothing else. A process is named by its id and its start time,
//! and signalled through a pidfd, so that nobody who got the id since is hit.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;

use crate::leftovers::{self, Leftover, Proof};
use crate::patience::{PATIENCE, within};
use crate::proc;

/// Between asking and killing.
const GRACE: Duration = Duration::from_secs(2);
/// After that it is stuck in the kernel.
const KILLED: Duration = Duration::from_secs(2);

/// What became of a process that was ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Which.
    pub pid: u32,
    /// Its command.
    pub command: String,
    /// The run that left it.
    pub run: PathBuf,
    /// Its job, `STAGE/NAME`.
    pub job: String,
    /// How it ended, for a person.
    pub how: &'static str,
    /// It is gone.
    pub gone: bool,
}

/// A process on its way out.
struct Going {
    left: Leftover,
    command: String,
    pidfd: OwnedFd,
    how: &'static str,
}

/// Ends every process that is provably ours and whose run is over: asks, waits, kills. With `run`, only what that run
/// left.
pub fn fix(run: Option<&Path>) -> Vec<Ended> {
    let mut going: Vec<Going> = within(PATIENCE, leftovers::find)
        .unwrap_or_default()
        .into_iter()
        .filter(|left| left.proof == Proof::RunOver && run.is_none_or(|run| left.tag.run == run))
        .filter_map(open)
        .collect();
    for process in &going {
        send(process, Signal::TERM);
    }
    wait(&going, GRACE);
    for process in going.iter_mut().filter(|process| !has_ended(&process.pidfd, Duration::ZERO)) {
        process.how = "killed";
        send(process, Signal::KILL);
    }
    wait(&going, KILLED);
    going.into_iter().map(told).collect()
}

/// The process itself and not another that got its id: opened first, then looked at again.
fn open(left: Leftover) -> Option<Going> {
    let pid = Pid::from_raw(i32::try_from(left.process.pid).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let same = proc::look(left.process.pid).is_some_and(|now| now.stat.start == left.process.stat.start);
    let command = proc::command(left.process.pid);
    // A resume may have taken the run up since.
    let over = leftovers::proof(&left.tag.run) == Some(Proof::RunOver);
    (same && over).then_some(Going { left, command, pidfd, how: "ended" })
}

fn send(process: &Going, signal: Signal) {
    // Already ended is what we want; what we may not signal is told at the end.
    let _ = pidfd_send_signal(&process.pidfd, signal);
}

fn wait(going: &[Going], patience: Duration) {
    let begun = Instant::now();
    for process in going {
        has_ended(&process.pidfd, patience.saturating_sub(begun.elapsed()));
    }
}

fn has_ended(pidfd: &OwnedFd, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let left = Timespec::try_from(patience.saturating_sub(begun.elapsed())).ok();
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            answer => return answer.is_ok_and(|ready| ready > 0),
        }
    }
}

fn told(process: Going) -> Ended {
    let gone = has_ended(&process.pidfd, Duration::ZERO);
    let how = if gone { process.how } else { "still there: stuck in the kernel, or not ours to signal" };
    let Leftover { process: at, tag, .. } = process.left;
    Ended { pid: at.pid, command: process.command, run: tag.run, job: tag.job, how, gone }
}
