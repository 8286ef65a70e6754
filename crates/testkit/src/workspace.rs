//! A temporary directory with plans in it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Removed when dropped.
#[derive(Debug)]
pub struct Workspace {
    dir: TempDir,
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}

impl Workspace {
    /// A new, empty one.
    pub fn new() -> Self {
        Self {
            dir: tempfile::Builder::new().prefix("gpulane-test-").tempdir().expect("a temporary directory"),
        }
    }

    /// Its path, without links in it.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("the temporary directory is there")
    }

    /// A file in it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("parents can be made");
        std::fs::write(&path, text).expect("a file can be written");
        path
    }
}
