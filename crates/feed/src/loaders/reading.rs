//! Files, members of tar files and rows of tables into memory, and what to call it when that fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gpulane_items::Place;
use gpulane_model::{Bytes, Members};
use rustix::fs::OFlags;

use super::heavy::{Heavy, Load};
use super::samples::{Beside, HeldData, InPlace, Sample, walk};
use super::streams::{InSample, Member, Streams, Turn};
use super::tables::{Cell, Data, Tables};

/// The largest file that is read to be decoded, and what all that are read at once may have.
pub(super) const MOST_ENCODED: u64 = 2 << 30;
/// A buffer above this is not kept for the next item.
const KEPT: usize = 16 << 20;
/// The smallest buffer: most files fit, so that it is made once.
const STEP: usize = 1 << 20;

/// What one thread reads with.
#[derive(Debug)]
pub(super) struct Reader<'h> {
    /// Holds an encoded item. As long as the longest so far, so that it is cleared once and not per item.
    buffer: Vec<u8>,
    /// How long the item in it is.
    len: usize,
    /// The tar file read from last, and its length. Items come in order, so the next one lies mostly in the same.
    archive: Option<(u32, File, u64)>,
    /// The sample read last, where members of samples are asked for: the next item may be of the same.
    sample: Option<Sample>,
    /// The item's own data, where they came with its sample.
    own: Option<HeldData>,
    /// Bounds what the buffers of all threads have.
    large: &'h Heavy,
    /// This thread's part of it.
    load: Option<Load<'h>>,
    /// The tables that items lie in.
    tables: &'h Tables,
    /// The compressed tars that items lie in.
    streams: &'h Streams,
    /// This thread's turn at the one of its item.
    turn: Option<Turn<'h>>,
    /// The row being read; it lies in a page that other threads read, too.
    row: Option<Data<'h>>,
}

