//! Where in a program or library the functions are that wait: from its table of exported symbols. The file may be anything, also made to
//! do harm: nothing in it is believed, and what is read and looked at of it is bounded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{Primitive, named};

/// What a file is read from.
pub(super) trait Bytes {
    /// How many there are.
    fn length(&self) -> u64;
    /// Fills the buffer from there.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Bytes for (&File, u64) {
    fn length(&self) -> u64 {
        self.1
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

/// The functions of one file.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Where they begin and end in the file, in order, none within another.
    functions: Vec<(u64, u64, Primitive)>,
    /// The program was made by the compiler of Go.
    pub(super) is_go: bool,
}

impl Table {
    /// What the function at this place of the file waits at.
    pub(super) fn at(&self, offset: u64) -> Option<Primitive> {
        let before = self.functions.partition_point(|(start, _, _)| *start <= offset).checked_sub(1)?;
        let (_, end, primitive) = self.functions.get(before)?;
        (offset < *end).then_some(*primitive)
    }

    /// Of functions that may lie within each other; of two that begin at one place, the first counts.
    fn new(mut functions: Vec<(u64, u64, Primitive)>, is_go: bool) -> Self {
        functions.sort_by_key(|(start, _, _)| *start);
        functions.dedup_by_key(|(start, _, _)| *start);
        for at in 1..functions.len() {
            let next = functions[at].0;
            functions[at - 1].1 = functions[at - 1].1.min(next);
        }
        Self { functions, is_go }
    }
}

/// Why a file says nothing.
enum Fault {
    /// Its contents make no sense, or there is too much of them.
    Odd,
    /// The file cannot be read now.
    Unread(io::Error),
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

/// The heads of parts that are looked at, and the bytes that one may have.
const MOST_PARTS: usize = 256;
const LARGEST_HEAD: usize = 256;
/// Bytes of one table. The largest libraries for GPUs have some 40 MiB of names.
const LARGEST: u64 = 64 << 20;
/// Symbols that are looked at, and functions that are kept; the C library has some 50.
pub(super) const MOST_SYMBOLS: usize = 1 << 20;
pub(super) const MOST_FUNCTIONS: usize = 512;
const LOAD: u32 = 1;
const DYNAMIC_SYMBOLS: u32 = 11;
/// A symbol, its kind in it, and the kind of functions.
const SYMBOL: usize = 24;
const KIND: usize = 4;
const FUNCTION: u8 = 2;
/// What is waited for in a function of no name that stands before the one that leads there.
const LED_TO: [Primitive; 3] = [Primitive::Semaphore, Primitive::Once, Primitive::Mutex];
/// Between two functions with names stands at most so much that belongs to the second, in bytes.
const GAP: u64 = 4096;
/// Where Go keeps its table of functions.
const GO: [&[u8]; 2] = [b".gopclntab\0", b".note.go.buildid\0"];

/// The functions of a file, and how many heads, symbols and functions were looked at for it; none in one that is no program or makes no
/// sense. An error: it cannot be read now, which says nothing of what is in it.
pub(super) fn read(file: &impl Bytes) -> io::Result<(Table, usize)> {
    let mut reader = Reader { file, steps: 0 };
    match reader.table() {
        Ok(table) => Ok((table, reader.steps)),
        Err(Fault::Odd) => Ok((Table::default(), reader.steps)),
        Err(Fault::Unread(error)) => Err(error),
    }
}

struct Reader<'a, B> {
    file: &'a B,
    steps: usize,
}

impl<B: Bytes> Reader<'_, B> {
    fn table(&mut self) -> Result<Table, Fault> {
        let head = self.bytes(0, 64)?;
        // Of 64 bits, with the bytes in our order.
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if !head.starts_with(b"\x7fELF") || head[4..6] != [2, order] {
            return Err(Fault::Odd);
        }
        let segments = self.parts(&head, [32, 54, 56], segment)?;
        let sections = self.parts(&head, [40, 58, 60], section)?;
        let names = match u16_at(&head, 62).and_then(|at| sections.get(at)) {
            Some(names) => self.unless_odd(names)?,
            None => Vec::new(),
        };
        let is = |section: &Part, name: &[u8]| rest(&names, section.name).starts_with(name);
        let is_go = sections.iter().any(|section| GO.iter().any(|name| is(section, name)));
        let symbols = sections.iter().find(|section| section.kind == DYNAMIC_SYMBOLS);
        let linked = symbols.and_then(|symbols| Some((symbols, sections.get(symbols.link as usize)?)));
        let Some((symbols, names)) = linked else { return Ok(Table::new(Vec::new(), is_go)) };
        let (symbols, names) = (self.unless_odd(symbols)?, self.unless_odd(names)?);
        Ok(Table::new(self.functions(&symbols, &names, &segments), is_go))
    }

