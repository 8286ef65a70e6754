//! A few numbers in a small file, written as memory: a system call for each, by many threads into one file, would cost more than what
//! is told by them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mapping::Mapping;

/// Numbers that outlive the process, but not the machine.
#[derive(Debug)]
pub(crate) struct Numbers {
    mapping: Mapping,
    count: usize,
}

impl Numbers {
    /// Maps a file that has room for `count` numbers. Whoever shortens it meanwhile ends this process.
    pub(crate) fn in_file(file: &File, count: usize) -> io::Result<Self> {
        let bytes = (count * size_of::<u64>()).max(1) as u64;
        Ok(Self { mapping: Mapping::new(file, bytes)?, count })
    }

    /// Sets a number, little-endian; one that does not exist is not set.
    pub(crate) fn set(&self, at: usize, number: u64) {
        if at >= self.count {
            return;
        }
        let Some(place) = self.mapping.at(at * size_of::<u64>(), size_of::<u64>()) else { return };
        // SAFETY: the place lies within the mapping, which lives as long as `self`; a mapping begins at a page, so it is aligned; it is
        // only ever used as an atomic in this process.
        let number_there = unsafe { AtomicU64::from_ptr(place.as_ptr().cast()) };
        number_there.store(number.to_le(), Ordering::Relaxed);
    }
}
