//! What one thread does, in one word: from the Python functions it is in where they are known ones, else from its system call.

use crate::syscall::SHARED_MEMORY;
use crate::{Evidence, Primitive, ProcessEvidence, Python, Source, ThreadEvidence, Tie, Wait};

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Waits for a lock of its own process; where nothing tells what it is, perhaps for a condition or semaphore.
    Lock,
    /// Waits at such a thing in code that is not Python.
    At(Primitive),
    /// Waits for a lock that processes share.
    SharedLock,
    /// Waits for a semaphore of its own process.
    Semaphore,
    /// Waits for an event.
    Event,
    /// Waits for a condition of Python.
    Condition,
    /// Waits for an answer of a `multiprocessing.Manager`.
    Manager,
    /// Waits for others to arrive as well.
    Barrier,
    /// Waits for an item of a queue.
    QueueGet,
    /// Waits for room in a queue.
    QueuePut,
    /// Waits until a queue has been worked off.
    QueueJoin,
    /// Waits for a thread to end.
    ThreadJoin,
    /// The program is over, but threads are left.
    ExitThreads,
    /// The program is over, but items of a queue between processes have not been read.
    ExitQueue,
    /// The program is over, but children are left.
    ExitChildren,
    /// Waits for a child to end.
    ChildWait,
    /// Waits for a child's output.
    ChildOutput,
    /// Waits for a result of a `multiprocessing.Pool`.
    Pool,
    /// Waits for the result of a future.
    Future,
    /// An asyncio loop that waits.
    Loop,
    /// Waits for clients, as servers do.
    Serving,
    /// Reads from a pipe that is empty.
    PipeRead,
    /// Writes to a pipe that is full.
    PipeWrite,
    /// Reads from stdin.
    Stdin,
    /// Waits for the other side of a socket.
    SocketRead,
    /// Writes to a socket whose other side does not read.
    SocketWrite,
    /// Waits for a connection to come.
    Accept,
    /// Waits for a connection to be taken.
    Connect,
    /// Waits for the lock of a file.
    FileLock,
    /// Opens a FIFO that nobody has opened at the other end.
    FifoOpen,
    /// Reads or writes a file or device.
    File,
    /// Sleeps.
    Sleep,
    /// Waits for something, with a time limit.
    Timed,
    /// Is in a C function that waits for something else.
    Native,
    /// Is deep in the kernel, where no signal reaches it.
    Uninterruptible,
    /// Computes.
    Running,
    /// Is stopped from outside.
    Stopped,
    /// Has ended.
    Ended,
    /// Waits for work, as helpers of a library do all their lives.
    Idle,
    /// Not known.
    Unknown,
}