/// An item's bytes.
pub(super) enum Found<'r> {
    /// In memory already.
    Here(&'r [u8]),
    /// All of a file.
    File(File, u64),
    /// A part of a tar file.
    Member(&'r File, u64, u64),
    /// A part of a compressed one.
    Packed(Member<'r>),
}

impl<'h> Reader<'h> {
    pub(super) fn new(large: &'h Heavy, tables: &'h Tables, streams: &'h Streams) -> Self {
        let (buffer, archive, load, turn, row) = (Vec::new(), None, None, None, None);
        Self { buffer, len: 0, archive, sample: None, own: None, large, load, tables, streams, turn, row }
    }

    /// Takes the item's turn at its tar, which it got when it was taken from the queue.
    pub(super) fn take_turn(&mut self, turn: Option<Turn<'h>>) {
        self.turn = turn;
    }

    /// The members of an item's sample that are asked for, in at most so many bytes of a slot; or why the item cannot have them.
    pub(super) fn members(
        &mut self,
        place: &Place,
        archives: &[PathBuf],
        asked: &Members,
        most: u64,
    ) -> Result<Beside, String> {
        let Place::Member { archive, offset, bytes, before } = *place else { return Ok(Beside::default()) };
        let start = before.and_then(|before| offset.checked_sub(before)).ok_or(UNKNOWN_SAMPLE)?;
        let path = archives.get(archive as usize).ok_or("its archive is not known")?;
        if let Some(turn) = self.turn.take().or_else(|| self.streams.turn(archive)) {
            is_readable(bytes)?;
            let item = InSample { start, offset, bytes, asked, most: most.min(MOST_ENCODED) };
            let (sample, own, load) = turn.sample(path, &item, self.large)?;
            (self.own, self.load) = (Some(own), load);
            return sample.beside(offset, asked, item.most);
        }
        let (file, length) = in_archive(&mut self.archive, archive, path)?;
        if self.sample.as_ref().is_none_or(|kept| (kept.archive, kept.start) != (archive, start)) {
            let begun = Sample::at(archive, start);
            self.sample = Some(walk(&mut InPlace::new(file, length), offset, asked, begun)?.0);
        }
        self.sample
            .as_ref()
            .map_or_else(|| Ok(Beside::default()), |sample| sample.beside(offset, asked, most))
    }

    /// Writes the members that go with an item to their place.
    pub(super) fn write_members(&self, beside: &Beside, to: &mut [u8]) -> Result<(), String> {
        beside.write(to, self.archive.as_ref().map(|(_, file, _)| file))
    }

    /// Opens an item's file.
    pub(super) fn find(&mut self, place: &Place, archives: &[PathBuf]) -> Result<Found<'_>, String> {
        if let Some(own) = &self.own {
            return Ok(Found::Here(own));
        }
        match place {
            Place::File(path) => open(path).map(|(file, size)| Found::File(file, size)),
            Place::Member { archive, offset, bytes, .. } => {
                if let Some(turn) = self.turn.take().or_else(|| self.streams.turn(*archive)) {
                    let path = archives.get(*archive as usize).ok_or("its archive is not known")?;
                    return turn.wait(path, *offset, *bytes).map(Found::Packed);
                }
                let path = archives.get(*archive as usize).ok_or("its archive is not known")?;
                let (file, _) = in_archive(&mut self.archive, *archive, path)?;
                Ok(Found::Member(file, *offset, *bytes))
            }
            Place::Row { table, row } => {
                self.row = None;
                match self.tables.fetch(*table, *row)? {
                    Cell::Data(data) => Ok(Found::Here(self.row.insert(data).bytes())),
                    Cell::Path(path) => open(&path)
                        .map(|(file, size)| Found::File(file, size))
                        .map_err(|why| format!("{}, which its row names, {why}", path.display())),
                }
            }
            Place::Value(_) | Place::Bad(_) => Err("is not a file".to_owned()),
        }
    }

    /// What was read last, to be decoded.
    pub(super) fn encoded(&self) -> &[u8] {
        if let Some(own) = &self.own {
            return own;
        }
        self.row.as_ref().map_or(&self.buffer[..self.len], Data::bytes)
    }

    /// The row that was read last.
    pub(super) const fn row(&self) -> Option<&Data<'h>> {
        self.row.as_ref()
    }

    /// Reads an item to be decoded. A large one waits until there is memory for it.
    pub(super) fn read(&mut self, place: &Place, archives: &[PathBuf]) -> Result<&[u8], String> {
        if self.own.is_some() {
            return Ok(self.encoded());
        }
        let turn = self.turn.take();
        self.relax();
        self.turn = turn;
        let (mut buffer, large) = (std::mem::take(&mut self.buffer), self.large);
        let read = self.find(place, archives).and_then(|mut found| {
            let size = found.size();
            if let Found::Here(_) = found {
                return Ok((0, None));
            }
            is_readable(size)?;
            let len = usize::try_from(size).map_err(|error| error.to_string())?;
            let load = large.take(size);
            if buffer.len() < len {
                // First gives back what there is: both at once were never asked for.
                drop(std::mem::take(&mut buffer));
                buffer = vec![0; len.max(STEP)];
            }
            found.read_into(&mut buffer[..len])?;
            Ok((len, load))
        });
        self.buffer = buffer;
        let (len, load) = read?;
        (self.load, self.len) = (load, len);
        Ok(self.encoded())
    }

    /// Gives back the row, and what only a giant needed: first the buffer, then its part of the budget.
    pub(super) fn relax(&mut self) {
        (self.row, self.len, self.turn, self.own) = (None, 0, None, None);
        if self.buffer.len() > KEPT {
            self.buffer = Vec::new();
        }
        self.load = None;
    }
}

impl Found<'_> {
    /// How many bytes it has.
    pub(super) const fn size(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::Packed(member) => member.size(),
            Self::File(_, size) | Self::Member(_, _, size) => *size,
        }
    }

    /// Reads all of it into a place of that size.
    pub(super) fn read_into(&mut self, to: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Here(bytes) => {
                to.copy_from_slice(bytes);
                Ok(())
            }
            Self::File(file, size) => {
                fill(file, to, 0)?;
                // One byte more tells that somebody is still writing to it.
                match file.read_at(&mut [0], *size) {
                    Ok(0) => Ok(()),
                    Ok(_) => Err(CHANGED.to_owned()),
                    Err(error) => Err(reason(&error)),
                }
            }
            Self::Member(file, offset, _) => fill(file, to, *offset),
            Self::Packed(member) => member.read_into(to),
        }
    }
}

