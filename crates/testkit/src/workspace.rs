//! A temporary directory with plans in it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

    /// A program in it, for a shell. Written by another process: while we hold it open for writing, even in a fork of another test, it
    /// cannot be executed.
    pub fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path().join(name);
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "mkdir -p \"${0%/*}\" && cat > \"$0\" && chmod 755 \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut stdin = shell.stdin.take().expect("it was asked for");
        stdin.write_all(format!("#!/bin/sh\n{script}").as_bytes()).expect("it reads");
        drop(stdin);
        assert!(shell.wait().expect("it was started").success(), "a program can be written");
        path
    }
}
