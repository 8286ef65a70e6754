//! Text measured in terminal columns: cutting, padding, shortening names in the middle, numbers and paths as
//! people read them.

use std::path::Path;

use gpulane_model::Millis;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::palette::{Palette, Style};
use crate::status_json::time;

/// Columns the text takes. It must hold no escapes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, cut at the end to fit into `columns`.
pub(crate) fn fit(text: &str, columns: usize, dots: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(dots));
    let mut cut = head(text, room).to_owned();
    if columns >= width(dots) {
        cut.push_str(dots);
    }
    cut
}

/// The text, shortened in the middle: both ends of a job's name tell more than its middle.
pub(crate) fn shorten(text: &str, columns: usize, dots: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(dots));
    let front = head(text, room.div_ceil(2));
    let back = tail(text, room - width(front));
    format!("{front}{dots}{back}")
}

fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

fn tail(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let start = text.char_indices().rev().take_while(|(_, c)| {
        used += c.width().unwrap_or(0);
        used <= columns
    });
    &text[start.last().map_or(text.len(), |(at, _)| at)..]
}

/// The text in lines of at most `columns`, broken between words. A word that is longer has a line of its own.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The text with spaces behind it up to `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A number with its thousands apart.
pub(crate) fn number(n: impl Into<u64>) -> String {
    let digits = n.into().to_string();
    let mut text = String::with_capacity(digits.len() + 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 job`, `3 jobs`.
pub(crate) fn jobs(n: u32) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{} jobs", number(n)) }
}

/// `1 reason`, `3 reasons`.
pub(crate) fn plural(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

/// Clocks of two machines, and of one that was corrected, differ by no more.
const CORRECTED: Millis = Millis::seconds(10);
/// Longer ago than this a date says more than a number of hours.
const LONG_AGO: Millis = Millis::seconds(100 * 3600);
/// No run and no job lasts so long: the clock was changed meanwhile.
const TOO_LONG: Millis = Millis::seconds(366 * 24 * 3600);

/// `just now`, `12 s ago`, `on 2026-02-03 14:05 UTC`: when something was, seen from `now`.
pub(crate) fn ago(at: Millis, now: Millis) -> String {
    let span = now.since(at);
    if at.since(now) > CORRECTED {
        return format!("on {}, by a clock that was set back since", date(at));
    }
    match span {
        span if span.0 < 1000 => "just now".to_owned(),
        span if span < LONG_AGO => format!("{span} ago"),
        _ => format!("on {}", date(at)),
    }
}

/// `2026-02-03 14:05 UTC`
fn date(at: Millis) -> String {
    let text = time(at);
    format!("{} {} UTC", &text[..10], &text[11..16])
}

/// How long something lasted between two times of day: `12 s`, or that the clock in between was changed.
pub(crate) fn lasted(span: Millis) -> String {
    if span > TOO_LONG { "unknown time (the clock was changed)".to_owned() } else { span.to_string() }
}

/// The same for a column: nothing, where nothing can be known.
pub(crate) fn plausible(span: Millis) -> Option<Millis> {
    (span <= TOO_LONG).then_some(span)
}

/// Seconds from an event, as people say them.
pub(crate) fn seconds(seconds: f64) -> Millis {
    // Negative, NaN and infinite values come to rest at the ends.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Millis((seconds * 1000.0) as u64)
}

/// The path as a person here would write it: relative to the working directory where that is shorter.
pub(crate) fn shown(path: &Path) -> String {
    let relative =
        std::env::current_dir().ok().and_then(|cwd| path.strip_prefix(cwd).ok().map(Path::to_owned));
    match relative {
        Some(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Some(relative) => relative.display().to_string(),
        None => path.display().to_string(),
    }
}

/// The word, quoted for a shell if it needs to be.
pub(crate) fn shell(word: &str) -> String {
    gpulane_model::shell_word(word)
}

/// One line put together from styled pieces, never wider than its terminal.
#[derive(Debug)]
pub(crate) struct Row {
    palette: Palette,
    text: String,
    /// Columns used so far.
    used: usize,
    /// Columns there are.
    columns: usize,
}

impl Row {
    pub(crate) fn new(palette: Palette, columns: usize) -> Self {
        Self { palette, text: String::new(), used: 0, columns }
    }

    /// Columns left.
    pub(crate) fn room(&self) -> usize {
        self.columns - self.used
    }

    /// Adds text, cut to what fits.
    pub(crate) fn put(&mut self, style: Style, text: &str) -> &mut Self {
        let text = fit(text, self.room(), self.palette.dots());
        self.used += width(&text);
        self.text.push_str(&self.palette.paint(style, &text));
        self
    }

    /// The line, and the columns it takes.
    pub(crate) fn done(self) -> Drawn {
        Drawn { text: self.text, width: self.used }
    }
}

/// A line of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// With its escapes.
    pub(crate) text: String,
    /// Columns it takes.
    pub(crate) width: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shorten("train/lr=0.1,seed=17", 11, "…"), "train…ed=17");
        assert_eq!(shorten("short", 11, "…"), "short");
        assert_eq!(shorten("abcdef", 1, "…"), "…");
        assert_eq!(width(&shorten("日本語日本語", 7, "…")), 7);
    }

    #[test]
    fn text_is_cut_to_its_columns() {
        assert_eq!(fit("epoch 3 loss 0.2", 8, "…"), "epoch 3…");
        assert_eq!(fit("日本語", 4, "…"), "日…");
        assert_eq!(fit("abc", 0, "…"), "");
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrap("a sentence that is long", 10), ["a sentence", "that is", "long"]);
        assert_eq!(wrap("incomprehensibilities do", 10), ["incomprehensibilities", "do"]);
    }

    #[test]
    fn numbers_and_words() {
        assert_eq!(number(999u32), "999");
        assert_eq!(number(1_234_567u32), "1,234,567");
        assert_eq!(jobs(1), "1 job");
        assert_eq!(seconds(f64::NAN), Millis(0));
        assert_eq!(seconds(-1.0), Millis(0));
        assert_eq!(shell("runs/a b"), "'runs/a b'");
        assert_eq!(shell("runs/a-1"), "runs/a-1");
    }
}
