//! Members of compressed tars, which can only be read one after the other: threads take turns at a tar's stream, in the order in which they
//! took their items. Who has the turn decompresses its member to where it will be decoded; nothing is kept in between.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use gpulane_items::{Packing, Unpacked};

use super::reading::{CHANGED, open, reason};

/// The compressed tars of a map.
#[derive(Debug)]
pub(super) struct Streams {
    /// How each archive is compressed, by its number.
    packings: Vec<Option<Packing>>,
    state: Mutex<HashMap<u32, Stream>>,
    /// A turn is over.
    changed: Condvar,
}

/// One tar, while items of it are in work.
#[derive(Debug, Default)]
struct Stream {
    /// Turns so far.
    turns: u64,
    /// Turns that are not over.
    waiting: BTreeSet<u64>,
    contents: Contents,
    /// The byte of the contents from which on it cannot be read, and why.
    broken: Option<(u64, String)>,
}

#[derive(Debug, Default)]
enum Contents {
    /// Not begun, or given up.
    #[default]
    Closed,
    /// Read up to where the last turn left it.
    Open(Unpacked),
    /// Somebody's turn.
    Taken,
}

/// The right to read from a tar when all who came before have.
#[derive(Debug)]
pub(super) struct Turn<'s> {
    streams: &'s Streams,
    archive: u32,
    number: u64,
}

/// A member, at its turn.
#[derive(Debug)]
pub(super) struct Member<'s> {
    turn: Turn<'s>,
    contents: Option<Unpacked>,
    /// Where in the contents.
    offset: u64,
    bytes: u64,
}

impl Streams {
    pub(super) fn new(archives: &[PathBuf]) -> Self {
        let packings = archives.iter().map(|path| Packing::of(path.as_os_str().as_bytes())).collect();
        Self { packings, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A turn at this archive, behind all that were given before; none: it is not compressed.
    pub(super) fn turn(&self, archive: u32) -> Option<Turn<'_>> {
        (*self.packings.get(archive as usize)?)?;
        let mut state = self.lock();
        let stream = state.entry(archive).or_default();
        let number = stream.turns;
        stream.turns += 1;
        stream.waiting.insert(number);
        Some(Turn { streams: self, archive, number })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Stream>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'s> Turn<'s> {
    /// Waits for the turn. Whoever waits here holds neither memory of the budgets nor a place in a slot.
    pub(super) fn wait(self, path: &Path, offset: u64, bytes: u64) -> Result<Member<'s>, String> {
        let (streams, archive) = (self.streams, self.archive);
        let mut state = streams
            .changed
            .wait_while(streams.lock(), |state| {
                state.get(&archive).is_some_and(|stream| stream.waiting.first() != Some(&self.number))
            })
            .unwrap_or_else(PoisonError::into_inner);
        // Streams that nobody waits for: items come in the order of the archives. What was found broken is not decompressed again to
        // find that.
        state.retain(|other, stream| {
            let idle = *other != archive && stream.waiting.is_empty();
            if idle {
                stream.contents = Contents::Closed;
            }
            !idle || stream.broken.is_some()
        });
        let stream = state.entry(archive).or_default();
        if let Some((at, why)) = &stream.broken
            && offset.saturating_add(bytes) > *at
        {
            return Err(why.clone());
        }
        let contents = match std::mem::replace(&mut stream.contents, Contents::Taken) {
            Contents::Open(contents) if contents.position() <= offset => Some(contents),
            Contents::Open(_) | Contents::Closed | Contents::Taken => None,
        };
        drop(state);
        let mut member = Member { turn: self, contents, offset, bytes };
        if member.contents.is_none() {
            member.contents = Some(member.begin(path)?);
        }
        Ok(member)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.streams.lock();
        if let Some(stream) = state.get_mut(&self.archive) {
            stream.waiting.remove(&self.number);
        }
        drop(state);
        self.streams.changed.notify_all();
    }
}

impl Member<'_> {
    fn begin(&self, path: &Path) -> Result<Unpacked, String> {
        let packing = self.turn.streams.packings.get(self.turn.archive as usize).copied().flatten();
        let packing = packing.ok_or("its archive is not known")?;
        Unpacked::of(open(path)?.0, packing).map_err(|error| reason(&error))
    }

    pub(super) const fn size(&self) -> u64 {
        self.bytes
    }

    /// Reads all of it into a place of its size. Others go on behind it, or hear why they cannot.
    pub(super) fn read_into(&mut self, to: &mut [u8]) -> Result<(), String> {
        let Some(mut contents) = self.contents.take() else { return Err(CHANGED.to_owned()) };
        let read = contents.skip_to(self.offset).and_then(|()| contents.read_exact(to));
        let read = read.map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                format!("its tar {CHANGED}, or after it was listed")
            } else {
                format!(
                    "its tar cannot be decompressed behind byte {} of its contents: {error}",
                    contents.position()
                )
            }
        });
        match &read {
            Ok(()) => self.put_back(Contents::Open(contents), None),
            Err(why) => self.put_back(Contents::Closed, Some((contents.position(), why.clone()))),
        }
        read
    }

    fn put_back(&self, contents: Contents, broken: Option<(u64, String)>) {
        if let Some(stream) = self.turn.streams.lock().get_mut(&self.turn.archive) {
            stream.contents = contents;
            stream.broken = broken.or(stream.broken.take());
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // Nothing was read of it, for want of room perhaps: the next one may.
        if let Some(contents) = self.contents.take() {
            self.put_back(Contents::Open(contents), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(streams: &Streams, archive: u32, path: &Path, offset: u64) -> Result<u8, String> {
        let mut byte = [0];
        let turn = streams.turn(archive).unwrap();
        turn.wait(path, offset, 1).and_then(|mut member| member.read_into(&mut byte)).map(|()| byte[0])
    }

    #[test]
    fn a_tar_that_was_found_broken_is_not_decompressed_again_to_find_that() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("cut.tar.gz"), dir.path().join("whole.tar.gz")];
        let contents: Vec<u8> =
            (0..200_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&contents).unwrap();
        let packed = encoder.finish().unwrap();
        std::fs::write(&paths[0], &packed[..packed.len() / 2]).unwrap();
        std::fs::write(&paths[1], &packed).unwrap();
        let streams = Streams::new(&paths);
        let why = read(&streams, 0, &paths[0], 150_000).unwrap_err();
        assert!(why.contains("its tar"), "{why}");
        // Another archive's turn lets go what nobody waits for.
        assert_eq!(read(&streams, 1, &paths[1], 150_000), Ok(contents[150_000]));
        // What lies before that place can still be read, from the start.
        assert_eq!(read(&streams, 0, &paths[0], 10), Ok(contents[10]));
        assert_eq!(read(&streams, 0, &paths[0], 160_000), Err(why.clone()));
        // Without its file only the verdict is left.
        std::fs::remove_file(&paths[0]).unwrap();
        assert_eq!(read(&streams, 1, &paths[1], 150_001), Ok(contents[150_001]));
        assert_eq!(read(&streams, 0, &paths[0], 150_000), Err(why));
    }
}
