//! The frozen list, opened: any item by its number, or all of them in order with skips. Reads a block of 1024
//! lines at a time and checks it; never holds more.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::lacking::Lacking;
use crate::stamp::Stamp;
use crate::{Item, Table, escape, record};

pub(crate) const LIST: &str = "items.list";
pub(crate) const INDEX: &str = "items.index";
pub(crate) const META: &str = "items.json";
/// The newest format of `items.json` that is known here.
pub(crate) const VERSION: u32 = 3;
/// The format of a list that says of every member of a shard where its sample begins.
pub(crate) const WITH_SAMPLES: u32 = 3;
/// The format of a list with rows of tables.
pub(crate) const WITH_TABLES: u32 = 2;
/// The format of a list that holds nothing an older gpulane does not know.
pub(crate) const FIRST_VERSION: u32 = 1;
pub(crate) const HEADER: &[u8] = b"gpulane items 1\n";
/// Lines of a block.
pub(crate) const BLOCK: u64 = 1024;
const INDEX_HEADER: &[u8; 16] = b"gpulane index 1\n";
/// Bytes of one block's entry in the index.
const ENTRY: usize = 12;

/// `items.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) version: u32,
    pub(crate) items: u64,
    /// Items that a second input named again.
    pub(crate) repeated: u64,
    pub(crate) inputs: Vec<String>,
    /// Escaped.
    pub(crate) base: String,
    /// Lists and columns hold the texts themselves.
    pub(crate) values: bool,
    pub(crate) list: Sealed,
    pub(crate) origins: Vec<Origin>,
    pub(crate) archives: Vec<Archive>,
    /// What was found and cannot be an item. Absent in lists of before it was kept.
    #[serde(default)]
    pub(crate) lacking: Lacking,
    /// Tables whose rows hold items' data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tables: Vec<DataTable>,
}

/// What `items.list` must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    pub(crate) bytes: u64,
    /// Of all blocks; without the header.
    pub(crate) crc: u32,
}

/// What one input gave when the list was frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) input: String,
    /// Also those that an earlier input had named.
    pub(crate) items: u64,
    /// Of its items and the names of its shards, in order.
    pub(crate) digest: u32,
    /// Lists and tables that were read.
    pub(crate) files: Vec<Stamp>,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Archive {
    #[serde(flatten)]
    pub(crate) stamp: Stamp,
    pub(crate) items: u64,
    /// Of its members' names and places.
    pub(crate) digest: Option<u32>,
}

/// A table whose rows hold items' data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataTable {
    /// As given, escaped.
    pub(crate) file: String,
    pub(crate) data: String,
    pub(crate) path: Option<String>,
}

/// A block in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) crc: u32,
}

impl Sealed {
    /// Of a list with these blocks that ends here.
    pub(crate) fn of(entries: &[Entry], end: u64) -> Self {
        let mut whole = crc32fast::Hasher::new();
        let ends = entries.iter().skip(1).map(|entry| entry.offset).chain([end]);
        for (entry, end) in entries.iter().zip(ends) {
            whole.combine(&crc32fast::Hasher::new_with_initial_len(
                entry.crc,
                end.saturating_sub(entry.offset),
            ));
        }
        Self { bytes: end, crc: whole.finalize() }
    }
}

/// A frozen list. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ItemList {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    path: PathBuf,
    meta: Meta,
    entries: Vec<Entry>,
    base: PathBuf,
    archives: Vec<PathBuf>,
    tables: Vec<Table>,
}

/// What there is in a directory.
#[derive(Debug)]
pub enum Opened {
    /// No frozen list.
    None,
    /// This one.
    List(ItemList),
    /// One that cannot be used, and why.
    Damaged(String),
}

