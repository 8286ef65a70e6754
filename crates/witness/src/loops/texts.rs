//! The sources that a look reads: each once, and none when the time for all of them is over or there is enough of them already.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Found;
use crate::native::Read;

/// Longest part of a file that is read.
const MOST: u64 = 1 << 20;
/// What is kept of all files of a look, in bytes; beyond, no other is read.
const MOST_KEPT: usize = 16 << 20;

/// What has been read.
pub(super) struct Texts<'a> {
    /// Reads a file of this process.
    read: &'a dyn Fn(u32, &Path) -> Option<String>,
    /// Whether the time is over.
    over: &'a dyn Fn() -> bool,
    /// `None`: it cannot be read.
    by_path: HashMap<PathBuf, Option<Rc<str>>>,
    /// By path and line, the scripts of shells by path alone: many may wait at one.
    found: HashMap<(PathBuf, Option<u32>), Option<Found>>,
    kept: usize,
}

impl<'a> Texts<'a> {
    pub(super) fn new(read: &'a dyn Fn(u32, &Path) -> Option<String>, over: &'a dyn Fn() -> bool) -> Self {
        Self { read, over, by_path: HashMap::new(), found: HashMap::new(), kept: 0 }
    }

    /// What `find` finds in a file that a process runs, for a line of it or for all. `folder`: the process's own in `/proc`.
    pub(super) fn find(
        &mut self,
        file: &str,
        line: Option<u32>,
        (pid, folder): (u32, &Path),
        find: impl FnOnce(&str) -> Option<Found>,
    ) -> Option<Found> {
        let place = (absolute(file, folder)?, line);
        if let Some(known) = self.found.get(&place) {
            return known.clone();
        }
        let found = find(&self.at(&place.0, pid)?);
        self.found.insert(place, found.clone());
        found
    }

    fn at(&mut self, path: &Path, pid: u32) -> Option<Rc<str>> {
        if (self.over)() {
            return None;
        }
        if let Some(known) = self.by_path.get(path) {
            return known.clone();
        }
        if self.kept >= MOST_KEPT {
            return None;
        }
        let text: Option<Rc<str>> = (self.read)(pid, path).map(Rc::from);
        self.kept += text.as_ref().map_or(0, |text| text.len());
        self.by_path.insert(path.to_owned(), text.clone());
        // What took too long to be read is not worth more time.
        text.filter(|_| !(self.over)())
    }
}

fn absolute(file: &str, folder: &Path) -> Option<PathBuf> {
    let path = PathBuf::from(file);
    if path.is_absolute() {
        Some(path)
    } else {
        Some(std::fs::read_link(folder.join("cwd")).ok()?.join(path))
    }
}

/// The text of a file of a process, if it is a regular one; no more than a part of it. Its disk may not answer: then this does not return.
pub(super) fn read(pid: u32, path: &Path) -> Option<String> {
    let _under_way = Read::begin(pid, &path.parent()?.to_string_lossy())?;
    let mut bytes = Vec::new();
    gpulane_files::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
