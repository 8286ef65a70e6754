//! What can be wrong with a run directory or its journal. The cause is the message; the way out is `hint()`.

use std::io;
use std::path::{Path, PathBuf};

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// The system refused.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `read`, …
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A new run needs a directory of its own.
    #[error("{} is not empty", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// It holds a run, so resuming is an option.
        is_run: bool,
    },
    /// Not a directory with a plan in it.
    #[error("{} is not a run directory: it has no plan.json", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// It may not be looked into.
    #[error("{}", closed(path, *owner))]
    NotReadable {
        /// The directory.
        path: PathBuf,
        /// Whose it is, if that is somebody else.
        owner: Option<u32>,
    },
    /// The frozen plan cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    BadPlan {
        /// `plan.json`.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The frozen plan has a shape this gpulane does not know.
    #[error("{} was written by a newer gpulane (format {format})", path.display())]
    NewerPlan {
        /// `plan.json`.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Another gpulane works on this run.
    #[error("{} is in use by another gpulane{}", path.display(), in_brackets(*pid))]
    Locked {
        /// The run directory.
        path: PathBuf,
        /// The other process, where it could say so.
        pid: Option<u32>,
    },
    /// No run has such a name.
    #[error("no run is called `{text}`")]
    NoSuchRun {
        /// What was asked for.
        text: String,
        /// Where it was looked for.
        runs: PathBuf,
        /// Names that come near or, failing that, the newest ones.
        candidates: Vec<String>,
    },
    /// Several runs begin like this.
    #[error("`{text}` could be any of {} runs: {}", candidates.len(), list(candidates))]
    Ambiguous {
        /// What was asked for.
        text: String,
        /// The names that begin with it, newest first.
        candidates: Vec<String>,
    },
}

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refused.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A record in the middle is not what was written.
    #[error("{} is damaged at line {line} (byte {offset}): {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// Where the line begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal has a shape this gpulane does not know.
    #[error("{} was written by a newer gpulane (format {format})", path.display())]
    NewerFormat {
        /// The journal.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Another file stands in the place of the one that was being followed.
    #[error("{} was replaced while it was being read", path.display())]
    Replaced {
        /// The journal.
        path: PathBuf,
    },
}

impl RunDirError {
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }

    /// What to do about it, for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotEmpty { path, is_run: true } => Some(format!(
                "continue that run with `gpulane resume {}`, or choose another --run-dir",
                path.display()
            )),
            Self::NotEmpty { .. } => Some("choose another --run-dir, or empty this one".to_owned()),
            Self::BadPlan { .. } => {
                Some("plan.json is frozen when a run starts; undo the edit, or start a new run".to_owned())
            }
            Self::NewerPlan { .. } => Some("use that newer gpulane for this run".to_owned()),
            Self::Locked { path, .. } => Some(format!(
                "look at it with `gpulane status {0}`, end it with `gpulane cancel {0}`",
                path.display()
            )),
            Self::NoSuchRun { runs, candidates, .. } if candidates.is_empty() => {
                Some(format!("there are no runs under {}", runs.display()))
            }
            Self::NoSuchRun { candidates, .. } => Some(format!("there are: {}", list(candidates))),
            Self::Ambiguous { .. } => Some("give more of the name".to_owned()),
            Self::Io { source, .. } => io_hint(source),
            Self::NotReadable { owner: Some(_), .. } => {
                Some("ask whoever it belongs to, or look at it as that user".to_owned())
            }
            Self::NotReadable { owner: None, path } => {
                Some(format!("give yourself the right: `chmod u+rwx {}`", path.display()))
            }
            Self::NotARun { .. } => None,
        }
    }
}

impl JournalError {
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }

    /// What to do about it, for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Damaged { path, .. } => {
                let run = path.parent().unwrap_or(path);
                Some(format!(
                    "keep what can still be read with `gpulane resume {} --salvage`; the damaged journal is \
                     kept aside and jobs whose end is lost run again",
                    run.display()
                ))
            }
            Self::NewerFormat { .. } => Some("use that newer gpulane for this run".to_owned()),
            Self::Replaced { .. } => Some("start again to see the run as it is now".to_owned()),
            Self::Io { source, .. } => io_hint(source),
        }
    }
}

/// The way out of the few system errors that have one.
pub(crate) fn io_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull => "free some space on that disk",
        io::ErrorKind::QuotaExceeded => "free some of your quota on that disk",
        io::ErrorKind::FileTooLarge => "raise the file size limit (`ulimit -f`)",
        io::ErrorKind::PermissionDenied => "check who owns it and its permissions",
        io::ErrorKind::ReadOnlyFilesystem => "that file system is mounted read-only",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn closed(path: &Path, owner: Option<u32>) -> String {
    match owner {
        Some(owner) => {
            format!("{} belongs to another user (uid {owner}) and cannot be read", path.display())
        }
        None => format!("{} cannot be read: its permissions do not allow it", path.display()),
    }
}

fn in_brackets(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// A few names, and how many more there are.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
