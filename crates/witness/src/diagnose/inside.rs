//! Causes within one process: locks, queues, events, the interpreter.

use std::collections::{HashMap, HashSet};

use super::doing::{Doing, SIGNAL_WAITS, doing};
use super::scene::{Finding, Scene, own_frame, place_of, threads_doing};
use super::trail::is_worker;
use crate::frame::Owner;
use crate::{Primitive, ProcessEvidence, Source, ThreadEvidence, Tie};

/// One thread has Python's own lock and does not give it back.
pub(crate) fn interpreter_lock(scene: &Scene) -> Option<Finding> {
    let process = scene.here()?.process;
    let holder = process.threads.iter().find(|thread| thread.gil)?;
    let busy = holder.state == 'R';
    let waits = |thread: &&ThreadEvidence| thread.tid != holder.tid && wants_interpreter(thread, busy);
    let others = process.threads.iter().filter(waits).count();
    if others == 0 {
        return None;
    }
    if busy {
        return Finding::new(
            format!(
                "{others} threads wait for Python's own lock (GIL), which {} keeps busy",
                place_of(holder)
            ),
            "threads share one interpreter: use processes, one per GPU \
             (`multiprocessing.get_context(\"spawn\")`)",
        );
    }
    Finding::new(
        format!(
            "a C function keeps Python's own lock (GIL) while it waits, so that no other thread can go on: {}",
            place_of(holder)
        ),
        "it must give the GIL back: `ctypes.CDLL` instead of `PyDLL`, `with nogil:` in Cython, \
         `py::gil_scoped_release` in pybind11",
    )
}

/// Waits for the lock of the interpreter, which is a wait of a few milliseconds again and again. While its holder computes,
/// functions that wait with a limit of their own look the same; while its holder sleeps, they too end up waiting for it.
fn wants_interpreter(thread: &ThreadEvidence, busy: bool) -> bool {
    let timed = thread.wait.as_ref().is_some_and(|wait| wait.call == "futex" && wait.timed == Some(true));
    timed && thread.frames.first().is_some_and(|frame| !busy || !frame.is_standard())
}

/// Threads that meet in one library's locks.
pub(crate) fn library(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Lock])?;
    let package = innermost_package(here.thread)?;
    let inside =
        |thread: &&ThreadEvidence| thread.frames.iter().any(|frame| frame.package() == Some(package));
    let threads = here.process.threads.iter().filter(inside).count();
    if threads < 2 {
        return None;
    }
    Finding::new(
        format!(
            "{threads} threads are inside {package} and wait for its locks: it does not seem to be made \
             for threads"
        ),
        format!(
            "use one process per GPU instead of threads, or run what uses {package} in a stage with \
             `parallel = 1`"
        ),
    )
}

/// The package whose code waits, with nothing of the user's further in.
fn innermost_package(thread: &ThreadEvidence) -> Option<&str> {
    let frame = thread.frames.iter().find(|frame| !frame.is_standard())?;
    (frame.owner() == Owner::Library).then(|| frame.package()).flatten()
}

/// Several threads, each waiting for a lock.
pub(crate) fn deadlock(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Lock])?;
    let waiting = python_threads(here.process, Doing::Lock);
    if waiting.len() < 2 {
        return None;
    }
    let place = place_of(here.thread);
    let elsewhere = waiting.iter().map(|thread| place_of(thread)).find(|other| *other != place);
    let places = elsewhere
        .map_or_else(|| format!("all of them at {place}"), |other| format!("among them {place} and {other}"));
    Finding::new(
        format!("deadlock: {} threads each wait for a lock, {places}", waiting.len()),
        "take the locks in the same order everywhere, or use one lock; `lock.acquire(timeout=60)` shows \
         which is held",
    )
}

fn python_threads(process: &ProcessEvidence, wanted: Doing) -> Vec<&ThreadEvidence> {
    threads_doing(process, wanted).into_iter().filter(|thread| !thread.frames.is_empty()).collect()
}

/// Threads that hold mutexes which the next of them waits for, around.
pub(crate) fn circle(scene: &Scene) -> Option<Finding> {
    let process = scene.here()?.process;
    let owners: HashMap<u32, u32> = process.threads.iter().filter_map(mutex_owner).collect();
    let around = around(process.threads.iter().map(|thread| thread.tid), &owners);
    let first = process.threads.iter().find(|thread| around.contains(&thread.tid))?;
    let second = owners.get(&first.tid)?;
    Finding::new(
        format!(
            "deadlock: threads hold mutexes that others of them wait for, around: thread {} waits for one that thread {} holds",
            first.tid, second
        ),
        "take the mutexes in the same order everywhere, or at once: `std::scoped_lock both(a, b);`",
    )
}

