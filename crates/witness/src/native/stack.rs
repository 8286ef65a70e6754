//! Which of the known functions a thread is in, by where its system call returns to and by the end of its stack. Whatever stands there is
//! taken for what it may be: any numbers, of any process.

use super::Primitive;
use super::files::Files;
use crate::maps::Mapping;
use crate::sources::Memory;
use crate::syscall::{Call, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE, low_word};

/// How far from its end a stack is looked at, in bytes: for the C library itself, and for what is built on it.
const NEAR: u64 = 512;
const FAR: usize = 4096;
/// How far for a function whose frame stays below whatever it has called.
const NEXT: u64 = 160;
/// The operation of a futex without its flags.
const OPERATION: u64 = 0x7f;
const WAIT: u64 = 0;
const WAIT_BITSET: u64 = 9;
/// How a mutex of the C library says that somebody waits for it.
const CONTENDED: u32 = 2;

/// What the thread that sits in this futex call waits at.
pub(super) fn primitive(
    call: &Call,
    memory: &Memory,
    mappings: &[Mapping],
    files: &Files,
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
    let mut found = None;
    if let Some(table) = files.table(library) {
        if table.is_go {
            return Some(Primitive::Go);
        }
        let offset = library.offset_of(code);
        found = offset.and_then(|offset| table.at(offset)).filter(|primitive| fits(*primitive, call));
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
        // The call stands before the address it returns to; at the very beginning of a mapping none does.
        let Some(offset) = address.checked_sub(1).and_then(|call| mapping.offset_of(call)) else { continue };
        // A file is read for what is surely a call; where it is known already, its table says it for less.
        if !files.knows(mapping) && !called(memory, address) {
            continue;
        }
        let Some(primitive) = files.table(mapping).and_then(|table| table.at(offset)) else { continue };
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
        // With a limit, by the other operation.
        Primitive::Mutex => {
            let contended = low_word(call.argument(2)) == CONTENDED;
            with_owner || operation == WAIT || (operation == WAIT_BITSET && contended)
        }
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
    let Some(start) = address.checked_sub(before.len() as u64) else { return false };
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
