//! One look at processes: puts together what the other rooms read of each. Reads follow one another, so what moves in
//! between may show in parts that do not fit; the next look tells.

use std::path::Path;

use crate::descriptors::OpenFiles;
use crate::locks::FileLocks;
use crate::monitors::leave_out_reports;
use crate::proc_files::{command_of, folder_of, read, stat, switches, tasks, wchan};
use crate::python::{self, PythonThread};
use crate::sockets::{TcpSockets, tcp_sockets};
use crate::sources::{self, Memory, Notes};
use crate::syscall::{self, Call};
use crate::{Evidence, ProcessEvidence, ThreadEvidence, Wait, databases, loops, signals};

/// Longest command line that is kept, in characters.
const COMMAND: usize = 120;

/// Looks at these processes now, without stopping or changing them.
///
/// Reads of `/proc` can block for a process that is stuck in the kernel.
pub fn take(pids: &[u32]) -> Evidence {
    let open: Vec<(u32, OpenFiles)> =
        pids.iter().map(|pid| (*pid, OpenFiles::of(&folder_of(*pid)))).collect();
    let any_socket = open.iter().any(|(_, files)| files.sockets().next().is_some());
    let mut tcp = if any_socket { tcp_sockets() } else { TcpSockets::new() };
    leave_out_reports(&mut tcp, open.iter().flat_map(|(_, files)| files.sockets()));
    let mut notes = Notes::default();
    let processes = open.iter().filter_map(|(pid, files)| look_at(*pid, files, &tcp, &mut notes));
    let mut evidence = Evidence { taken: clock(), processes: processes.collect() };
    name_lock_holders(&mut evidence, pids);
    sources::add(&mut evidence, notes, &open, &tcp);
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
            wait.holder = Some(locks.holder(process.pid, wait, looked_at));
        }
    }
}

fn look_at(pid: u32, files: &OpenFiles, tcp: &TcpSockets, notes: &mut Notes) -> Option<ProcessEvidence> {
    let folder = folder_of(pid);
    let stat = stat(&folder)?;
    let tids = tasks(&folder, pid);
    let (python, mut stacks) = python::look(pid, &folder, &tids);
    let look = Look { pid, folder: &folder, files, tcp };
    let threads =
        tids.iter().filter_map(|tid| look.thread(*tid, stacks.remove(tid).unwrap_or_default(), notes));
    let threads: Vec<ThreadEvidence> = threads.collect();
    let sleeps = threads.iter().any(ThreadEvidence::is_plain_sleep);
    let database = sleeps.then(|| databases::locked(pid, files, FileLocks::read)).flatten();
    let signals = signals::of(&folder);
    if signals.on_child {
        notes.on_child.insert(pid);
    }
    Some(ProcessEvidence {
        pid,
        parent: stat.parent,
        start: stat.start,
        command: command_of(pid, COMMAND).unwrap_or_else(|| format!("[{}]", stat.name)),
        state: stat.state,
        threads,
        python,
        descriptors: files.summary(tcp),
        tcp_bytes: files.tcp_bytes(tcp),
        cpu: stat.cpu,
        signals: signals.why,
        database,
    })
}

/// What the threads of one process have in common.
struct Look<'a> {
    pid: u32,
    folder: &'a Path,
    files: &'a OpenFiles,
    tcp: &'a TcpSockets,
}

impl Look<'_> {
    fn thread(&self, tid: u32, python: PythonThread, notes: &mut Notes) -> Option<ThreadEvidence> {
        let folder = self.folder.join("task").join(tid.to_string());
        let stat = stat(&folder)?;
        let call = read(&folder.join("syscall")).as_deref().and_then(syscall::parse);
        let wait = call.as_ref().map(|call| self.wait(call));
        notes.calls.extend(call.map(|call| (tid, call)));
        notes.marks.insert(tid, python.marks);
        let asked = wait
            .as_ref()
            .and_then(|wait| loops::Asked::of(self.pid, tid, wait, &python.frames, python.texts));
        notes.in_loops.extend(asked);
        Some(ThreadEvidence {
            tid,
            name: python.name.unwrap_or(stat.name),
            state: stat.state,
            wait,
            wchan: wchan(&folder),
            cpu: stat.cpu,
            switches: switches(&folder),
            gil: python.gil,
            frames: python.frames,
            in_loop: None,
        })
    }

    fn wait(&self, call: &Call) -> Wait {
        let mut wait = call.wait();
        if wait.fd.is_none() {
            wait.fd = self.polled(call);
        }
        self.files.explain(&mut wait, self.tcp);
        if call.name() == Some("openat") {
            wait.on = wait.on.or_else(|| Memory::of(self.folder).text(call.argument(1)));
        }
        wait
    }

    /// The descriptor of a poll that waits for a single one, as reads with a time limit do.
    fn polled(&self, call: &Call) -> Option<u32> {
        if !["poll", "ppoll"].contains(&call.name()?) || call.argument(1) != 1 {
            return None;
        }
        Memory::of(self.folder).polled(call.argument(0), 1)?.first().copied()
    }
}
