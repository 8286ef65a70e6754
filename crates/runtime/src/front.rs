//! The front's side: start guardian and engine, pass signals on, learn how far the journal is durable and how it
//! all ended. It shows nothing itself; the command line reads the journal for that.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gpulane_journal::{RunDir, RunLock};
use gpulane_model::GUARDIAN;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::leash::signals_are_heard;
use crate::orders::{Orders, StartRequest};
use crate::process::descriptors::inherit;
use crate::process::signals::Signals;

/// If the guardian was killed, the engine ends everything itself; this long it may take.
const ENGINE_PATIENCE: Duration = Duration::from_secs(25);

/// What the engine tells the front beside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Something a person should know now.
    Note(String),
    /// The journal is open; events of this engine begin after this many bytes.
    Ready {
        /// Bytes of earlier engines.
        bytes: u64,
    },
    /// The engine could not begin; nothing was started.
    Refused {
        /// What and why.
        text: String,
        /// What to do about it.
        hint: Option<String>,
        /// The exit code to use.
        code: u8,
    },
}

/// What [`Front::wait`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// Time to look at the journal again.
    Look,
    /// A signal came for us.
    Signal(i32),
    /// Guardian and engine have ended, and with them everything they started.
    Ended(EngineEnd),
}

/// How the engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineEnd {
    /// With one of gpulane's exit codes.
    Code(u8),
    /// Killed by this signal.
    Killed(i32),
}

/// A running engine, seen from the command that started it.
pub struct Front {
    guardian: Child,
    /// Readable when the guardian has ended.
    guardian_ended: OwnedFd,
    link: UnixStream,
    /// Bytes of a message not yet complete.
    partial: Vec<u8>,
    durable: File,
    signals: Signals,
    /// Signals read but not yet told.
    waiting: VecDeque<i32>,
    /// Held open as long as we live; the guardian sees it close.
    lifeline: Option<OwnedFd>,
}

/// How much of the journal may be announced.
#[derive(Debug)]
pub struct Durable(File);

impl Durable {
    /// In bytes from its beginning.
    pub fn bytes(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, 0).map_or(0, |()| u64::from_ne_bytes(bytes))
    }
}

/// What ends us in order. Under `nohup` a hangup is ignored, and stays so.
fn signals_for_us() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let ignored = ignored.unwrap_or(0);
    let listen = |signal: &i32| *signal != libc::SIGHUP || ignored & (1 << (libc::SIGHUP - 1)) == 0;
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().filter(listen).collect()
}

impl Front {
    /// Starts the engine on `dir`, whose lock is handed over.
    pub fn launch(dir: &RunDir, lock: &RunLock, request: StartRequest) -> io::Result<Self> {
        let signals = Signals::listen(&signals_for_us())?;
        signals_are_heard();
        let (link, engine_link) = UnixStream::pair()?;
        link.set_nonblocking(true)?;
        let durable: File = rustix::fs::memfd_create("gpulane-durable", MemfdFlags::CLOEXEC)?.into();
        durable.write_all_at(&0u64.to_ne_bytes(), 0)?;
        let (lifeline_end, lifeline) = if request.detached {
            (None, None)
        } else {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            (Some(read), Some(write))
        };
        inherit(lock.as_fd())?;
        inherit(&engine_link)?;
        inherit(&durable)?;
        if let Some(end) = &lifeline_end {
            inherit(end)?;
        }
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.engine_log())?;
        let guardian = Orders {
            dir: dir.root().to_owned(),
            request,
            lock: lock.as_fd().as_raw_fd(),
            link: engine_link.as_raw_fd(),
            durable: durable.as_raw_fd(),
            lifeline: lifeline_end.as_ref().map(AsRawFd::as_raw_fd),
            guardian: None,
        }
        .command(GUARDIAN, Stdio::from(log))?
        .spawn()?;
        let pid = i32::try_from(guardian.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::Other)?;
        Ok(Self {
            guardian_ended: pidfd_open(pid, PidfdFlags::empty())?,
            guardian,
            link,
            partial: Vec::new(),
            durable,
            signals,
            waiting: VecDeque::new(),
            lifeline,
        })
    }

    /// Where to read how many bytes of the journal are durable: what may be announced.
    pub fn durable(&self) -> io::Result<Durable> {
        Ok(Durable(self.durable.try_clone()?))
    }

    /// Whether we were told to stop since the last look.
    pub fn signal_came(&mut self) -> bool {
        self.waiting.extend(self.signals.take());
        !self.waiting.is_empty()
    }

    /// Lets go of the guardian: it ends everything at once.
    pub fn cut_lifeline(&mut self) {
        self.lifeline = None;
    }

    /// What the engine said since the last call.
    pub fn messages(&mut self) -> Vec<Message> {
        let mut buffer = [0; 4096];
        while let Ok(read) = self.link.read(&mut buffer) {
            if read == 0 {
                break;
            }
            self.partial.extend_from_slice(&buffer[..read]);
        }
        let complete = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.partial.drain(..complete).collect();
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Passes a signal on to the engine. If it cannot be reached it has ended, which is what was asked for.
    pub fn pass_on(&mut self, signal: i32) {
        let _ = writeln!(self.link, "{signal}");
    }

    /// Waits for an end, a signal or the time to look again, whichever comes first.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<Tick> {
        let timeout = Timespec::try_from(at_most).ok();
        let mut fds =
            [PollFd::new(&self.guardian_ended, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let guardian_ended = !fds[0].revents().is_empty();
        self.waiting.extend(self.signals.take());
        if let Some(signal) = self.waiting.pop_front() {
            return Ok(Tick::Signal(signal));
        }
        if guardian_ended {
            return Ok(Tick::Ended(self.end()?));
        }
        Ok(Tick::Look)
    }

    /// The guardian has ended. If it was killed, the engine notices, ends everything and closes its link.
    fn end(&mut self) -> io::Result<EngineEnd> {
        let status = self.guardian.wait()?;
        if let Some(code) = status.code().and_then(|code| u8::try_from(code).ok()) {
            return Ok(if code > 128 && ![130, 143].contains(&code) {
                EngineEnd::Killed(i32::from(code) - 128)
            } else {
                EngineEnd::Code(code)
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < ENGINE_PATIENCE {
            let mut fds = [PollFd::new(&self.link, PollFlags::RDHUP)];
            let _ = poll(&mut fds, Timespec::try_from(Duration::from_millis(200)).ok().as_ref());
            if fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP) {
                break;
            }
        }
        Ok(EngineEnd::Killed(status.signal().unwrap_or(libc::SIGKILL)))
    }
}
