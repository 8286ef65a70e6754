//! The memory map of a process: what lies at an address, and who else has it.

use std::io;
use std::path::Path;

use crate::proc_files::read;

/// Where named pieces of shared memory and semaphores are.
const SHM: &str = "/dev/shm/";

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writable: bool,
    /// Code in it can be run.
    pub(crate) runs: bool,
    /// Where in its file it begins.
    offset: u64,
    /// What one process writes to it, others that have it see.
    pub(crate) shared: bool,
    /// Device and number of the file; `00:00` and 0 for memory that is in no file.
    pub(crate) file: (String, u64),
    /// Its path, with ` (deleted)` where that is gone.
    pub(crate) path: String,
}

/// All mappings of the process with this folder in `/proc`; none if they cannot be read.
pub(crate) fn mappings(folder: &Path) -> Vec<Mapping> {
    read(&folder.join("maps")).unwrap_or_default().lines().filter_map(parse).collect()
}

/// `7f1c-7f2c rw-s 00000000 00:01 1041  /dev/shm/x (deleted)`.
pub(crate) fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let (offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        writable: rights.contains('w'),
        runs: rights.contains('x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        shared: rights.ends_with('s'),
        file: (device.to_owned(), inode.parse().ok()?),
        path: fields.next().unwrap_or_default().trim().to_owned(),
    })
}

impl Mapping {
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Where in its file that is what lies at an address of it; `None`: the address is before it, or no file is so long.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.start)?.checked_add(self.offset)
    }

    /// The name of its file, without folders.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The name by which a process that does not have it yet may come and open it; `None`: there is no such name. Beside `root`, the
    /// root folder of the process, nobody else's view of the files matters.
    pub(crate) fn name(&self, root: &Path) -> Option<String> {
        let path = self.path.strip_suffix(" (deleted)");
        match path {
            // Memory of System V has no name in a file system, but a key or a number.
            Some(path) if path.starts_with("/SYSV") => Some(path.to_owned()),
            Some(path) if path == "/dev/zero" || path.starts_with("/memfd:") => None,
            // A semaphore gets its name as a second one, so that the first being gone says nothing.
            Some(path) if path.starts_with(SHM) => {
                self.other_name(root).unwrap_or_else(|_| Some(path.to_owned()))
            }
            Some(path) => Some(path.to_owned()),
            None => Some(self.path.clone()),
        }
    }

    /// Another name of the same file in `/dev/shm`.
    fn other_name(&self, root: &Path) -> io::Result<Option<String>> {
        use std::os::unix::fs::DirEntryExt;
        let mut files = std::fs::read_dir(root.join(SHM.trim_start_matches('/')))?.filter_map(Result::ok);
        let same = files.find(|file| file.ino() == self.file.1);
        Ok(same.map(|file| format!("{SHM}{}", file.file_name().to_string_lossy())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let semaphore = parse(
            "7f1c00000000-7f1c00001000 rw-s 00000000 00:19 4294967295999    /dev/shm/sem.mp-x (deleted)",
        )
        .unwrap();
        assert!(semaphore.shared && semaphore.writable);
        assert_eq!(semaphore.name(Path::new("/")), None, "no such number there");
        assert!(semaphore.name(Path::new("/nonexistent")).is_some(), "not to be seen");
        assert_eq!(semaphore.file, ("00:19".to_owned(), 4_294_967_295_999));
        assert!(semaphore.contains(0x7f1c_0000_0fff) && !semaphore.contains(0x7f1c_0000_1000));
        let named = |line: &str| parse(line).unwrap().name(Path::new("/")).is_some();
        assert!(named("7f1c-7f2c rw-s 00000000 00:01 32769    /SYSV00000000 (deleted)"));
        assert!(named("7f1c-7f2c rw-s 00000000 00:01 7    /dev/shm/x"));
        assert!(!named("7f1c-7f2c rw-s 00000000 00:01 7    /dev/zero (deleted)"));
        assert!(!named("7f1c-7f2c rw-s 00000000 00:01 7    /memfd:x (deleted)"));
        let heap = parse("55d0-55f0 rw-p 00000000 00:00 0").unwrap();
        assert!(!heap.shared && heap.path.is_empty() && heap.file.1 == 0);
        assert!(parse("rubbish").is_none());
    }
}
