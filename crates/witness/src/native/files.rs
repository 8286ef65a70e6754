//! The files that are mapped into a process, and the tables of their functions. They belong to whoever is watched: a file may be a pipe by
//! now, another one, or on a disk that does not answer. No lock is held while one is opened or read, and where one does not come back,
//! files of that disk are left alone until it does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, major, minor, openat};

use super::elf::{self, Table};
use crate::maps::Mapping;

/// How long all names of a look may take, and all loops, which are read at the same time. Who reads a file for longer is taken for one
/// that may not come back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Files of one process that are opened in one look.
const MOST_FILES: usize = 256;
/// Files that are remembered; beyond, all are forgotten.
const REMEMBERED: usize = 512;
/// Reads under way at most, and those of one process that may be lost before its files are left alone.
const MOST_READS: usize = 16;
const MOST_LOST: usize = 2;

/// A file as it was when it was read: device, number, size, and when it and what is known of it were changed.
type Identity = (u64, u64, i64, (i64, u64), (i64, u64));
/// What the contents of files have said.
static TABLES: LazyLock<Mutex<HashMap<Identity, Arc<Table>>>> = LazyLock::new(Mutex::default);

/// The mapped files of one process, for one look.
pub(super) struct Files<'a> {
    pid: u32,
    folder: &'a Path,
    /// After this no further file is opened.
    until: Instant,
    /// By where each is mapped; each is opened once.
    found: RefCell<HashMap<u64, Option<Arc<Table>>>>,
}

impl<'a> Files<'a> {
    /// Of the process with this folder in `/proc`.
    pub(super) fn of(pid: u32, folder: &'a Path, until: Instant) -> Self {
        Self { pid, folder, until, found: RefCell::default() }
    }

    /// Whether the file was opened already, or is none.
    pub(super) fn knows(&self, mapping: &Mapping) -> bool {
        !mapping.path.starts_with('/') || self.found.borrow().contains_key(&mapping.start)
    }

    /// The functions of a mapped file; `None`: it is none, or cannot be read.
    pub(super) fn table(&self, mapping: &Mapping) -> Option<Arc<Table>> {
        if !mapping.path.starts_with('/') {
            return None;
        }
        if let Some(known) = self.found.borrow().get(&mapping.start) {
            return known.clone();
        }
        if self.found.borrow().len() >= MOST_FILES || Instant::now() >= self.until {
            return None;
        }
        let table = Read::begin(self.pid, &mapping.file.0).and_then(|_read| read(self.folder, mapping));
        self.found.borrow_mut().insert(mapping.start, table.clone());
        table
    }
}

fn read(folder: &Path, mapping: &Mapping) -> Option<Arc<Table>> {
    let (file, size, identity) = open(folder, mapping).ok().flatten()?;
    let known = TABLES.lock().unwrap_or_else(PoisonError::into_inner).get(&identity).cloned();
    if known.is_some() {
        return known;
    }
    let (table, _) = elf::read(&(&file, size)).ok()?;
    let table = Arc::new(table);
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    if tables.len() >= REMEMBERED {
        tables.clear();
    }
    tables.insert(identity, Arc::clone(&table));
    Some(table)
}

/// A mapped file as its process sees it, its size and identity; `None`: something else stands at its path.
fn open(folder: &Path, mapping: &Mapping) -> io::Result<Option<(File, u64, Identity)>> {
    let Some(path) = mapping.path.strip_prefix('/') else { return Ok(None) };
    // Found without being opened: opening a device does something, and opening a pipe waits.
    let careful = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(CWD, folder.join("root").join(path), careful, Mode::empty())?;
    let seen = fstat(&place)?;
    let regular = FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile;
    if !regular || seen.st_ino != mapping.file.1 || !(is_on(&seen, mapping) || hides_device(&place)) {
        return Ok(None);
    }
    // Who has a lease of it is not waited for.
    let reads = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, format!("/proc/self/fd/{}", place.as_raw_fd()), reads, Mode::empty())?;
    let seen = fstat(&file)?;
    Ok(Some((file.into(), u64::try_from(seen.st_size).unwrap_or(0), identity(&seen))))
}

fn identity(seen: &Stat) -> Identity {
    let (changed, touched) = ((seen.st_mtime, seen.st_mtime_nsec), (seen.st_ctime, seen.st_ctime_nsec));
    (seen.st_dev, seen.st_ino, seen.st_size, changed, touched)
}

/// Whether the file is on the device of the mapping, `fd:01`.
fn is_on(seen: &Stat, mapping: &Mapping) -> bool {
    mapping.file.0 == format!("{:02x}:{:02x}", major(seen.st_dev), minor(seen.st_dev))
}

/// Whether this is a file system (overlay, btrfs) whose files are mapped under another device than they say.
fn hides_device(file: impl std::os::fd::AsFd) -> bool {
    fstatfs(file).is_ok_and(|system| [0x794c_7630, 0x9123_683e].contains(&system.f_type))
}

/// A read of a file of a process that is under way.
pub(crate) struct Read {
    number: u64,
}

struct UnderWay {
    number: u64,
    pid: u32,
    device: String,
    since: Instant,
}

/// All reads under way, and how many there have been.
static READS: Mutex<(Vec<UnderWay>, u64)> = Mutex::new((Vec::new(), 0));

impl Read {
    /// `device`: what stops answering together, which a folder does, too. `None`: another one does not come back from there, or too many
    /// of this process do not.
    pub(crate) fn begin(pid: u32, device: &str) -> Option<Self> {
        let mut reads = READS.lock().unwrap_or_else(PoisonError::into_inner);
        let (under_way, count) = &mut *reads;
        let lost = || under_way.iter().filter(|read| read.since.elapsed() >= PATIENCE);
        let from_here = lost().any(|read| read.device == device);
        if from_here
            || lost().filter(|read| read.pid == pid).count() >= MOST_LOST
            || under_way.len() >= MOST_READS
        {
            return None;
        }
        *count += 1;
        let number = *count;
        under_way.push(UnderWay { number, pid, device: device.to_owned(), since: Instant::now() });
        Some(Self { number })
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        let mut reads = READS.lock().unwrap_or_else(PoisonError::into_inner);
        reads.0.retain(|read| read.number != self.number);
    }
}