/// Why members cannot be found with a list that does not say where samples begin.
const UNKNOWN_SAMPLE: &str = "was listed by an older gpulane, which did not note where its sample begins, so that its members cannot be found; \
                              start a new map into another --out";

/// Whether so much is read to be decoded.
fn is_readable(size: u64) -> Result<(), String> {
    if size > MOST_ENCODED {
        return Err(format!("has {}; at most {} are read", Bytes(size), Bytes(MOST_ENCODED)));
    }
    Ok(())
}

/// A tar file and its length, opened unless it is the one that was read from last.
fn in_archive<'a>(
    last: &'a mut Option<(u32, File, u64)>,
    archive: u32,
    path: &Path,
) -> Result<(&'a File, u64), String> {
    if last.as_ref().is_none_or(|(number, ..)| *number != archive) {
        let (file, length) = open(path)?;
        *last = Some((archive, file, length));
    }
    last.as_ref()
        .map(|(_, file, length)| (file, *length))
        .ok_or_else(|| "its archive is not known".to_owned())
}

pub(super) const CHANGED: &str = "changed while it was read";

pub(super) fn fill(file: &File, to: &mut [u8], offset: u64) -> Result<(), String> {
    match file.read_exact_at(to, offset) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CHANGED.to_owned()),
        Err(error) => Err(reason(&error)),
    }
}

/// Opens a regular file and tells its size. Does not wait for a writer if it is a pipe.
pub(super) fn open(path: &Path) -> Result<(File, u64), String> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut options = OpenOptions::new();
    // All bits of it are those of open(2).
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let file = options.open(path).map_err(|error| reason(&error))?;
    let found = file.metadata().map_err(|error| reason(&error))?;
    if found.is_dir() {
        return Err("is a directory".to_owned());
    }
    if !found.is_file() {
        return Err("is not a regular file".to_owned());
    }
    Ok((file, found.len()))
}

/// Why a file could not be read, in short words.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text);
            format!("cannot be read: {text}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_tables() -> Tables {
        Tables::new(Vec::new(), PathBuf::new(), 0)
    }

    #[test]
    fn reasons_are_short_and_clear() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let long = dir.path().join("x".repeat(300));
        for (path, right) in [
            (dir.path().join("nothing"), "no such file"),
            (dir.path().to_owned(), "is a directory"),
            (fifo, "is not a regular file"),
            (long, "cannot be read: File name too long"),
        ] {
            let (large, tables, streams) = (Heavy::new(MOST_ENCODED), no_tables(), Streams::new(&[]));
            let error =
                Reader::new(&large, &tables, &streams).read(&Place::File(path), &[]).map(<[u8]>::to_vec);
            assert_eq!(error, Err(right.to_owned()));
        }
    }

    #[test]
    fn a_file_that_grew_or_shrank_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "12345").unwrap();
        let file = || File::open(&path).unwrap();
        assert_eq!(Found::File(file(), 5).read_into(&mut [0; 5]), Ok(()));
        assert_eq!(Found::File(file(), 4).read_into(&mut [0; 4]), Err(CHANGED.to_owned()));
        assert_eq!(Found::File(file(), 6).read_into(&mut [0; 6]), Err(CHANGED.to_owned()));
        assert_eq!(Found::Member(&file(), 3, 3).read_into(&mut [0; 3]), Err(CHANGED.to_owned()));
    }

    #[test]
    fn members_are_read_where_they_lie_and_a_short_item_after_a_long_one_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let archives = [dir.path().join("a.tar"), dir.path().join("b.tar")];
        std::fs::write(&archives[0], "aaaaabbb").unwrap();
        std::fs::write(&archives[1], "--xy").unwrap();
        let (large, tables, streams) = (Heavy::new(MOST_ENCODED), no_tables(), Streams::new(&[]));
        let mut reader = Reader::new(&large, &tables, &streams);
        for (archive, offset, bytes, right) in [(0, 0, 5, "aaaaa"), (0, 5, 3, "bbb"), (1, 2, 2, "xy")] {
            let place = Place::Member { archive, offset, bytes, before: None };
            assert_eq!(reader.read(&place, &archives), Ok(right.as_bytes()));
        }
    }
}
