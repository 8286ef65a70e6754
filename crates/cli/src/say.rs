//! Words of the command line itself: errors and notes on stderr, data on stdout. A closed pipe is not our problem. Names and texts in
//! them may be other people's, so nothing but colours reaches the terminal.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use gpulane_journal::{JournalError, RunDirError};
use gpulane_report::{json_text, terminal_text};

fn stderr_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn line(label: &str, style: &str, text: &str) {
    let text = terminal_text(text);
    let mut err = std::io::stderr().lock();
    let _ = if stderr_color() {
        writeln!(err, "{style}{label}\x1b[0m: {text}")
    } else {
        writeln!(err, "{label}: {text}")
    };
}

/// What went wrong.
pub(crate) fn error(text: impl Display) {
    line("error", "\x1b[1;31m", &text.to_string());
}

/// What to do about it.
pub(crate) fn hint(text: impl Display) {
    line("hint", "\x1b[1;36m", &text.to_string());
}

/// Something worth knowing.
pub(crate) fn note(text: impl Display) {
    line("note", "\x1b[1m", &text.to_string());
}

/// A line for people, on stderr.
pub(crate) fn progress(text: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{}", terminal_text(&text.to_string()));
}

/// Whether something could not be written to stdout.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(cause) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && cause.kind() != ErrorKind::BrokenPipe
        && !INCOMPLETE.swap(true, Ordering::Relaxed)
    {
        error(format!("cannot write to stdout: {cause}"));
    }
}

/// Whether all that was to be printed was, as far as anybody reads it.
pub(crate) fn is_complete() -> bool {
    !INCOMPLETE.load(Ordering::Relaxed)
}

/// Data for programs, on stdout, as it is.
pub(crate) fn data(text: impl Display) {
    print(&text.to_string());
}

/// JSON for programs, on stdout, on a line of its own.
pub(crate) fn json(text: impl Display) {
    print(&format!("{}\n", json_text(&text.to_string())));
}

/// What a person asked to see, on stdout.
pub(crate) fn shown(text: &str) {
    print(&terminal_text(text));
}

/// An error with the way out that it knows.
pub(crate) trait Explained: Display {
    /// What to do.
    fn way_out(&self) -> Option<String>;
}

impl Explained for RunDirError {
    fn way_out(&self) -> Option<String> {
        self.hint()
    }
}

impl Explained for JournalError {
    fn way_out(&self) -> Option<String> {
        self.hint()
    }
}

/// An error and its way out.
pub(crate) fn explain(error: &impl Explained) {
    self::error(error);
    if let Some(way_out) = error.way_out() {
        hint(way_out);
    }
}
