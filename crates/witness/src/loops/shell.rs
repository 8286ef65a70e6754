//! The loop of a shell's script in which it sleeps. Pure: each line is read once, whatever stands in it, and no more is kept than the
//! loops that are open.

/// Loops within loops; a script with more is not understood.
const DEEPEST: usize = 64;
/// What words lie between.
const BETWEEN: [char; 11] = [' ', '\t', ';', '&', '|', '(', ')', '<', '>', '`', '\r'];
/// Separators after which a command begins.
const COMMANDS: [char; 6] = [';', '&', '|', '(', ')', '`'];
/// Words after which a command begins.
const KEYWORDS: [&str; 11] = ["!", "do", "elif", "else", "if", "then", "time", "until", "while", "{", "}"];

/// A loop that asks something before each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asks<'a> {
    /// Counted from 1.
    line: usize,
    /// The rest of the line from its beginning on.
    rest: &'a str,
    sleeps: bool,
}

/// What is known at a place in a script.
#[derive(Default)]
struct Place<'a> {
    /// Begun by `while` or `until`, and its `do` is still to come.
    begun: Option<Asks<'a>>,
    /// Open by their `do`, the innermost last; `None` is one that counts, or goes through a list.
    open: Vec<Option<Asks<'a>>>,
    /// The loops with a `sleep` in them that are over.
    slept: Vec<Asks<'a>>,
}

impl<'a> Place<'a> {
    /// Goes on to the next word; `rest` is the line from there, which is not read here: a line may be all of a script. `None`: this is not
    /// understood.
    fn next(&mut self, number: usize, word: &str, is_command: bool, rest: &'a str) -> Option<()> {
        match word {
            "while" | "until" if is_command => {
                self.begun = Some(Asks { line: number, rest, sleeps: false });
            }
            "for" | "select" if is_command => self.begun = None,
            "do" if is_command => {
                self.open.push(self.begun.take());
                return (self.open.len() <= DEEPEST).then_some(());
            }
            "done" if is_command => {
                let over = self.open.pop().flatten();
                self.slept.extend(over.filter(|asks| asks.sleeps));
                // It may be in either.
                return (self.slept.len() <= 1).then_some(());
            }
            "sleep" => {
                let around = self.begun.as_mut().or_else(|| self.open.iter_mut().rev().flatten().next());
                if let Some(asks) = around {
                    asks.sleeps = true;
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// Line and header of the only loop with a `sleep` in it; of loops within loops, the innermost that asks.
pub(super) fn loop_that_sleeps<'a>(lines: impl Iterator<Item = &'a str>) -> Option<(usize, &'a str)> {
    let mut place = Place::default();
    for (line, number) in lines.zip(1..) {
        let (mut is_command, mut at) = (true, 0);
        for piece in line.split_inclusive(BETWEEN) {
            let word = piece.trim_end_matches(BETWEEN);
            if word.starts_with('#') {
                break;
            }
            if !word.is_empty() {
                place.next(number, word, is_command, &line[at..])?;
                is_command = is_command && KEYWORDS.contains(&word);
            }
            is_command |= piece.ends_with(COMMANDS);
            at += piece.len();
        }
    }
    let still_open = place.open.iter().flatten().any(|asks| asks.sleeps);
    let slept = place.slept.pop().filter(|_| !still_open)?;
    Some((slept.line, header_of(slept.rest)))
}

fn header_of(rest: &str) -> &str {
    let end = rest.find("; do").or_else(|| rest.find(";do")).unwrap_or(rest.len());
    rest[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Option<(usize, &str)> {
        loop_that_sleeps(text.lines())
    }

    #[test]
    fn the_only_loop_that_sleeps_is_quoted() {
        let polls = "x=1\nfor f in *; do echo $f; done\nuntil [ -e \"$OUT/ready\" ]; do\n  sleep 2\ndone\necho sleep\n";
        assert_eq!(found(polls), Some((3, "until [ -e \"$OUT/ready\" ]")));
        assert_eq!(found("while ! nc -z db 5432; do sleep 1; done"), Some((1, "while ! nc -z db 5432")));
        assert_eq!(found(&format!("{polls}{polls}")), None, "it may be in either");
        assert_eq!(found("while read line\ndo\n  echo $line\ndone\nsleep 5\n"), None);
    }

    #[test]
    fn a_loop_of_one_line_ends_on_it() {
        assert_eq!(found("while read x; do echo $x; done < list\nsleep 5\n"), None);
        let two = "while read x; do echo $x; done\nuntil ready; do sleep 1; done >/dev/null\n";
        assert_eq!(found(two), Some((2, "until ready")));
        assert_eq!(found("set -e; (until ready;do sleep 1;done)&"), Some((1, "until ready")));
    }

    #[test]
    fn of_loops_within_loops_the_one_that_sleeps_is_quoted() {
        let inner = "while true; do\n  until ready; do\n    sleep 1\n  done\n  work\ndone\n";
        assert_eq!(found(inner), Some((2, "until ready")));
        let outer = "until ready\ndo\n  while read x; do\n    echo\n  done\n  sleep 1\ndone\n";
        assert_eq!(found(outer), Some((1, "until ready")));
        let counts = "until ready; do\n  for i in 1 2; do\n    sleep 1\n  done\ndone\n";
        assert_eq!(found(counts), Some((1, "until ready")));
        assert_eq!(found("while sleep 1; do check; done"), Some((1, "while sleep 1")));
    }

    #[test]
    fn what_is_not_understood_is_not_quoted() {
        for strange in [
            "while x; do sleep 1\n",
            "# while x; do sleep 1; done\n",
            "echo while x; sleep 1; done\n",
            "done\ndone\nsleep 1\ndo\n",
        ] {
            assert_eq!(found(strange), None, "{strange}");
        }
        assert_eq!(found(&"while x; do sleep 1\n".repeat(DEEPEST + 1)), None);
    }

    /// What scripts are made of, and what they are not.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        let pieces = [
            "while x",
            "until y; do",
            "do",
            "done",
            "sleep 1",
            "; ",
            "; done",
            "for i in 1",
            "#",
            "\"é",
            "(",
        ];
        let line = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..4);
        prop::collection::vec(line.prop_map(|pieces| pieces.join(" ")), 0..300)
    }

    proptest! {
        #[test]
        fn each_line_of_a_script_is_read_once(lines in lines()) {
            let read = Cell::new(0);
            let counted = lines.iter().map(String::as_str).inspect(|_| read.set(read.get() + 1));
            let found = loop_that_sleeps(counted);
            prop_assert!(read.get() <= lines.len());
            if let Some((line, header)) = found {
                let line = &lines[line - 1];
                prop_assert!(line.contains(header) && read.get() == lines.len());
            }
        }
    }

    #[test]
    fn thirty_thousand_loops_that_do_not_end_are_read_once_each() {
        let read = Cell::new(0);
        let lines = std::iter::repeat_n("while x", 30_000).inspect(|_| read.set(read.get() + 1));
        assert_eq!(loop_that_sleeps(lines), None);
        assert_eq!(read.get(), 30_000);
    }
}
