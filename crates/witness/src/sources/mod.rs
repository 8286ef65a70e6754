//! Adds to every wait of a look where what it waits for could come from. Reads memory, descriptors and sockets of this machine for it;
//! concludes nothing.

mod holders;
mod locks;
mod memory;
mod peers;
mod targets;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};

use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::descriptors::OpenFiles;
use crate::proc_files::{folder_of, name_of, stat_of};
use crate::python::Marks;
use crate::sockets::TcpSockets;
use crate::syscall::{Call, SHARED_MEMORY};
use crate::{Evidence, Source, ThreadEvidence, Wait, loops, native};
use holders::{Holders, Shared};
pub(crate) use memory::Memory;
use peers::{End, Peers};
use targets::{Room, Target, children_of};

/// What was seen on the way and is not kept: the calls of the threads, and by what Python's threads find each other.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) calls: HashMap<u32, Call>,
    pub(crate) marks: HashMap<u32, Marks>,
    /// Processes that a child's end calls.
    pub(crate) on_child: HashSet<u32>,
    /// Threads that may sleep in a loop.
    pub(crate) in_loops: Vec<loops::Asked>,
}

/// Adds the sources to all waits.
pub(crate) fn add(evidence: &mut Evidence, mut notes: Notes, files: &[(u32, OpenFiles)], tcp: &TcpSockets) {
    let rooms = rooms(evidence, &notes, files);
    let mut budget = locks::BUDGET;
    let mut waits: Vec<(u32, Vec<Target>)> = Vec::new();
    for (process, room) in evidence.processes.iter_mut().zip(&rooms) {
        for thread in &mut process.threads {
            let Some(call) = notes.calls.get(&thread.tid) else { continue };
            if let Some(wait) = &mut thread.wait {
                see_time_limit(room.pid, wait);
            }
            let mut targets = room.targets(thread, call, &mut budget);
            if notes.on_child.contains(&room.pid) && !room.children.is_empty() && !targets.is_empty() {
                targets.push(Target::Sure(Source::Exit(room.children.clone())));
            }
            waits.push((thread.tid, targets));
        }
    }
    let peers = Peers::of(waits.iter().flat_map(|(_, targets)| targets), tcp);
    let wanted: HashSet<Shared> =
        waits.iter().flat_map(|(_, targets)| targets).flat_map(|target| wanted(target, &peers)).collect();
    let others =
        Others { holders: Holders::of(&wanted), peers, inside: pids(evidence), dark: dark(evidence) };
    let mut waits: HashMap<u32, Vec<Target>> = waits.into_iter().collect();
    for process in &mut evidence.processes {
        for thread in &mut process.threads {
            let targets = waits.remove(&thread.tid).unwrap_or_default();
            others.explain(process.pid, thread, &targets);
        }
    }
    // What is left takes files that may not answer, so all else is known by now, and both are read at the same time.
    let loops = loops::look_for(std::mem::take(&mut notes.in_loops));
    add_names(evidence, rooms, &mut notes);
    loops.add_to(evidence);
}

/// Adds what kind of thing each futex belongs to.
fn add_names(evidence: &mut Evidence, rooms: Vec<Room>, notes: &mut Notes) {
    let sits = |thread: &&ThreadEvidence| thread.wait.as_ref().is_some_and(|wait| wait.call == "futex");
    let mut asked = Vec::new();
    for (process, room) in evidence.processes.iter().zip(rooms) {
        let waiting = process.threads.iter().filter(sits);
        let calls: Vec<(u32, Call)> =
            waiting.filter_map(|thread| notes.calls.remove_entry(&thread.tid)).collect();
        if !calls.is_empty() {
            asked.push(room.asked(calls));
        }
    }
    if asked.is_empty() {
        return;
    }
    let names = native::names(asked);
    for thread in evidence.processes.iter_mut().flat_map(|process| &mut process.threads) {
        if let Some(wait) = &mut thread.wait {
            wait.at = names.get(&thread.tid).copied();
        }
    }
}

fn pids(evidence: &Evidence) -> Vec<u32> {
    evidence.processes.iter().map(|process| process.pid).collect()
}

/// Processes whose descriptors cannot be seen: they may have the other end of anything.
fn dark(evidence: &Evidence) -> Vec<u32> {
    let hidden =
        evidence.processes.iter().filter(|process| process.descriptors.open == 0 && process.state != 'Z');
    hidden.map(|process| process.pid).collect()
}

