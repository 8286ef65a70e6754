//! What a futex belongs to: conditions, semaphores and barriers of the C library are told apart, and what is not known is not said.

use gpulane_model::Millis;
use gpulane_witness::{Primitive, Source, Surroundings, ThreadEvidence, Tie, Wait, diagnose};

use crate::by_hand::{process, seen, thread, wait};
use crate::subject::Subject;

/// The C library, and memory for one of its objects.
const C: &str = r"
import ctypes
c = ctypes.CDLL(None)
c.pthread_create.argtypes = [ctypes.c_void_p] * 4
def room(): return ctypes.create_string_buffer(256)
def start(function, *arguments):
    address = ctypes.cast(function, ctypes.c_void_p)
    thread = ctypes.c_ulong()
    assert c.pthread_create(ctypes.addressof(thread), None, address, *map(ctypes.addressof, arguments)) == 0
    return thread
";

/// Runs a program until it is frozen in this; the line and the cause must say so.
fn waits_at(program: &str, at: Primitive, line: &str, cause: &str) {
    let subject = Subject::start(&format!("{C}{program}"));
    let evidence = subject.until_frozen();
    let threads = evidence.processes.iter().flat_map(|process| &process.threads);
    let shown = gpulane_witness::in_full(&evidence, "seen");
    let found: Vec<Primitive> =
        threads.filter_map(|thread: &ThreadEvidence| thread.wait.as_ref()?.at).collect();
    assert!(found.contains(&at), "{found:?} {shown}");
    let around = Surroundings { main: subject.pid(), quiet: Millis::seconds(600), gpu: None };
    let stuck = diagnose(&evidence, &around);
    assert!(stuck.evidence.contains(line), "no `{line}` in {stuck:#?}\n{shown}");
    assert!(stuck.cause.as_deref().is_some_and(|found| found.contains(cause)), "no `{cause}` in {stuck:#?}");
    assert!(stuck.remedy.is_some());
}

#[test]
fn a_condition_whose_wake_up_was_lost() {
    waits_at(
        "
condition, mutex = room(), room()
c.pthread_cond_signal(condition)
c.pthread_mutex_lock(mutex)
c.pthread_cond_wait(condition, mutex)
",
        Primitive::Condition,
        "waiting for a condition variable in job.py:15 (<module>)",
        "no thread notifies the condition variable",
    );
}

#[test]
fn a_barrier_of_c_where_one_is_missing() {
    waits_at(
        "
barrier = room()
c.pthread_barrier_init(barrier, None, 3)
start(c.pthread_barrier_wait, barrier)
c.pthread_barrier_wait(barrier)
",
        Primitive::Barrier,
        "waiting for a barrier",
        "a barrier waits for a thread that does not come",
    );
}

#[test]
fn a_read_write_lock_that_a_reader_wants_to_write() {
    waits_at(
        "
lock = room()
c.pthread_rwlock_rdlock(lock)
c.pthread_rwlock_wrlock(lock)
",
        Primitive::ReadWriteLock,
        "waiting for a read-write lock",
        "a read-write lock is not released",
    );
}

#[test]
fn a_thread_of_c_that_waits_for_a_semaphore_and_is_joined() {
    waits_at(
        "
semaphore = room()
c.sem_init(semaphore, 0, 0)
thread = start(c.sem_wait, semaphore)
c.pthread_join(thread, None)
",
        Primitive::Semaphore,
        "waiting for a semaphore, job.py:15 waits for it",
        "a semaphore is not raised",
    );
}

#[test]
fn a_lock_of_python_stays_a_lock() {
    waits_at(
        "
import threading
lock = threading.Lock()
lock.acquire()
lock.acquire()
",
        Primitive::Semaphore,
        "waiting for a lock in job.py",
        "a lock is not released",
    );
}

#[test]
fn what_only_the_kernel_shows_is_not_called_a_lock() {
    let line = |at: Option<Primitive>| {
        let mut main = process(10);
        main.python = gpulane_witness::Python::NotPython;
        let wait = Wait { at, sources: vec![Source::OwnThreads], ..wait("futex", Some(false)) };
        main.threads = vec![thread(10, wait, &[])];
        diagnose(&seen(vec![main]), &Surroundings::default())
    };
    assert!(line(None).cause.unwrap().contains("a condition not notified"));
    assert!(line(Some(Primitive::Mutex)).cause.unwrap().contains("a mutex is not unlocked"));
    assert_eq!(line(None).evidence, "waiting for a lock, condition or semaphore of its own process");
    assert_eq!(line(Some(Primitive::Future)).evidence, "waiting for a future");
    let java = line(Some(Primitive::Java));
    assert!(java.cause.unwrap().contains("latch") && java.remedy.unwrap().contains("jstack 10"));
}

#[test]
fn who_joins_a_thread_of_c_waits_for_what_that_waits_for() {
    let mut main = process(10);
    main.python = gpulane_witness::Python::NotPython;
    let joins = Source::Thread { tid: 11, tie: Tie::Joined };
    let java =
        Wait { at: Some(Primitive::Java), sources: vec![Source::OwnThreads], ..wait("futex", Some(false)) };
    main.threads = vec![
        thread(10, Wait { sources: vec![joins], ..wait("futex", Some(false)) }, &[]),
        thread(11, java, &[]),
    ];
    let stuck = diagnose(&seen(vec![main]), &Surroundings::default());
    assert!(stuck.evidence.contains("inside the Java VM"), "{stuck:?}");
}
