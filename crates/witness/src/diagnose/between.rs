//! Causes between processes, and between a process and others: forks, pipes, pools, sockets, files.

use super::doing::{Doing, doing};
use super::scene::{Finding, Scene, place_of};
use super::trail::{Step, is_worker};
use crate::{Database, Primitive, ProcessEvidence, Python, ThreadEvidence};

/// A pipe that nobody empties.
pub(crate) fn full_pipe(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::PipeWrite])?;
    let parent = scene.parent(here.process).and_then(ProcessEvidence::main_thread);
    match parent.filter(|parent| matches!(doing(parent), Doing::ChildWait | Doing::ExitChildren)) {
        Some(parent) if !in_module(parent, "multiprocessing/") => Finding::new(
            "the child writes to a pipe that is full, while its parent waits for it to end and does not read",
            "read while you wait: `out, err = process.communicate()` instead of `process.wait()`, or \
             `stdout=subprocess.DEVNULL`",
        ),
        Some(_) => Finding::new(
            "the child writes to a pipe that is full, while its parent waits for it to end and does not read",
            "read all results before you `join()` the process that sends them",
        ),
        None => Finding::new(
            "the pipe it writes to is full, and who should read it does not",
            "read from the pipe in a thread of its own, or let it write to a file",
        ),
    }
}

/// Parent and child, each waiting for the other.
pub(crate) fn each_other(scene: &Scene) -> Option<Finding> {
    let here = scene.here()?;
    let (parent, child) = match scene.trail.iter().rev().find(|step| step.process.pid == here.process.parent)
    {
        Some(parent) => (*parent, *here),
        None => (*here, waiting_child(scene, here)?),
    };
    let waits = waits_for_child(parent.doing) && waits_for_parent(child.doing);
    if !waits || !linked(&parent, &child) || child.doing == Doing::Stdin && !talks_to(&parent, &child) {
        return None;
    }
    let cause = format!(
        "parent and child wait for each other: {} and {}",
        place_of(parent.thread),
        place_of_child(&child)
    );
    if child.doing == Doing::Stdin || !in_module(child.thread, "multiprocessing/") {
        return Finding::new(
            cause,
            "the child waits for input: give it and close the pipe with `process.communicate(data)`, or \
             start it with `stdin=subprocess.DEVNULL`",
        );
    }
    Finding::new(
        cause,
        "let one side send first; tell workers to end with a mark (`queue.put(None)`) before you join \
         them; wait with `poll(timeout)`",
    )
}

fn waiting_child<'a>(scene: &Scene<'a>, parent: &Step<'a>) -> Option<Step<'a>> {
    let children = scene.children(parent.process).into_iter();
    let mut steps = children.filter_map(|process| {
        let thread = process.main_thread()?;
        Some(Step { process, thread, doing: doing(thread) })
    });
    steps.find(|step| waits_for_parent(step.doing))
}

fn place_of_child(child: &Step) -> String {
    if child.thread.frames.is_empty() {
        return format!("child {} ({})", child.process.pid, child.process.command);
    }
    format!("{} in child {}", place_of(child.thread), child.process.pid)
}

const fn waits_for_child(doing: Doing) -> bool {
    matches!(
        doing,
        Doing::ChildWait | Doing::ChildOutput | Doing::PipeRead | Doing::QueueGet | Doing::ExitChildren
    )
}

const fn waits_for_parent(doing: Doing) -> bool {
    matches!(doing, Doing::PipeRead | Doing::Stdin | Doing::QueueGet)
}

/// The parent reads from the child or writes to it. One that only waits for its end leaves the answer to somebody else.
fn talks_to(parent: &Step, child: &Step) -> bool {
    let shared = |inode: &u64| child.process.descriptors.pipes.contains(inode);
    let on_pipe = |thread: &ThreadEvidence| thread.wait.as_ref()?.inode.filter(shared);
    matches!(parent.doing, Doing::ChildOutput) || parent.process.threads.iter().find_map(on_pipe).is_some()
}

