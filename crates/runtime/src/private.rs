//! Small files of a run that only its owner reads, whatever the umask.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file, to be written anew.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes the file anew.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    create(path)?.write_all(text.as_ref())
}
