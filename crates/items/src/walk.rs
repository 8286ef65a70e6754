//! The files a directory or a glob means, each once, in bytewise order within each directory. Keeps one
//! directory's names per level in memory, never all. A directory on the way that cannot be listed is told of with its
//! reason, and the walk goes on beside it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::problem::Stop;

/// One bit each, and one more for the end.
const MOST_STEPS: usize = 62;

/// A glob, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    /// The directories before the first wildcard, as written; empty: the base.
    root: String,
    /// What the names from there on have to look like.
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    /// `**`: any number of directories; at the end, any file below.
    AnyDepth,
    /// One name.
    Name(glob::Pattern),
}

/// Positions in a glob's steps at which a path can stand, one bit each.
type States = u64;

/// One directory on the way: what is left of it.
struct Level {
    /// Its entries, the next one last.
    entries: Vec<Entry>,
    /// Where in the glob its entries stand.
    states: States,
    /// Length of its name.
    name: usize,
}

struct Entry {
    name: OsString,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    /// A link to a directory: followed where a pattern names it, never by `**`, which could go round in
    /// circles.
    LinkedDirectory,
}

/// What a walk comes upon.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Walked<'w> {
    /// A file that is meant, by its name as it would be written.
    File(&'w [u8]),
    /// A directory that cannot be listed, or not to its end, and why. What is below it is not known.
    Unlisted { name: &'w [u8], reason: &'w str },
}

/// A directory's entries, the bytewise first one last, and what kept it from being listed to its end.
#[derive(Default)]
struct Listed {
    entries: Vec<Entry>,
    broken: Option<String>,
}

/// Whether a text has wildcards.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

impl Glob {
    /// A text with wildcards and without braces as a glob, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let wild = parts.iter().position(|part| is_glob(part)).unwrap_or(0);
        let root = if wild == 1 && parts[0].is_empty() { "/".to_owned() } else { parts[..wild].join("/") };
        let mut steps = Vec::new();
        for part in parts[wild..].iter().filter(|part| !part.is_empty()) {
            steps.push(match *part {
                // Twice in a row means no more than once.
                "**" if matches!(steps.last(), Some(Step::AnyDepth)) => continue,
                "**" => Step::AnyDepth,
                part => Step::Name(glob::Pattern::new(part).map_err(|error| error.to_string())?),
            });
        }
        if steps.len() > MOST_STEPS {
            return Err(format!("it has more than {MOST_STEPS} parts"));
        }
        Ok(Self { root, steps })
    }

    /// Everything below a directory.
    pub(crate) fn below(directory: &str) -> Self {
        let root = if directory.len() > 1 { directory.trim_end_matches('/') } else { directory };
        Self { root: root.to_owned(), steps: vec![Step::AnyDepth] }
    }

    /// Calls `each` with every file that matches and every directory that cannot be listed; it may end the walk by an error.
    /// Only the directory the walk begins at stops it by itself: a person has named that one.
    pub(crate) fn walk(
        &self,
        base: &Path,
        each: &mut dyn FnMut(Walked<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut name = self.root.clone().into_bytes();
        let Some(Listed { entries, broken }) = list_root(base, &name)? else { return Ok(()) };
        if let Some(reason) = &broken {
            each(Walked::Unlisted { name: &name, reason })?;
        }
        let mut levels = vec![Level { entries, states: self.reach(1), name: name.len() }];
        while let Some(level) = levels.last_mut() {
            name.truncate(level.name);
            let Some(entry) = level.entries.pop() else {
                levels.pop();
                continue;
            };
            let states = self.step(level.states, &entry);
            if states == 0 {
                continue;
            }
            if !name.is_empty() && !name.ends_with(b"/") {
                name.push(b'/');
            }
            name.extend_from_slice(entry.name.as_bytes());
            let end = 1 << self.steps.len();
            if entry.kind == Kind::File {
                if states & end != 0 {
                    each(Walked::File(&name))?;
                }
            } else if states & !end != 0 {
                let Listed { entries, broken } = list(&at(base, &name));
                if let Some(reason) = &broken {
                    each(Walked::Unlisted { name: &name, reason })?;
                }
                if !(self.is_all_below() && is_run(&entries)) {
                    levels.push(Level { entries, states, name: name.len() });
                }
            }
        }
        Ok(())
    }

    /// Whether it stands for a directory and all that is in it.
    fn is_all_below(&self) -> bool {
        matches!(self.steps.as_slice(), [Step::AnyDepth])
    }

    /// These positions and those behind a `**`, which may stand for nothing.
    fn reach(&self, mut states: States) -> States {
        for (at, step) in self.steps.iter().enumerate() {
            // At the end it stands for at least the file's own name.
            if matches!(step, Step::AnyDepth) && states >> at & 1 == 1 && at + 1 < self.steps.len() {
                states |= 1 << (at + 1);
            }
        }
        states
    }

    /// Where the glob stands after this entry; nowhere (0) if it does not match.
    fn step(&self, states: States, entry: &Entry) -> States {
        let name = entry.name.to_string_lossy();
        let hidden = name.starts_with('.');
        let mut next = 0;
        for (at, step) in self.steps.iter().enumerate().filter(|(at, _)| states >> at & 1 == 1) {
            match step {
                Step::AnyDepth if hidden || entry.kind == Kind::LinkedDirectory => {}
                Step::AnyDepth if entry.kind == Kind::Directory => next |= 1 << at,
                Step::AnyDepth if at + 1 == self.steps.len() => next |= 1 << (at + 1),
                Step::Name(pattern) if hidden && !pattern.as_str().starts_with('.') => {}
                Step::Name(pattern) if pattern.matches(&name) => next |= 1 << (at + 1),
                Step::AnyDepth | Step::Name(_) => {}
            }
        }
        self.reach(next)
    }
}