/// Opens the frozen list of a directory.
pub fn open(dir: &Path) -> io::Result<Opened> {
    let text = match gpulane_files::read(&dir.join(META)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Opened::None),
        other => other?,
    };
    let damaged = |why: String| Ok(Opened::Damaged(format!("{}: {why}", dir.display())));
    let version = serde_json::from_slice::<serde_json::Value>(&text).map(|value| value["version"].as_u64());
    if let Ok(Some(version)) = version
        && version > VERSION.into()
    {
        return damaged(format!("{META} was written by a newer gpulane (format {version})"));
    }
    let meta: Meta = match serde_json::from_slice(&text) {
        Ok(meta) => meta,
        Err(error) => return damaged(format!("{META} is damaged: {error}")),
    };
    let found = fs::metadata(dir.join(LIST)).map(|metadata| metadata.len());
    match found {
        Ok(found) if found == meta.list.bytes => {}
        Ok(found) => return damaged(format!("{LIST} has {found} bytes and should have {}", meta.list.bytes)),
        Err(error) => return damaged(format!("cannot look at {LIST}: {error}")),
    }
    let fits = |entries: &Vec<Entry>| {
        entries.len() as u64 == meta.items.div_ceil(BLOCK)
            && Sealed::of(entries, meta.list.bytes) == meta.list
    };
    // The index says of every block what it must be, and all blocks together must be what items.json says.
    if let Some(entries) = read_index(&dir.join(INDEX)).filter(fits) {
        return ItemList::new(dir, meta, entries).map(Opened::List);
    }
    let entries = scan(&dir.join(LIST))?;
    if !fits(&entries) {
        return damaged(format!("{LIST} is not what was written: its checksum does not match"));
    }
    // Without it the next opening scans again; no more than that.
    let _ = write_index(&dir.join(INDEX), &entries);
    ItemList::new(dir, meta, entries).map(Opened::List)
}

