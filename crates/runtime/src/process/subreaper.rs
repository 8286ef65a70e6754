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

    /// As a file says.
    #[cfg(test)]
    pub(crate) fn listed_in(list: File) -> Self {
        Self { list: Some(list) }
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
    // One read gives the whole list unless it is long: the kernel fills what it is given.
    let mut few = [0u8; 1024];
    let filled = file.read_at(&mut few, 0).unwrap_or(0);
    if filled < few.len() / 2 {
        return parse_list(&few[..filled]);
    }
    let mut all = vec![0u8; 1 << 16];
    let mut filled = 0;
    loop {
        match file.read_at(&mut all[filled..], filled as u64) {
            Ok(0) | Err(_) => return parse_list(&all[..filled]),
            Ok(read) => filled += read,
        }
        if filled == all.len() {
            all.resize(filled * 2, 0);
        }
    }
}

fn parse_list(list: &[u8]) -> Vec<Pid> {
    list.split(|byte| *byte == b' ')
        .filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .filter_map(Pid::from_raw)
        .collect()
}
