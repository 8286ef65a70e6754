//! The files a directory or a glob means, each once, in bytewise order within each directory. Keeps one
//! directory's names per level in memory, never all.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

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

    /// Calls `each` with the name of every file that matches, as it would be written; it may end the walk by
    /// an error.
    pub(crate) fn walk(
        &self,
        base: &Path,
        each: &mut dyn FnMut(&[u8]) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let mut name = self.root.clone().into_bytes();
        let Some(entries) = list(base, &name, true)? else { return Ok(()) };
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
                    each(&name)?;
                }
            } else if states & !end != 0
                && let Some(entries) = list(base, &name, false)?
                && !(self.is_all_below() && is_run(&entries))
            {
                levels.push(Level { entries, states, name: name.len() });
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

/// A directory's entries, the bytewise first one last. `None`: there is no such directory.
fn list(base: &Path, name: &[u8], may_lack: bool) -> Result<Option<Vec<Entry>>, Stop> {
    let path = base.join(OsString::from_vec(name.to_vec()));
    let entries = match fs::read_dir(&path) {
        Err(error)
            if may_lack
                && matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
        {
            return Ok(None);
        }
        other => other.map_err(Stop::io("list", &path))?,
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Stop::io("list", &path))?;
        let kind = entry.file_type().map_err(Stop::io("look at", &entry.path()))?;
        let kind = if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File
        } else if kind.is_symlink() {
            match fs::metadata(entry.path()) {
                Ok(target) if target.is_dir() => Kind::LinkedDirectory,
                Ok(target) if !target.is_file() => continue,
                // A link to nowhere as well: the item fails and says why.
                _ => Kind::File,
            }
        } else {
            continue;
        };
        listed.push(Entry { name: entry.file_name(), kind });
    }
    listed.sort_unstable_by(|one, other| other.name.cmp(&one.name));
    Ok(Some(listed))
}
