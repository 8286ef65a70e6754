//! The names of what threads wait at, got after all else and within a limit: they are for whoever reads the evidence, and nothing that is
//! concluded from it needs them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use super::Primitive;
use super::files::{Files, PATIENCE};
use super::stack::primitive;
use crate::maps::Mapping;
use crate::sources::Memory;
use crate::syscall::Call;

/// A process with threads that sit in a futex call.
pub(crate) struct Asked {
    pub(crate) pid: u32,
    /// Its folder in `/proc`.
    pub(crate) folder: PathBuf,
    pub(crate) memory: Memory,
    pub(crate) mappings: Vec<Mapping>,
    /// The calls by the ids of the threads.
    pub(crate) calls: Vec<(u32, Call)>,
}

/// What threads wait at, by their ids, as far as it can be told in time.
///
/// Reads files of these processes on a thread of its own, which may stay behind where a disk does not answer.
pub(crate) fn names(asked: Vec<Asked>) -> HashMap<u32, Primitive> {
    let (send, found) = channel();
    let until = Instant::now() + PATIENCE;
    let look = move || {
        for process in &asked {
            tell(process, until, &send);
        }
    };
    if std::thread::Builder::new().name("names".into()).spawn(look).is_err() {
        return HashMap::new();
    }
    let next = || found.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).collect()
}

fn tell(process: &Asked, until: Instant, to: &Sender<(u32, Primitive)>) {
    let files = Files::of(process.pid, &process.folder, until);
    for (tid, call) in &process.calls {
        if Instant::now() >= until {
            return;
        }
        if let Some(at) = primitive(call, &process.memory, &process.mappings, &files) {
            // Whoever asked may have gone on.
            let _ = to.send((*tid, at));
        }
    }
}
