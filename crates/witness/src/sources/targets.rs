//! From the system call a thread sits in to what that waits for: descriptors, locks, children, the clock.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::holders::event_id;
use super::locks;
use super::memory::Memory;
use crate::descriptors::{OpenFiles, inode};
use crate::maps::{Mapping, mappings};
use crate::native::Asked;
use crate::proc_files::{numbers_in, read};
use crate::python::Marks;
use crate::syscall::{Call, FUTEX_PRIVATE, low_word};
use crate::{Source, ThreadEvidence, Tie, Wait};

/// Something a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Who can give it is known.
    Sure(Source),
    /// An end of a pipe.
    Pipe {
        /// The kernel's number.
        inode: u64,
        /// Waited for by who reads, so those who write can give it.
        reads: bool,
    },
    /// A socket, by the kernel's number.
    Socket(u64),
    /// An `eventfd`, by the kernel's number.
    Event(u64),
    /// Memory that processes share, with the name by which others may come to have it.
    Memory(Mapping, Option<String>),
}

/// A process whose threads are looked at.
pub(super) struct Room<'a> {
    pub(super) pid: u32,
    pub(super) folder: PathBuf,
    pub(super) files: &'a OpenFiles,
    pub(super) memory: Memory,
    /// Ids of its threads, and what Python knows them by.
    pub(super) threads: Vec<(u32, Marks)>,
    /// The thread that holds the lock of the Python interpreter.
    pub(super) interpreter: Option<u32>,
    /// Its children that have not ended.
    pub(super) children: Vec<u32>,
    pub(super) mappings: OnceCell<Vec<Mapping>>,
    /// Owners of `RLock`s by the address that is waited at: many threads may wait for one.
    pub(super) owners: RefCell<HashMap<u64, Option<u64>>>,
}

/// Epolls within epolls are followed this far.
const DEEP: usize = 3;
/// Where small objects of Python look for their owner only in vain.
const PLAIN: [&str; 3] = ["wait", "_wait_for_tstate_lock", "join"];

