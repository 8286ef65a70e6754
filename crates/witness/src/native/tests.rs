//! Files and stacks that somebody made to do harm, or that make no sense: nothing panics, and what is looked at stays bounded.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;

use super::elf::{Bytes, MOST_FUNCTIONS, MOST_SYMBOLS, read};
use super::files::Files;
use super::stack::primitive;
use super::{KNOWN, Primitive};
use crate::maps::{Mapping, mappings, parse};
use crate::sources::Memory;
use crate::syscall::{self, Call};

/// A file in memory, and how many bytes of it were read.
struct Made {
    bytes: Vec<u8>,
    read: Cell<usize>,
}

impl Made {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, read: Cell::new(0) }
    }
}

impl Bytes for Made {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.set(self.read.get() + buffer.len());
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        let from = from.and_then(|from| from.get(..buffer.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(from);
        Ok(())
    }
}

/// A file with one segment of code, these symbols of functions (name, address, size), and these names.
fn library(symbols: &[(u32, u64, u64)], names: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(32, &64_u64.to_ne_bytes());
    put(40, &120_u64.to_ne_bytes());
    put(54, &[56, 0, 1, 0, 64, 0, 3, 0, 2, 0]);
    let mut segment = [0; 56];
    segment[0] = 1;
    segment[32..40].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
    file.extend(segment);
    let table = 120 + 3 * 64;
    let after = table + symbols.len() * 24;
    let section = |kind: u8, offset: usize, size: usize, link: u8| {
        let mut head = [0; 64];
        (head[4], head[40]) = (kind, link);
        head[24..32].copy_from_slice(&(offset as u64).to_ne_bytes());
        head[32..40].copy_from_slice(&(size as u64).to_ne_bytes());
        head
    };
    file.extend(section(0, 0, 0, 0));
    file.extend(section(11, table, symbols.len() * 24, 2));
    file.extend(section(3, after, names.len(), 0));
    for (name, address, size) in symbols {
        file.extend(name.to_ne_bytes());
        file.extend([2, 0, 1, 0]);
        file.extend(address.to_ne_bytes());
        file.extend(size.to_ne_bytes());
    }
    file.extend(names);
    file
}

/// The C library that runs here.
static LIBC: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let own = mappings(Path::new("/proc/self"));
    let libc = own.iter().find(|mapping| mapping.file_name().starts_with("libc.so")).unwrap();
    std::fs::read(&libc.path).unwrap()
});

/// At most so much may be looked at for a file of so many bytes.
fn bound(length: usize) -> usize {
    2 * (length / 24).min(MOST_SYMBOLS) + MOST_FUNCTIONS * 256 + 512
}

#[test]
fn functions_are_found_at_their_places() {
    let made = Made::new(library(&[(1, 100, 50), (10, 900, 20), (0, 200, 600)], b"\0sem_wait\0cnd_wait\0"));
    let (table, _) = read(&made).unwrap();
    assert_eq!([99, 100, 149, 150].map(|at| table.at(at).is_some()), [false, true, true, false]);
    assert_eq!(
        [899, 900, 919, 920].map(|at| table.at(at)),
        [None, Some(Primitive::Condition), Some(Primitive::Condition), None]
    );
    let made = Made::new(library(&[(1, 1000, 50), (0, 200, 600)], b"\0sem_wait\0"));
    let (table, _) = read(&made).unwrap();
    assert_eq!(
        [799, 800, 1049].map(|at| table.at(at).is_some()),
        [false, true, true],
        "with what has no name before it"
    );
}

#[test]
fn each_name_is_found_whole_and_no_other() {
    for (name, primitive) in KNOWN {
        let names = format!("\0{name}\0");
        let found = |names: &[u8]| read(&Made::new(library(&[(1, 100, 50)], names))).unwrap().0.at(120);
        assert_eq!(found(names.as_bytes()), Some(*primitive), "{name}");
        assert_eq!(found(format!("\0{name}x\0").as_bytes()).is_some(), name.starts_with("_ZN"), "{name}x");
        assert_eq!(found(&names.as_bytes()[..names.len() - 1]).is_some(), name.starts_with("_ZN"), "no end");
    }
}

#[test]
fn a_program_of_go_is_known_by_its_sections() {
    for (name, is_go) in [(".gopclntab", true), (".note.go.buildid", true), (".gopclntabs", false)] {
        let mut file = library(&[], format!("\0{name}\0").as_bytes());
        // The name of the first section after none.
        file[120 + 64] = 1;
        assert_eq!(read(&Made::new(file)).unwrap().0.is_go, is_go, "{name}");
    }
}

#[test]
fn a_hundred_thousand_functions_of_one_name_are_looked_at_once_each() {
    let symbols: Vec<(u32, u64, u64)> = (0..100_000).map(|at| (1, at * 8192, 16)).collect();
    let made = Made::new(library(&symbols, b"\0sem_wait\0"));
    let (_, steps) = read(&made).unwrap();
    assert!(steps < bound(made.bytes.len()), "{steps}");
    assert!(steps < 3 * symbols.len() + MOST_FUNCTIONS * 2, "{steps}");
}

