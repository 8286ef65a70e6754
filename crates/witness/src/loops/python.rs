//! The loop around a line of Python code. Pure: goes once through the lines before it, and once through those of the loop.

use super::Found;

/// Longest line that is understood, in bytes: what is written by hand is shorter.
const LONGEST: usize = 4096;
/// Words in a condition that say that it asks for a file.
const FILE_WORDS: [&str; 12] = [
    "exists", "getmtime", "getsize", "glob", "iglob", "is_dir", "is_file", "isdir", "isfile", "lexists",
    "listdir", "scandir",
];

impl Found {
    /// The innermost loop around a line, both counted from 1.
    pub(super) fn around(text: &str, line: usize) -> Option<Self> {
        let lines: Vec<&str> = text.lines().collect();
        let mut at = line.checked_sub(1)?;
        let mut indent = indent_of(lines.get(at)?)?;
        // A loop of one line is around itself.
        while !is_loop(lines[at]) || indent_of(lines[at]) > Some(indent) {
            let outer =
                lines[..at].iter().rposition(|text| indent_of(text).is_some_and(|own| own < indent))?;
            (at, indent) = (outer, indent_of(lines[outer])?);
            if ["def ", "async def ", "class "].iter().any(|word| lines[at].trim_start().starts_with(word)) {
                return None;
            }
        }
        let header = Some(lines[at].trim()).filter(|header| header.len() <= LONGEST)?.to_owned();
        let leaves = condition_of(&header).is_none().then(|| leaving(&lines[at + 1..], indent)).flatten();
        let condition = condition_of(&header).or(leaves).unwrap_or_default().to_owned();
        let for_file = names(&condition).any(|word| FILE_WORDS.contains(&word))
            || ["os.access(", "os.stat("].iter().any(|call| condition.contains(call));
        let header = match leaves {
            Some(leaves) => format!("{header} … if {leaves}:"),
            None => header,
        };
        Some(Self { line: at + 1, header, condition, for_file })
    }
}

/// Columns before the first character; `None` for a line that says nothing.
fn indent_of(line: &str) -> Option<usize> {
    let text = line.trim_start();
    (!text.is_empty() && !text.starts_with('#')).then(|| line.len() - text.len())
}

fn is_loop(line: &str) -> bool {
    let text = line.trim_start();
    ["while ", "while(", "for ", "async for "].iter().any(|word| text.starts_with(word))
}

/// What a loop's header asks; `None` for one that has no end by itself, or counts.
fn condition_of(header: &str) -> Option<&str> {
    let condition = header.strip_prefix("while")?.trim();
    let condition = condition.rsplit_once(':').map_or(condition, |(condition, _)| condition).trim();
    let endless = ["True", "1", "(True)", "(1)"].contains(&condition);
    (!endless).then_some(condition)
}

/// The first condition in the body of a loop under which it is left.
fn leaving<'a>(body: &[&'a str], indent: usize) -> Option<&'a str> {
    let inside = body.iter().copied().filter(|line| indent_of(line).is_some());
    let mut inside = inside.take_while(|line| indent_of(line) > Some(indent)).peekable();
    while let Some(line) = inside.next() {
        let asks = line.trim().strip_prefix("if ").filter(|text| text.len() <= LONGEST);
        let Some((condition, rest)) = asks.and_then(|text| text.rsplit_once(':')) else { continue };
        let then =
            if rest.trim().is_empty() { inside.peek().map_or("", |next| next.trim()) } else { rest.trim() };
        if ["break", "return"].iter().any(|word| then.starts_with(word)) {
            return Some(condition.trim());
        }
    }
    None
}

/// The names in a condition.
pub(super) fn names(condition: &str) -> impl Iterator<Item = &str> {
    condition.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "import os, time\n\
def wait_for(path):\n    \
    while not os.path.exists(path):\n        \
        # not yet\n        \
        if True:\n            \
            time.sleep(0.5)\n\
def forever(marker):\n    \
    while True:\n        \
        if marker.is_file():\n            \
            break\n        \
        time.sleep(1)\n\
def nap():\n    \
    time.sleep(1)\n\
for turn in range(3): time.sleep(1)\n\
while ready() is None:\n    \
    time.sleep(1)\n\
time.sleep(5)\n";

    fn found(line: usize) -> Option<(usize, String, bool)> {
        let found = Found::around(SOURCE, line)?;
        Some((found.line, found.header, found.for_file))
    }

    #[test]
    fn the_loop_around_a_line_is_quoted() {
        assert_eq!(found(6), Some((3, "while not os.path.exists(path):".to_owned(), true)));
        assert_eq!(found(11), Some((8, "while True: … if marker.is_file():".to_owned(), true)));
        assert_eq!(found(14), Some((14, "for turn in range(3): time.sleep(1)".to_owned(), false)));
        assert_eq!(found(16), Some((15, "while ready() is None:".to_owned(), false)));
    }

    #[test]
    fn where_there_is_none_there_is_none() {
        assert_eq!([found(13), found(17), found(0), found(400)], [None, None, None, None]);
        assert_eq!(Found::around("\u{0}\n\n", 2), None);
    }

    #[test]
    fn a_line_of_many_kilobytes_is_not_quoted() {
        let long = "x or ".repeat(LONGEST);
        assert_eq!(Found::around(&format!("while {long}y:\n    pause()\n"), 2), None);
        let leaves = format!("while True:\n    if {long}y:\n        break\n    pause()\n");
        assert_eq!(Found::around(&leaves, 4).unwrap().header, "while True:");
    }
}