impl Room<'_> {
    fn mappings(&self) -> &[Mapping] {
        self.mappings.get_or_init(|| mappings(&self.folder))
    }

    /// What this thread waits for; each alone would let it go on. Empty: not known.
    pub(super) fn targets(&self, thread: &ThreadEvidence, call: &Call, budget: &mut u64) -> Vec<Target> {
        let Some(wait) = &thread.wait else { return Vec::new() };
        if thread.state == 'D' {
            return vec![Target::Sure(deep_in_the_kernel(thread, wait))];
        }
        match call.name() {
            Some("futex") => vec![self.futex(thread, call, budget)],
            Some("poll" | "ppoll") => {
                self.any_of(self.memory.polled(call.argument(0), call.argument(1)), wait)
            }
            Some("select" | "pselect6") => {
                let sets = [call.argument(1), call.argument(2), call.argument(3)];
                self.any_of(self.memory.selected(call.argument(0), sets), wait)
            }
            Some("wait4") => vec![self.child(low_word(call.argument(0)).cast_signed())],
            Some("waitid") => self.waitid(call),
            Some("flock" | "fcntl") => vec![lock(wait)],
            Some(name) => match plain(name, wait) {
                Some(source) => vec![Target::Sure(source)],
                None => wait.fd.map(|fd| self.descriptor(fd, DEEP)).unwrap_or_default(),
            },
            None => Vec::new(),
        }
    }

    /// A list of descriptors; one that is empty waits for signals, or for the clock.
    fn any_of(&self, fds: Option<Vec<u32>>, wait: &Wait) -> Vec<Target> {
        match fds {
            None => Vec::new(),
            Some(fds) if fds.is_empty() && wait.timed == Some(true) => vec![Target::Sure(Source::Clock)],
            Some(fds) if fds.is_empty() => vec![outside("a signal")],
            Some(fds) => fds.into_iter().flat_map(|fd| self.descriptor(fd, DEEP)).collect(),
        }
    }

    /// What a descriptor waits for; never nothing, for beside others in a list that would mean that it cannot come.
    fn descriptor(&self, fd: u32, deep: usize) -> Vec<Target> {
        let Some(link) = self.files.link(fd) else {
            return vec![outside(format!("descriptor {fd}, which is closed"))];
        };
        if let Some(inode) = inode(link, "pipe") {
            return self.pipe(fd, inode);
        }
        if let Some(inode) = inode(link, "socket") {
            return vec![Target::Socket(inode)];
        }
        let name = link.to_string_lossy();
        match &*name {
            "anon_inode:[eventpoll]" => self.epoll(fd, deep),
            "anon_inode:[eventfd]" => vec![self.event(fd)],
            "anon_inode:[timerfd]" => vec![Target::Sure(Source::Clock)],
            "anon_inode:[signalfd]" => vec![outside("a signal (signalfd)")],
            "anon_inode:inotify" => vec![outside("a change of a file or folder (inotify)")],
            "anon_inode:[pidfd]" => vec![self.process_end(fd)],
            name if name.starts_with("pidfd:") => vec![self.process_end(fd)],
            name if name.starts_with("/dev/nvidia") => vec![Target::Sure(Source::Gpu)],
            name if name.starts_with("/dev/pts/") || name.starts_with("/dev/tty") => {
                vec![outside(format!("somebody at the terminal {name}"))]
            }
            name if name.starts_with('/') => vec![outside(format!("the other end of {name}"))],
            name => vec![outside(name.trim_start_matches("anon_inode:"))],
        }
    }

    /// A descriptor that reads waits for those who write. The rights of its link are its own.
    fn pipe(&self, fd: u32, inode: u64) -> Vec<Target> {
        use std::os::unix::fs::MetadataExt;
        let link = self.folder.join("fd").join(fd.to_string());
        let mode = std::fs::symlink_metadata(link).map_or(0o600, |data| data.mode());
        let mut ends = Vec::new();
        if mode & 0o400 != 0 {
            ends.push(Target::Pipe { inode, reads: true });
        }
        if mode & 0o200 != 0 {
            ends.push(Target::Pipe { inode, reads: false });
        }
        if ends.is_empty() {
            vec![outside(format!("pipe {inode}, whose end here is not known"))]
        } else {
            ends
        }
    }

    /// `tfd:  5 events:  19 data:  5  pos:0 ino:14bd sdev:8`, a line for each.
    fn epoll(&self, fd: u32, deep: usize) -> Vec<Target> {
        let info = read(&self.folder.join("fdinfo").join(fd.to_string()));
        let (Some(info), Some(deep)) = (info, deep.checked_sub(1)) else {
            return vec![outside("an epoll that cannot be read")];
        };
        let mut targets = Vec::new();
        for line in info.lines().filter_map(|line| line.strip_prefix("tfd:")) {
            match line.split_whitespace().next().and_then(|fd| fd.parse().ok()) {
                Some(fd) if self.is_still(fd, line) => targets.extend(self.descriptor(fd, deep)),
                _ => targets.push(outside("a descriptor that is open elsewhere (epoll)")),
            }
        }
        if targets.is_empty() { vec![outside("a signal, or what is added to an epoll")] } else { targets }
    }

    /// Whether the number still stands for what was added to the epoll.
    fn is_still(&self, fd: u32, line: &str) -> bool {
        let number =
            line.split_whitespace().find_map(|word| u64::from_str_radix(word.strip_prefix("ino:")?, 16).ok());
        let link = self.files.link(fd);
        let inode = link.and_then(|link| inode(link, "pipe").or_else(|| inode(link, "socket")));
        link.is_some() && (inode.is_none() || number.is_none() || inode == number)
    }

    /// The kernel itself raises those that belong to its queues of I/O.
    fn event(&self, fd: u32) -> Target {
        let queues = self.files.has("anon_inode:[io_uring]")
            || self.mappings().iter().any(|mapping| mapping.path.starts_with("/[aio]"));
        match event_id(&self.folder, fd) {
            Some(id) if !queues => Target::Event(id),
            _ => outside("an event (eventfd)"),
        }
    }

    fn process_end(&self, fd: u32) -> Target {
        let info = read(&self.folder.join("fdinfo").join(fd.to_string())).unwrap_or_default();
        let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
        pid.map_or_else(|| outside("the end of a process"), |pid| Target::Sure(Source::Exit(vec![pid])))
    }

    /// `wait4` of one child, or of any.
    fn child(&self, pid: i32) -> Target {
        match u32::try_from(pid) {
            Ok(pid) if self.children.contains(&pid) => Target::Sure(Source::Exit(vec![pid])),
            // Where it has another view of processes, it has other numbers for them.
            Ok(pid) if pid != 0 => outside(format!("a child that it calls {pid}, which cannot be seen")),
            _ if self.children.is_empty() => outside("a child that cannot be seen"),
            _ => Target::Sure(Source::Exit(self.children.clone())),
        }
    }

    fn waitid(&self, call: &Call) -> Vec<Target> {
        let id = low_word(call.argument(1));
        vec![match call.argument(0) {
            1 => self.child(id.cast_signed()),
            3 => self.process_end(id),
            _ => self.child(-1),
        }]
    }

    fn futex(&self, thread: &ThreadEvidence, call: &Call, budget: &mut u64) -> Target {
        let address = call.argument(0);
        if call.argument(1) & FUTEX_PRIVATE == 0 {
            let mapping = self.mappings().iter().find(|mapping| mapping.contains(address));
            match mapping {
                None => return outside("memory that cannot be seen"),
                Some(mapping) if mapping.shared => {
                    return Target::Memory(mapping.clone(), mapping.name(&self.folder.join("root")));
                }
                Some(_) => {}
            }
        }
        if let Some(source) = self.interpreter(thread, address) {
            return Target::Sure(source);
        }
        let tids: Vec<u32> = self.threads.iter().map(|(tid, _)| *tid).collect();
        let owner = locks::owner(call, &self.memory, &tids, true);
        let owner = owner.or_else(|| self.joined(thread)).or_else(|| self.rlock(thread, address, budget));
        Target::Sure(owner.unwrap_or(Source::OwnThreads))
    }

    /// What is needed to tell what kind of thing the futexes of these calls belong to.
    pub(super) fn asked(self, calls: Vec<(u32, Call)>) -> Asked {
        self.mappings();
        let mappings = self.mappings.into_inner().unwrap_or_default();
        Asked { pid: self.pid, folder: self.folder, memory: self.memory, mappings, calls }
    }

    /// The thread that keeps the lock of the interpreter, for one that waits for it: that lock lies in the interpreter's own data, where no
    /// other is waited for with a limit.
    fn interpreter(&self, thread: &ThreadEvidence, address: u64) -> Option<Source> {
        let tid = self.interpreter.filter(|holder| *holder != thread.tid)?;
        let asks = thread.waits_by_the_clock() && !thread.frames.is_empty();
        (asks && is_of_interpreter(self.mappings(), address))
            .then_some(Source::Thread { tid, tie: Tie::Interpreter })
    }

    /// The thread that a `join` of Python waits for.
    fn joined(&self, thread: &ThreadEvidence) -> Option<Source> {
        let object = self.marks(thread.tid)?.joins?;
        let joined = self.threads.iter().find(|(_, marks)| marks.object == Some(object))?;
        Some(Source::Thread { tid: joined.0, tie: Tie::Joined })
    }

    fn rlock(&self, thread: &ThreadEvidence, semaphore: u64, budget: &mut u64) -> Option<Source> {
        let innermost = thread.frames.first()?;
        let plain = innermost.module() == Some("threading.py") && PLAIN.contains(&innermost.bare());
        // A process with one thread needs no owner to be named.
        if plain || self.threads.len() < 2 {
            return None;
        }
        let find = || locks::rlock_owner(semaphore, &self.memory, self.mappings(), budget);
        let owner = (*self.owners.borrow_mut().entry(semaphore).or_insert_with(find))?;
        let tid = self.threads.iter().find(|(_, marks)| marks.ident == owner)?.0;
        Some(Source::Thread { tid, tie: Tie::RLock })
    }

    fn marks(&self, tid: u32) -> Option<&Marks> {
        self.threads.iter().find(|(known, _)| *known == tid).map(|(_, marks)| marks)
    }
}

