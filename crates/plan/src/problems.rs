//! Collects everything there is to tell about one plan, and keeps back what only follows from a syntax error:
//! a person who forgot a quote must not read that the stage has no command.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::nearest::Nearest;

/// Everything found so far.
pub(crate) struct Problems<'s> {
    text: &'s str,
    /// Where the piece being read begins, if the text is read in pieces.
    pub(crate) base: usize,
    found: Vec<Diagnostic>,
    /// How many of these are about syntax; they come first.
    syntax_errors: usize,
    /// Lines (from 0) with a syntax error: what else is wrong there is its consequence.
    damaged_lines: HashSet<usize>,
    /// Where each line begins; empty until first asked for.
    line_starts: OnceCell<Vec<usize>>,
    /// How often each word stands in a damaged text; empty for a sound one.
    words: HashMap<&'s str, u32>,
    /// The flag being read, if it is one: then remedies are flags too.
    pub(crate) flag: Option<String>,
    /// Right words for wrong ones.
    pub(crate) nearest: Nearest,
}

impl<'s> Problems<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        Self {
            text,
            base: 0,
            found: Vec::new(),
            syntax_errors: 0,
            damaged_lines: HashSet::new(),
            line_starts: OnceCell::new(),
            words: HashMap::new(),
            flag: None,
            nearest: Nearest::default(),
        }
    }

    /// The text the spans point into.
    pub(crate) fn text(&self) -> &'s str {
        self.text
    }

    /// What stands there.
    pub(crate) fn raw(&self, span: &Span) -> Option<&'s str> {
        self.text.get(self.placed(span))
    }

    /// The span in the whole text of one in the piece being read.
    pub(crate) fn placed(&self, span: &Span) -> Span {
        span.start + self.base..span.end + self.base
    }

    /// Whether the text has syntax errors: then what is absent may only be unreadable.
    pub(crate) fn is_damaged(&self) -> bool {
        self.syntax_errors > 0
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    pub(crate) fn error(&mut self, span: &Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, span, message.into())
    }

    pub(crate) fn warning(&mut self, span: &Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Warning, span, message.into())
    }

    pub(crate) fn note(&mut self, span: &Span, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Note, span, message.into())
    }

    /// How to write this value for this key, in TOML or as the flag it came from.
    pub(crate) fn assignment(&self, key: &str, value: &str) -> String {
        match &self.flag {
            Some(flag) if value.contains(' ') => format!("`{flag} {value}`"),
            Some(flag) => format!("`{flag} {}`", value.trim_matches('"')),
            None => format!("`{key} = {value}`"),
        }
    }

    /// A word that names nothing. In a damaged text only one that stands nowhere else is surely wrong; what the
    /// others name may have been lost with the damage.
    pub(crate) fn surely_unknown(&self, word: &str) -> bool {
        !self.is_damaged() || self.words.get(word).is_none_or(|count| *count < 2)
    }

    /// Says that the text has a syntax error there.
    pub(crate) fn syntax(&mut self, span: Option<Span>, message: String) -> &mut Diagnostic {
        if !self.is_damaged() {
            for word in self.text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
                *self.words.entry(word).or_default() += 1;
            }
        }
        self.syntax_errors += 1;
        if let Some(span) = &span {
            let line = self.line_of(span.start);
            self.damaged_lines.insert(line);
        }
        self.push(Diagnostic { severity: Severity::Error, message, span, label: String::new(), help: None })
    }

    /// Whether a syntax error was found on the line of this byte.
    pub(crate) fn is_damaged_at(&self, at: usize) -> bool {
        self.is_damaged() && self.damaged_lines.contains(&self.line_of(at))
    }

    /// The line of a byte, from 0.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        let breaks = || self.text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = self.line_starts.get_or_init(|| std::iter::once(0).chain(breaks()).collect());
        starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    fn add(&mut self, severity: Severity, span: &Span, message: String) -> &mut Diagnostic {
        self.push(Diagnostic {
            severity,
            message,
            span: Some(self.placed(span)),
            label: String::new(),
            help: None,
        })
    }

    fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        let at = self.found.len();
        self.found.push(diagnostic);
        &mut self.found[at]
    }

    /// Everything, errors first, then by position; each thing once.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        let mut found = std::mem::take(&mut self.found);
        let mut index = 0;
        found.retain(|diagnostic| {
            index += 1;
            index <= self.syntax_errors
                || !diagnostic.span.as_ref().is_some_and(|span| self.is_damaged_at(span.start))
        });
        // What stands in `[defaults]` may be found wrong once per stage.
        let mut seen = HashSet::new();
        found.retain(|diagnostic| {
            let mut hasher = DefaultHasher::new();
            (&diagnostic.span, &diagnostic.message).hash(&mut hasher);
            seen.insert(hasher.finish())
        });
        found.sort_by_key(|diagnostic| {
            (diagnostic.severity, diagnostic.span.as_ref().map_or(0, |span| span.start))
        });
        found
    }
}
