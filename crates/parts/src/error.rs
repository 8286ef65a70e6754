//! What can be wrong with a map's results. The cause is the message; the way out is `hint()`.

use std::io;
use std::path::{Path, PathBuf};

/// Why results cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The system refused.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `write`, …
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A line of the ledger is not what was written.
    #[error("{} is damaged at line {line}: {reason}", path.display())]
    Damaged {
        /// The ledger.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The ledger has a shape this gpulane does not know.
    #[error("{} was written by a newer gpulane (format {version})", path.display())]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// The results were begun in another format.
    #[error("the results in {} are {}, not {}", dir.display(), begun.extension(), asked.extension())]
    OtherFormat {
        /// Where they are.
        dir: PathBuf,
        /// What is there.
        begun: gpulane_model::Format,
        /// What was asked for.
        asked: gpulane_model::Format,
    },
    /// A committed file is not there, or not as it was written.
    #[error("{} {what}", path.display())]
    Lost {
        /// The part, or `failed.jsonl`.
        path: PathBuf,
        /// What became of it.
        what: String,
    },
    /// A part that no commit knows of.
    #[error("{} is a part that commits.jsonl does not know", path.display())]
    Stray {
        /// The part.
        path: PathBuf,
    },
    /// The caller settled an item a second time: a bug in gpulane.
    #[error("item {number} was settled already")]
    Twice {
        /// The item.
        number: u64,
    },
    /// The caller's items and rows do not go together: a bug in gpulane.
    #[error("{rows} rows came for {items} items")]
    Uneven {
        /// Rows of the block.
        rows: usize,
        /// Items they were said to be of.
        items: usize,
    },
    /// The rows cannot be put into a part.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The part.
        path: PathBuf,
        /// What the encoder says.
        reason: String,
    },
}

impl PartsError {
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }

    /// What to do about it, for a person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { source, .. } => io_hint(source).map(ToOwned::to_owned),
            Self::Damaged { .. } => Some(
                "restore commits.jsonl from a copy; or move the parts elsewhere and begin anew in an empty one"
                    .to_owned(),
            ),
            Self::Newer { .. } => Some("use that newer gpulane for this run".to_owned()),
            Self::OtherFormat { begun, .. } => {
                Some(format!("go on with --format {}, or choose another directory", begun.extension()))
            }
            Self::Lost { .. } => Some(
                "restore it from a copy, or resume with --accept-changes to have its items done again".to_owned(),
            ),
            Self::Stray { .. } => Some("move it elsewhere, or restore the right commits.jsonl".to_owned()),
            Self::Twice { .. } | Self::Uneven { .. } | Self::Encode { .. } => None,
        }
    }
}

/// The way out of the few system errors that have one.
fn io_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull => Some("the disk is full: free some space on it"),
        io::ErrorKind::QuotaExceeded => Some("free some of your quota on that disk"),
        io::ErrorKind::FileTooLarge => Some("raise the file size limit (`ulimit -f`)"),
        io::ErrorKind::PermissionDenied => Some("check who owns it and its permissions"),
        io::ErrorKind::ReadOnlyFilesystem => Some("that file system is mounted read-only"),
        _ => None,
    }
}
