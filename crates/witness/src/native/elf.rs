//! Where in a program or library the functions are that wait: from its table of exported symbols, read once for each file.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::{Opened, Primitive, named};

/// The functions of one file.
pub(super) struct Table {
    /// Where they begin and end in the file.
    functions: Vec<(u64, u64, Primitive)>,
    /// The program was made by the compiler of Go.
    pub(super) is_go: bool,
}

impl Table {
    /// What the function at this place of the file waits at.
    pub(super) fn at(&self, offset: u64) -> Option<Primitive> {
        let mut functions = self.functions.iter();
        functions.find(|(start, end, _)| (*start..*end).contains(&offset)).map(|(_, _, primitive)| *primitive)
    }
}

type Key = ((String, u64), String);
/// By device and number of the file, and by its path.
static TABLES: LazyLock<Mutex<HashMap<Key, Option<Arc<Table>>>>> = LazyLock::new(Mutex::default);
/// Files that are remembered; beyond, all are forgotten.
const REMEMBERED: usize = 512;

/// The functions of a mapped file; `None`: it is none, or cannot be read.
pub(super) fn table(opened: &Opened) -> Option<Arc<Table>> {
    let mapping = opened.mapping;
    if !mapping.path.starts_with('/') {
        return None;
    }
    let key = (mapping.file.clone(), mapping.path.clone());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = tables.get(&key) {
        return known.clone();
    }
    let table = opened.open().and_then(|file| read(&file)).map(Arc::new);
    if tables.len() >= REMEMBERED {
        tables.clear();
    }
    tables.insert(key, table.clone());
    table
}

/// A section of the file, or a segment of it.
#[derive(Clone, Copy)]
struct Part {
    kind: u32,
    name: u32,
    link: u32,
    address: u64,
    offset: u64,
    size: u64,
}

/// The heads of parts that a file may have at most, and the size of one table.
const MOST_PARTS: usize = 256;
const LARGEST: u64 = 64 << 20;
const LOAD: u32 = 1;
const DYNAMIC_SYMBOLS: u32 = 11;
/// A symbol, its kind in it, and the kind of functions.
const SYMBOL: usize = 24;
const FUNCTION: u8 = 2;
/// Between two functions with names stands at most so much that belongs to the second, in bytes.
const GAP: u64 = 1024;
/// Where Go keeps its table of functions.
const GO: [&str; 2] = [".gopclntab", ".note.go.buildid"];

fn read(file: &File) -> Option<Table> {
    let head = bytes(file, 0, 64)?;
    // Of 64 bits, with the bytes in our order.
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    if head[..4] != *b"\x7fELF" || (head[4], head[5]) != (2, order) {
        return None;
    }
    let segments = parts(file, u64_at(&head, 32)?, u16_at(&head, 54)?, u16_at(&head, 56)?, segment)?;
    let sections = parts(file, u64_at(&head, 40)?, u16_at(&head, 58)?, u16_at(&head, 60)?, section)?;
    let names = sections.get(u16_at(&head, 62)?).and_then(|names| contents(file, names)).unwrap_or_default();
    let is_go =
        sections.iter().any(|section| text(&names, section.name).is_some_and(|name| GO.contains(&name)));
    let symbols = sections.iter().find(|section| section.kind == DYNAMIC_SYMBOLS);
    let functions = symbols.and_then(|symbols| functions(file, symbols, &sections, &segments));
    Some(Table { functions: functions.unwrap_or_default(), is_go })
}

fn functions(
    file: &File,
    symbols: &Part,
    sections: &[Part],
    segments: &[Part],
) -> Option<Vec<(u64, u64, Primitive)>> {
    let names = contents(file, sections.get(symbols.link as usize)?)?;
    let symbols = contents(file, symbols)?;
    let exported = || {
        symbols.chunks_exact(SYMBOL).filter_map(|symbol| {
            let (address, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
            (symbol[4] & 0xf == FUNCTION && size > 0).then_some((symbol, address, size))
        })
    };
    let functions = exported().filter_map(|(symbol, address, size)| {
        let primitive = named(text(&names, u32_at(symbol, 0)?)?)?;
        let inside = |segment: &&Part| {
            segment.kind == LOAD && address.checked_sub(segment.address).is_some_and(|far| far < segment.size)
        };
        let segment = segments.iter().find(inside)?;
        let start = address - segment.address + segment.offset;
        // A semaphore is waited for in a function of no name that stands before the one that leads there.
        let ends = exported().map(|(_, before, size)| before.saturating_add(size));
        let gap = match primitive {
            Primitive::Semaphore => ends.filter_map(|end| address.checked_sub(end)).min().unwrap_or(0),
            _ => 0,
        };
        let gap = if gap <= GAP { gap.min(start) } else { 0 };
        Some((start - gap, start.saturating_add(size), primitive))
    });
    Some(functions.collect())
}

fn parts(
    file: &File,
    offset: u64,
    size: usize,
    count: usize,
    part: fn(&[u8]) -> Option<Part>,
) -> Option<Vec<Part>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let all = bytes(file, offset, (size * count.min(MOST_PARTS)) as u64)?;
    Some(all.chunks_exact(size.max(1)).filter_map(part).collect())
}

fn section(head: &[u8]) -> Option<Part> {
    Some(Part {
        name: u32_at(head, 0)?,
        kind: u32_at(head, 4)?,
        address: u64_at(head, 16)?,
        offset: u64_at(head, 24)?,
        size: u64_at(head, 32)?,
        link: u32_at(head, 40)?,
    })
}

fn segment(head: &[u8]) -> Option<Part> {
    Some(Part {
        name: 0,
        kind: u32_at(head, 0)?,
        offset: u64_at(head, 8)?,
        address: u64_at(head, 16)?,
        size: u64_at(head, 32)?,
        link: 0,
    })
}

fn contents(file: &File, part: &Part) -> Option<Vec<u8>> {
    bytes(file, part.offset, part.size)
}

fn bytes(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).ok().filter(|_| size <= LARGEST)?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// The name that begins there.
fn text(names: &[u8], at: u32) -> Option<&str> {
    let name = names.get(at as usize..)?.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(name).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}
