//! The only way to the TOML parser. It recovers from errors, and while it does so its own guard against deep nesting can
//! be led astray (an unexpected `{` lowers the depth it counts), so that a malformed text of some hundred kilobytes
//! would end the stack. Here brackets are counted first, on the parser's own tokens.

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::diagnostic::Span;

/// Deepest nesting of brackets; the parser's own limit.
pub(crate) const DEEPEST: usize = 80;

/// The tree and the errors; `Err` with the outermost open bracket of a text that is nested too deep to be parsed.
pub(crate) fn document(text: &str) -> Result<(Spanned<DeTable<'_>>, Vec<Error>), Span> {
    match too_deep(text) {
        Some(opening) => Err(opening),
        None => Ok(DeTable::parse_recoverable(text)),
    }
}

/// The tree of a text without errors.
pub(crate) fn sound_document(text: &str) -> Option<Spanned<DeTable<'_>>> {
    too_deep(text).is_none().then(|| DeTable::parse(text).ok())?
}

/// A single value without errors.
pub(crate) fn value(text: &str) -> Option<Spanned<DeValue<'_>>> {
    too_deep(text).is_none().then(|| DeValue::parse(text).ok())?
}

/// A closing bracket counts only if it fits the innermost open one: the parser goes on inside that one otherwise.
fn too_deep(text: &str) -> Option<Span> {
    let mut open: Vec<TokenKind> = Vec::with_capacity(DEEPEST);
    let mut outermost = 0..0;
    for token in Source::new(text).lex() {
        let closes = match token.kind() {
            kind @ (TokenKind::LeftCurlyBracket | TokenKind::LeftSquareBracket) => {
                if open.is_empty() {
                    outermost = token.span().start()..token.span().end();
                }
                open.push(kind);
                if open.len() > DEEPEST {
                    return Some(outermost);
                }
                continue;
            }
            TokenKind::RightCurlyBracket => TokenKind::LeftCurlyBracket,
            TokenKind::RightSquareBracket => TokenKind::LeftSquareBracket,
            _ => continue,
        };
        if open.last() == Some(&closes) {
            open.pop();
        }
    }
    None
}
