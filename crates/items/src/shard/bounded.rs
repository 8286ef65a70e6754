//! A reader for the tar library that limits what one member's headers may take. The library reads a long name or PAX records whole,
//! whatever length they claim, and some kilobytes of a compressed tar can claim gigabytes.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use super::BLOCK;

/// The most that is read of one member's headers: long names and PAX records are far shorter.
pub(super) const MOST_HEADERS: u64 = 64 << 10;

/// What may be read of the next member's headers.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// Where these can begin: bytes before are the data of others.
    from: Cell<u64>,
    /// Bytes of them that were read. Empty blocks ahead of them do not count.
    used: Cell<u64>,
}

impl Allowance {
    /// A member whose data end there was found; the next one's headers begin behind it.
    pub(super) fn renew(&self, end: u64) {
        self.from.set(end.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX));
        self.used.set(0);
    }

    /// Counts bytes that were read at `at`.
    fn spend(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let before = usize::try_from(self.from.get().saturating_sub(at)).unwrap_or(usize::MAX);
        let Some(mut counted) = bytes.get(before..) else { return Ok(()) };
        if self.used.get() == 0 {
            let empty = counted.iter().take_while(|byte| **byte == 0).count();
            counted = &counted[empty..];
        }
        self.used.set(self.used.get().saturating_add(counted.len() as u64));
        if self.used.get() <= MOST_HEADERS {
            return Ok(());
        }
        let what = format!("its name or other headers take more than {} KiB", MOST_HEADERS >> 10);
        Err(io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

/// Reads a tar within an allowance.
pub(super) struct Bounded<R> {
    inner: R,
    at: u64,
    allowance: Rc<Allowance>,
}

impl<R> Bounded<R> {
    /// The reader, which stands at the tar's first byte, and its allowance.
    pub(super) fn new(inner: R) -> (Self, Rc<Allowance>) {
        let allowance = Rc::new(Allowance::default());
        (Self { inner, at: 0, allowance: Rc::clone(&allowance) }, allowance)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(to)?;
        let at = self.at;
        self.at = at.saturating_add(read as u64);
        self.allowance.spend(at, &to[..read])?;
        Ok(read)
    }
}

impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.inner.seek(to)?;
        Ok(self.at)
    }
}
