//! Diagnostics as a person reads them: file, line and column, the line itself, what is wrong there and what to
//! write instead.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::source::{BOM, Source, floor};

/// Most diagnostics shown: the rest is counted.
const MOST_SHOWN: usize = 50;

/// All diagnostics as text for a terminal, errors first, then by position. Past fifty, only their number. The
/// number of mistakes comes last, if there are several.
pub fn render(source: &Source, diagnostics: &[Diagnostic], color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut sorted: Vec<&Diagnostic> = diagnostics.iter().collect();
    sorted.sort_by_key(|diagnostic| {
        (diagnostic.severity, diagnostic.span.as_ref().map_or(0, |span| span.start))
    });
    let mut text = String::new();
    for diagnostic in sorted.iter().take(MOST_SHOWN) {
        text.push_str(&one(source, diagnostic, &renderer));
        text.push_str("\n\n");
    }
    let left = &sorted[sorted.len().min(MOST_SHOWN)..];
    if !left.is_empty() {
        let errors = left.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
        let kinds = if errors == left.len() { String::new() } else { format!(" ({errors} of them errors)") };
        _ = write!(text, "… and {} more{kinds}\n\n", left.len());
    }
    let mistakes = sorted.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count();
    if mistakes > 1 {
        _ = write!(text, "{mistakes} mistakes");
    }
    text.truncate(text.trim_end().len());
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn one(source: &Source, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let group = Group::with_title(level.primary_title(&diagnostic.message));
    let group = match diagnostic.span.as_ref().filter(|_| !source.text.is_empty()) {
        Some(span) => {
            let view = View::of(&source.text, span);
            let mark =
                AnnotationKind::Primary.span(view.mark).label(normalize_untrusted_str(&diagnostic.label));
            group.element(
                Snippet::source(view.line).line_start(view.number).path(&source.name).annotation(mark),
            )
        }
        None => group.element(Origin::path(&source.name)),
    };
    let group = match &diagnostic.help {
        Some(help) => group.element(Level::HELP.message(normalize_untrusted_str(help))),
        None => group,
    };
    renderer.render(&[group])
}

/// The one line that is shown. The library gets only this line, since it would walk the whole text once per
/// diagnostic; a span over many lines is marked on its first.
struct View<'s> {
    line: &'s str,
    number: usize,
    mark: Span,
}

impl<'s> View<'s> {
    fn of(text: &'s str, span: &Span) -> Self {
        let at = floor(text, span.start);
        // The place just past the last line break shows the last line that has something on it.
        let at = if at == text.len() { text.trim_end_matches(['\n', '\r']).len() } else { at };
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        let number = text[..start].matches('\n').count() + 1;
        let line = text[start..end].trim_end_matches('\r');
        let hidden = if start == 0 && line.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let within = |at: usize| floor(line, at.saturating_sub(start)).max(hidden) - hidden;
        let mark = within(at)..within(floor(text, span.end.max(at)));
        Self { line: &line[hidden..], number, mark }
    }
}
