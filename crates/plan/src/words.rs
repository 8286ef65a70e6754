//! Values that are one word of several.

use crate::keys;
use crate::problems::Problems;
use crate::reader::{Node, text};

/// One of these words.
pub(crate) fn one_of<T: Copy>(
    key: &str,
    words: &[(&str, T)],
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    one_of_or(key, words, "", node, problems)
}

/// One of these words, where the caller has seen that it is not what else the key takes; `other` says what that is.
pub(crate) fn one_of_or<T: Copy>(
    key: &str,
    words: &[(&str, T)],
    other: &str,
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let written = text(key, node, problems)?;
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == written.value) {
        return Some(*found);
    }
    let meant = problems.nearest.find(&written.value, words.iter().map(|(word, _)| *word));
    let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    problems
        .error(
            &node.span(),
            format!(
                "`{key}` cannot be `{}`{}",
                keys::shown(&written.value),
                crate::nearest::did_you_mean(meant)
            ),
        )
        .help(if other.is_empty() {
            format!("one of {}", all.join(", "))
        } else {
            format!("one of {}, or {other}", all.join(", "))
        });
    None
}
