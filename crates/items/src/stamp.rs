//! When a file was last changed, cheaply: its length and time.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A file as it stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// As given, escaped.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Nanoseconds of the Unix epoch.
    pub(crate) modified: i64,
}

impl Stamp {
    pub(crate) fn of(name: &[u8], path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        let modified = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Ok(Self { path: crate::escape::escape(name), bytes: metadata.len(), modified })
    }
}
