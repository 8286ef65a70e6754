//! The guardian: parent of the engine, adopter of every orphan below it, in a session of its own so that a signal
//! to the front's process group does not reach it. It does nothing but wait; when the engine or the front is gone,
//! it ends whatever is left and only then gives the run's lock back by exiting.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use gpulane_journal::RunDir;
use gpulane_model::{ENGINE, ExitCode};
use gpulane_witness::stat_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, wait};

use crate::front::{Front, Message};
use crate::orders::Orders;
use crate::process::descriptors::adopt;
use crate::process::subreaper::{Children, become_subreaper};
use crate::process::tree::{self, Process, Table};

/// What the kernel calls it.
const NAME: &str = "lane-guardian";
/// Between two looks at an engine that may have half ended.
const LOOK: Duration = Duration::from_secs(2);
/// A process in uninterruptible sleep survives SIGKILL; waiting longer would not end it either.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn main() -> u8 {
    guard().unwrap_or_else(|error| {
        // Standard error is the run's engine log.
        let _ = writeln!(io::stderr(), "guardian: {error}");
        gpulane_model::ExitCode::Internal.code()
    })
}

fn guard() -> io::Result<u8> {
    let mut orders = Orders::take()?;
    // Fails only if we lead a session already, which is as good.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"lane-guardian");
    let _signals = crate::process::signals::Signals::listen(&[
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGPIPE,
    ])?;
    become_subreaper()?;
    let lifeline = orders.lifeline.take().map(adopt).transpose()?;
    orders.guardian = Some(rustix::process::getpid().as_raw_nonzero().get());
    let engine = match orders.command(ENGINE, Stdio::inherit()).and_then(|mut command| command.spawn()) {
        Ok(engine) => engine,
        Err(error) => return Ok(refuse(orders.link, &error)?.code()),
    };
    let engine = i32::try_from(engine.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
    // The engine has its own copies of these now. The lock stays open here: see above.
    drop(adopt(orders.link)?);
    drop(adopt(orders.durable)?);
    let _lock = (adopt(orders.lock)?, orders.directory.map(adopt).transpose()?);

    wait_for_an_end(engine, lifeline.as_ref())?;
    let status = end_everything(engine);
    if orders.dir.join("mps").exists() {
        crate::engine::clear_mps_leftovers();
    }
    Ok(exit_code(status))
}

/// Tells the front why there is no engine: nothing was started.
fn refuse(link: std::os::fd::RawFd, error: &io::Error) -> io::Result<ExitCode> {
    let code = Front::code_of(error);
    let refused = Message::Refused {
        text: format!("cannot start the engine: {error}"),
        hint: gpulane_journal::io_hint(error),
        code: code.code(),
    };
    let mut line = serde_json::to_vec(&refused)?;
    line.push(b'\n');
    // With the front gone, nobody has to be told.
    let _ = UnixStream::from(adopt(link)?).write_all(&line);
    Ok(code)
}

/// Returns when the engine has ended or the front is gone.
fn wait_for_an_end(engine: Pid, lifeline: Option<&OwnedFd>) -> io::Result<()> {
    let ended = pidfd_open(engine, PidfdFlags::empty())?;
    let mut looks_dead = 0;
    loop {
        // Its main thread has ended but another is stuck in the kernel, in a driver that hangs: it will not end.
        let dead = tree::look(engine).is_some_and(|process| process.state == b'Z');
        looks_dead = if dead { looks_dead + 1 } else { 0 };
        if looks_dead > 2 {
            return Ok(());
        }
        let mut fds = vec![PollFd::new(&ended, PollFlags::IN)];
        if let Some(lifeline) = lifeline {
            fds.push(PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, Timespec::try_from(LOOK).ok().as_ref()) {
            Ok(_) if fds.iter().any(|fd| !fd.revents().is_empty()) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills and reaps until no child is left: the kernel then vouches that nothing below us lives. Returns how the
/// engine ended.
fn end_everything(engine: Pid) -> Option<WaitStatus> {
    let children = Children::open();
    let mut status = None;
    let begun = Instant::now();
    // The engine first, so that it starts nothing more. Nothing here waits for one process alone: an engine stuck
    // in the kernel must not keep its jobs alive.
    if let Some(process) = tree::look(engine) {
        tree::signal(&process, Signal::KILL);
    }
    while begun.elapsed() < PATIENCE {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, ended))) => {
                if pid == engine {
                    status = Some(ended);
                }
                continue;
            }
            Ok(None) => {}
            Err(_) => return status,
        }
        for process in Table::read().closure(&children.read()) {
            tree::signal(&process, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    status
}

/// Whether the process that this run's lock names has ended.
pub(crate) fn engine_has_ended(dir: &RunDir) -> bool {
    let text = gpulane_files::read_text(&dir.lock_file()).unwrap_or_default();
    let pid: Option<u32> = text.trim().parse().ok();
    pid.is_some_and(|pid| stat_of(pid).is_none_or(|stat| stat.has_ended()))
}

/// Lets the guardian of a run go on, should somebody have stopped it: for when its engine has ended and the lock is not given back.
pub(crate) fn wake(dir: &RunDir) {
    let is_ours = |process: &&Process| {
        let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
        stat_of(pid).is_some_and(|stat| stat.name == NAME)
            && Orders::of(pid).is_some_and(|orders| orders.dir == dir.root())
    };
    for guardian in Table::read().living().filter(is_ours) {
        tree::signal(guardian, Signal::CONT);
    }
}

fn exit_code(status: Option<WaitStatus>) -> u8 {
    let code = status.and_then(|status| {
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))
    });
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(gpulane_model::ExitCode::Internal.code())
}