#[test]
fn a_file_that_cannot_be_read_now_is_not_one_without_functions() {
    struct Gone;
    impl Bytes for Gone {
        fn length(&self) -> u64 {
            4096
        }
        fn fill(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    assert!(read(&Gone).is_err());
    assert!(read(&Made::new(b"#!/bin/sh\n".repeat(10))).is_ok());
}

/// What is done to a file: a place of it by thousandths, or near one of its tables, and what is put there.
#[derive(Clone, Debug)]
enum Change {
    Byte(usize, u8),
    Head(usize, u64),
    Cut(usize),
    Copy(usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let edge = prop_oneof![Just(u64::MAX), Just(0), Just(1), Just(1 << 63), any::<u64>(), 0..4_000_000_u64];
    prop_oneof![
        (0..1000_usize, any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (0..8000_usize, edge).prop_map(|(at, word)| Change::Head(at, word)),
        (0..1000_usize).prop_map(Change::Cut),
        (0..1000_usize, 0..1000_usize, 1..4096_usize)
            .prop_map(|(from, to, size)| Change::Copy(from, to, size)),
    ]
}

fn changed(mut file: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = file.len();
        let at = |place: usize| (length * place / 1000).min(length.saturating_sub(1));
        match *change {
            _ if length < 64 => break,
            Change::Byte(place, byte) => file[at(place)] = byte,
            Change::Head(place, word) => {
                // The head itself, the heads of its sections, and the first tables.
                let heads = u64::from_ne_bytes(file[40..48].try_into().unwrap());
                let from = if place < 64 { 0 } else { usize::try_from(heads).unwrap_or(0).min(length) };
                let from = if place < 4000 { from + place % 4000 } else { place };
                if let Some(to) = file.get_mut(from..from + 8) {
                    to.copy_from_slice(&word.to_ne_bytes());
                }
            }
            Change::Cut(place) => file.truncate(at(place)),
            Change::Copy(from, to, size) => {
                let size = size.min(length - at(from)).min(length - at(to));
                file.copy_within(at(from)..at(from) + size, at(to));
            }
        }
    }
    file
}

/// Numbers that break sums and differences, beside any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        any::<u64>(),
        0..1_u64 << 48
    ]
}

fn call(stack: u64, code: u64, operation: u64, value: u64) -> Call {
    let number = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
    syscall::parse(&format!("{number} 0x0 {operation:#x} {value:#x} 0x0 0x0 0x0 {stack:#x} {code:#x}"))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_library_with_anything_changed_is_read_within_bounds(
        changes in vec(change(), 0..6), small in any::<bool>(), asked in vec(number(), 8)
    ) {
        let whole = if small { library(&[(1, 1 << 20, 50); 300], b"\0sem_wait\0cnd_wait\0") } else { LIBC.clone() };
        let made = Made::new(changed(whole, &changes));
        let (table, steps) = read(&made).unwrap();
        prop_assert!(steps <= bound(made.bytes.len()), "{}", steps);
        prop_assert!(made.read.get() <= 4 * made.bytes.len() + (1 << 18), "{}", made.read.get());
        for offset in asked {
            table.at(offset);
        }
    }

    #[test]
    fn any_stack_in_any_mappings_is_looked_at(
        made in vec((number(), number(), number()), 1..12), mut words in vec(number(), 0..64),
        edges in vec((0..12_usize, 0..4_u64), 0..40), code in (0..12_usize, 0..4_u64), sorted in any::<bool>(),
        operation in number(), value in number(), real in any::<bool>()
    ) {
        let own = mappings(Path::new("/proc/self"));
        let lines = made.iter().map(|(start, end, offset)| {
            format!("{start:x}-{end:x} r-xp {offset:x} 00:00 0    /usr/lib/none.so")
        });
        let mut all: Vec<Mapping> = lines.filter_map(|line| parse(&line)).collect();
        if real {
            all = own;
        } else if sorted {
            all.sort_by_key(|mapping| mapping.start);
        }
        let runs: Vec<&Mapping> = all.iter().filter(|mapping| mapping.runs).collect();
        let edge = |(which, side): (usize, u64)| {
            let mapping = runs[which % runs.len()];
            [mapping.start, mapping.start.wrapping_add(side), mapping.end.wrapping_sub(1), mapping.end][usize::try_from(side).unwrap()]
        };
        words.extend(edges.into_iter().map(edge));
        let stack = words.as_ptr().addr() as u64;
        let files = Files::of(std::process::id(), Path::new("/proc/self"), Instant::now() + Duration::from_mins(1));
        let memory = Memory::of(Path::new("/proc/self"));
        primitive(&call(stack, edge(code), operation, value), &memory, &all, &files);
    }
}
