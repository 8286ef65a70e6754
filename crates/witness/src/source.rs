//! Where what a thread waits for could come from. Owns the words for it; who is inside the job is for others to say.

use std::fmt;

use serde::Serialize;

/// One of those who could end a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Any other thread of its process: a lock, condition or event in memory of its own, whose owner is written nowhere.
    OwnThreads,
    /// One certain thread and no other; one that is not among the evidence has ended.
    Thread {
        /// Its id.
        tid: u32,
        /// What ties them.
        tie: Tie,
    },
    /// The end of one of these processes.
    Exit(Vec<u32>),
    /// Any thread of any of these processes: all that have the other end of it.
    Processes {
        /// Their ids.
        pids: Vec<u32>,
        /// What it is: `pipe 4711`, `unix socket /run/x`.
        what: String,
    },
    /// The driver of a GPU, on behalf of that GPU.
    Gpu,
    /// The clock.
    Clock,
    /// Somebody outside, or anybody: who or what, in words.
    Outside(String),
}

/// What ties a thread that waits to the one it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tie {
    /// The thread is joined: waited for to end.
    Joined,
    /// The thread owns the `RLock`.
    RLock,
    /// The thread owns the mutex of the C library.
    Mutex,
    /// The thread holds the lock of the Python interpreter.
    Interpreter,
}

impl fmt::Display for Tie {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Joined => "to end",
            Self::RLock => "to release an RLock",
            Self::Mutex => "to unlock a mutex",
            Self::Interpreter => "to give Python's own lock (GIL) back",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnThreads => to.write_str("another thread of its process"),
            Self::Thread { tid, tie } => write!(to, "thread {tid} {tie}"),
            Self::Exit(pids) => match pids[..] {
                [pid] => write!(to, "process {pid} to end"),
                _ => write!(to, "one of the processes {} to end", listed(pids)),
            },
            Self::Processes { pids, what } => match pids[..] {
                [] => write!(to, "{what}, whose other end nobody has any more"),
                [pid] => write!(to, "{what}, whose other end process {pid} has"),
                _ => write!(to, "{what}, whose other end processes {} have", listed(pids)),
            },
            Self::Gpu => to.write_str("the driver of a GPU"),
            Self::Clock => to.write_str("the clock"),
            Self::Outside(what) => to.write_str(what),
        }
    }
}

/// Most ids that are named.
const SHOWN: usize = 6;

fn listed(pids: &[u32]) -> String {
    let shown: Vec<String> = pids.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if pids.len() > SHOWN { ", …" } else { "" };
    shown.join(", ") + more
}
