//! Placeholders in argv and environment values: `{out}`, `{lr}`. A brace that encloses no name stands for itself,
//! so `awk '{print $1}'` and `{}` need no escaping; `{{` and `}}` are always one brace.

/// Placeholders every job has, whatever its config.
pub const BUILT_IN: [&str; 9] =
    ["config", "config_file", "out", "name", "job", "input", "gpus", "lane", "run"];

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text that stays.
    Text(&'a str),
    /// `{name}`; the offset is that of the opening brace.
    Placeholder {
        /// Between the braces.
        name: &'a str,
        /// Byte offset in the template.
        at: usize,
    },
}

/// The pieces of a template, in order. Never fails: what is no placeholder is text.
pub fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &template[at..];
        if rest.is_empty() {
            return None;
        }
        if rest.starts_with("{{") || rest.starts_with("}}") {
            at += 2;
            return Some(Piece::Text(&rest[..1]));
        }
        if let Some(name) = leading_placeholder(rest) {
            let piece = Piece::Placeholder { name, at };
            at += name.len() + 2;
            return Some(piece);
        }
        let brace = |c| c == '{' || c == '}';
        // Skip the first character: it is a lone brace or plain text, and text either way.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let end = rest[first..].find(brace).map_or(rest.len(), |found| found + first);
        at += end;
        Some(Piece::Text(&rest[..end]))
    })
}

fn leading_placeholder(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let name = &inner[..inner.find('}')?];
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (starts && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))).then_some(name)
}

/// Placeholders an input of a map may have.
pub const IN_INPUTS: [&str; 2] = ["run", "name"];

/// Names in braces in an input of a map, with the offset of each opening brace. Other braces there are alternatives and ranges.
pub fn names_in_input(input: &str) -> impl Iterator<Item = (&str, usize)> {
    let name = |at: usize| leading_placeholder(&input[at..]).filter(|name| !name.contains(".."));
    input.match_indices('{').filter_map(move |(at, _)| Some((name(at)?, at)))
}

/// An input of a map with the placeholders that `value` knows replaced, and all else as it is.
pub fn render_input(input: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(input.len() + 64);
    let mut from = 0;
    for (name, at) in names_in_input(input) {
        if let Some(part) = value(name) {
            text.push_str(&input[from..at]);
            text.push_str(&part);
            from = at + name.len() + 2;
        }
    }
    text.push_str(&input[from..]);
    text
}

/// The template with every placeholder replaced by what `value` gives. One it does not know stays as written:
/// the plan was checked, so that happens only to a plan edited by hand.
pub fn render(template: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(template.len() + 64);
    for piece in pieces(template) {
        match piece {
            Piece::Text(part) => text.push_str(part),
            Piece::Placeholder { name, at } => match value(name) {
                Some(part) => text.push_str(&part),
                None => text.push_str(&template[at..at + name.len() + 2]),
            },
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str) -> String {
        render(template, |name| (name == "lr").then(|| "0.1".to_owned()))
    }

    #[test]
    fn an_input_keeps_its_alternatives_and_ranges() {
        let fill = |input: &str| render_input(input, |name| (name == "run").then(|| "/r".to_owned()));
        for (input, expected) in [
            ("{run}/jobs/*/out/*.{jpg,png}", "/r/jobs/*/out/*.{jpg,png}"),
            ("s-{000..123}.tar", "s-{000..123}.tar"),
            ("s-{a..c}.tar", "s-{a..c}.tar"),
            ("{{run}/a,b}", "{/r/a,b}"),
            ("@{run}/list-{name}.txt", "@/r/list-{name}.txt"),
            ("{", "{"),
            ("{run}{run}", "/r/r"),
        ] {
            assert_eq!(fill(input), expected, "{input}");
        }
    }

    #[test]
    fn replaces_names_and_leaves_the_rest() {
        for (template, expected) in [
            ("--lr={lr}", "--lr=0.1"),
            ("{{lr}}", "{lr}"),
            ("{print $1}", "{print $1}"),
            ("{}", "{}"),
            ("{", "{"),
            ("é{lr}é", "é0.1é"),
            ("{unknown}", "{unknown}"),
            ("{{{lr}}}", "{0.1}"),
            ("}", "}"),
            ("{\"a\": {lr}}", "{\"a\": 0.1}"),
        ] {
            assert_eq!(fill(template), expected, "{template}");
        }
    }
}
