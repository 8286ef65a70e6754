//! Threads and processes that only watch a program and report on it. They tick all its life, also when it is frozen, so what
//! they do is no sign of its life.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;

use crate::descriptors::OpenFiles;
use crate::proc_files::{numbers_in, read};
use crate::sockets::TcpSockets;
use crate::{Frame, ThreadEvidence};

/// Installed packages whose threads only watch and report.
const PACKAGES: [&str; 14] = [
    "aim",
    "clearml",
    "comet_ml",
    "debugpy",
    "ipykernel",
    "mlflow",
    "neptune",
    "opentelemetry",
    "prometheus_client",
    "sentry_sdk",
    "tensorboard",
    "tensorboardX",
    "tqdm",
    "wandb",
];

/// Where some of them wrap the threads of others: below such a frame runs what the program itself has started.
const WRAPPERS: [&str; 3] =
    ["/sentry_sdk/integrations/", "/opentelemetry/instrumentation/", "/pydev_monkey.py"];

/// How the names of such processes begin.
const PROCESSES: [&str; 3] = ["wandb", "gpu_stats", "tensorboard"];

/// Whether a process of this name (`comm`) only watches and reports.
pub fn is_monitor(comm: &str) -> bool {
    PROCESSES.iter().any(|name| comm.starts_with(name))
}

/// Takes out of the count what passes between these sockets and processes that watch: a frozen program reports on and on
/// that it is there.
pub(crate) fn leave_out_reports(tcp: &mut TcpSockets, mut own: impl Iterator<Item = u64>) {
    // Such processes are on the same machine; without a connection to it nobody needs to look for them.
    let local = |inode: u64| {
        tcp.get(&inode).is_some_and(|socket| !socket.listens && socket.address.ip().is_loopback())
    };
    if !own.any(local) {
        return;
    }
    let theirs = ends_of_monitors(tcp);
    tcp.values_mut().filter(|socket| theirs.contains(&socket.address)).for_each(|socket| socket.bytes = 0);
}

fn ends_of_monitors(tcp: &TcpSockets) -> HashSet<SocketAddr> {
    let proc = Path::new("/proc");
    let folders = numbers_in(proc).into_iter().map(|pid| proc.join(pid.to_string()));
    let monitors = folders.filter(|folder| read(&folder.join("comm")).is_some_and(|comm| is_monitor(&comm)));
    let sockets = monitors.flat_map(|folder| OpenFiles::of(&folder).sockets().collect::<Vec<_>>());
    sockets
        .filter_map(|inode| tcp.get(&inode))
        .filter(|socket| !socket.listens)
        .map(|socket| socket.local)
        .collect()
}

impl ThreadEvidence {
    /// A thread of a library that watches: whatever is not Python's own in its stack is such a library's.
    pub(crate) fn only_watches(&self, main: u32) -> bool {
        let mut foreign = self.frames.iter().filter(|frame| !frame.is_standard()).peekable();
        // A thread of Python's own alone may be anybody's: a timer, a worker.
        self.tid != main && foreign.peek().is_some() && foreign.all(Frame::watches)
    }
}

impl Frame {
    /// Whether it is code of a library that only watches.
    pub(crate) fn watches(&self) -> bool {
        let wraps = WRAPPERS.iter().any(|wrapper| self.file.contains(wrapper));
        !wraps && self.package().is_some_and(|package| PACKAGES.contains(&package))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(files: &[&str]) -> ThreadEvidence {
        let frame = |file: &&str| Frame { file: (*file).to_owned(), ..Frame::default() };
        ThreadEvidence { tid: 11, frames: files.iter().map(frame).collect(), ..ThreadEvidence::default() }
    }

    #[test]
    fn monitors_are_told_apart() {
        let threading = "/usr/lib/python3.11/threading.py";
        let wandb = "/v/lib/python3.11/site-packages/wandb/sdk/wandb_run.py";
        assert!(thread(&[threading, wandb, threading]).only_watches(10));
        assert!(!thread(&[threading, wandb, threading]).only_watches(11), "the main thread");
        assert!(!thread(&[threading, wandb, "/home/me/train.py"]).only_watches(10), "work that logs");
        assert!(!thread(&[threading]).only_watches(10), "a timer");
        assert!(!thread(&[]).only_watches(10), "not Python");
        let wrapper = "/v/lib/python3.11/site-packages/sentry_sdk/integrations/threading.py";
        assert!(!thread(&[threading, wrapper, threading]).only_watches(10), "a timer, wrapped");
        assert!(!thread(&["/home/me/wandb/train.py"]).only_watches(10), "a folder of that name");
        assert!(is_monitor("wandb-core") && is_monitor("gpu_stats") && !is_monitor("python3"));
    }
}