/// A thread that waits for a mutex alone, and the other thread that holds that.
fn mutex_owner(thread: &ThreadEvidence) -> Option<(u32, u32)> {
    match thread.wait.as_ref()?.sources[..] {
        [Source::Thread { tid, tie: Tie::Mutex }] if tid != thread.tid => Some((thread.tid, tid)),
        _ => None,
    }
}

/// Those from whom the way from owner to owner leads back to themselves. Each is passed once: there may be thousands.
fn around(tids: impl Iterator<Item = u32>, owners: &HashMap<u32, u32>) -> HashSet<u32> {
    let mut found = HashSet::new();
    let mut passed_from: HashMap<u32, u32> = HashMap::new();
    for start in tids {
        let mut at = start;
        while let Some(owner) = owners.get(&at).filter(|_| !passed_from.contains_key(&at)) {
            passed_from.insert(at, start);
            at = *owner;
        }
        // Met again on the way from the same thread: a circle, which was not met before.
        while passed_from.get(&at) == Some(&start) && found.insert(at) {
            let Some(owner) = owners.get(&at) else { break };
            at = *owner;
        }
    }
    found
}

/// Waits of code that is not Python, by what it waits at.
pub(crate) fn primitive(scene: &Scene) -> Option<Finding> {
    let here = scene.here()?;
    let Doing::At(at) = here.doing else { return None };
    let (cause, remedy) = of_primitive(at)?;
    let place = own_frame(&here.thread.frames)
        .map_or_else(String::new, |frame| format!(" (called at {})", frame.place()));
    Finding::new(format!("{cause}{place}"), remedy.replace("PID", &here.process.pid.to_string()))
}

const fn of_primitive(at: Primitive) -> Option<(&'static str, &'static str)> {
    Some(match at {
        Primitive::Condition => (
            "no thread notifies the condition variable it waits for: the wake-up came before the wait and is lost, or who \
             should notify ended or waits itself",
            "wait for a state and not for the notification alone, `cv.wait(lock, [&] { return ready; })`, and change the \
             state under the same mutex",
        ),
        Primitive::Semaphore => (
            "a semaphore is not raised: who took it ended or waits itself, or nobody raises it",
            "raise it on every path (`sem_post`), also after an error, or wait with a limit: `sem_timedwait`",
        ),
        Primitive::Barrier => (
            "a barrier waits for a thread that does not come",
            "let as many threads arrive as the barrier was made for, also after an error",
        ),
        Primitive::ReadWriteLock => (
            "a read-write lock is not released: a reader or writer keeps it, perhaps the thread that waits",
            "do not take it for writing while you hold it for reading, and hold it for short times only",
        ),
        Primitive::Once => (
            "an initialisation that happens once (pthread_once, std::call_once, a static of a function) does not end: \
             it needs itself, or the thread that runs it waits",
            "let it need nothing that waits for itself or for another thread",
        ),
        Primitive::Future => (
            "it waits for a future (std::future) whose value nobody sets: the task ended without, has not begun, or waits itself",
            "set the value or the exception of the promise on every path; wait with a limit: `future.wait_for(60s)`",
        ),
        Primitive::Word => (
            "nobody counts down or notifies what it waits for: a latch, semaphore, barrier, atomic, lock or channel",
            "see `gdb -p PID -batch -ex 'thread apply all bt'` for the place; let every path give what others wait for",
        ),
        Primitive::OpenMp => (
            "threads of OpenMP wait for each other: one of them does not reach the barrier or the end of the parallel region",
            "let all threads reach the same barriers; fork before the first parallel region, or not at all; `OMP_NUM_THREADS=1` \
             shows whether it is that",
        ),
        Primitive::Atomics => (
            "Atomics.wait keeps this thread until another one calls Atomics.notify, and none does: the worker that should, ended \
             or waits itself, perhaps for a message of this thread, which handles none meanwhile",
            "use `Atomics.waitAsync` in the main thread, or wait with a limit: `Atomics.wait(array, 0, 0, 60000)`",
        ),
        Primitive::Java => (
            "a thread of a Java program waits for another one, which does not let it go on (park, await, get, take, wait or \
             synchronized: a lock, latch, queue or future; which, only the Java VM knows)",
            "see it with `jstack PID`; count down and complete in a `finally`, and wait with a limit: `latch.await(60, SECONDS)`",
        ),
        Primitive::Go => (
            "goroutines wait for each other or for somebody outside: a channel, lock, WaitGroup or connection; which, only the \
             runtime of Go knows",
            "see them with `kill -QUIT PID`, which ends the program and prints its goroutines",
        ),
        Primitive::Mutex | Primitive::Join => return None,
    })
}

