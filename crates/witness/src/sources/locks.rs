//! Who owns a lock in memory: mutexes of the C library, threads that are joined, `RLock`s of Python.
//!
//! Plain locks, events and conditions of Python name no owner, and neither do semaphores and conditions of C: anybody may release those.

use super::memory::Memory;
use crate::maps::Mapping;
use crate::syscall::{Call, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE, low_word};
use crate::{Source, Tie};

/// The operation without its flags.
const OPERATION: u64 = 0x7f;
const WAIT: u64 = 0;
/// How a mutex of the C library says that somebody waits for it.
const CONTENDED: u32 = 2;
/// Where in it the owner and the kind stand.
const OWNER: u64 = 8;
const KIND: u64 = 16;
/// Kinds have flags above these; anything else is no mutex.
const KINDS: u32 = 0x1ff;
/// The word of a lock with priority inheritance has its owner here.
const PI_OWNER: u32 = 0x3fff_ffff;

/// Who owns what this futex is part of, among these threads of its process. `private`: no other process has its memory.
pub(super) fn owner(call: &Call, memory: &Memory, tids: &[u32], private: bool) -> Option<Source> {
    let (address, operation) = (call.argument(0), call.argument(1));
    let word = memory.u32(address)?;
    let own = |tid: &u32| tids.contains(tid);
    if [FUTEX_LOCK_PI, FUTEX_LOCK_PI2].contains(&(operation & OPERATION)) {
        return Some(word & PI_OWNER).filter(own).map(|tid| Source::Thread { tid, tie: Tie::Mutex });
    }
    // The kernel wakes who joins a thread, in the way for shared memory: the word is its id until it has ended.
    if private && operation & FUTEX_PRIVATE == 0 && word == low_word(call.argument(2)) && own(&word) {
        return Some(Source::Thread { tid: word, tie: Tie::Joined });
    }
    let is_mutex = operation & OPERATION == WAIT
        && low_word(call.argument(2)) == CONTENDED
        && word == CONTENDED
        && memory.u32(address + KIND).is_some_and(|kind| kind <= KINDS);
    let owner = is_mutex.then(|| memory.u32(address + OWNER)).flatten().filter(own)?;
    Some(Source::Thread { tid: owner, tie: Tie::Mutex })
}

/// What may be read in one look at all processes to find `RLock`s, in bytes.
pub(super) const BUDGET: u64 = 192 << 20;
/// Read at once.
const CHUNK: usize = 1 << 18;
/// A mapping beyond this is data, not small objects.
const LARGEST: u64 = 64 << 20;
/// An object's head, its type in it, and a type's name.
const HEAD: u64 = 16;
const TYPE: u64 = 8;
const TYPE_NAME: u64 = 24;

/// What Python calls the owner of the `RLock` that waits by the semaphore at this address; `None`: it is no `RLock`'s. An `RLock`
/// (until Python 3.12) has a pointer to its semaphore, then its owner, then how often that took it.
pub(super) fn rlock_owner(
    semaphore: u64,
    memory: &Memory,
    mappings: &[Mapping],
    budget: &mut u64,
) -> Option<u64> {
    let small = |mapping: &&Mapping| {
        let anonymous = mapping.path.is_empty() || mapping.path == "[heap]";
        mapping.writable && !mapping.shared && anonymous && mapping.end - mapping.start <= LARGEST
    };
    let mut chunk = vec![0; CHUNK];
    for mapping in mappings.iter().filter(small) {
        let mut at = mapping.start;
        while at < mapping.end {
            let wanted = usize::try_from(mapping.end - at).unwrap_or(CHUNK).min(CHUNK);
            *budget = budget.checked_sub(wanted as u64)?;
            let Some(length) = memory.read(at, &mut chunk[..wanted]).filter(|length| *length > 0) else {
                break;
            };
            let found = places_of(semaphore, &chunk[..length]).find_map(|place| owner_at(at + place, memory));
            if found.is_some() {
                return found;
            }
            at += length as u64;
        }
    }
    None
}

/// Where this pointer stands.
fn places_of(pointer: u64, bytes: &[u8]) -> impl Iterator<Item = u64> {
    let wanted = pointer.to_ne_bytes();
    let words = bytes.chunks_exact(8).enumerate();
    words.filter(move |(_, word)| *word == wanted).map(|(index, _)| index as u64 * 8)
}

/// The owner, if it is an `RLock` that has its semaphore here.
fn owner_at(place: u64, memory: &Memory) -> Option<u64> {
    let kind = memory.u64(place.checked_sub(HEAD - TYPE)?)?;
    let name = memory.text(memory.u64(kind.checked_add(TYPE_NAME)?)?)?;
    let (owner, count) = (memory.u64(place + 8)?, memory.u64(place + 16)?);
    (name == "_thread.RLock" && owner != 0 && count != 0).then_some(owner)
}
