//! The memory of a process, read through `/proc/PID/mem` while it goes on running.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// As much of a path as is shown.
const PATH: usize = 512;
/// A `struct pollfd`.
const POLL_ENTRY: usize = 8;
/// A list that is longer is not read: whoever waits for so many waits for somebody outside.
const MOST_POLLED: usize = 4096;

/// Memory of one process; where it may not be read, nothing is there.
pub(crate) struct Memory {
    file: Option<File>,
}

impl Memory {
    /// Of the process with this folder in `/proc`.
    pub(crate) fn of(folder: &Path) -> Self {
        Self { file: File::open(folder.join("mem")).ok() }
    }

    /// Fills the buffer from there, as far as there is memory.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8]) -> Option<usize> {
        self.file.as_ref()?.read_at(buffer, address).ok()
    }

    fn exactly<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.file.as_ref()?.read_exact_at(&mut bytes, address).ok()?;
        Some(bytes)
    }

    pub(crate) fn u32(&self, address: u64) -> Option<u32> {
        self.exactly(address).map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&self, address: u64) -> Option<u64> {
        self.exactly(address).map(u64::from_ne_bytes)
    }

    /// A text that ends with a zero, without control characters.
    pub(crate) fn text(&self, address: u64) -> Option<String> {
        let mut bytes = [0; PATH];
        let length = self.read(address, &mut bytes)?;
        let text = bytes[..length].split(|byte| *byte == 0).next()?;
        let text: String =
            String::from_utf8_lossy(text).chars().filter(|character| !character.is_control()).collect();
        (!text.is_empty()).then_some(text)
    }

    /// The descriptors of a poll.
    pub(crate) fn polled(&self, list: u64, length: u64) -> Option<Vec<u32>> {
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_POLLED)?;
        let mut bytes = vec![0; length * POLL_ENTRY];
        self.file.as_ref()?.read_exact_at(&mut bytes, list).ok()?;
        let fds = bytes.chunks_exact(POLL_ENTRY).filter_map(|entry| {
            let fd = i32::from_ne_bytes(entry.get(..4)?.try_into().ok()?);
            // Negative ones are left out by the kernel, too.
            u32::try_from(fd).ok()
        });
        Some(fds.collect())
    }

    /// The descriptors of a select, from its sets.
    pub(crate) fn selected(&self, count: u64, sets: [u64; 3]) -> Option<Vec<u32>> {
        let count = u32::try_from(count).ok().filter(|count| *count <= 1 << 16)?;
        let mut fds = Vec::new();
        for set in sets.into_iter().filter(|set| *set != 0) {
            let mut bits = vec![0; (count as usize).div_ceil(64) * 8];
            self.file.as_ref()?.read_exact_at(&mut bits, set).ok()?;
            fds.extend((0..count).filter(|fd| bits[*fd as usize / 8] >> (fd % 8) & 1 == 1));
        }
        fds.sort_unstable();
        fds.dedup();
        Some(fds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where something of ours lies.
    fn address<T: ?Sized>(thing: &T) -> u64 {
        std::ptr::from_ref(thing).cast::<u8>().addr() as u64
    }

    #[test]
    fn lists_of_descriptors_are_read() {
        let own = Memory::of(Path::new("/proc/self"));
        let polled: [i32; 6] = [7, 1, -1, 1, 9, 4];
        assert_eq!(own.polled(address(&polled), 3), Some(vec![7, 9]));
        assert_eq!(own.polled(address(&polled), u64::MAX), None);
        let (reads, writes): ([u64; 1], [u64; 1]) = ([0b1001], [0b1000]);
        assert_eq!(own.selected(5, [address(&reads), address(&writes), 0]), Some(vec![0, 3]));
    }

    #[test]
    fn a_text_ends_with_its_zero() {
        let own = Memory::of(Path::new("/proc/self"));
        assert_eq!(own.text(address(b"a\nb\0c")), Some("ab".to_owned()));
        assert_eq!(own.u32(8), None);
    }
}