/// A lock whose owner is written down, and waits itself.
pub(crate) fn owned(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Lock])?;
    let [Source::Thread { tid, tie }] = &here.thread.wait.as_ref()?.sources[..] else { return None };
    let lock = if *tie == Tie::RLock { "RLock" } else { "mutex" };
    if *tid == here.thread.tid {
        return Finding::new(
            format!("the thread that waits for a {lock} holds it already"),
            "unlock it first, or make it a recursive one",
        );
    }
    let owner = here.process.threads.iter().find(|thread| thread.tid == *tid)?;
    Finding::new(
        format!(
            "thread {tid} holds the {lock}, and waits itself: {} ({})",
            place_of(owner),
            doing(owner).phrase()
        ),
        "take locks in the same order everywhere, and hold none while you wait for another thread",
    )
}

/// One thread alone waits for a lock.
pub(crate) fn lock(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Lock])?;
    if here.thread.frames.is_empty() {
        return lock_of_c(here.thread.wait.as_ref().and_then(|wait| wait.at), here.process.pid);
    }
    // Code of a `SimpleQueue` has no frame of its own; the standard library gets from none here.
    let queue = match here.thread.frames.first() {
        Some(frame) if frame.is_standard() => "",
        _ => "; or, where the line gets from a queue.SimpleQueue, nobody puts an item",
    };
    Finding::new(
        format!(
            "a lock is not released: the thread that waits has it already, or its holder ended without giving it back{queue}"
        ),
        "make it a `threading.RLock()` if the same thread takes it twice; else take it with `with lock:`, which \
         gives it back on errors too",
    )
}

/// A lock of a program that is not Python.
fn lock_of_c(at: Option<Primitive>, pid: u32) -> Option<Finding> {
    let cause = if at == Some(Primitive::Mutex) {
        "a mutex is not unlocked: its holder ended without unlocking it, or the thread that waits holds it already"
    } else {
        "no thread of the process gives what it waits for: a lock is not released, a condition not notified, or a semaphore not raised"
    };
    Finding::new(cause, format!("see the place with `gdb -p {pid} -batch -ex 'thread apply all bt'`"))
}

/// A semaphore of threads.
pub(crate) fn semaphore(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::Semaphore])?;
    Finding::new(
        "a semaphore is not released: who took it ended, or forgot to give it back",
        "take it with `with semaphore:`, which gives it back on errors too",
    )
}

/// `Queue.join` after a worker died.
pub(crate) fn queue_join(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::QueueJoin])?;
    Finding::new(
        "the queue still has items nobody finished: a worker died, or did not call task_done()",
        "call `queue.task_done()` in a `finally:` in the worker, and let the worker catch errors so \
         that it does not die",
    )
}

/// `Queue.get` with nobody to put.
pub(crate) fn queue_get(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::QueueGet])?;
    Finding::new(
        "it waits for an item that nobody puts: the producer ended or failed",
        "let the producer put an end mark in a `finally:` (`queue.put(None)`), or get with a limit: \
         `queue.get(timeout=60)`",
    )
}

/// `Queue.put` with nobody to get.
pub(crate) fn queue_put(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::QueuePut])?;
    Finding::new(
        "the queue is full and nobody takes from it: the consumer ended or failed",
        "let the consumer run until it gets an end mark, also after an error; or put with a limit: \
         `queue.put(item, timeout=60)`",
    )
}

/// A party is missing.
pub(crate) fn barrier(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::Barrier])?;
    Finding::new(
        "a barrier waits for a thread or process that does not come",
        "give it a limit, `threading.Barrier(n, timeout=60)`, and call `barrier.abort()` when a thread fails",
    )
}

/// Nobody sets it.
pub(crate) fn event(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::Event])?;
    Finding::new(
        "it waits for an event that nobody sets: who should have ended or failed",
        "set it in a `finally:`, or wait with a limit: `event.wait(timeout=60)`",
    )
}

/// Nobody notifies it.
pub(crate) fn condition(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::Condition])?;
    Finding::new(
        "it waits for a condition that nobody notifies: who should ended or failed, or notified before the wait",
        "wait for a state and not for the notification alone: `condition.wait_for(lambda: ready, timeout=60)`",
    )
}

