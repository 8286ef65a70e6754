//! Databases of `SQLite` that a process has open, and who keeps one of them locked. Whoever finds one locked sleeps and tries again, by itself or in
//! a loop of the program, and nothing but the open files shows for what.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::descriptors::OpenFiles;
use crate::locks::FileLocks;

/// A database that is open and locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Database {
    /// Its file.
    pub path: String,
    /// Who has the lock for writing.
    pub locked_by: u32,
}

/// How the names of such files end.
const NAMES: [&str; 5] = [".db", ".db3", ".sqlite", ".sqlite3", ".s3db"];
/// How files are called that stand beside one while somebody writes to it. The last holds the locks of one with a write-ahead log.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The first locked one that this process has open.
pub(crate) fn locked(pid: u32, files: &OpenFiles, locks: impl Fn() -> FileLocks) -> Option<Database> {
    let mut open = files.files().filter_map(|(fd, link)| Some((fd, database(link)?))).peekable();
    open.peek()?;
    let locks = locks();
    open.find_map(|(fd, path)| {
        let locked_by = locks.writer(pid, fd)?;
        Some(Database { path: path.to_string_lossy().into_owned(), locked_by })
    })
}

/// The database that a file is or belongs to.
fn database(link: &Path) -> Option<PathBuf> {
    let name = link.to_str().filter(|name| name.starts_with('/'))?;
    let beside = BESIDE.iter().find_map(|end| name.strip_suffix(end));
    let is_one = beside.is_some() || NAMES.iter().any(|end| name.ends_with(end));
    is_one.then(|| PathBuf::from(beside.unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_known_by_their_names_and_by_what_stands_beside_them() {
        for (file, known) in [
            ("/d/trials.db", Some("/d/trials.db")),
            ("/d/study.sqlite3", Some("/d/study.sqlite3")),
            ("/d/anything-journal", Some("/d/anything")),
            ("/d/anything-shm", Some("/d/anything")),
            ("/d/data.csv", None),
            ("socket:[7]", None),
        ] {
            assert_eq!(database(Path::new(file)), known.map(PathBuf::from), "{file}");
        }
    }
}
