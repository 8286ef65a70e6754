//! What was seen of processes at one moment. Owns the words for it; looking itself is the work of the other rooms.

use std::fmt;

use serde::Serialize;

use crate::syscall::CLOCK;
use crate::{Database, Loop, Primitive, Source, Tie};

/// One look at several processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// When, in milliseconds of the machine's own clock: how long two looks lie apart.
    pub taken: u64,
    /// In the order they were asked for; those that are gone are left out.
    pub processes: Vec<ProcessEvidence>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessEvidence {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// When it started, in the kernel's ticks: with the id it names a process for good.
    pub start: u64,
    /// Its command line, shortened; its name in brackets where it has none.
    pub command: String,
    /// The state of its main thread, as in `ps`.
    pub state: char,
    /// Its threads, the main one first.
    pub threads: Vec<ThreadEvidence>,
    /// Whether it is Python, and whether its stacks could be read.
    pub python: Python,
    /// What it has open.
    pub descriptors: Descriptors,
    /// Bytes received and acknowledged over all its TCP sockets; 0 if that cannot be had.
    pub tcp_bytes: u64,
    /// CPU time all its threads have used, in milliseconds.
    pub cpu: u64,
    /// A signal may wake it at any time, by what is known of it.
    pub signals: Option<Wakes>,
    /// A database that it has open and somebody keeps locked, where a thread of it sleeps.
    pub database: Option<Database>,
}

/// Why a signal may wake a process, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wakes {
    /// The process has a timer, or handles the signal of one.
    Timer(String),
    /// The process handles a signal that has no meaning but to let it go on.
    Sent(String),
}

impl fmt::Display for Wakes {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timer(why) | Self::Sent(why) => to.write_str(why),
        }
    }
}

/// What is known of a process as a Python program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Python {
    /// The process is not Python.
    #[default]
    NotPython,
    /// Python of this version; its threads carry their frames.
    Version(String),
    /// Python, but it cannot be read: why, and what to do.
    Unreadable(String),
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadEvidence {
    /// Its id; that of the process for the main thread.
    pub tid: u32,
    /// Its name: Python's where it has one, else the kernel's.
    pub name: String,
    /// Its state, as in `ps`.
    pub state: char,
    /// The system call it sits in, where it sits in one and that can be seen.
    pub wait: Option<Wait>,
    /// The function of the kernel it sleeps in, `pipe_write`, where the kernel tells.
    pub wchan: Option<String>,
    /// CPU time it has used, in milliseconds.
    pub cpu: u64,
    /// How often it has been taken off a CPU: unchanged means that it has not run at all.
    pub switches: u64,
    /// The thread holds the lock of the Python interpreter.
    pub gil: bool,
    /// Its Python frames, innermost first; empty if it has none.
    pub frames: Vec<Frame>,
    /// The loop of Python code in which it waits by the clock, where the source can be read.
    pub in_loop: Option<Loop>,
}

/// A system call that a thread sits in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// Its name: `futex`, `read`, `wait4`; a number where the name is not known here.
    pub call: String,
    /// The descriptor it waits on, where it waits on one.
    pub fd: Option<u32>,
    /// What that is: `pipe`, `socket 10.0.0.1:80`, `/dev/nvidia0`; for a futex that processes share, `shared memory`;
    /// for a select of no descriptor, `the clock`; for an open, the path.
    pub on: Option<String>,
    /// The kernel's number of that pipe or socket, by which the other end is found.
    pub inode: Option<u64>,
    /// The wait will end by itself: it has a time limit. `None`: unknown.
    pub timed: Option<bool>,
    /// Who has the file lock it waits for.
    pub holder: Option<Holder>,
    /// What kind of thing it waits at, where the call itself shows no more than a futex and the thread's stack tells.
    pub at: Option<Primitive>,
    /// All that could end the wait; each alone would do. Empty: not known.
    pub sources: Vec<Source>,
}

/// A process that has what another waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its id; `None`: it cannot be seen from here.
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// All others that could let go of the lock: those that have the same open file, where it belongs to that. `None`: not known.
    pub others: Option<Vec<u32>>,
}

impl fmt::Display for Holder {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(to, "process {pid} ({})", self.name),
            None => to.write_str("a process that cannot be seen from here"),
        }
    }
}

/// A place in Python code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The function's name.
    pub function: String,
    /// The file, with its full path.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// What a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Descriptors {
    /// How many descriptors; 0 if they cannot be seen.
    pub open: u32,
    /// How many it may have; `None`: no limit, or not known.
    pub limit: Option<u64>,
    /// How many of them are GPUs: `/dev/nvidia0` and so on, not the control device alone.
    pub gpus: u32,
    /// What stdin, stdout and stderr are: `/dev/null`, `pipe`, a path; `None`: closed or not to be seen.
    pub standard: [Option<String>; 3],
    /// The kernel's numbers of its pipes.
    pub pipes: Vec<u64>,
    /// The kernel's numbers of its sockets.
    pub sockets: Vec<u64>,
}

impl Evidence {
    /// Threads that others wait for to end, as far as can be told.
    pub fn joined(&self) -> impl Iterator<Item = u32> {
        let threads = self.processes.iter().flat_map(|process| &process.threads);
        let sources = threads.filter_map(|thread| thread.wait.as_ref()).flat_map(|wait| &wait.sources);
        sources.filter_map(|source| match source {
            Source::Thread { tid, tie: Tie::Joined } => Some(*tid),
            _ => None,
        })
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<&ProcessEvidence> {
        self.processes.iter().find(|process| process.pid == pid)
    }
}

impl ProcessEvidence {
    /// Its main thread, which the kernel shows until the last of them is gone.
    pub fn main_thread(&self) -> Option<&ThreadEvidence> {
        self.threads.iter().find(|thread| thread.tid == self.pid)
    }
}

impl ThreadEvidence {
    /// Whether the thread waits, and will go on by itself when its time has come.
    pub(crate) fn waits_by_the_clock(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| wait.timed == Some(true))
    }

    /// Whether the thread waits for nothing but the clock.
    pub(crate) fn is_plain_sleep(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| {
            ["nanosleep", "clock_nanosleep"].contains(&wait.call.as_str())
                || wait.on.as_deref() == Some(CLOCK)
        })
    }

    /// Whether the thread waits for the lock of a file.
    pub(crate) fn waits_for_file_lock(&self) -> bool {
        self.wait.as_ref().is_some_and(|wait| ["flock", "fcntl"].contains(&wait.call.as_str()))
    }
}