/// Nobody gives what a manager keeps.
pub(crate) fn manager(scene: &Scene) -> Option<Finding> {
    scene.here_doing(&[Doing::Manager])?;
    Finding::new(
        "a multiprocessing.Manager does not answer: it waits for something that nobody gives (an event, lock, barrier or item of a \
         queue that it keeps), or has ended",
        "wait with a limit, `event.wait(60)`, `queue.get(timeout=60)`, and give it in a `finally:`",
    )
}

/// An asyncio loop with nothing to wake it.
pub(crate) fn event_loop(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Loop])?;
    if here.thread.waits_by_the_clock() {
        return None;
    }
    let place = own_frame(&here.thread.frames)
        .map_or_else(String::new, |frame| format!(" (run from {})", frame.place()));
    Finding::new(
        format!(
            "the asyncio loop has nothing left that would wake it: a task awaits what nobody will do{place}"
        ),
        "await with a limit, `await asyncio.wait_for(…, timeout=60)`; from another thread wake it with \
         `loop.call_soon_threadsafe(…)`",
    )
}

/// A future that is not done, with nobody at work on it.
pub(crate) fn future(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Future])?;
    let workers = || here.process.threads.iter().filter(|thread| is_worker(thread));
    if is_worker(here.thread) && workers().all(|thread| doing(thread) == Doing::Future) {
        return Finding::new(
            format!(
                "deadlock: every worker of the pool runs a task that waits for the future of another task, and none is left \
                 to run that: {}",
                place_of(here.thread)
            ),
            "do not wait inside a task for tasks of the same executor: use a second one for the inner tasks",
        );
    }
    Finding::new(
        "it waits for the result of a future, and nobody works on it: its worker ended, or all workers \
         wait for each other",
        "wait with a limit, `future.result(timeout=600)`; do not wait for futures inside tasks of the \
         same executor",
    )
}

/// A call into C.
pub(crate) fn native(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Native])?;
    let wait = here.thread.wait.as_ref()?;
    let call = &wait.call;
    if here.thread.frames.is_empty() {
        let what = wait.sources.iter().find(|source| matches!(source, Source::Outside(_)))?;
        return Finding::new(
            format!("what it waits for does not come: {what}"),
            "see who should give it, and give the wait a limit",
        );
    }
    let until = if SIGNAL_WAITS.contains(&call.as_str()) {
        ", until a signal comes"
    } else if ["poll", "select"].iter().any(|name| call.contains(name)) {
        ", until one of its connections, pipes or other descriptors is ready"
    } else {
        ""
    };
    Finding::new(
        format!(
            "a C function called at {} does not return; it sits in the system call {call}{until}",
            place_of(here.thread)
        ),
        "give that function a time limit of its own if it has one, or call it in a process that can be ended",
    )
}

/// A sleep, or a loop of short ones: one look cannot tell them apart.
pub(crate) fn by_the_clock(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Sleep, Doing::Timed])?;
    if here.thread.frames.is_empty() {
        return by_the_clock_of_java(here.thread.wait.as_ref()?.at, here.process.pid);
    }
    let around = here.thread.in_loop.as_ref().map(crate::Loop::words).unwrap_or_default();
    Finding::new(
        format!(
            "{} waits by the clock{around}: it sleeps, or looks again and again for something that does not come",
            place_of(here.thread)
        ),
        "if it waits for a file, a process or a flag, give the loop an end: `if time.monotonic() > \
         deadline: raise TimeoutError`",
    )
}

/// A loop that asks for a file again and again.
pub(crate) fn polls_for_file(scene: &Scene) -> Option<Finding> {
    let here = scene.here_doing(&[Doing::Sleep, Doing::Timed])?;
    let around = here.thread.in_loop.as_ref().filter(|around| around.for_file)?;
    let file = around.path.as_ref().map_or_else(|| "a file".to_owned(), |path| format!("the file {path}"));
    Finding::new(
        format!("{} polls for {file}, which does not come: `{}`", place_of(here.thread), around.header),
        "see who should make that file; give the loop an end: `if time.monotonic() > deadline: raise TimeoutError`",
    )
}

/// The Java VM waits with limits also for what has none.
fn by_the_clock_of_java(at: Option<Primitive>, pid: u32) -> Option<Finding> {
    if at != Some(Primitive::Java) {
        return None;
    }
    Finding::new(
        "a thread of a Java program sleeps, waits with a limit, or waits for a lock (synchronized) that another thread holds; \
         which, only the Java VM knows",
        format!("see it with `jstack {pid}`"),
    )
}