/// The children of a process, whoever of its threads started them.
pub(super) fn children_of(folder: &Path) -> Vec<u32> {
    let tasks = folder.join("task");
    let lists =
        numbers_in(&tasks).into_iter().filter_map(|tid| read(&tasks.join(tid.to_string()).join("children")));
    let mut children: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    children.sort_unstable();
    children
}

/// Whether an address lies in the data of Python's program or library; what is not initialised follows without a name.
fn is_of_interpreter(mappings: &[Mapping], address: u64) -> bool {
    let Some(at) = mappings.iter().position(|mapping| mapping.contains(address)) else { return false };
    let named = |mapping: &Mapping| {
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        mapping.path.starts_with('/') && (name.starts_with("python") || name.starts_with("libpython"))
    };
    let (mapping, before) = (&mappings[at], at.checked_sub(1).map(|before| &mappings[before]));
    let follows = mapping.path.is_empty()
        && before.is_some_and(|before| before.end == mapping.start && before.writable && named(before));
    mapping.writable && !mapping.shared && (named(mapping) || follows)
}

fn outside(what: impl Into<String>) -> Target {
    Target::Sure(Source::Outside(what.into()))
}

/// A file lock by all who hold it; whether they are inside is said later.
fn lock(wait: &Wait) -> Target {
    let file = wait.on.as_deref().unwrap_or("a file");
    let what = format!("the lock of {file}");
    let Some(holder) = &wait.holder else { return outside(what) };
    match (holder.pid, &holder.others) {
        (Some(pid), Some(others)) => {
            let pids = std::iter::once(pid).chain(others.iter().copied()).collect();
            Target::Sure(Source::Processes { pids, what })
        }
        _ => outside(format!("{what}, which {holder} holds")),
    }
}

