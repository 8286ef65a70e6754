//! What kind of thing a thread waits at where the kernel shows no more than a futex: told by the functions of the C library (and of
//! what is built on it) that the thread is in, as far as its stack shows them. Where nothing fits, nothing is said.

mod elf;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::maps::Mapping;
use crate::sources::Memory;
use crate::syscall::{Call, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE, low_word};

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

/// What a name of a function says.
fn named(name: &str) -> Option<Primitive> {
    let fits = |known: &str| if known.starts_with("_ZN") { name.starts_with(known) } else { name == known };
    KNOWN.iter().find(|(known, _)| fits(known)).map(|(_, primitive)| *primitive)
}

/// How far from its end a stack is looked at, in bytes: for the C library itself, and for what is built on it.
const NEAR: u64 = 512;
const FAR: usize = 4096;
/// The same for one whose frame stays below whatever it has called.
const NEXT: u64 = 160;
/// The operation of a futex without its flags.
const OPERATION: u64 = 0x7f;
const WAIT: u64 = 0;
/// How a mutex of the C library says that somebody waits for it.
const CONTENDED: u32 = 2;

/// What the thread that sits in this futex call waits at; `folder`: that of its process in `/proc`.
pub(crate) fn primitive(
    call: &Call,
    memory: &Memory,
    mappings: &[Mapping],
    folder: &Path,
) -> Option<Primitive> {
    let (stack, code) = call.place()?;
    let at = |address: u64| {
        // The kernel lists them in order.
        let mapping = mappings.get(mappings.partition_point(|mapping| mapping.end <= address))?;
        Some(mapping).filter(|mapping| mapping.runs && mapping.contains(address))
    };
    let library = at(code)?;
    if library.file_name().starts_with("libgomp") {
        return Some(Primitive::OpenMp);
    }
    let tables = |mapping: &Mapping| elf::table(&Opened { folder, mapping });
    let mut found = None;
    if let Some(table) = tables(library) {
        if table.is_go {
            return Some(Primitive::Go);
        }
        found = table.at(library.offset_of(code)).filter(|primitive| fits(*primitive, call));
    }
    let mut bytes = vec![0; FAR];
    let length = memory.read(stack, &mut bytes)?;
    for (index, word) in bytes[..length].chunks_exact(8).enumerate() {
        let address = u64::from_ne_bytes(word.try_into().ok()?);
        let Some(mapping) = at(address) else { continue };
        let far = index as u64 * 8;
        if found.is_some() && mapping.file_name() == "libjvm.so" && called(memory, address) {
            return Some(Primitive::Java);
        }
        let Some(primitive) = tables(mapping).and_then(|table| table.at(mapping.offset_of(address - 1)))
        else {
            continue;
        };
        if !called(memory, address) || !fits(primitive, call) {
            continue;
        }
        found = match (found, primitive) {
            (None, Primitive::Atomics | Primitive::Future) => None,
            (None, Primitive::Once) if far > NEXT => None,
            (None, _) if far > NEAR => None,
            (None, primitive) => Some(primitive),
            (Some(Primitive::Condition | Primitive::Atomics), Primitive::Atomics) => Some(Primitive::Atomics),
            (Some(Primitive::Word), Primitive::Future) => Some(Primitive::Future),
            (known, _) => known,
        };
    }
    found
}

/// Whether the C library waits in such a way at such a thing. What a stack shows may be left from an earlier call.
fn fits(primitive: Primitive, call: &Call) -> bool {
    let operation = call.argument(1) & OPERATION;
    let with_owner = [FUTEX_LOCK_PI, FUTEX_LOCK_PI2].contains(&operation);
    let like_mutex = operation == WAIT && low_word(call.argument(2)) == CONTENDED;
    match primitive {
        Primitive::Mutex => with_owner || operation == WAIT,
        Primitive::Join => call.argument(1) & FUTEX_PRIVATE == 0 && !with_owner,
        Primitive::Semaphore => !with_owner && low_word(call.argument(2)) == 0,
        Primitive::Condition | Primitive::ReadWriteLock | Primitive::Atomics => !with_owner && !like_mutex,
        _ => !with_owner,
    }
}

/// Whether the instruction before this address is a call, so that it is where a function returns to.
#[cfg(target_arch = "x86_64")]
fn called(memory: &Memory, address: u64) -> bool {
    let mut before = [0; 7];
    let start = address.wrapping_sub(before.len() as u64);
    if memory.read(start, &mut before) != Some(before.len()) {
        return false;
    }
    // To a fixed place, or to one in a register or in memory.
    let indirect = |at: usize| before[at] == 0xff && before[at + 1] & 0x38 == 0x10;
    before[2] == 0xe8 || [5, 4, 3, 1].into_iter().any(indirect)
}

/// Whether the instruction before this address is a call, so that it is where a function returns to.
#[cfg(not(target_arch = "x86_64"))]
fn called(memory: &Memory, address: u64) -> bool {
    let before = address.checked_sub(4).and_then(|place| memory.u32(place));
    before.is_some_and(|word| word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000)
}

/// A file that is mapped into a process, as that process sees it.
struct Opened<'a> {
    folder: &'a Path,
    mapping: &'a Mapping,
}

impl Opened<'_> {
    fn open(&self) -> Option<File> {
        let path = self.mapping.path.strip_prefix('/')?;
        let file = File::open(self.folder.join("root").join(path)).ok()?;
        let data = file.metadata().ok()?;
        (data.is_file() && data.ino() == self.mapping.file.1).then_some(file)
    }
}