/// Whether this is a run's directory: results of a map, this one's perhaps, are not what a directory is given for.
fn is_run(entries: &[Entry]) -> bool {
    let has = |wanted: &str| entries.iter().any(|entry| entry.name == wanted);
    has("plan.json") && has("journal.jsonl")
}

fn at(base: &Path, name: &[u8]) -> PathBuf {
    base.join(OsString::from_vec(name.to_vec()))
}

/// The directory a walk begins at. `None`: there is no such directory.
fn list_root(base: &Path, name: &[u8]) -> Result<Option<Listed>, Stop> {
    let path = at(base, name);
    match fs::read_dir(&path) {
        Ok(entries) => Ok(Some(read(entries))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(Stop::io("list", &path)(error)),
    }
}

/// What is in a directory on the way.
fn list(path: &Path) -> Listed {
    match fs::read_dir(path) {
        Ok(entries) => read(entries),
        Err(error) => Listed { broken: Some(in_words(&error)), ..Listed::default() },
    }
}

/// Reads a directory to its end, or to where that fails: what was read by then counts.
fn read(entries: fs::ReadDir) -> Listed {
    let mut listed = Listed::default();
    for entry in entries {
        match entry {
            Ok(entry) => {
                listed.entries.extend(kind_of(&entry).map(|kind| Entry { name: entry.file_name(), kind }));
            }
            Err(error) => {
                listed.broken = Some(format!("{}, after {} names", in_words(&error), listed.entries.len()));
                break;
            }
        }
    }
    listed.entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
    listed
}

/// Why a directory cannot be listed, and what that means.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            format!("was there when the folder above it was listed, and is not any more ({error})")
        }
        _ => format!("cannot be listed: {error}; what is below it is not in this map"),
    }
}

/// What an entry is; `None`: neither file nor directory.
fn kind_of(entry: &fs::DirEntry) -> Option<Kind> {
    // What cannot be looked at any more fails as an item, and says why.
    let Ok(kind) = entry.file_type() else { return Some(Kind::File) };
    if kind.is_dir() {
        Some(Kind::Directory)
    } else if kind.is_file() {
        Some(Kind::File)
    } else if kind.is_symlink() {
        match fs::metadata(entry.path()) {
            Ok(target) if target.is_dir() => Some(Kind::LinkedDirectory),
            Ok(target) if !target.is_file() => None,
            // A link to nowhere or to itself as well: the item fails and says why.
            _ => Some(Kind::File),
        }
    } else {
        None
    }
}
