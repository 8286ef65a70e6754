//! `command` and `env`: the texts in which placeholders may stand, read together with where each begins in the
//! source, so that a wrong placeholder can be pointed at exactly.

use std::collections::BTreeMap;

use gpulane_model::env_vars;
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::keys;
use crate::problems::Problems;
use crate::reader::{Node, is_damage, quoted, wrong_kind};

/// A text with placeholders.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) span: Span,
    /// Where its first byte stands in the source, if it stands there without escapes.
    pub(crate) verbatim: Option<usize>,
}

impl Text {
    pub(crate) fn read(node: &Node<'_>, value: &str, source: &str) -> Self {
        let span = node.span();
        let verbatim = source.get(span.clone()).and_then(|raw| {
            let at = raw.find(value)?;
            // The quotes are all that may stand around it; a multi-line string may begin with a line break.
            let around = |part: &str| part.chars().all(|c| matches!(c, '"' | '\'' | '\r' | '\n'));
            (around(&raw[..at]) && around(&raw[at + value.len()..])).then_some(span.start + at)
        });
        Self { value: value.to_owned(), span, verbatim }
    }

    /// The place of a part of it, or of all of it.
    pub(crate) fn part(&self, at: usize, len: usize) -> Span {
        self.verbatim.map_or_else(|| self.span.clone(), |start| start + at..start + at + len)
    }
}

/// An argv with its place.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) args: Vec<Text>,
    pub(crate) span: Span,
}

pub(crate) fn command(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Command> {
    let items = match node.get_ref() {
        DeValue::Array(items) => items,
        DeValue::String(line) => {
            problems
                .error(&node.span(), "`command` must be a list of arguments, not one string")
                .label("no shell reads this")
                .help(format!("write `command = {}`", as_list(line)));
            return None;
        }
        _ => {
            wrong_kind("command", "a list of strings", node, problems);
            return None;
        }
    };
    let args: Vec<_> = items.iter().map(|item| argument(item, problems)).collect();
    let args: Vec<Text> = args.into_iter().collect::<Option<_>>()?;
    let command = Command { args, span: node.span() };
    check(&command, problems).then_some(command)
}

/// What is wrong with an argv as a whole: no program, or a whole line as the program.
pub(crate) fn check(command: &Command, problems: &mut Problems<'_>) -> bool {
    let Some(program) = command.args.first() else {
        problems
            .error(&command.span, "`command` is empty")
            .label("no program to start")
            .help("write for example `command = [\"python\", \"train.py\"]`");
        return false;
    };
    if program.value.trim().is_empty() {
        problems.error(&program.span, "the program's name is empty").label("no program to start");
        return false;
    }
    if command.args.len() == 1 && program.value.contains(' ') && !program.value.contains('/') {
        problems
            .warning(&program.span, "this looks like a whole command line in one argument")
            .label("taken as the name of one program")
            .help(format!("write {}", as_list(&program.value)));
    }
    true
}

fn argument(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Text> {
    let DeValue::String(text) = node.get_ref() else {
        let help = quoted(node, problems).map(|text| format!("write {text}"));
        wrong_kind("command", "a list of strings", node, problems).maybe_help(help);
        return None;
    };
    without_nul(text, node, problems).then(|| Text::read(node, text, problems.text()))
}

fn without_nul(text: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> bool {
    let clean = !text.contains('\0');
    if !clean {
        problems
            .error(&node.span(), "this text contains a NUL character")
            .label("no process can receive it in an argument or its environment");
    }
    clean
}

/// A command line as the list it should have been. With shell syntax in it, a shell must be named.
fn as_list(line: &str) -> String {
    let quote = |text: &str| format!("{text:?}");
    let short = line.len() <= 200 && !line.contains(|c: char| c.is_control());
    if !short {
        return "[\"python\", \"train.py\"]".to_owned();
    }
    if line.contains(['|', '>', '<', '&', ';', '$', '`', '*']) {
        return format!("[\"bash\", \"-c\", {}]", quote(line));
    }
    let words: Vec<String> = split_words(line).iter().map(|word| quote(word)).collect();
    format!("[{}]", words.join(", "))
}

/// Words as a shell would see them, as far as quotes go.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Extra environment. Wrong entries are reported and left out.
pub(crate) fn env(node: &Node<'_>, problems: &mut Problems<'_>) -> BTreeMap<String, Text> {
    let DeValue::Table(table) = node.get_ref() else {
        wrong_kind("env", "a table", node, problems).help("write for example `env = { KEY = \"value\" }`");
        return BTreeMap::new();
    };
    let mut env = BTreeMap::new();
    for (key, value) in table {
        let name = key.get_ref();
        if !variable_name(name, &key.span(), problems) || is_damage(value) {
            continue;
        }
        let DeValue::String(text) = value.get_ref() else {
            let help = quoted(value, problems).map(|text| format!("write {text}"));
            wrong_kind(&keys::shown(name), "a string", value, problems).maybe_help(help);
            continue;
        };
        if without_nul(text, value, problems) {
            env.insert(name.clone().into_owned(), Text::read(value, text, problems.text()));
        }
    }
    env
}

fn variable_name(name: &str, span: &Span, problems: &mut Problems<'_>) -> bool {
    if name.is_empty() || name.contains(['=', '\0']) {
        problems
            .error(span, "this is no name for an environment variable")
            .label("empty, or contains `=` or NUL");
        return false;
    }
    if name.starts_with("GPULANE_") {
        problems
            .error(span, format!("`{}` is set by gpulane itself", keys::shown(name)))
            .label("names with GPULANE_ are reserved")
            .help("choose another name");
        return false;
    }
    if name == env_vars::CUDA_VISIBLE_DEVICES {
        problems
            .error(span, "`CUDA_VISIBLE_DEVICES` is set by gpulane itself")
            .label("each job sees the GPUs it was given")
            .help("choose GPUs for the whole run with `--gpus 0,2`, and how many a job takes with `gpus`");
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_the_list_it_should_have_been() {
        for (line, list) in [
            ("python train.py --lr {lr}", r#"["python", "train.py", "--lr", "{lr}"]"#),
            ("echo 'a b' c", r#"["echo", "a b", "c"]"#),
            ("cd x && make", r#"["bash", "-c", "cd x && make"]"#),
            ("", "[]"),
        ] {
            assert_eq!(as_list(line), list);
        }
    }
}
