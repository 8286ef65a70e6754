//! Members of compressed tars, which can only be read one after the other: threads take turns at a tar's stream, in the order in which they
//! took their items. Who has the turn decompresses its member to where it will be decoded; nothing is kept in between but, where
//! members of samples are asked for, a sample of which other items may follow.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gpulane_items::{Packing, Unpacked};
use gpulane_model::Members;

use super::heavy::{Heavy, Load};
use super::reading::{CHANGED, open, reason};
use super::samples::{HeldData, Packed, Sample, walk};

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
    /// The sample read last, unless it is large.
    kept: Option<Arc<Sample>>,
}

/// An item whose sample is to be read.
#[derive(Debug)]
pub(super) struct InSample<'a> {
    /// Where the sample begins.
    pub(super) start: u64,
    /// Where the item's data are, and how many.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// What goes with it, and what that may take.
    pub(super) asked: &'a Members,
    pub(super) most: u64,
}

/// A sample that was read, the item's own data, and what of the memory of large items they take.
pub(super) type ReadSample<'h> = (Arc<Sample>, HeldData, Option<Load<'h>>);

#[derive(Debug, Default)]
enum Contents {
    /// Not begun, or given up.
    #[default]
    Closed,
    /// Read up to where the last turn left it.
    Open(Unpacked),
    /// Somebody's turn.
    Taken,
    /// Cannot be read on, and why.
    Broken(String),
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
    /// Waits for the turn, and for the item's data in it.
    pub(super) fn wait(self, path: &Path, offset: u64, bytes: u64) -> Result<Member<'s>, String> {
        let state = self.begin();
        self.take(state, path, offset, bytes)
    }

    /// Waits for the turn, and reads the sample of an item.
    pub(super) fn sample<'h>(
        self,
        path: &Path,
        item: &InSample<'_>,
        large: &'h Heavy,
    ) -> Result<ReadSample<'h>, String> {
        let mut state = self.begin();
        let stream = state.entry(self.archive).or_default();
        let kept = stream.kept.take_if(|kept| kept.start == item.start);
        if let Some((kept, own)) = kept.and_then(|kept| Some((Arc::clone(&kept), kept.held(item.offset)?))) {
            stream.kept = Some(Arc::clone(&kept));
            return Ok((kept, own, None));
        }
        stream.kept = None;
        self.take(state, path, item.start, item.bytes)?.read_sample(item, large)
    }

    /// Waits for the turn. Whoever waits here holds neither memory of the budgets nor a place in a slot.
    fn begin(&self) -> MutexGuard<'s, HashMap<u32, Stream>> {
        let (streams, archive) = (self.streams, self.archive);
        let mut state = streams
            .changed
            .wait_while(streams.lock(), |state| {
                state.get(&archive).is_some_and(|stream| stream.waiting.first() != Some(&self.number))
            })
            .unwrap_or_else(PoisonError::into_inner);
        // Streams that nobody waits for: items come in the order of the archives. What was found broken is not decompressed again to find
        // that.
        state.retain(|other, stream| {
            *other == archive || !stream.waiting.is_empty() || matches!(stream.contents, Contents::Broken(_))
        });
        state
    }

    /// Takes the contents, at or before the byte they are to be read from.
    fn take(
        self,
        mut state: MutexGuard<'_, HashMap<u32, Stream>>,
        path: &Path,
        offset: u64,
        bytes: u64,
    ) -> Result<Member<'s>, String> {
        let stream = state.entry(self.archive).or_default();
        let contents = match std::mem::replace(&mut stream.contents, Contents::Taken) {
            Contents::Broken(why) => {
                stream.contents = Contents::Broken(why.clone());
                return Err(why);
            }
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
        let read = read.map_err(|error| unreadable(&contents, &error));
        let left = match &read {
            Ok(()) => Contents::Open(contents),
            Err(why) => Contents::Broken(why.clone()),
        };
        self.put_back(left);
        read
    }

    /// Reads the sample of an item that begins here, to its end; the sample is kept for the next item if it is small.
    fn read_sample<'h>(mut self, item: &InSample<'_>, large: &'h Heavy) -> Result<ReadSample<'h>, String> {
        let Some(mut contents) = self.contents.take() else { return Err(CHANGED.to_owned()) };
        if let Err(error) = contents.skip_to(item.start) {
            let why = unreadable(&contents, &error);
            self.put_back(Contents::Broken(why.clone()));
            return Err(why);
        }
        let begun = Sample::at(self.turn.archive, item.start);
        let mut tar = Packed::new(&mut contents, large, item.bytes, item.most);
        let walked = walk(&mut tar, item.offset, item.asked, begun);
        let load = tar.into_load();
        let failed = contents.has_failed();
        let walked = walked.map(|(sample, own)| (Arc::new(sample), own));
        let why = match &walked {
            Ok((sample, _)) => sample.lost().map(str::to_owned),
            Err(why) => Some(why.clone()),
        };
        self.put_back(match why.filter(|_| failed) {
            Some(why) => Contents::Broken(format!("its tar cannot be read on: {why}")),
            None => Contents::Open(contents),
        });
        let (sample, own) = walked?;
        if sample.is_light()
            && let Some(stream) = self.turn.streams.lock().get_mut(&self.turn.archive)
        {
            stream.kept = Some(Arc::clone(&sample));
        }
        Ok((sample, own.ok_or(CHANGED)?, load))
    }

    fn put_back(&self, contents: Contents) {
        if let Some(stream) = self.turn.streams.lock().get_mut(&self.turn.archive) {
            stream.contents = contents;
        }
    }
}

/// Why contents cannot be read on, for a person.
fn unreadable(contents: &Unpacked, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return format!("its tar {CHANGED}, or after it was listed");
    }
    format!("its tar cannot be decompressed behind byte {} of its contents: {error}", contents.position())
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // Nothing was read of it, for want of room perhaps: the next one may.
        if let Some(contents) = self.contents.take() {
            self.put_back(Contents::Open(contents));
        }
    }
}

#[cfg(test)]
mod tests;