    fn functions(&mut self, symbols: &[u8], names: &[u8], segments: &[Part]) -> Vec<(u64, u64, Primitive)> {
        let mut found = Vec::new();
        for symbol in exported(symbols) {
            self.steps += 1;
            let Some(primitive) = named(rest(names, symbol.name)) else { continue };
            self.steps += segments.len();
            let Some(start) = segments.iter().find_map(|segment| place(segment, symbol.address)) else {
                continue;
            };
            found.push((start, symbol, primitive));
            if found.len() == MOST_FUNCTIONS {
                break;
            }
        }
        let mut ends = Vec::new();
        if found.iter().any(|(_, _, primitive)| LED_TO.contains(primitive)) {
            ends.extend(exported(symbols).map(|symbol| symbol.address.saturating_add(symbol.size)));
            ends.sort_unstable();
            self.steps += ends.len();
        }
        let whole = found.into_iter().map(|(start, symbol, primitive)| {
            let end = start.saturating_add(symbol.size);
            let gap = if LED_TO.contains(&primitive) { gap(&ends, symbol.address) } else { 0 };
            (start.saturating_sub(gap), end, primitive)
        });
        whole.collect()
    }

    /// The heads of all parts of a kind; `places`: where the head of the file says where they begin, how long each is and how many.
    fn parts(
        &mut self,
        head: &[u8],
        places: [usize; 3],
        part: fn(&[u8]) -> Option<Part>,
    ) -> Result<Vec<Part>, Fault> {
        let [begin, size, count] = places;
        let offset = u64_at(head, begin).ok_or(Fault::Odd)?;
        let size = u16_at(head, size).ok_or(Fault::Odd)?;
        let count = u16_at(head, count).ok_or(Fault::Odd)?.min(MOST_PARTS);
        if count == 0 {
            return Ok(Vec::new());
        }
        if size == 0 || size > LARGEST_HEAD {
            return Err(Fault::Odd);
        }
        self.steps += count;
        let all = self.bytes(offset, (size * count) as u64)?;
        Ok(all.chunks_exact(size).filter_map(part).collect())
    }

    /// All of a part; nothing of one that makes no sense.
    fn unless_odd(&self, part: &Part) -> Result<Vec<u8>, Fault> {
        match self.bytes(part.offset, part.size) {
            Err(Fault::Odd) => Ok(Vec::new()),
            other => other,
        }
    }

    fn bytes(&self, offset: u64, size: u64) -> Result<Vec<u8>, Fault> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.file.length());
        let size = usize::try_from(size).ok().filter(|_| inside && size <= LARGEST).ok_or(Fault::Odd)?;
        let mut bytes = vec![0; size];
        match self.file.fill(&mut bytes, offset) {
            Ok(()) => Ok(bytes),
            // Made shorter meanwhile: another file by its size.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Fault::Odd),
            Err(error) => Err(Fault::Unread(error)),
        }
    }
}

/// A function that other files may call.
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    address: u64,
    size: u64,
}

fn exported(symbols: &[u8]) -> impl Iterator<Item = Symbol> {
    symbols.chunks_exact(SYMBOL).take(MOST_SYMBOLS).filter_map(|symbol| {
        let (name, address, size) = (u32_at(symbol, 0)?, u64_at(symbol, 8)?, u64_at(symbol, 16)?);
        (symbol[KIND] & 0xf == FUNCTION && size > 0).then_some(Symbol { name, address, size })
    })
}

/// Where in the file that is what is loaded to an address.
fn place(segment: &Part, address: u64) -> Option<u64> {
    let far = address.checked_sub(segment.address).filter(|far| *far < segment.size)?;
    far.checked_add(segment.offset).filter(|_| segment.kind == LOAD)
}

/// How far before a function those of no name begin that it leads to. `ends`: those of all functions with names, in order.
fn gap(ends: &[u64], address: u64) -> u64 {
    let before = ends.partition_point(|end| *end <= address).checked_sub(1).and_then(|at| ends.get(at));
    before.and_then(|end| address.checked_sub(*end)).filter(|gap| *gap <= GAP).unwrap_or(0)
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

/// What begins there.
fn rest(names: &[u8], at: u32) -> &[u8] {
    names.get(at as usize..).unwrap_or_default()
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
