//! Adoption: orphans below us become our children instead of init's, so nothing that descends from a job can
//! escape by double fork and setsid. The kernel keeps the list; we read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::Pid;

/// This thread's children, adopted ones included, as the kernel lists them.
pub(crate) struct Children {
    /// `None` where the kernel has no such list; then all of `/proc` is searched.
    list: Option<File>,
}

/// Makes this process the one that adopts orphans below it. Kept across exec, not inherited by fork.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

impl Children {
    /// Of the calling thread, which must be the main one: the kernel hands orphans to it.
    pub(crate) fn open() -> Self {
        Self { list: File::open("/proc/thread-self/children").ok() }
    }

    /// Their ids, zombies included.
    pub(crate) fn read(&self) -> Vec<Pid> {
        if let Some(file) = &self.list {
            return read_list(file);
        }
        super::tree::Table::read().children_of(rustix::process::getpid())
    }
}

fn read_list(file: &File) -> Vec<Pid> {
    let mut buffer = vec![0u8; 4096];
    let mut filled = 0;
    // The list is made anew by each read from offset 0; a full buffer means there may be more.
    loop {
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => filled += read,
        }
        if filled == buffer.len() {
            buffer.resize(filled * 4, 0);
        }
    }
    buffer[..filled]
        .split(|byte| *byte == b' ')
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .filter_map(Pid::from_raw)
        .collect()
}
