//! How output may look here: colours, characters, size. Decided once by the caller; the size may be asked for
//! again at every frame, so that a resized terminal is noticed.

use std::io::IsTerminal;

/// Which kind of live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Bars at the bottom of a terminal, output above them.
    Tty,
    /// Lines only, now and then a line of progress.
    Plain,
    /// Events as JSON lines on stdout.
    Json,
    /// Failures at the end, nothing else.
    Quiet,
}

impl Mode {
    /// What the flags and this process's stderr call for. `NO_COLOR` means plain lines, as CONTRACT says.
    pub fn choose(json: bool, quiet: bool) -> Self {
        if json {
            Self::Json
        } else if quiet {
            Self::Quiet
        } else if std::io::stderr().is_terminal() && !no_color() && !dumb() {
            Self::Tty
        } else {
            Self::Plain
        }
    }
}

/// The size to draw for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many columns and rows.
    Fixed(usize, usize),
    /// That of the terminal behind stderr, or behind stdout, at each moment.
    Terminal,
}

/// How output may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// ANSI colours.
    pub color: bool,
    /// Characters beyond ASCII.
    pub unicode: bool,
    /// The size to draw for.
    pub size: Size,
}

impl Look {
    /// No colours, 80 columns: for files and tests.
    pub const PLAIN: Self = Self { color: false, unicode: true, size: Size::Fixed(80, 24) };

    /// For text that goes to this stream of this process (`std::io::stdout()` or `stderr()`).
    pub fn detect(stream: &impl IsTerminal) -> Self {
        Self { color: stream.is_terminal() && !no_color() && !dumb(), unicode: utf8(), size: Size::Terminal }
    }

    /// Columns at which sentences on stdout are broken; `None` where nobody reads them on a terminal.
    pub(crate) fn sentence(&self) -> Option<usize> {
        let wraps = matches!(self.size, Size::Fixed(..)) || std::io::stdout().is_terminal();
        wraps.then(|| self.size().0)
    }

    /// Columns and rows now.
    pub(crate) fn size(&self) -> (usize, usize) {
        let asked = match self.size {
            Size::Fixed(columns, rows) => Some((columns, rows)),
            Size::Terminal => terminal_size(),
        };
        // A pseudo-terminal nobody sized says 0 × 0.
        let (columns, rows) = asked.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or((80, 24));
        (columns.max(20), rows.max(4))
    }
}

fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .ok();
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    match size {
        Some(size) => Some((usize::from(size.ws_col), usize::from(size.ws_row))),
        // Not a terminal; whoever pipes it may still say how wide it is to be.
        None => Some((columns()?, 24)),
    }
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|value| value == "dumb")
}

/// Whether the locale allows more than ASCII. Where none is set (most containers) the terminal knows UTF-8 today.
fn utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_none_or(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}
