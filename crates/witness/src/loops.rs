//! What a loop that sleeps asks for, read from its source: `while not os.path.exists(path):`. Owns the reading of Python files, as text;
//! what stands in them is quoted and never followed.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Frame;
use crate::frame::Owner;
use crate::native::in_time;
use crate::proc_files::shortened;
use crate::python::Text;

/// The loop of Python code around the line at which a thread sleeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// The file.
    pub file: String,
    /// The line at which it begins.
    pub line: u32,
    /// What stands there; where that is no condition (`while True:`), also the one that leaves it.
    pub header: String,
    /// The condition asks for a file.
    pub for_file: bool,
    /// The path it asks for, where that is a plain text in a variable.
    pub path: Option<String>,
}

/// Longest part of a file that is read.
const MOST: u64 = 1 << 20;
/// Longest header that is quoted, in characters.
const HEADER: usize = 100;
/// So many callers are looked at: a function that only sleeps may be called in the loop of another.
const CALLERS: usize = 4;
/// Words in a condition that say that it asks for a file.
const FILE_WORDS: [&str; 12] = [
    "exists", "getmtime", "getsize", "glob", "iglob", "is_dir", "is_file", "isdir", "isfile", "lexists",
    "listdir", "scandir",
];

impl Loop {
    /// The loop in words, as they stand behind a place.
    pub(crate) fn words(&self) -> String {
        let Self { header, .. } = self;
        let polls = match (&self.path, self.for_file) {
            (Some(path), _) => format!(": it polls for a file ({path})"),
            (None, true) => ": it polls for a file".to_owned(),
            (None, false) => String::new(),
        };
        format!(", in the loop `{header}`{polls}")
    }
}

/// The loop that the innermost of these frames is in which is no part of a library's. `folder`: the process's own in `/proc`.
pub(crate) fn around(frames: &[Frame], texts: &[Text], folder: &Path) -> Option<Loop> {
    let own = |frame: &&(usize, &Frame)| frame.1.owner() == Owner::User;
    let frames: Vec<(usize, &Frame)> = frames.iter().enumerate().collect();
    let mut callers = frames.iter().filter(own).take(CALLERS);
    callers.find_map(|(at, frame)| {
        let text = source(&frame.file, folder)?;
        let found = Found::around(&text, usize::try_from(frame.line).ok()?)?;
        let value = |name: &str| texts.iter().find(|text| text.frame == *at && text.name == name);
        let path = found.for_file.then(|| names(&found.condition).find_map(value)).flatten();
        Some(Loop {
            file: frame.file.clone(),
            line: u32::try_from(found.line).unwrap_or(u32::MAX),
            header: shortened(&cleaned(&found.header), HEADER),
            for_file: found.for_file,
            path: path.map(|text| cleaned(&text.value)),
        })
    })
}