type Row = (&'static str, &'static [&'static str], Doing);

/// Functions of Python's own library that wait, and what for.
const KNOWN: &[Row] = &[
    ("threading.py", &["_shutdown"], Doing::ExitThreads),
    ("threading.py", &["join", "_wait_for_tstate_lock"], Doing::ThreadJoin),
    ("threading.py", &["acquire"], Doing::Semaphore),
    ("threading.py", &["wait", "wait_for"], Doing::Event),
    ("queue.py", &["get"], Doing::QueueGet),
    ("queue.py", &["put"], Doing::QueuePut),
    ("queue.py", &["join"], Doing::QueueJoin),
    ("multiprocessing/queues.py", &["get"], Doing::QueueGet),
    ("multiprocessing/queues.py", &["put"], Doing::QueuePut),
    ("multiprocessing/queues.py", &["join"], Doing::QueueJoin),
    ("multiprocessing/queues.py", &["_feed"], Doing::Idle),
    ("multiprocessing/queues.py", &["_finalize_join"], Doing::ExitQueue),
    ("multiprocessing/pool.py", &["worker", "_wait_for_updates"], Doing::Idle),
    ("multiprocessing/pool.py", &["_handle_tasks", "_handle_results", "_handle_workers"], Doing::Idle),
    ("multiprocessing/pool.py", &["get", "wait", "next", "map", "starmap", "apply", "join"], Doing::Pool),
    ("multiprocessing/process.py", &["join"], Doing::ChildWait),
    ("multiprocessing/popen_fork.py", &["wait", "poll"], Doing::ChildWait),
    ("multiprocessing/util.py", &["_exit_function"], Doing::ExitChildren),
    (
        "multiprocessing/connection.py",
        &["recv", "recv_bytes", "recv_bytes_into", "poll", "wait"],
        Doing::PipeRead,
    ),
    ("multiprocessing/connection.py", &["send", "send_bytes"], Doing::PipeWrite),
    ("multiprocessing/connection.py", &["accept"], Doing::Accept),
    ("multiprocessing/synchronize.py", &["__enter__", "acquire"], Doing::SharedLock),
    ("multiprocessing/synchronize.py", &["wait", "wait_for"], Doing::Event),
    ("multiprocessing/resource_tracker.py", &["main"], Doing::Idle),
    ("multiprocessing/forkserver.py", &["main"], Doing::Idle),
    ("multiprocessing/managers.py", &["serve_forever"], Doing::Serving),
    ("multiprocessing/managers.py", &["_callmethod"], Doing::Manager),
    ("concurrent/futures/_base.py", &["result", "exception", "wait", "as_completed"], Doing::Future),
    ("concurrent/futures/_base.py", &["result_iterator"], Doing::Future),
    ("concurrent/futures/thread.py", &["_worker"], Doing::Idle),
    ("concurrent/futures/thread.py", &["shutdown"], Doing::ThreadJoin),
    ("concurrent/futures/thread.py", &["_python_exit"], Doing::ExitThreads),
    ("concurrent/futures/process.py", &["_process_worker", "wait_result_broken_or_wakeup"], Doing::Idle),
    ("concurrent/futures/process.py", &["shutdown"], Doing::Future),
    ("concurrent/futures/process.py", &["_python_exit"], Doing::ExitChildren),
    ("subprocess.py", &["wait", "_wait", "call", "__exit__"], Doing::ChildWait),
    ("subprocess.py", &["communicate", "_communicate", "run", "check_output"], Doing::ChildOutput),
    ("asyncio/base_events.py", &["run_forever", "run_until_complete"], Doing::Loop),
    ("asyncio/runners.py", &["run"], Doing::Loop),
    ("socketserver.py", &["serve_forever"], Doing::Serving),
    ("getpass.py", &["unix_getpass", "getpass"], Doing::Stdin),
];

/// What this thread does.
pub(crate) fn doing(thread: &ThreadEvidence) -> Doing {
    match thread.state {
        'T' | 't' => Doing::Stopped,
        'D' => Doing::Uninterruptible,
        'R' => Doing::Running,
        'Z' | 'X' => Doing::Ended,
        _ if is_helper(thread) => Doing::Idle,
        _ => by_function(thread).unwrap_or_else(|| by_call(thread)),
    }
}

/// Processes and threads of loky (joblib) that wait for work or keep account, with nothing of anybody else's further in.
const HELPERS: [(&str, &str); 3] = [
    ("/loky/backend/resource_tracker.py", "main"),
    ("/loky/process_executor.py", "_process_worker"),
    ("/loky/process_executor.py", "wait_result_broken_or_wakeup"),
];

fn is_helper(thread: &ThreadEvidence) -> bool {
    let innermost = thread.frames.iter().find(|frame| !frame.is_standard());
    innermost.is_some_and(|frame| {
        HELPERS.iter().any(|(file, function)| frame.file.ends_with(file) && frame.bare() == *function)
    })
}

/// What this thread does, with what is known of its process: programs that start others and have no more to do than to wait
/// for them do so in various ways, GNU timeout until a signal comes.
pub(crate) fn doing_in(evidence: &Evidence, process: &ProcessEvidence, thread: &ThreadEvidence) -> Doing {
    let plain = doing(thread);
    let for_a_signal = thread.wait.as_ref().is_some_and(|wait| SIGNAL_WAITS.contains(&wait.call.as_str()));
    let starts_others = || {
        let living =
            |child: &ProcessEvidence| child.parent == process.pid && !matches!(child.state, 'Z' | 'X');
        process.python == Python::NotPython && evidence.processes.iter().any(living)
    };
    let waits = matches!(plain, Doing::Native | Doing::Timed) && for_a_signal;
    if waits && starts_others() { Doing::ChildWait } else { plain }
}

/// Calls that wait for any signal, that of a child's end among them.
pub(crate) const SIGNAL_WAITS: [&str; 3] = ["rt_sigsuspend", "rt_sigtimedwait", "pause"];

/// In a pipe that has a name, a FIFO.
fn in_pipe(thread: &ThreadEvidence) -> bool {
    thread
        .wchan
        .as_deref()
        .is_some_and(|function| function.contains("pipe_read") || function.contains("pipe_write"))
}

/// Where the kernel waits for the other end of a FIFO.
fn is_fifo_open(function: &str) -> bool {
    ["wait_for_partner", "fifo_open"].iter().any(|known| function.starts_with(known))
}

/// The outermost known function before code of others begins: `Queue.join` says more than the lock it waits for.
fn by_function(thread: &ThreadEvidence) -> Option<Doing> {
    let inner = || thread.frames.iter().take_while(|frame| frame.is_standard());
    let has = |module: &str, function: &str| {
        inner().any(|frame| frame.module() == Some(module) && frame.bare() == function)
    };
    let known = inner().filter_map(|frame| {
        let module = frame.module()?;
        KNOWN.iter().find(|row| row.0 == module && row.1.contains(&frame.bare()))
    });
    let doing = known.last()?.2;
    Some(match doing {
        // A barrier waits in functions of the same names as an event.
        Doing::Event if has("threading.py", "_wait") => Doing::Barrier,
        // An event waits by a condition of its own: for a condition itself there is one such function less.
        Doing::Event if is_condition(inner()) => Doing::Condition,
        // What it does at exit is to wait for the thread that empties a queue.
        Doing::ExitChildren if has("multiprocessing/queues.py", "_finalize_join") => Doing::ExitQueue,
        other => other,
    })
}

/// Whether these frames wait for a condition itself. Before Python 3.11 functions have no names of classes.
fn is_condition<'a>(frames: impl Iterator<Item = &'a crate::Frame>) -> bool {
    let waits: Vec<_> = frames.filter(|frame| frame.bare() == "wait").collect();
    waits.len() == 1 && !waits[0].function.starts_with("Event.")
}

fn by_call(thread: &ThreadEvidence) -> Doing {
    let Some(wait) = &thread.wait else { return Doing::Unknown };
    let on = wait.on.as_deref().unwrap_or_default();
    let socket = on.starts_with("socket");
    if thread.is_plain_sleep() {
        return Doing::Sleep;
    }
    match wait.call.as_str() {
        "futex" if wait.timed == Some(true) => Doing::Timed,
        "futex" if on == SHARED_MEMORY => Doing::SharedLock,
        "futex" if joins(wait) => Doing::ThreadJoin,
        "futex" | "futex_waitv" => by_primitive(thread, wait.at),
        "semop" | "semtimedop" => Doing::SharedLock,
        "wait4" | "waitid" => Doing::ChildWait,
        "accept" | "accept4" => Doing::Accept,
        "connect" => Doing::Connect,
        "flock" | "fcntl" => Doing::FileLock,
        "openat" if thread.wchan.as_deref().is_some_and(is_fifo_open) => Doing::FifoOpen,
        "recvfrom" | "recvmsg" | "recvmmsg" => Doing::SocketRead,
        "sendto" | "sendmsg" => Doing::SocketWrite,
        // What is connected to a socket waits for the other side, also where that is its stdin.
        "read" | "readv" | "poll" | "ppoll" if wait.fd == Some(0) && !socket => Doing::Stdin,
        "read" | "readv" if on == "pipe" || in_pipe(thread) => Doing::PipeRead,
        "write" | "writev" if on == "pipe" || in_pipe(thread) => Doing::PipeWrite,
        "read" | "readv" | "poll" | "ppoll" if socket => Doing::SocketRead,
        "write" | "writev" if socket => Doing::SocketWrite,
        "read" | "readv" | "write" | "writev" | "pread64" | "pwrite64" | "fsync" | "fdatasync" | "ioctl" => {
            Doing::File
        }
        _ if wait.timed == Some(true) => Doing::Timed,
        _ => Doing::Native,
    }
}

/// What a thread does that waits for another of its process. Locks of Python are semaphores of the C library.
const fn by_primitive(thread: &ThreadEvidence, at: Option<Primitive>) -> Doing {
    match at {
        None | Some(Primitive::Mutex) => Doing::Lock,
        Some(Primitive::Semaphore) if !thread.frames.is_empty() => Doing::Lock,
        Some(Primitive::Join) => Doing::ThreadJoin,
        Some(at) => Doing::At(at),
    }
}

/// Waits for a thread of C to end.
fn joins(wait: &Wait) -> bool {
    matches!(wait.sources[..], [Source::Thread { tie: Tie::Joined, .. }])
}

impl Doing {
    /// For the line a person reads: `waiting for a lock`.
    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Lock => "waiting for a lock",
            Self::At(at) => at.waiting(),
            Self::SharedLock => "waiting for a lock shared between processes",
            Self::Semaphore => "waiting for a semaphore",
            Self::Event => "waiting for an event",
            Self::Condition => "waiting for a condition",
            Self::Manager => "waiting for an answer of a multiprocessing.Manager",
            Self::Barrier => "waiting at a barrier",
            Self::QueueGet => "waiting for an item of a queue",
            Self::QueuePut => "waiting for room in a queue",
            Self::QueueJoin => "waiting for a queue to be worked off",
            Self::ThreadJoin => "waiting for a thread to end",
            Self::ExitThreads => "waiting at exit for a thread",
            Self::ExitQueue => "waiting at exit for a queue to be read",
            Self::ExitChildren => "waiting at exit for a child process",
            Self::ChildWait => "waiting for a child process to end",
            Self::ChildOutput => "waiting for the output of a child process",
            Self::Pool => "waiting for a result of a multiprocessing.Pool",
            Self::Future => "waiting for the result of a future",
            Self::Loop => "waiting in an asyncio loop",
            Self::Serving => "waiting for clients",
            Self::PipeRead => "reading from an empty pipe",
            Self::PipeWrite => "writing to a full pipe",
            Self::Stdin => "reading from stdin",
            Self::SocketRead => "reading from a socket",
            Self::SocketWrite => "writing to a socket",
            Self::Accept => "waiting for a connection",
            Self::Connect => "connecting",
            Self::FileLock => "waiting for the lock of a file",
            Self::FifoOpen => "opening a FIFO",
            Self::File => "reading or writing a file",
            Self::Sleep => "sleeping",
            Self::Timed => "waiting with a time limit",
            Self::Native => "in a C function that does not return",
            Self::Uninterruptible => "in uninterruptible sleep (D)",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
            Self::Idle => "waiting for work",
            Self::Unknown => "waiting",
        }
    }
}
