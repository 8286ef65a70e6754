//! The few file operations whose order decides what survives a crash.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};

/// The writer's view of the journal file. A trait so that tests can be a disk that fails.
pub(crate) trait Disk: Send {
    /// Writes some of `bytes` at `offset`.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Returns when everything written is on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Sets space aside for so many bytes from `offset` on, which are not part of the file yet.
    fn reserve(&mut self, offset: u64, bytes: u64) -> io::Result<()>;
    /// Whether the file still has a name. Without one, what is written to it is lost.
    fn has_name(&mut self) -> io::Result<bool>;
}

impl Disk for File {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn reserve(&mut self, offset: u64, bytes: u64) -> io::Result<()> {
        Ok(fallocate(&*self, FallocateFlags::KEEP_SIZE, offset, bytes)?)
    }

    fn has_name(&mut self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 0)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Writes a new file under `temporary` in whole and makes it durable; it has its place only after a rename.
pub(crate) fn write_whole<T>(
    temporary: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
) -> io::Result<T> {
    // A plan may hold tokens in its environment: for its owner only, whatever the directory allows.
    let file = gpulane_files::create(temporary)?;
    let mut writer = BufWriter::with_capacity(1 << 16, file);
    let written = fill(&mut writer).and_then(|value| {
        writer.flush()?;
        writer.get_ref().sync_all()?;
        Ok(value)
    });
    if written.is_err() {
        // Half of a file is of no use to anybody.
        let _ = std::fs::remove_file(temporary);
    }
    written
}