/// Gives up the frozen list of a directory, if it has one: the next map there lists its items anew.
pub fn forget(dir: &Path) -> io::Result<()> {
    match fs::remove_file(dir.join(META)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

impl ItemList {
    pub(crate) fn new(dir: &Path, meta: Meta, entries: Vec<Entry>) -> io::Result<Self> {
        let path = dir.join(LIST);
        let file = gpulane_files::open(&path)?;
        let unescaped = |text: &str| {
            let bytes =
                escape::unescape(text).ok_or_else(|| wrong(&path, "a path in items.json is damaged"))?;
            Ok::<_, io::Error>(PathBuf::from(std::ffi::OsString::from_vec(bytes.into_owned())))
        };
        let base = unescaped(&meta.base)?;
        let archives = meta.archives.iter().map(|archive| Ok(base.join(unescaped(&archive.stamp.path)?)));
        let archives = archives.collect::<io::Result<_>>()?;
        let tables = meta.tables.iter().map(|table| {
            let file = base.join(unescaped(&table.file)?);
            Ok(Table { file, data: table.data.clone(), path: table.path.clone() })
        });
        let tables = tables.collect::<io::Result<_>>()?;
        Ok(Self { inner: Arc::new(Inner { file, path, meta, entries, base, archives, tables }) })
    }

    /// How many items there are.
    pub fn len(&self) -> u64 {
        self.inner.meta.items
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Items left out because an earlier input names them too.
    pub fn repeated(&self) -> u64 {
        self.inner.meta.repeated
    }

    /// The shards that [`crate::Place::Member`] counts.
    pub fn archives(&self) -> &[PathBuf] {
        &self.inner.archives
    }

    /// Whether it is known of every member of a shard where its sample begins; lists of an older gpulane do not say.
    pub fn knows_samples(&self) -> bool {
        self.inner.meta.archives.is_empty() || self.inner.meta.version >= WITH_SAMPLES
    }

    /// What was found when the list was made and cannot be an item.
    pub fn lacking(&self) -> &Lacking {
        &self.inner.meta.lacking
    }

    /// The tables that [`crate::Place::Row`] counts.
    pub fn tables(&self) -> &[Table] {
        &self.inner.tables
    }

    /// What relative paths are relative to.
    pub fn base(&self) -> &Path {
        &self.inner.base
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.inner.meta
    }

    /// Reads from the first item on.
    pub fn cursor(&self) -> Cursor {
        self.cursor_at(0)
    }

    /// Reads from the item with this number on.
    pub(crate) fn cursor_at(&self, number: u64) -> Cursor {
        Cursor { list: self.clone(), next: number, block: Vec::new(), held: None, at: 0 }
    }

    /// One item.
    pub fn get(&self, number: u64) -> io::Result<Item> {
        let mut found = Vec::new();
        self.cursor_at(number).next_in(&|_| true, 1, &mut found)?;
        found.pop().ok_or_else(|| wrong(&self.inner.path, &format!("it has no item {number}")))
    }

    /// Reads a block into the buffer and checks it.
    fn read_block(&self, block: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
        let Inner { file, path, meta, entries, .. } = &*self.inner;
        let entry = entries[block];
        let end = entries.get(block + 1).map_or(meta.list.bytes, |next| next.offset);
        let length = end.checked_sub(entry.offset).and_then(|length| usize::try_from(length).ok());
        buffer.resize(length.ok_or_else(|| wrong(path, "its index is damaged"))?, 0);
        file.read_exact_at(buffer, entry.offset)?;
        if crc32fast::hash(buffer) != entry.crc {
            let first = block as u64 * BLOCK;
            return Err(wrong(
                path,
                &format!("it is damaged at item {first} or one of the {BLOCK} after it"),
            ));
        }
        Ok(())
    }
}

/// Reads a list in order, skipping what is not wanted; whole blocks of that are not even read.
#[derive(Debug)]
pub struct Cursor {
    list: ItemList,
    /// The next item's number.
    next: u64,
    /// The lines of the block that is held.
    block: Vec<u8>,
    /// Which block that is.
    held: Option<u64>,
    /// Where in it the next item's line begins.
    at: usize,
}

impl Cursor {
    /// Appends the next items that are wanted, at most so many; none appended: the list is at its end.
    pub fn next_in(
        &mut self,
        wanted: &dyn Fn(u64) -> bool,
        most: usize,
        out: &mut Vec<Item>,
    ) -> io::Result<()> {
        let enough = out.len().saturating_add(most);
        while out.len() < enough && self.next < self.list.len() {
            let block = self.next / BLOCK;
            if self.held != Some(block) {
                let end = ((block + 1) * BLOCK).min(self.list.len());
                if !(self.next..end).any(wanted) {
                    self.next = end;
                    continue;
                }
                self.hold(block)?;
            }
            let damaged = || wrong(&self.list.inner.path, &format!("item {} cannot be read", self.next));
            let rest = self.block.get(self.at..).unwrap_or_default();
            let length = memchr::memchr(b'\n', rest).ok_or_else(damaged)?;
            if wanted(self.next) {
                out.push(
                    record::read(&rest[..length], self.next, &self.list.inner.base).ok_or_else(damaged)?,
                );
            }
            self.at += length + 1;
            self.next += 1;
        }
        Ok(())
    }

    /// Reads a block and goes to the next item's line in it.
    fn hold(&mut self, block: u64) -> io::Result<()> {
        self.held = None;
        let at = usize::try_from(block).map_err(io::Error::other)?;
        self.list.read_block(at, &mut self.block)?;
        let skipped = usize::try_from(self.next - block * BLOCK).map_err(io::Error::other)?;
        self.at = match skipped.checked_sub(1) {
            None => 0,
            Some(last) => {
                memchr::memchr_iter(b'\n', &self.block).nth(last).map_or(self.block.len(), |end| end + 1)
            }
        };
        self.held = Some(block);
        Ok(())
    }
}

fn wrong(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// Offset and checksum of every block.
pub(crate) fn write_index(path: &Path, entries: &[Entry]) -> io::Result<()> {
    let mut bytes = INDEX_HEADER.to_vec();
    for entry in entries {
        bytes.extend_from_slice(&entry.offset.to_le_bytes());
        bytes.extend_from_slice(&entry.crc.to_le_bytes());
    }
    let part = path.with_extension("index.tmp");
    let mut file = crate::create(&part)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)
}

/// The index, if it looks like one.
fn read_index(path: &Path) -> Option<Vec<Entry>> {
    let bytes = gpulane_files::read(path).ok()?;
    let entries = bytes.strip_prefix(INDEX_HEADER)?;
    let entry = |bytes: &[u8]| {
        let (offset, crc) = bytes.split_at_checked(8)?;
        Some(Entry {
            offset: u64::from_le_bytes(offset.try_into().ok()?),
            crc: u32::from_le_bytes(crc.try_into().ok()?),
        })
    };
    let whole = entries.len().is_multiple_of(ENTRY);
    let entries: Vec<Entry> = entries.chunks(ENTRY).map(entry).collect::<Option<_>>()?;
    let rising = entries.windows(2).all(|pair| pair[0].offset < pair[1].offset);
    (whole && rising && entries.first().is_none_or(|first| first.offset == HEADER.len() as u64))
        .then_some(entries)
}

/// Makes the index anew from the list.
fn scan(path: &Path) -> io::Result<Vec<Entry>> {
    let mut file = gpulane_files::open(path)?;
    let mut header = [0; HEADER.len()];
    file.read_exact(&mut header)?;
    let mut entries = Vec::new();
    let (mut offset, mut position, mut lines) = (HEADER.len() as u64, HEADER.len() as u64, 0);
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        let mut rest = &buffer[..read];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            crc.update(&rest[..=end]);
            position += end as u64 + 1;
            rest = &rest[end + 1..];
            lines += 1;
            if lines % BLOCK == 0 {
                entries.push(Entry { offset, crc: std::mem::take(&mut crc).finalize() });
                offset = position;
            }
        }
        crc.update(rest);
        position += rest.len() as u64;
        if read == 0 {
            break;
        }
    }
    if position > offset {
        entries.push(Entry { offset, crc: crc.finalize() });
    }
    Ok(entries)
}