fn rooms<'a>(evidence: &Evidence, notes: &Notes, files: &'a [(u32, OpenFiles)]) -> Vec<Room<'a>> {
    let open: HashMap<u32, &OpenFiles> = files.iter().map(|(pid, files)| (*pid, files)).collect();
    let rooms = evidence.processes.iter().filter_map(|process| {
        let folder = folder_of(process.pid);
        let marks = |tid: u32| notes.marks.get(&tid).copied().unwrap_or_default();
        let living = |pid: &u32| stat_of(*pid).is_some_and(|stat| !stat.has_ended());
        Some(Room {
            pid: process.pid,
            files: open.get(&process.pid).copied()?,
            memory: Memory::of(&folder),
            threads: process.threads.iter().map(|thread| (thread.tid, marks(thread.tid))).collect(),
            children: children(evidence, process.pid).into_iter().filter(living).collect(),
            interpreter: process.threads.iter().find(|thread| thread.gil).map(|thread| thread.tid),
            mappings: OnceCell::new(),
            owners: RefCell::default(),
            folder,
        })
    });
    rooms.collect()
}

/// By the kernel's lists, which not every kernel has, and by the parents of those looked at.
fn children(evidence: &Evidence, parent: u32) -> BTreeSet<u32> {
    let known =
        evidence.processes.iter().filter(|process| process.parent == parent).map(|process| process.pid);
    known.chain(children_of(&folder_of(parent))).collect()
}

/// A socket can have a time limit of its own, which only the socket itself tells.
fn see_time_limit(pid: u32, wait: &mut Wait) {
    let which = match wait.call.as_str() {
        "read" | "readv" | "recvfrom" | "recvmsg" | "accept" | "accept4" => Timeout::Recv,
        "write" | "writev" | "sendto" | "sendmsg" => Timeout::Send,
        _ => return,
    };
    let is_socket = wait.on.as_deref().is_some_and(|on| on.starts_with("socket"));
    let (Some(fd), true, None) = (wait.fd.and_then(|fd| i32::try_from(fd).ok()), is_socket, wait.timed)
    else {
        return;
    };
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let socket = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, fd, PidfdGetfdFlags::empty()));
    wait.timed = socket.and_then(|socket| socket_timeout(socket, which)).ok().map(|limit| limit.is_some());
}

/// What is to be looked for on this machine.
fn wanted(target: &Target, peers: &Peers) -> Vec<Shared> {
    match target {
        Target::Sure(_) => Vec::new(),
        Target::Pipe { inode, .. } => vec![Shared::Pipe(*inode)],
        Target::Event(id) => vec![Shared::Event(*id)],
        Target::Memory(mapping, _) => vec![Shared::Memory(mapping.file.clone(), mapping.path.clone())],
        Target::Socket(inode) => match peers.end(*inode) {
            End::Sockets(others, _) => others.into_iter().map(Shared::Socket).collect(),
            End::Listener(_) | End::Outside(_) => Vec::new(),
        },
    }
}

/// Who else there is.
struct Others {
    holders: Holders,
    peers: Peers,
    /// The processes that were looked at.
    inside: Vec<u32>,
    dark: Vec<u32>,
}

/// Semaphores that libraries make for their own processes, and remove only at their end.
const OWN_NAMES: [&str; 2] = ["/dev/shm/sem.loky-", "/dev/shm/sem.mp-"];

impl Others {
    fn explain(&self, pid: u32, thread: &mut ThreadEvidence, targets: &[Target]) {
        let sources: Vec<Source> = targets.iter().map(|target| self.source(target, thread)).collect();
        let Some(wait) = &mut thread.wait else { return };
        if let (Some("socket"), Some(inode)) = (wait.on.as_deref(), wait.inode) {
            wait.on = Some(self.peers.name(inode));
        }
        // The kernel wakes who joins a thread of C in the way for shared memory; the memory is the process's own.
        let own = |source: &Source| matches!(source, Source::OwnThreads | Source::Thread { .. });
        if wait.on.as_deref() == Some(SHARED_MEMORY) && sources.iter().any(own) {
            wait.on = None;
        }
        for source in sources {
            if !wait.sources.contains(&source) {
                wait.sources.push(source);
            }
        }
        wait.sources.sort_by_key(|source| telling(source, pid));
    }

