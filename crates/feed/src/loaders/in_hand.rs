//! What each thread is decoding, in a small file that outlives the process: after a crash it tells which item did it.
//!
//! Written as memory that is shared with the page cache, which a crash of the process does not harm. Not meant to survive the machine's.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::ring::Numbers;

/// No item.
const NOTHING: u64 = u64::MAX;

/// The file, as memory. Eight bytes per thread: the item's number, or all ones.
#[derive(Debug)]
pub struct InHand {
    numbers: Numbers,
}

impl InHand {
    /// Begins anew, with nothing in any hand. Read [`InHand::left_by`] first. On a full disk it is memory alone: a crash then does not tell
    /// which item did it, which is better than a map that stops.
    pub fn create(path: &Path, threads: u32) -> io::Result<Self> {
        match Self::in_file(path, threads) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                let memory = File::from(memfd_create("gpulane-in-hand", MemfdFlags::CLOEXEC)?);
                memory.write_all_at(&nothing(threads), 0)?;
                Ok(Self { numbers: Numbers::in_file(&memory, threads as usize)? })
            }
            made => made,
        }
    }

    fn in_file(path: &Path, threads: u32) -> io::Result<Self> {
        let said = |verb: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot {verb} {}: {error}", path.display()))
        };
        let file = gpulane_files::open_or_create(path).map_err(|error| said("create", error))?;
        file.set_len(0).map_err(|error| said("empty", error))?;
        file.write_all_at(&nothing(threads), 0).map_err(|error| said("write", error))?;
        let numbers = Numbers::in_file(&file, threads as usize).map_err(|error| said("map", error))?;
        Ok(Self { numbers })
    }

    /// The items a feeder that crashed had in hand, in order. None if there is no such file.
    pub fn left_by(path: &Path) -> io::Result<Vec<u64>> {
        let bytes = match gpulane_files::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
            })?,
        };
        let (numbers, _torn) = bytes.as_chunks();
        let mut left: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        left.retain(|number| *number != NOTHING);
        left.sort_unstable();
        left.dedup();
        Ok(left)
    }

    /// The thread begins with an item.
    pub(super) fn take(&self, thread: usize, number: u64) {
        self.numbers.set(thread, number);
    }

    /// The thread is through with it.
    pub(super) fn put_down(&self, thread: usize) {
        self.take(thread, NOTHING);
    }
}

/// Nothing in any hand.
fn nothing(threads: u32) -> Vec<u8> {
    vec![0xFF; threads as usize * size_of::<u64>()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_hand_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in-hand");
        assert_eq!(InHand::left_by(&path).unwrap(), Vec::<u64>::new());
        let hands = InHand::create(&path, 3).unwrap();
        hands.take(0, 17);
        hands.take(1, 4);
        hands.take(2, 9);
        hands.put_down(0);
        hands.take(3, 99);
        assert_eq!(InHand::left_by(&path).unwrap(), [4, 9]);
    }

    #[test]
    fn a_torn_file_tells_what_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in-hand");
        std::fs::write(&path, [7, 0, 0, 0, 0, 0, 0, 0, 1, 2]).unwrap();
        assert_eq!(InHand::left_by(&path).unwrap(), [7]);
    }
}