/// The child waits on something whose other end the parent has.
fn linked(parent: &Step, child: &Step) -> bool {
    let Some(inode) = child.thread.wait.as_ref().and_then(|wait| wait.inode) else {
        // A queue waits for its lock before it reads: what they share is memory.
        return child.doing == Doing::QueueGet && in_module(child.thread, "multiprocessing/");
    };
    let mine = &parent.process.descriptors;
    // A pipe has one number for both ends; the ends of a socket pair have numbers of their own.
    mine.pipes.contains(&inode)
        || child.process.descriptors.sockets.contains(&inode) && !mine.sockets.is_empty()
}

/// A lock that was held when the process was forked.
pub(crate) fn fork(scene: &Scene) -> Option<Finding> {
    let here = scene.here().filter(|here| matches!(here.doing, Doing::Lock | Doing::At(_)))?;
    let parent = scene.parent(here.process)?;
    if !is_forked(here.process, parent) || here.process.threads.len() > 1 {
        return None;
    }
    let spawn = afresh(here.thread);
    if here.process.descriptors.gpus > 0 || parent.descriptors.gpus > 0 {
        return Finding::new(
            "fork after CUDA: the child was forked from a process that uses a GPU, and CUDA does not \
             survive that",
            spawn,
        );
    }
    if let Doing::At(at) = here.doing {
        let what = at.words();
        return Finding::new(
            format!(
                "it waits for {what}, but threads do not survive a fork: in the child nobody is left to give it"
            ),
            spawn,
        );
    }
    Finding::new(
        "a lock was held when the process was forked; in the child nobody is left to release it",
        spawn,
    )
}

/// How to start such a child without a fork.
fn afresh(thread: &ThreadEvidence) -> &'static str {
    if thread.frames.iter().any(is_loader) {
        "start the workers afresh: `DataLoader(…, multiprocessing_context=\"spawn\")`"
    } else if in_module(thread, "multiprocessing/") || in_module(thread, "concurrent/futures/") {
        "start children afresh instead of forking: `multiprocessing.set_start_method(\"spawn\")` at the \
         start of the program"
    } else {
        "fork before threads and libraries start, or start the child afresh instead of `os.fork()`: \
         `subprocess.Popen([sys.executable, …])`, or `multiprocessing.get_context(\"spawn\").Process(…)`"
    }
}

/// Forked without a new program: its stack goes through the fork, or it is the same Python with the same command line.
fn is_forked(child: &ProcessEvidence, parent: &ProcessEvidence) -> bool {
    let forks = |thread: &ThreadEvidence| in_module(thread, "multiprocessing/popen_fork.py");
    child.main_thread().is_some_and(forks)
        || (child.command == parent.command && matches!(child.python, Python::Version(_)))
}

/// Workers of a `DataLoader`.
pub(crate) fn loader(scene: &Scene) -> Option<Finding> {
    let here = scene.here()?;
    let step = scene.trail.iter().find(|step| step.thread.frames.iter().any(is_loader))?;
    let cause = if step.process.pid == here.process.pid && step.thread.tid == here.thread.tid {
        "it waits for a batch of a DataLoader, and no worker is at work on one: one was killed, or they \
         wait for each other"
            .to_owned()
    } else {
        format!("a worker of a DataLoader does not go on: {}", place_of(here.thread))
    };
    Finding::new(
        cause,
        "find the place with `num_workers=0`; then `DataLoader(…, timeout=60, \
         multiprocessing_context=\"spawn\")`",
    )
}

fn is_loader(frame: &crate::Frame) -> bool {
    frame.file.contains("/torch/utils/data/")
}

