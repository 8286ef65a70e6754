//! One MPS daemon for a run: started when jobs share a GPU, private to the run, gone at its end. It shares GPUs
//! between processes; it never touches compute mode, clocks, persistence or power.
//!
//! The daemon starts a server process when the first job comes, and that one holds memory on the GPU.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpulane_journal::RunDir;
use gpulane_model::env_vars;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::process::image::{CStrings, Image, PointerArray, c_path, find_program, is_executable};
use crate::process::signals::reap_within;
use crate::process::spawn::{Spawned, Spawner};
use crate::process::tree::{self, Process, Table};

mod meeting;

use meeting::Meeting;

/// The daemon, and the tool that talks to it.
const PROGRAM: &str = "nvidia-cuda-mps-control";
/// Where the driver's packages and containers put it, if that is not on the `PATH`.
const USUAL_PLACES: [&str; 4] =
    ["/usr/bin", "/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/run/nvidia/driver/usr/bin"];
/// What the daemon makes when it is ready. A job that came earlier would run without MPS and not say so.
const SOCKET: &str = "control";
/// The job name that its processes bear, which no job can have.
const TAG: &str = "(mps)";

/// How long it may take to be ready.
const READY: Duration = Duration::from_secs(10);
/// How long `quit` may take, and TERM after it.
const QUIT: Duration = Duration::from_secs(2);
const TERM: Duration = Duration::from_secs(1);
/// After KILL; longer only if it is stuck in the kernel.
const KILL: Duration = Duration::from_secs(2);
/// Between looks for the socket.
const LOOK: Duration = Duration::from_millis(5);

/// A running daemon. Ends with it.
pub(super) struct Mps {
    program: PathBuf,
    /// Where daemon, server and jobs meet.
    meeting: Meeting,
    logs: PathBuf,
    /// The run's directory, which its processes bear as a tag.
    run: PathBuf,
    pid: Pid,
    pidfd: OwnedFd,
    stopped: bool,
}

/// Clears away what the daemons of engines that were killed left in the places where jobs meet them.
pub(crate) fn clear_leftovers() {
    for place in meeting::places() {
        meeting::clear(&place);
    }
}

impl Mps {
    /// Starts the daemon for these GPUs and waits until jobs can use it. To be called from the thread that starts
    /// jobs: like them, the daemon dies with it.
    pub(super) fn start(dir: &RunDir, gpus: &[String]) -> io::Result<Self> {
        let program = find().ok_or_else(|| {
            let text = format!("`{PROGRAM}` is not on the PATH; it comes with the NVIDIA driver");
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        Self::start_at(dir, gpus, program, &meeting::places())
    }

    fn start_at(dir: &RunDir, gpus: &[String], program: PathBuf, places: &[PathBuf]) -> io::Result<Self> {
        let logs = dir.root().join("mps");
        dir.make_dir(&logs)?;
        let meeting = Meeting::make(places)?;
        let log = gpulane_files::append(&logs.join("daemon.log"))?;
        let spawned = spawn(&program, &environment(dir, &meeting, &logs, gpus), &log)?;
        let Spawned { pid, pidfd } = spawned;
        let run = dir.root().to_owned();
        let mut mps = Self { program, meeting, logs, run, pid, pidfd, stopped: false };
        if let Err(error) = mps.wait_until_ready() {
            mps.stop();
            return Err(error);
        }
        Ok(mps)
    }

    /// The daemon's process, a child of ours that belongs to no job.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the daemon runs. Without it no job that starts now can join; those that run may go on.
    pub(super) fn is_alive(&self) -> bool {
        !self.stopped && !ends_within(&self.pidfd, Duration::ZERO)
    }

    /// What a job needs to use it.
    pub(super) fn environment(&self) -> [(&'static str, String); 2] {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        [
            (env_vars::CUDA_MPS_PIPE_DIRECTORY, text(self.meeting.path())),
            (env_vars::CUDA_MPS_LOG_DIRECTORY, text(&self.logs)),
        ]
    }

    /// The server processes: what they hold on a GPU is ours, not a stranger's.
    pub(super) fn server_pids(&self) -> Vec<Pid> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_nonzero()));
        let lists: Vec<_> = tasks
            .into_iter()
            .flatten()
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("children")))
            .collect();
        if lists.iter().any(Result::is_err) {
            // This kernel keeps no such list.
            return Table::read().children_of(self.pid);
        }
        let words = lists.iter().flatten().flat_map(|list| list.split_ascii_whitespace());
        words.filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)).collect()
    }

    /// Ends the daemon and its servers: asks, then TERM, then KILL. Returns when they are gone, within seconds
    /// whatever they do. To be called when no job uses it any more.
    pub(super) fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        let mut servers: Vec<Process> = self.server_pids().into_iter().filter_map(tree::look).collect();
        let begun = Instant::now();
        self.ask_to_quit(begun);
        let gone = ends_within(&self.pidfd, QUIT.saturating_sub(begun.elapsed()))
            || self.ends_by(Signal::TERM, TERM)
            || self.ends_by(Signal::KILL, KILL);
        // Those that the daemon left when it died by itself are no longer its children.
        servers.extend(self.tagged());
        for server in &servers {
            tree::signal(server, Signal::KILL);
        }
        if gone {
            // Already reaped by the sweep for orphans is as good.
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        self.meeting.leave();
    }

    fn tagged(&self) -> Vec<Process> {
        let mut tagged = Table::read().tagged(&self.run);
        tagged.retain(|process| tree::tag_of(process.pid).is_some_and(|tag| tag.job == TAG));
        tagged
    }

    fn wait_until_ready(&self) -> io::Result<()> {
        let begun = Instant::now();
        let socket = self.meeting.path().join(SOCKET);
        while !socket.exists() {
            if ends_within(&self.pidfd, LOOK) {
                return Err(self.trouble("ended at once"));
            }
            if begun.elapsed() > READY {
                return Err(self.trouble("did not become ready"));
            }
        }
        Ok(())
    }

    fn trouble(&self, what: &str) -> io::Error {
        io::Error::other(format!("`{PROGRAM}` {what}; its logs are in {}", self.logs.display()))
    }

    /// `echo quit | nvidia-cuda-mps-control`, which itself may hang.
    fn ask_to_quit(&self, begun: Instant) {
        let mut command = Command::new(&self.program);
        command.envs(self.environment()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return };
        if let Some(mut input) = child.stdin.take() {
            // If it does not listen, the signals will do.
            let _ = input.write_all(b"quit\n");
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let ended = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        if !ended.is_some_and(|pidfd| ends_within(&pidfd, QUIT.saturating_sub(begun.elapsed()))) {
            let _ = child.kill();
        }
        // One that is stuck in the driver is left to the sweep for orphans.
        reap_within(&mut child, KILL);
    }

    fn ends_by(&self, signal: Signal, patience: Duration) -> bool {
        // Already ended is what we want.
        let _ = pidfd_send_signal(&self.pidfd, signal);
        ends_within(&self.pidfd, patience)
    }
}