/// Calls that need no look at their descriptor.
fn plain(name: &str, wait: &Wait) -> Option<Source> {
    let on = wait.on.as_deref();
    let outside = |what: &str| Some(Source::Outside(what.to_owned()));
    match name {
        "nanosleep" | "clock_nanosleep" | "restart_syscall" => Some(Source::Clock),
        "rt_sigtimedwait" if wait.timed == Some(true) => Some(Source::Clock),
        "pause" | "rt_sigsuspend" | "rt_sigtimedwait" => outside("a signal"),
        "semop" | "semtimedop" => outside("a System V semaphore, which any process may raise"),
        "msgrcv" | "msgsnd" => outside("a System V message queue, which any process may use"),
        "mq_timedreceive" | "mq_timedsend" => outside("a message queue, which any process may use"),
        "connect" => {
            Some(Source::Outside(format!("{} to take the connection", on.unwrap_or("the other side"))))
        }
        "openat" => {
            Some(Source::Outside(format!("somebody who opens the other end of {}", on.unwrap_or("a FIFO"))))
        }
        "io_uring_enter" | "io_getevents" => outside("the kernel, for I/O it was given"),
        "fsync" | "fdatasync" | "pread64" | "pwrite64" | "newfstatat" => {
            Some(Source::Outside(format!("the disk or file server with {}", on.unwrap_or("a file"))))
        }
        "futex_waitv" => outside("one of several locks"),
        _ => None,
    }
}

/// Where the driver of NVIDIA GPUs waits in the kernel.
const DRIVER: [&str; 4] = ["nvidia", "nv_", "uvm_", "os_acquire"];

/// In uninterruptible sleep: in the driver of a GPU, or in whatever else.
fn deep_in_the_kernel(thread: &ThreadEvidence, wait: &Wait) -> Source {
    let place = thread.wchan.as_deref().unwrap_or_default();
    let on = wait.on.as_deref().unwrap_or_default();
    if on.starts_with("/dev/nvidia") || DRIVER.iter().any(|known| place.starts_with(known)) {
        return Source::Gpu;
    }
    let on = if on.is_empty() { String::new() } else { format!(" with {on}") };
    let place = if place.is_empty() { String::new() } else { format!(" (in {place})") };
    Source::Outside(format!("a disk, file server or device{on} in the kernel{place}"))
}
