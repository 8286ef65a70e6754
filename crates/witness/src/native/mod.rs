//! What kind of thing a thread waits at where the kernel shows no more than a futex: told by the functions of the C library (and of
//! what is built on it) that the thread is in, as far as its stack shows them. Where nothing fits, nothing is said.

mod elf;
mod files;
mod namer;
mod stack;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use files::{PATIENCE, Read};
pub(crate) use namer::{Asked, names};

/// A kind of thing that threads of one process, or of several, wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Primitive {
    /// A mutex of the C library.
    Mutex,
    /// A condition variable.
    Condition,
    /// A semaphore of POSIX; Python's own locks are such.
    Semaphore,
    /// A barrier.
    Barrier,
    /// A lock for one writer or many readers.
    ReadWriteLock,
    /// The end of a thread.
    Join,
    /// Something that is done once, by whoever comes first.
    Once,
    /// A future or promise of C++.
    Future,
    /// A word of memory: latches, semaphores, barriers of C++, locks and channels of Rust.
    Word,
    /// Threads of OpenMP.
    OpenMp,
    /// `Atomics.wait` of JavaScript.
    Atomics,
    /// Something of the Java VM.
    Java,
    /// Something of the runtime of Go.
    Go,
}

impl Primitive {
    /// For a sentence: `a condition variable`.
    pub(crate) fn words(self) -> &'static str {
        self.waiting().trim_start_matches("waiting for ")
    }

    /// For the line a person reads: `waiting for a condition variable`.
    pub(crate) const fn waiting(self) -> &'static str {
        match self {
            Self::Mutex => "waiting for a mutex",
            Self::Condition => "waiting for a condition variable",
            Self::Semaphore => "waiting for a semaphore",
            Self::Barrier => "waiting for a barrier",
            Self::ReadWriteLock => "waiting for a read-write lock",
            Self::Join => "waiting for a thread to end",
            Self::Once => "waiting for an initialisation that another thread has begun (once)",
            Self::Future => "waiting for a future",
            Self::Word => {
                "waiting for an atomic word (a latch, semaphore, barrier, lock or channel of C++ or Rust)"
            }
            Self::OpenMp => "waiting for threads of OpenMP (a barrier or the end of a parallel region)",
            Self::Atomics => "waiting for Atomics.notify (Atomics.wait of JavaScript)",
            Self::Java => {
                "waiting for another thread inside the Java VM (a lock, monitor, latch, queue or future)"
            }
            Self::Go => "waiting for goroutines inside the runtime of Go (a channel, lock or connection)",
        }
    }
}

/// Functions that wait, by how their names begin, and at what.
const KNOWN: &[(&str, Primitive)] = &[
    ("_ZN2v88internal14FutexEmulation", Primitive::Atomics),
    ("_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_until", Primitive::Future),
    ("__pthread_mutex_lock", Primitive::Mutex),
    ("__pthread_once", Primitive::Once),
    ("__pthread_rwlock_rdlock", Primitive::ReadWriteLock),
    ("__pthread_rwlock_wrlock", Primitive::ReadWriteLock),
    ("cnd_timedwait", Primitive::Condition),
    ("cnd_wait", Primitive::Condition),
    ("mtx_lock", Primitive::Mutex),
    ("mtx_timedlock", Primitive::Mutex),
    ("pthread_barrier_wait", Primitive::Barrier),
    ("pthread_clockjoin_np", Primitive::Join),
    ("pthread_cond_clockwait", Primitive::Condition),
    ("pthread_cond_timedwait", Primitive::Condition),
    ("pthread_cond_wait", Primitive::Condition),
    ("pthread_join", Primitive::Join),
    ("pthread_mutex_clocklock", Primitive::Mutex),
    ("pthread_mutex_lock", Primitive::Mutex),
    ("pthread_mutex_timedlock", Primitive::Mutex),
    ("pthread_once", Primitive::Once),
    ("pthread_rwlock_clockrdlock", Primitive::ReadWriteLock),
    ("pthread_rwlock_clockwrlock", Primitive::ReadWriteLock),
    ("pthread_rwlock_rdlock", Primitive::ReadWriteLock),
    ("pthread_rwlock_timedrdlock", Primitive::ReadWriteLock),
    ("pthread_rwlock_timedwrlock", Primitive::ReadWriteLock),
    ("pthread_rwlock_wrlock", Primitive::ReadWriteLock),
    ("pthread_timedjoin_np", Primitive::Join),
    ("sem_clockwait", Primitive::Semaphore),
    ("sem_timedwait", Primitive::Semaphore),
    ("sem_wait", Primitive::Semaphore),
    ("syscall", Primitive::Word),
    ("thrd_join", Primitive::Join),
];

/// What a name of a function says that ends with a zero; of what follows no more is read than the longest known one has.
fn named(name: &[u8]) -> Option<Primitive> {
    let fits = |known: &[u8]| {
        let whole = known.starts_with(b"_ZN") || name.get(known.len()) == Some(&0);
        whole && name.starts_with(known)
    };
    KNOWN.iter().find(|(known, _)| fits(known.as_bytes())).map(|(_, primitive)| *primitive)
}