/// A `Pool` with nobody at work.
pub(crate) fn pool(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Pool])?;
    let mut workers = here.process.threads.iter().filter(|thread| is_worker(thread));
    if is_worker(here.thread) && workers.all(|thread| doing(thread) == Doing::Pool) {
        return Finding::new(
            format!(
                "deadlock: every worker of the pool runs a task that waits for another task of the pool, and none is left to run \
                 that: {}",
                place_of(here.thread)
            ),
            "do not wait inside a task for tasks of the same pool: use a second one for the inner tasks",
        );
    }
    Finding::new(
        "the workers of the multiprocessing.Pool are idle, yet a result is missing: a worker was killed \
         and its task is lost",
        "use `concurrent.futures.ProcessPoolExecutor`, which raises BrokenProcessPool, or wait with a \
         limit: `.get(timeout=600)`",
    )
}

/// A question nobody answers.
pub(crate) fn prompt(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Stdin])?;
    if scene.start().is_none_or(|start| start.process.pid == here.process.pid) {
        return Finding::new(
            "it asks for something on stdin, and nobody answers",
            "give the answer as an argument or variable (`--yes`), or start it with stdin from /dev/null",
        );
    }
    let ProcessEvidence { pid, command, .. } = here.process;
    Finding::new(
        format!("child {pid} ({command}) asks for something on stdin, and nobody answers"),
        "give it the answer as an argument (`--yes`) or through its stdin (`process.communicate(data)`, which \
         closes it), or start it with `stdin=subprocess.DEVNULL`",
    )
}

/// A lock or semaphore between processes.
pub(crate) fn shared_lock(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::SharedLock])?;
    match here.thread.wait.as_ref().and_then(|wait| wait.at) {
        Some(Primitive::Condition) => {
            return Finding::new(
                "no process notifies the condition variable it waits for, which processes share: the wake-up came before the \
                 wait and is lost, or who should notify ended or waits itself",
                "wait for a state that is changed under the same mutex, and with a limit: `pthread_cond_timedwait`",
            );
        }
        Some(Primitive::Barrier) => {
            return Finding::new(
                "a barrier shared between processes waits for one that does not come",
                "let as many processes arrive as the barrier was made for, also after an error",
            );
        }
        _ => {}
    }
    Finding::new(
        "a lock or semaphore shared between processes is not released: its holder was killed or ended \
         without giving it back",
        "take it with `with lock:` and end workers by a message, never by `terminate()`; or wait with \
         `lock.acquire(timeout=60)`",
    )
}

/// The other side of a connection.
pub(crate) fn socket(scene: &Scene) -> Option<Finding> {
    let here = scene.here()?;
    match here.doing {
        Doing::SocketRead => Finding::new(
            "the other side of the connection does not answer",
            "set a time limit: `socket.setdefaulttimeout(60)`, `requests.get(…, timeout=60)`",
        ),
        Doing::SocketWrite => Finding::new(
            "the other side of the connection does not read",
            "set a time limit: `socket.setdefaulttimeout(60)`; look what the other side does",
        ),
        Doing::Connect => Finding::new(
            "the other side does not take the connection: wrong address, a firewall, or it is down",
            "check the address; set a time limit: `socket.create_connection(address, timeout=30)`",
        ),
        Doing::Accept => Finding::new(
            "it waits for somebody to connect, and nobody does",
            "start the other side, check address and port; set a limit with `server.settimeout(60)`",
        ),
        _ => None,
    }
}

