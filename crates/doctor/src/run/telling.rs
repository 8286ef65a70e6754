//! The line of a log that tells why a program ended, and the same line without what differs from job to job.

use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read of a log's end.
const TAIL: u64 = 16 * 1024;
/// A longer line is cut.
const LONGEST: usize = 200;

/// The line that tells most: the last one that names an error, else the last one.
pub(super) fn line(log: &Path) -> Option<String> {
    let file = gpulane_files::open(log).ok()?;
    let length = file.metadata().ok()?.len();
    let from = length.saturating_sub(TAIL);
    let mut bytes = vec![0; usize::try_from(length - from).ok()?];
    let read = file.read_at(&mut bytes, from).ok()?;
    choose(&String::from_utf8_lossy(&bytes[..read]))
}

fn choose(text: &str) -> Option<String> {
    let lines = text.split(['\n', '\r']).map(plain).filter(|line| !line.trim().is_empty());
    let lines: Vec<String> = lines.collect();
    let telling = lines.iter().rev().find(|line| names_an_error(line)).or(lines.last())?;
    Some(gpulane_witness::shortened(telling.trim(), LONGEST))
}

/// `ValueError: …`, `RuntimeError`, `error: …`, `sh: 1: x: not found`; not a line of a traceback that quotes code.
fn names_an_error(line: &str) -> bool {
    if line.starts_with([' ', '\t']) {
        return false;
    }
    let name = line.split([':', ' ']).next().unwrap_or_default();
    let exception = ["Error", "Exception", "Interrupt", "Exit"].iter().any(|end| name.ends_with(end));
    let lower = line.to_ascii_lowercase();
    exception
        || ["error:", "fatal", "not found", "no such file", "panicked at", "terminate called"]
            .iter()
            .any(|words| lower.contains(words))
}

/// Without colours and other commands to the terminal.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // `ESC [ … letter`, or two characters.
            if chars.next() == Some('[') {
                let _ = chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
        } else if c == '\t' || !c.is_control() {
            text.push(c);
        }
    }
    text
}

/// The line with every number as `N`, so that lines that differ only there are one: addresses, ids, sizes, seeds.
pub(super) fn normal(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_ascii_digit() {
            text.push(c);
            continue;
        }
        let hex = c == '0' && chars.next_if_eq(&'x').is_some();
        let part = |c: &char| if hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() || *c == '.' };
        while chars.next_if(part).is_some() {}
        text.push('N');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exception_tells_more_than_what_is_printed_after_it() {
        let text = "epoch 1\nTraceback (most recent call last):\n  File \"t.py\", line 3\n    raise ValueError('x')\n\
                    ValueError: lr must be positive\nclosing files\n";
        assert_eq!(choose(text).as_deref(), Some("ValueError: lr must be positive"));
        assert_eq!(choose("a\nb\n\n").as_deref(), Some("b"));
        assert_eq!(choose("\n \n"), None);
        assert_eq!(choose("sh: 1: nope: not found\n").as_deref(), Some("sh: 1: nope: not found"));
    }

    #[test]
    fn colours_and_progress_bars_are_no_words() {
        assert_eq!(choose("10%\r90%\r\u{1b}[31mKeyError: 'a'\u{1b}[0m\n").as_deref(), Some("KeyError: 'a'"));
    }

    #[test]
    fn lines_that_differ_in_numbers_are_one() {
        assert_eq!(normal("KeyError: 17 at 0x7f3a10"), normal("KeyError: 3 at 0x1"));
        assert_eq!(normal("loss 1.5"), "loss N");
        assert_ne!(normal("KeyError: 'a'"), normal("KeyError: 'b'"));
    }
}