fn cleaned(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text of a file that a process runs, if it is a regular one; no more than a part of it.
fn source(file: &str, folder: &Path) -> Option<String> {
    let path = PathBuf::from(file);
    let path =
        if path.is_absolute() { path } else { std::fs::read_link(folder.join("cwd")).ok()?.join(path) };
    let pid = folder.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0);
    let place = path.parent()?.to_string_lossy().into_owned();
    let text = move || {
        let mut bytes = Vec::new();
        gpulane_files::open(&path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    // Its disk may not answer; what it asks for is then not told.
    in_time(pid, &place, text)
}

/// The loop of a shell's script in which it sleeps. Which line it is at is not known, so there must be no other.
pub(crate) fn of_shell(folder: &Path) -> Option<Loop> {
    let words = crate::proc_files::read(&folder.join("cmdline"))?;
    let (shell, rest) = words.split_once('\0')?;
    let script = rest.split('\0').next().filter(|word| !word.is_empty() && !word.starts_with('-'))?;
    if !SHELLS.contains(&shell.rsplit('/').next()?.trim_start_matches('-')) {
        return None;
    }
    let text = source(script, folder)?;
    let (line, header) = loop_that_sleeps(&text)?;
    let for_file = ["-e ", "-f ", "-s ", "-d ", "-r "].iter().any(|test| header.contains(test));
    let header = shortened(&cleaned(header), HEADER);
    Some(Loop { file: script.to_owned(), line, header, for_file, path: None })
}

const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];

/// Line and header of the only loop with a `sleep` in it.
fn loop_that_sleeps(text: &str) -> Option<(u32, &str)> {
    let starts = |word: &'static str| move |line: &&str| line.trim_start().starts_with(word);
    let mut found = None;
    for (number, line) in text.lines().enumerate() {
        if !starts("until ")(&line) && !starts("while ")(&line) {
            continue;
        }
        let body = text.lines().skip(number).take_while(|line| !line.trim_start().starts_with("done"));
        let sleeps = body.flat_map(|line| line.split([';', ' ', '\t', '&', '|'])).any(|word| word == "sleep");
        if sleeps && found.is_some() {
            return None;
        }
        if sleeps {
            let header = line.trim();
            let header = header
                .split_once("; do")
                .or_else(|| header.split_once(";do"))
                .map_or(header, |(header, _)| header);
            found = Some((u32::try_from(number + 1).ok()?, header));
        }
    }
    found
}

/// A loop in a source.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    line: usize,
    header: String,
    condition: String,
    for_file: bool,
}

impl Found {
    /// The innermost loop around a line, both counted from 1.
    fn around(text: &str, line: usize) -> Option<Self> {
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
        let header = lines[at].trim().to_owned();
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
        let Some((condition, rest)) = line.trim().strip_prefix("if ").and_then(|text| text.rsplit_once(':'))
        else {
            continue;
        };
        let then =
            if rest.trim().is_empty() { inside.peek().map_or("", |next| next.trim()) } else { rest.trim() };
        if ["break", "return"].iter().any(|word| then.starts_with(word)) {
            return Some(condition.trim());
        }
    }
    None
}

/// The names in a condition.
fn names(condition: &str) -> impl Iterator<Item = &str> {
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
    fn the_only_loop_of_a_shell_that_sleeps_is_quoted() {
        let polls = "x=1\nfor f in *; do echo $f; done\nuntil [ -e \"$OUT/ready\" ]; do\n  sleep 2\ndone\necho sleep\n";
        assert_eq!(loop_that_sleeps(polls), Some((3, "until [ -e \"$OUT/ready\" ]")));
        assert_eq!(
            loop_that_sleeps("while ! nc -z db 5432; do sleep 1; done"),
            Some((1, "while ! nc -z db 5432"))
        );
        assert_eq!(loop_that_sleeps(&format!("{polls}{polls}")), None, "it may be in either");
        assert_eq!(loop_that_sleeps("while read line\ndo\n  echo $line\ndone\nsleep 5\n"), None);
    }

    #[test]
    fn a_file_is_read_and_its_path_named_and_what_is_none_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wait.py");
        std::fs::write(&file, SOURCE.replace("path)", "path\u{1b})")).unwrap();
        let frame = |file: &Path, line| Frame {
            function: "f".to_owned(),
            file: file.to_str().unwrap().to_owned(),
            line,
        };
        let texts = [Text { frame: 1, name: "path".to_owned(), value: "/data/_SUCCESS".to_owned() }];
        let frames = [frame(&file, 13), frame(&file, 6)];
        let quoted = around(&frames, &texts, Path::new("/proc/self")).unwrap();
        assert_eq!(
            quoted.words(),
            ", in the loop `while not os.path.exists(path ):`: it polls for a file (/data/_SUCCESS)"
        );
        assert_eq!(quoted.line, 3);
        for strange in ["/dev/zero", "/proc/self/nothing", "/"] {
            assert_eq!(around(&[frame(Path::new(strange), 6)], &[], Path::new("/proc/self")), None);
        }
    }
}
