//! What is wrong with an input, in words a person can act on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A mistake in one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The input as written.
    pub input: String,
    /// What is wrong.
    pub what: String,
    /// What to write or do.
    pub hint: String,
}

/// Why there is no list of items.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Mistakes in the inputs, all of them.
    #[error("{}", in_lines(.0))]
    Problems(Vec<Problem>),
    /// Whoever asked has heard enough.
    #[error("there are more than {items} items")]
    Enough {
        /// How many there were by then.
        items: u64,
    },
    /// The system refused to take the list.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why an input could not be read to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It has a mistake: what, and what to do.
    Input(String, String),
    /// Whoever takes the items cannot.
    Taker(io::Error),
}

impl Stop {
    pub(crate) fn input(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Input(what.into(), hint.into())
    }

    /// The system refused to give what was asked for.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| {
            let hint = match error.kind() {
                io::ErrorKind::PermissionDenied => "check who owns it and its permissions",
                io::ErrorKind::NotFound => "it was there a moment ago; does something else change it?",
                _ => "see that it can be read, then try again",
            };
            Self::input(format!("cannot {verb} {}: {error}", path.display()), hint)
        }
    }
}

impl Refused {
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}; {}", self.input, self.what, self.hint)
    }
}

fn in_lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}