    fn source(&self, target: &Target, thread: &ThreadEvidence) -> Source {
        match target {
            Target::Sure(Source::Processes { pids, what }) => self.lock(pids, what),
            Target::Sure(source) => source.clone(),
            Target::Pipe { inode, reads } => self.pipe(*inode, *reads),
            Target::Event(id) => self.held_by(&[Shared::Event(*id)], format!("event {id} (eventfd)")),
            Target::Memory(_, Some(name)) if !OWN_NAMES.iter().any(|own| name.starts_with(own)) => {
                Source::Outside(format!("a lock in shared memory {name}, which any process may open"))
            }
            Target::Memory(mapping, _) => {
                let what =
                    format!("a lock in shared memory ({})", mapping.path.trim_end_matches(" (deleted)"));
                self.held_by(&[Shared::Memory(mapping.file.clone(), mapping.path.clone())], what)
            }
            Target::Socket(inode) => match self.peers.end(*inode) {
                End::Sockets(others, what) => {
                    let others: Vec<Shared> = others.into_iter().map(Shared::Socket).collect();
                    self.held_by(&others, what)
                }
                End::Listener(name) if serves_its_own_job(thread, &name) => {
                    let what = format!("somebody of its job who connects to {name}");
                    Source::Processes { pids: self.inside.clone(), what }
                }
                End::Listener(name) => Source::Outside(format!("anybody who connects to {name}")),
                End::Outside(what) => Source::Outside(what),
            },
        }
    }

    fn pipe(&self, inode: u64, reads: bool) -> Source {
        let what = format!("pipe {inode}");
        let Some(all) = self.holders.get(&Shared::Pipe(inode)) else {
            return Source::Outside(format!("{what}, whose other end cannot be seen"));
        };
        // Those that do what the one who waits does not.
        let opposite = all.iter().filter(|has| if reads { has.writes } else { has.reads });
        self.of(opposite.map(|has| has.pid).collect(), what)
    }

    fn held_by(&self, shared: &[Shared], what: String) -> Source {
        let mut pids = Vec::new();
        for one in shared {
            let Some(all) = self.holders.get(one) else {
                return Source::Outside(format!("{what}, whose other end cannot be seen"));
            };
            pids.extend(all.iter().map(|has| has.pid));
        }
        self.of(pids, what)
    }

    /// Somebody outside is named; if nobody is found at all, somebody has it who cannot be seen.
    fn of(&self, mut pids: Vec<u32>, what: String) -> Source {
        pids.extend(&self.dark);
        pids.sort_unstable();
        pids.dedup();
        if pids.is_empty() {
            return Source::Outside(format!("{what}, whose other end cannot be seen"));
        }
        match pids.iter().find(|pid| !self.inside.contains(pid)) {
            Some(other) => Source::Outside(format!("{what}, whose other end {} has", named(*other))),
            None => Source::Processes { pids, what },
        }
    }

    fn lock(&self, pids: &[u32], what: &str) -> Source {
        match pids.iter().find(|pid| !self.inside.contains(pid)) {
            Some(other) => Source::Outside(format!("{what}, which {} holds", named(*other))),
            None => Source::Processes { pids: pids.to_vec(), what: what.to_owned() },
        }
    }
}

/// What to name first of all that could end a wait: a connection says most, and what a loop of this process rings itself with, least.
fn telling(source: &Source, pid: u32) -> u8 {
    match source {
        Source::Processes { what, .. } if what.starts_with("the connection") => 0,
        Source::Processes { pids, .. } if *pids == [pid] => 2,
        _ => 1,
    }
}

/// Helpers of Python's multiprocessing that listen where only processes of their own program know of, by the function that waits there.
const HELPERS: [(&str, &str); 2] =
    [("multiprocessing/forkserver.py", "main"), ("multiprocessing/resource_sharer.py", "_serve")];
/// What these call to wait.
const WAITING: [&str; 3] = ["selectors.py", "socket.py", "multiprocessing/connection.py"];

/// Whether a thread is such a helper, at the unix socket that Python makes for it. What a process does that was forked by a helper stands
/// above the helper's own frames.
fn serves_its_own_job(thread: &ThreadEvidence, name: &str) -> bool {
    let waits = |frame: &&crate::Frame| !frame.module().is_some_and(|module| WAITING.contains(&module));
    let helps = thread.frames.iter().find(waits).is_some_and(|frame| {
        HELPERS.iter().any(|(file, function)| frame.module() == Some(file) && frame.bare() == *function)
    });
    let file = name.rsplit(['/', '@']).next().unwrap_or_default();
    helps && name.starts_with(['/', '@']) && file.starts_with("listener-")
}

fn named(pid: u32) -> String {
    format!("process {pid} ({})", name_of(pid).unwrap_or_else(|| "gone".to_owned()))
}