/// Somebody else has the file.
pub(crate) fn file_lock(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::FileLock])?;
    let file =
        here.thread.wait.as_ref().and_then(|wait| wait.on.clone()).unwrap_or_else(|| "a file".to_owned());
    let holder = here.thread.wait.as_ref().and_then(|wait| wait.holder.as_ref());
    let inside = holder.and_then(|holder| scene.evidence.process(holder.pid?));
    match (holder, inside) {
        (_, Some(process)) if process.pid == here.process.pid => Finding::new(
            format!("it holds the lock of {file} itself, by another descriptor of the same file"),
            "take the lock once and pass the open file on, or give it back first: `fcntl.flock(file, fcntl.LOCK_UN)`",
        ),
        (_, Some(process)) => Finding::new(
            format!("process {} ({}) of the same job holds the lock of {file}", process.pid, process.command),
            "let that one give it back before it waits for others; `fcntl.LOCK_NB` does not wait",
        ),
        (Some(holder), None) => {
            let look = match holder.pid {
                Some(pid) => format!("look what it does with `gpulane doctor {pid}`"),
                None => "it is another user's, or of another container or machine".to_owned(),
            };
            Finding::new(
                format!("{holder} holds the lock of {file}"),
                format!("{look}; the wait ends when it lets go"),
            )
        }
        (None, None) => Finding::new(
            format!("the lock of {file} is held; by whom cannot be seen"),
            format!(
                "find it with `fuser -v {file}` or `lslocks`; a lock file left by a killed build can be removed"
            ),
        ),
    }
}

/// A database that is locked while the program sleeps and tries again.
pub(crate) fn database(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Sleep])?;
    let Database { path, locked_by } = here.process.database.as_ref()?;
    if scene.evidence.process(*locked_by).is_some() {
        return Finding::new(
            format!(
                "an SQLite database ({path}) is locked by this job itself: process {locked_by} has a transaction open, while {} \
                 sleeps and tries again",
                place_of(here.thread)
            ),
            "commit or roll back (`connection.commit()`) before another connection writes, or write through the same \
             connection",
        );
    }
    Finding::new(
        format!(
            "an SQLite database ({path}) is locked by process {locked_by}, and it sleeps and tries again"
        ),
        format!("look what that one does with `gpulane doctor {locked_by}`; the wait ends when it lets go"),
    )
}

/// An end of a FIFO without the other.
pub(crate) fn fifo(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::FifoOpen])?;
    let path = here.thread.wait.as_ref().and_then(|wait| wait.on.as_deref());
    let path = path.map_or_else(String::new, |path| format!(" {path}"));
    Finding::new(
        format!("it opens a FIFO{path} that nobody has opened at the other end"),
        "start the other side first, or open it without waiting: `os.open(path, os.O_RDONLY | os.O_NONBLOCK)`",
    )
}

/// The other end of a pipe.
pub(crate) fn other_end(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::PipeRead])?;
    let path = here.thread.wait.as_ref().and_then(|wait| wait.on.as_deref()).filter(|on| on.starts_with('/'));
    if let Some(path) = path {
        return Finding::new(
            format!("it reads from the FIFO {path}, into which nobody writes"),
            "start the other side, or look what it does; wait with a limit: `select.select([fifo], [], [], 60)`",
        );
    }
    Finding::new(
        "it reads from a pipe into which nobody writes: the writer ended or failed, and another process \
         keeps the pipe open",
        "close the ends that a process does not use (`connection.close()`), and read with a limit: `if \
         connection.poll(60): …`",
    )
}

/// A child that does not end, with nothing more known about it.
pub(crate) fn child(scene: &Scene) -> Option<Finding> {
    let waiting =
        scene.trail.iter().find(|step| matches!(step.doing, Doing::ChildWait | Doing::ChildOutput))?;
    let here = scene.here()?;
    if here.process.pid == waiting.process.pid {
        return None;
    }
    let child = format!("child {} ({})", here.process.pid, here.process.command);
    if here.thread.is_plain_sleep() {
        return Finding::new(
            format!("it waits for {child}, which sleeps: a pause, or a loop that asks again and again"),
            "see what it asks for (a file, a lock file, a server), and give the loop an end of its own",
        );
    }
    Finding::new(
        format!("it waits for {child}, which does not go on"),
        "give the wait a limit: `process.wait(timeout=600)`, `subprocess.run(…, timeout=600)`",
    )
}

fn in_module(thread: &ThreadEvidence, module: &str) -> bool {
    thread.frames.iter().any(|frame| frame.module().is_some_and(|name| name.starts_with(module)))
}
