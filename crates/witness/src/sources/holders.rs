//! Who on this machine has a pipe, a socket, an event or a piece of shared memory: all of `/proc`, walked once for all that is asked.
//!
//! Processes that may not be looked into are other users'. What a job has made does not come to them but by its own hands, so
//! they are taken to have none of it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::descriptors::inode;
use crate::maps::mappings;
use crate::proc_files::{folder_of, numbers_in, read};

/// Something that processes can have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shared {
    /// A pipe, by the kernel's number.
    Pipe(u64),
    /// A socket, by the kernel's number.
    Socket(u64),
    /// An `eventfd`, by the kernel's number.
    Event(u64),
    /// Memory, by device and number of its file, and its path.
    Memory((String, u64), String),
}

/// A process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Has {
    pub(super) pid: u32,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// Descriptors looked at in one walk; with more, nothing is known.
const MOST: usize = 400_000;

/// Who has what was asked for.
#[derive(Debug, Default)]
pub(super) struct Holders {
    found: HashMap<Shared, Vec<Has>>,
    /// The walk did not come to its end.
    broken_off: bool,
}

impl Holders {
    /// Walks over all processes. With nothing to look for it costs nothing.
    pub(super) fn of(wanted: &HashSet<Shared>) -> Self {
        let mut holders = Self::default();
        if wanted.is_empty() {
            return holders;
        }
        let by_descriptor = wanted.iter().any(|shared| !matches!(shared, Shared::Memory(..)));
        let memory: Vec<&Shared> =
            wanted.iter().filter(|shared| matches!(shared, Shared::Memory(..))).collect();
        let mut left = MOST;
        for pid in numbers_in(Path::new("/proc")) {
            let folder = folder_of(pid);
            if by_descriptor || !memory.is_empty() {
                holders.look_at_descriptors(pid, &folder, wanted, &mut left);
            }
            if !memory.is_empty() {
                holders.look_at_memory(pid, &folder, &memory);
            }
        }
        holders
    }

    /// All that have it; `None`: not known.
    pub(super) fn get(&self, shared: &Shared) -> Option<&[Has]> {
        if self.broken_off {
            return None;
        }
        self.found.get(shared).map(Vec::as_slice)
    }

    fn look_at_descriptors(&mut self, pid: u32, folder: &Path, wanted: &HashSet<Shared>, left: &mut usize) {
        let open = folder.join("fd");
        for fd in numbers_in(&open) {
            if *left == 0 {
                self.broken_off = true;
                return;
            }
            *left -= 1;
            let path = open.join(fd.to_string());
            let Ok(link) = fs::read_link(&path) else { continue };
            let Some(shared) = named(&link, folder, fd, wanted) else { continue };
            // The rights of the link are those of the descriptor.
            let mode = fs::symlink_metadata(&path).map_or(0o600, |data| data.mode());
            let has = Has { pid, reads: mode & 0o400 != 0, writes: mode & 0o200 != 0 };
            self.found.entry(shared).or_default().push(has);
        }
    }

    fn look_at_memory(&mut self, pid: u32, folder: &Path, wanted: &[&Shared]) {
        let mappings = mappings(folder);
        for shared in wanted {
            let Shared::Memory(file, _) = shared else { continue };
            if mappings.iter().any(|mapping| mapping.shared && mapping.file == *file) {
                self.found.entry((*shared).clone()).or_default().push(Has { pid, reads: true, writes: true });
            }
        }
    }
}

/// Which of the wanted this descriptor is.
fn named(link: &Path, folder: &Path, fd: u32, wanted: &HashSet<Shared>) -> Option<Shared> {
    let asked = |shared: Shared| Some(shared).filter(|shared| wanted.contains(shared));
    if let Some(number) = inode(link, "pipe") {
        return asked(Shared::Pipe(number));
    }
    if let Some(number) = inode(link, "socket") {
        return asked(Shared::Socket(number));
    }
    let text = link.to_str()?;
    if text == "anon_inode:[eventfd]" {
        return wanted
            .iter()
            .any(|shared| matches!(shared, Shared::Event(_)))
            .then(|| event_id(folder, fd))
            .flatten()
            .map(Shared::Event)
            .and_then(asked);
    }
    // Open, though not mapped yet: by its path, which others may have the like of; then it is taken for more than it is.
    wanted.iter().find(|shared| matches!(shared, Shared::Memory(_, path) if path == text)).cloned()
}

/// The kernel's number of an `eventfd`; older ones do not tell.
pub(super) fn event_id(folder: &Path, fd: u32) -> Option<u64> {
    let info = read(&folder.join("fdinfo").join(fd.to_string()))?;
    info.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}
