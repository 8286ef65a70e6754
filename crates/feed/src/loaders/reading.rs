//! Files and members of tar files into memory, and what to call it when that fails.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gpulane_items::Place;
use gpulane_model::Bytes;
use rustix::fs::OFlags;

use super::heavy::{Heavy, Load};

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
    /// The tar file read from last. Items come in order, so the next one lies mostly in the same.
    archive: Option<(u32, File)>,
    /// Bounds what the buffers of all threads have.
    large: &'h Heavy,
    /// This thread's part of it.
    load: Option<Load<'h>>,
}

/// An item's bytes in a file.
pub(super) enum Found<'r> {
    /// All of a file.
    File(File, u64),
    /// A part of a tar file.
    Member(&'r File, u64, u64),
}

impl<'h> Reader<'h> {
    pub(super) const fn new(large: &'h Heavy) -> Self {
        Self { buffer: Vec::new(), archive: None, large, load: None }
    }

    /// Opens an item's file.
    pub(super) fn find(&mut self, place: &Place, archives: &[PathBuf]) -> Result<Found<'_>, String> {
        match place {
            Place::File(path) => open(path).map(|(file, size)| Found::File(file, size)),
            Place::Member { archive, offset, bytes } => {
                if self.archive.as_ref().is_none_or(|(number, _)| number != archive) {
                    let path = archives.get(*archive as usize).ok_or("its archive is not known")?;
                    self.archive = Some((*archive, open(path)?.0));
                }
                let (_, file) = self.archive.as_ref().ok_or("its archive is not known")?;
                Ok(Found::Member(file, *offset, *bytes))
            }
            Place::Value(_) | Place::Bad(_) => Err("is not a file".to_owned()),
        }
    }

    /// Reads an item to be decoded. A large one waits until there is memory for it.
    pub(super) fn read(&mut self, place: &Place, archives: &[PathBuf]) -> Result<&[u8], String> {
        self.relax();
        let (mut buffer, large) = (std::mem::take(&mut self.buffer), self.large);
        let read = self.find(place, archives).and_then(|found| {
            let size = found.size();
            if size > MOST_ENCODED {
                return Err(format!("has {}; at most {} are read", Bytes(size), Bytes(MOST_ENCODED)));
            }
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
        self.load = load;
        Ok(&self.buffer[..len])
    }

    /// Gives back what only a giant needed: first the buffer, then its part of the budget.
    pub(super) fn relax(&mut self) {
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
            Self::File(_, size) | Self::Member(_, _, size) => *size,
        }
    }

    /// Reads all of it into a place of that size.
    pub(super) fn read_into(&self, to: &mut [u8]) -> Result<(), String> {
        match self {
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
        }
    }
}

const CHANGED: &str = "changed while it was read";

fn fill(file: &File, to: &mut [u8], offset: u64) -> Result<(), String> {
    match file.read_exact_at(to, offset) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CHANGED.to_owned()),
        Err(error) => Err(reason(&error)),
    }
}

/// Opens a regular file and tells its size. Does not wait for a writer if it is a pipe.
fn open(path: &Path) -> Result<(File, u64), String> {
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
fn reason(error: &io::Error) -> String {
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
            let large = Heavy::new(MOST_ENCODED);
            let error = Reader::new(&large).read(&Place::File(path), &[]).map(<[u8]>::to_vec);
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
        let large = Heavy::new(MOST_ENCODED);
        let mut reader = Reader::new(&large);
        for (archive, offset, bytes, right) in [(0, 0, 5, "aaaaa"), (0, 5, 3, "bbb"), (1, 2, 2, "xy")] {
            let place = Place::Member { archive, offset, bytes };
            assert_eq!(reader.read(&place, &archives), Ok(right.as_bytes()));
        }
    }
}
