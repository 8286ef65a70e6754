//! Where a plan's text came from, and how a byte in it is called by a person: line and column.

/// The text that is checked, with the name a person knows it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's path as it was given, or `command line`.
    pub name: String,
    /// All of it. Spans of diagnostics are byte ranges in here.
    pub text: String,
}

impl Source {
    /// The line and column of a byte, both from 1; columns count characters. Past the end: the end.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..floor(&self.text, at)];
        let before = before.strip_prefix(BOM).unwrap_or(before);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

/// Some editors begin a file with this; it is no part of the first line.
pub(crate) const BOM: char = '\u{feff}';

/// The nearest character boundary at or before `at`. Spans come from elsewhere; none may make us panic.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}
