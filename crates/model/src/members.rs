//! `members`: which other members of its sample an item of a tar shard brings along, by their extensions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// All of them, as it is written.
const ALL: &str = "*";

/// The members of a sample that a model asks for. Written as a list of extensions: what stands behind the first dot of a member's base name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub enum Members {
    /// An item comes alone.
    #[default]
    None,
    /// Every other member of its sample.
    All,
    /// Members with these extensions, in lower case, sorted, each once.
    Named(Vec<String>),
}

impl Members {
    /// From the words of a list; the error says all that is wrong with them, for a person.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, String> {
        let mut named = Vec::new();
        let mut wrong: Vec<String> = Vec::new();
        for word in words.iter().map(AsRef::as_ref) {
            match problem(word, words.len()) {
                Some(what) => wrong.push(what),
                None => named.push(word.to_lowercase()),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        named.sort_unstable();
        named.dedup();
        Ok(match named.first().map(String::as_str) {
            None => Self::None,
            Some(ALL) => Self::All,
            Some(_) => Self::Named(named),
        })
    }

    /// From words with commas between them, as on a command line; no words: none.
    pub fn from_line(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::None);
        }
        Self::parse(&text.split(',').map(str::trim).collect::<Vec<_>>())
    }

    /// Whether items come alone.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether a member with this extension, in lower case, is asked for.
    pub fn takes(&self, extension: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(named) => named.iter().any(|name| name == extension),
        }
    }

    /// The words it is written with.
    pub fn words(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::All => vec![ALL.to_owned()],
            Self::Named(named) => named.clone(),
        }
    }
}

/// What is wrong with a word of a list of so many, and what to write.
fn problem(word: &str, of: usize) -> Option<String> {
    let bare = word.trim_start_matches(['*', '.']);
    if word == ALL {
        return (of > 1)
            .then(|| "`*` is all members, so no other can stand beside it; write `*` alone".to_owned());
    }
    if bare.is_empty() || word.contains(['/', '\0']) {
        return Some(format!(
            "`{word}` is no extension; write what stands behind the first dot of a member's name, such as `json`"
        ));
    }
    if bare.len() < word.len() {
        return Some(format!("`{word}` is no extension; write `{bare}`"));
    }
    if word.contains(char::is_whitespace) {
        let parts = word.split_whitespace().collect::<Vec<_>>().join(",");
        return Some(format!("`{word}` has a space in it; write `{parts}`"));
    }
    None
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::All => f.write_str("all"),
            Self::Named(named) => f.write_str(&named.join(", ")),
        }
    }
}

impl TryFrom<Vec<String>> for Members {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        Self::parse(&words)
    }
}

impl From<Members> for Vec<String> {
    fn from(members: Members) -> Self {
        members.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Members {
        Members::Named(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn lists_and_lines_mean_the_same() {
        for (line, right) in [
            ("json,txt", named(&["json", "txt"])),
            (" TXT , json,json", named(&["json", "txt"])),
            ("mask.png", named(&["mask.png"])),
            ("*", Members::All),
            ("", Members::None),
        ] {
            assert_eq!(Members::from_line(line), Ok(right.clone()), "{line}");
            assert_eq!(Members::parse(&right.words()), Ok(right), "{line}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_with_what_to_write() {
        for (line, words) in [
            (".json", vec!["write `json`"]),
            ("*.json,a/b", vec!["write `json`", "`a/b` is no extension"]),
            ("json,,txt", vec!["`` is no extension"]),
            ("json txt", vec!["write `json,txt`"]),
            ("json,*", vec!["write `*` alone"]),
        ] {
            let error = Members::from_line(line).expect_err(line);
            assert!(words.iter().all(|word| error.contains(word)), "{line}: {error}");
        }
    }

    #[test]
    fn extensions_are_whole_and_in_lower_case() {
        let some = named(&["json", "mask.png"]);
        assert!(some.takes("json") && some.takes("mask.png") && !some.takes("png"));
        assert!(Members::All.takes("png") && !Members::None.takes("png"));
    }
}