impl Drop for Mps {
    fn drop(&mut self) {
        self.stop();
    }
}

fn find() -> Option<PathBuf> {
    let path = std::env::var("PATH").ok();
    let usual =
        || USUAL_PLACES.iter().map(|place| Path::new(place).join(PROGRAM)).find(|path| is_executable(path));
    find_program(PROGRAM, path.as_deref()).or_else(usual)
}

/// The daemon's environment: ours, its directories, the run's GPUs by UUID, and the tag by which what outlives us is
/// found.
fn environment(dir: &RunDir, meeting: &Meeting, logs: &Path, gpus: &[String]) -> CStrings {
    let own = [
        (env_vars::CUDA_MPS_PIPE_DIRECTORY, meeting.path().to_string_lossy().into_owned()),
        (env_vars::CUDA_MPS_LOG_DIRECTORY, logs.to_string_lossy().into_owned()),
        (env_vars::CUDA_VISIBLE_DEVICES, gpus.join(",")),
        (env_vars::CUDA_DEVICE_ORDER, "PCI_BUS_ID".to_owned()),
        (env_vars::RUN, dir.root().to_string_lossy().into_owned()),
        (env_vars::JOB, TAG.to_owned()),
        (env_vars::ATTEMPT, "0".to_owned()),
    ];
    let mut all = CStrings::default();
    for (name, value) in std::env::vars_os() {
        let replaced = name.to_str().is_some_and(|name| {
            crate::orders::Orders::is_private(name) || own.iter().any(|(known, _)| *known == name)
        });
        if !replaced {
            all.push([name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat());
        }
    }
    for (name, value) in own {
        all.push(format!("{name}={value}"));
    }
    all
}

/// In the foreground, so that it stays our child.
fn spawn(program: &Path, environment: &CStrings, log: &File) -> io::Result<Spawned> {
    let mut argv = CStrings::default();
    argv.push(PROGRAM);
    argv.push("-f");
    let image = Image {
        program: &c_path(program),
        argv: PointerArray::of(&[&argv]),
        envp: PointerArray::of(&[environment]),
    };
    Spawner::new().spawn(&image, log.as_fd(), log.as_fd(), &[])
}

/// Whether a process ends in this time; returns as soon as it does.
fn ends_within(pidfd: &OwnedFd, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        let left = Timespec::try_from(patience.saturating_sub(begun.elapsed())).ok();
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests;
