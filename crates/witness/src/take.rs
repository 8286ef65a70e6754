//! One look at processes: puts together what the other rooms read of each. Reads follow one another, so what moves in
//! between may show in parts that do not fit; the next look tells.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::descriptors::OpenFiles;
use crate::locks::FileLocks;
use crate::monitors::leave_out_reports;
use crate::proc_files::{command_of, folder_of, read, stat, switches, tasks, wchan};
use crate::python::{self, PythonThread};
use crate::sockets::{TcpSockets, tcp_sockets};
use crate::syscall::{self, Call};
use crate::{Evidence, ProcessEvidence, ThreadEvidence, Wait};

/// Longest command line that is kept, in characters.
const COMMAND: usize = 120;

/// A `struct pollfd`.
const POLL_ENTRY: usize = 8;
/// As much of a path as is shown.
const PATH: usize = 512;

/// Looks at these processes now, without stopping or changing them.
///
/// Reads of `/proc` can block for a process that is stuck in the kernel.
pub fn take(pids: &[u32]) -> Evidence {
    let open: Vec<(u32, OpenFiles)> =
        pids.iter().map(|pid| (*pid, OpenFiles::of(&folder_of(*pid)))).collect();
    let any_socket = open.iter().any(|(_, files)| files.sockets().next().is_some());
    let mut tcp = if any_socket { tcp_sockets() } else { TcpSockets::new() };
    leave_out_reports(&mut tcp, open.iter().flat_map(|(_, files)| files.sockets()));
    let processes = open.iter().filter_map(|(pid, files)| look_at(*pid, files, &tcp));
    let mut evidence = Evidence { taken: clock(), processes: processes.collect() };
    name_lock_holders(&mut evidence, pids);
    evidence
}

/// Milliseconds of a clock that only goes forward.
fn clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1000).saturating_add(nanos.unwrap_or(0) / 1_000_000)
}

/// Adds to waits for file locks who holds them.
fn name_lock_holders(evidence: &mut Evidence, looked_at: &[u32]) {
    let waits =
        |process: &&mut ProcessEvidence| process.threads.iter().any(ThreadEvidence::waits_for_file_lock);
    let mut waiting = evidence.processes.iter_mut().filter(waits).peekable();
    if waiting.peek().is_none() {
        return;
    }
    let locks = FileLocks::read();
    for process in waiting {
        let threads = process.threads.iter_mut().filter(|thread| thread.waits_for_file_lock());
        for wait in threads.filter_map(|thread| thread.wait.as_mut()) {
            wait.holder = locks.holder(process.pid, wait, looked_at);
        }
    }
}

fn look_at(pid: u32, files: &OpenFiles, tcp: &TcpSockets) -> Option<ProcessEvidence> {
    let folder = folder_of(pid);
    let stat = stat(&folder)?;
    let tids = tasks(&folder, pid);
    let (python, mut stacks) = python::look(pid, &folder, &tids);
    let look = Look { folder: &folder, files, tcp };
    let threads = tids.iter().filter_map(|tid| look.thread(*tid, stacks.remove(tid).unwrap_or_default()));
    Some(ProcessEvidence {
        pid,
        parent: stat.parent,
        start: stat.start,
        command: command_of(pid, COMMAND).unwrap_or_else(|| format!("[{}]", stat.name)),
        state: stat.state,
        threads: threads.collect(),
        python,
        descriptors: files.summary(tcp),
        tcp_bytes: files.tcp_bytes(tcp),
        cpu: stat.cpu,
    })
}

/// What the threads of one process have in common.
struct Look<'a> {
    folder: &'a Path,
    files: &'a OpenFiles,
    tcp: &'a TcpSockets,
}

impl Look<'_> {
    fn thread(&self, tid: u32, python: PythonThread) -> Option<ThreadEvidence> {
        let folder = self.folder.join("task").join(tid.to_string());
        let stat = stat(&folder)?;
        Some(ThreadEvidence {
            tid,
            name: python.name.unwrap_or(stat.name),
            state: stat.state,
            wait: self.wait(&folder),
            wchan: wchan(&folder),
            cpu: stat.cpu,
            switches: switches(&folder),
            gil: python.gil,
            frames: python.frames,
        })
    }

    fn wait(&self, folder: &Path) -> Option<Wait> {
        let call = syscall::parse(&read(&folder.join("syscall"))?)?;
        let mut wait = call.wait();
        if wait.fd.is_none() {
            wait.fd = self.polled(&call);
        }
        self.files.explain(&mut wait, self.tcp);
        wait.on = wait.on.or_else(|| self.opened(&call));
        Some(wait)
    }

    /// The path of an open that has not come back.
    fn opened(&self, call: &Call) -> Option<String> {
        let address = call.opened_path()?;
        let mut bytes = [0; PATH];
        let length = File::open(self.folder.join("mem")).ok()?.read_at(&mut bytes, address).ok()?;
        let path = bytes[..length].split(|byte| *byte == 0).next()?;
        let path: String =
            String::from_utf8_lossy(path).chars().filter(|character| !character.is_control()).collect();
        (!path.is_empty()).then_some(path)
    }

    /// The descriptor of a poll that waits for a single one, as reads with a time limit do.
    fn polled(&self, call: &Call) -> Option<u32> {
        let (address, 1) = call.poll_list()? else { return None };
        let mut entry = [0; POLL_ENTRY];
        File::open(self.folder.join("mem")).ok()?.read_exact_at(&mut entry, address).ok()?;
        let fd = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
        u32::try_from(fd).ok()
    }
}
