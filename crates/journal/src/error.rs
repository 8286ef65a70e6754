//! What can be wrong with a run directory or its journal. The cause is the message; the way out is `hint()`.

use std::io;
use std::path::{Path, PathBuf};

use gpulane_files::user_name;
use gpulane_model::shell_word;

/// How a person says that others may write there.
const TRUST: &str = "if you trust everybody who may write there, name it with --trust-dir DIR or GPULANE_TRUST_DIR (see SECURITY.md)";

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
    /// Belongs to another user, who could change what is executed.
    #[error("{} belongs to another user ({}), who could change what this run executes", path.display(), user_name(*owner))]
    NotOurs {
        /// The directory, or the file in it.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// A directory on the way belongs to another user.
    #[error(
        "{} belongs to another user ({}), who could put another directory in the place of {}",
        path.display(), user_name(*owner), target.display()
    )]
    BelowAnothers {
        /// The directory on the way.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The run directory.
        target: PathBuf,
    },
    /// Every user may write to a directory on the way, or to the run directory.
    #[error("every user may write to {}, and so change what a run in {} executes", path.display(), target.display())]
    OpenToAll {
        /// What is open.
        path: PathBuf,
        /// It belongs to this user.
        ours: bool,
        /// The run directory.
        target: PathBuf,
    },
    /// A directory on the way belongs to a user outside this user namespace, and others may write to it.
    #[error(
        "{} belongs to a user whom this user namespace cannot name, who could put another directory in the place of {}",
        path.display(), target.display()
    )]
    UnknownOwner {
        /// The directory on the way, or the run directory.
        path: PathBuf,
        /// The run directory.
        target: PathBuf,
    },
    /// Others may write to what must be this user's alone.
    #[error("{who} may write to {}, and so change what is executed from {}", path.display(), target.display())]
    OpenToGroup {
        /// What is open.
        path: PathBuf,
        /// Which group or user.
        who: String,
        /// What must be closed.
        target: PathBuf,
    },
    /// A link on the way was made by another user.
    #[error(
        "{}, on the way to {}, is a link that another user ({}) made and could change",
        path.display(), target.display(), user_name(*owner)
    )]
    AnothersLink {
        /// The link.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// The run directory.
        target: PathBuf,
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
                shell(path)
            )),
            Self::NotEmpty { .. } => Some("choose another --run-dir, or empty this one".to_owned()),
            Self::BadPlan { .. } => {
                Some("plan.json is frozen when a run starts; undo the edit, or start a new run".to_owned())
            }
            Self::NewerPlan { .. } => Some("use that newer gpulane for this run".to_owned()),
            Self::Locked { path, .. } => Some(format!(
                "look at it with `gpulane status {0}`, end it with `gpulane cancel {0}`",
                shell(path)
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
                Some(format!("give yourself the right: `chmod u+rwx {}`", shell(path)))
            }
            Self::NotOurs { .. } => Some(format!(
                "`gpulane status` and `gpulane logs` show another user's run; to run there yourself, {TRUST}"
            )),
            Self::OpenToAll { path, ours: true, .. } => {
                Some(format!("close it with `chmod o-w {}`; or, {TRUST}", shell(path)))
            }
            Self::OpenToGroup { path, .. } => Some(format!(
                "close it with `chmod g-w {}`, or let XDG_CACHE_HOME name a directory that is yours alone",
                shell(path)
            )),
            Self::BelowAnothers { .. }
            | Self::OpenToAll { .. }
            | Self::UnknownOwner { .. }
            | Self::AnothersLink { .. } => {
                Some(format!("choose a directory below one of your own, such as ~/runs; or, {TRUST}"))
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
                    shell(run)
                ))
            }
            Self::NewerFormat { .. } => Some("use that newer gpulane for this run".to_owned()),
            Self::Replaced { .. } => Some("start again to see the run as it is now".to_owned()),
            Self::Io { source, .. } => io_hint(source),
        }
    }
}

/// Whether a disk does not take what is written: full, over quota, read-only, failing, or past the limit of a file's size. Where that
/// keeps a run from its start, nothing was started and nothing is wrong with gpulane.
pub fn is_refused_by_disk(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let refused = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS, Errno::FBIG];
    Errno::from_io_error(error).is_some_and(|code| refused.contains(&code))
}

/// The way out of the few system errors that have one.
pub fn io_hint(error: &io::Error) -> Option<String> {
    let hint = match error.kind() {
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::IO) => {
            "check that disk (`dmesg` tells what it said), then try again"
        }
        // Of files it is not to be had; of a new process or thread it says that there may be no more.
        io::ErrorKind::WouldBlock => {
            "you may have no more processes and threads: raise that limit (`ulimit -u`), or end some"
        }
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

/// The path as a word of a command.
fn shell(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
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
