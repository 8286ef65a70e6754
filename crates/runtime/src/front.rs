//! The front's side: start guardian and engine, pass signals on, learn how far the journal is durable and how it
//! all ended. It shows nothing itself; the command line reads the journal for that.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gpulane_journal::{RunDir, RunLock};
use gpulane_model::{ExitCode, GUARDIAN};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::leash::signals_are_heard;
use crate::orders::{Orders, StartRequest};
use crate::process::descriptors::inherit;
use crate::process::inherited::users_umask;
use crate::process::signals::Signals;

/// If the guardian was killed, the engine ends everything itself; this long it may take.
const ENGINE_PATIENCE: Duration = Duration::from_secs(25);
/// If the engine has ended, the guardian ends what is left; this long it may take, which is longer than it takes itself.
const GUARDIAN_PATIENCE: Duration = Duration::from_secs(12);
/// What the guardian gets where the user insists, or where the engine has ended in order and left it nothing to do.
const GUARDIAN_PATIENCE_INSISTED: Duration = Duration::from_secs(3);
/// What the engine gets to kill everything where the user insists; then the guardian does.
const INSISTED: Duration = Duration::from_secs(5);
/// How often the engine's words are read in a row.
const MOST_READS: u32 = 256;

/// What the engine tells the front beside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Something a person should know now.
    Note(String),
    /// What holds the run up, for a person: shown whatever else is not.
    Trouble(String),
    /// The journal is open; events of this engine begin after this many bytes.
    Ready {
        /// Bytes of earlier engines.
        bytes: u64,
    },
    /// The engine's last word: everything is recorded, what it started has ended, and this is its exit code.
    Ended {
        /// As the guardian will say it.
        code: u8,
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
    /// The guardian was killed by this signal, and the engine has ended everything; or has not ended in time.
    GuardianKilled {
        /// The signal.
        signal: i32,
        /// The engine has ended.
        engine_ended: bool,
    },
    /// The guardian, which has this process id, neither ends nor can be made to: something may still live.
    GuardianStuck(u32),
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
    /// The engine has said how it ended.
    ended_in_order: bool,
    /// When the engine was first seen to have closed its end of the link.
    engine_gone: Option<Instant>,
    /// The signal that killed the guardian, and when that was seen.
    guardian_killed: Option<(i32, Instant)>,
    /// Since when everything is to be killed at once.
    insisted: Option<Instant>,
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

impl Front {
    /// Starts the engine on `dir`, whose lock is handed over.
    pub fn launch(dir: &RunDir, lock: &RunLock, request: StartRequest) -> io::Result<Self> {
        let signals = Signals::listen(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
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
        lock.directory().map(inherit).transpose()?;
        inherit(&engine_link)?;
        inherit(&durable)?;
        if let Some(end) = &lifeline_end {
            inherit(end)?;
        }
        let log = gpulane_files::append(&dir.engine_log()).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open {}: {error}", dir.engine_log().display()))
        })?;
        let guardian = Orders {
            dir: dir.root().to_owned(),
            request,
            lock: lock.as_fd().as_raw_fd(),
            directory: lock.directory().map(|directory| directory.as_raw_fd()),
            link: engine_link.as_raw_fd(),
            durable: durable.as_raw_fd(),
            lifeline: lifeline_end.as_ref().map(AsRawFd::as_raw_fd),
            umask: users_umask(),
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
            ended_in_order: false,
            engine_gone: None,
            guardian_killed: None,
            insisted: None,
        })
    }

    /// The exit code of a run that could not be started, or not go on, for this.
    pub fn code_of(error: &io::Error) -> ExitCode {
        match error.kind() {
            // No more processes, no `/dev/null`: what a machine has to have is not here.
            io::ErrorKind::WouldBlock | io::ErrorKind::NotFound => ExitCode::NoResources,
            _ => ExitCode::Internal,
        }
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
        for _ in 0..MOST_READS {
            match self.link.read(&mut buffer) {
                Ok(read @ 1..) => self.partial.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    self.engine_gone.get_or_insert_with(Instant::now);
                    break;
                }
            }
        }
        let complete = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.partial.drain(..complete).collect();
        let lines = lines.split(|byte| *byte == b'\n');
        let messages: Vec<Message> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        self.ended_in_order |= messages.iter().any(|message| matches!(message, Message::Ended { .. }));
        messages
    }

    /// Passes a signal on to the engine. If it cannot be reached it has ended, which is what was asked for.
    pub fn pass_on(&mut self, signal: i32) {
        let _ = writeln!(self.link, "{signal}");
    }

    /// The user insists: whatever the others do, this ends within seconds.
    pub fn insist(&mut self) {
        self.insisted.get_or_insert_with(Instant::now);
    }

    /// Waits for an end, a signal or the time to look again, whichever comes first.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<Tick> {
        let timeout = Timespec::try_from(at_most).ok();
        let guardian_lives = self.guardian_killed.is_none();
        let mut fds = [
            PollFd::new(&self.signals, PollFlags::IN),
            // A guardian that was killed would wake us for ever; then the engine's end is what we wait for.
            if guardian_lives {
                PollFd::new(&self.guardian_ended, PollFlags::IN)
            } else {
                PollFd::new(&self.link, PollFlags::RDHUP)
            },
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let seen = !fds[1].revents().is_empty();
        self.waiting.extend(self.signals.take());
        if let Some(signal) = self.waiting.pop_front() {
            return Ok(Tick::Signal(signal));
        }
        if seen && !guardian_lives {
            self.engine_gone.get_or_insert_with(Instant::now);
        }
        if seen && guardian_lives {
            let status = self.guardian.wait()?;
            if let Some(code) = status.code().and_then(|code| u8::try_from(code).ok()) {
                return Ok(Tick::Ended(EngineEnd::of(code)));
            }
            // The engine notices, ends everything and closes its link.
            self.guardian_killed = Some((status.signal().unwrap_or(libc::SIGKILL), Instant::now()));
        }
        Ok(self.overdue().map_or(Tick::Look, Tick::Ended))
    }

    /// What to do about others that do not end; how it ended, where they are not waited for any longer.
    fn overdue(&mut self) -> Option<EngineEnd> {
        let now = Instant::now();
        let insisted = self.insisted.map(|since| now - since);
        if insisted.is_some_and(|since| since > INSISTED) {
            self.cut_lifeline();
        }
        if let Some((signal, since)) = self.guardian_killed {
            let over = self.engine_gone.is_some() || now - since > ENGINE_PATIENCE;
            let enough = insisted.is_some_and(|since| since > INSISTED);
            let engine_ended = self.engine_gone.is_some();
            return (over || enough).then_some(EngineEnd::GuardianKilled { signal, engine_ended });
        }
        if self.engine_gone.is_some() || insisted.is_some() {
            // Somebody may have stopped the guardian. Where nobody has, this is no news.
            let _ = pidfd_send_signal(&self.guardian_ended, Signal::CONT);
        }
        let waited_for_guardian = match (self.engine_gone, insisted) {
            (Some(gone), Some(insisted)) => (now - gone).min(insisted) > GUARDIAN_PATIENCE_INSISTED,
            (Some(gone), None) if self.ended_in_order => now - gone > GUARDIAN_PATIENCE_INSISTED,
            (Some(gone), None) => now - gone > GUARDIAN_PATIENCE,
            (None, insisted) => insisted.is_some_and(|since| since > INSISTED + GUARDIAN_PATIENCE),
        };
        waited_for_guardian.then(|| EngineEnd::GuardianStuck(self.guardian.id()))
    }
}

impl EngineEnd {
    /// From the guardian's exit code, which passes on the engine's.
    fn of(code: u8) -> Self {
        if code > 128 && ![130, 143].contains(&code) {
            Self::Killed(i32::from(code) - 128)
        } else {
            Self::Code(code)
        }
    }
}
