//! Programs that cannot be started, shown where the plan names them. Whether they can is found out elsewhere, since
//! nothing here looks at the disk; this room knows the place and the words.

use std::path::Path;

use gpulane_model::Plan;
use toml::de::{DeTable, DeValue};

use crate::adhoc;
use crate::bulk::Bulk;
use crate::command::Text;
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::nearest::Nearest;
use crate::parse;
use crate::reader::Node;
use crate::source::Source;

/// There are thousands of programs on a PATH; only one that is really near was meant.
const NEAR: f64 = 0.75;

/// A program without a slash that is not on the PATH of this stage. `known` are the names of those that are.
pub fn missing_program(
    source: &Source,
    plan: &Plan,
    stage: &str,
    program: &str,
    known: &[String],
) -> Diagnostic {
    let meant = Nearest::default().find_above(NEAR, program, known.iter().map(String::as_str));
    let help = match meant {
        Some(name) => format!("did you mean `{name}`?"),
        None => "install it, activate its environment, or write the program's path".to_owned(),
    };
    Diagnostic {
        severity: Severity::Error,
        message: format!("`{program}` is not on the PATH"),
        span: place(source, plan, stage, program),
        label: "not on the PATH".to_owned(),
        help: Some(help),
    }
}

/// A program given by its path that is there but cannot be executed.
pub fn not_executable(source: &Source, plan: &Plan, stage: &str, program: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        message: format!("`{program}` is not executable"),
        span: place(source, plan, stage, program),
        label: "cannot be started".to_owned(),
        help: Some(match interpreter(program) {
            Some(name) => format!("write its interpreter before it: `{name}`; or make it executable"),
            None => "make it executable with `chmod +x`".to_owned(),
        }),
    }
}

/// A program given by its path that is not there. An earlier stage may make it, so it is a doubt and no mistake.
pub fn not_there_yet(source: &Source, plan: &Plan, stage: &str, program: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        message: format!("`{program}` does not exist yet"),
        span: place(source, plan, stage, program),
        label: "not there now".to_owned(),
        help: Some("right if an earlier stage makes it; paths start where gpulane was called".to_owned()),
    }
}

/// The file of an entry cannot be read; `why` says how.
pub fn missing_file(source: &Source, stage: &str, entry: &str, why: &str) -> Diagnostic {
    let file = entry.rsplit_once(':').map_or(entry, |(file, _)| file);
    Diagnostic {
        severity: Severity::Error,
        message: format!("cannot read `{file}`: {why}"),
        span: entry_place(source, stage, entry, 0..file.len()),
        label: "the file of the entry".to_owned(),
        help: Some(match misspelt(entry) {
            Some(meant) => format!("an entry is a file, one colon and a function: write `{meant}`"),
            None => "paths start where gpulane was called".to_owned(),
        }),
    }
}

/// An entry as it should be written: `src.train:main` is a module, `src/train:main` has no ending, `train.py::main` a colon too many.
fn misspelt(entry: &str) -> Option<String> {
    let (written, name) = entry.rsplit_once(':')?;
    let file = written.trim_end_matches(':');
    match Path::new(file).extension().and_then(|ending| ending.to_str()) {
        Some("py") => return (file != written).then(|| format!("{file}:{name}")),
        Some("ipynb" | "pyc" | "pyw" | "txt" | "sh" | "json" | "toml") => return None,
        _ => {}
    }
    let is_module = file.split(['.', '/']).all(|part| {
        part.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    });
    is_module.then(|| format!("{}.py:{name}", file.replace('.', "/")))
}

/// The file of an entry has no such name. `known` are the classes and functions it has.
pub fn missing_name(source: &Source, stage: &str, entry: &str, known: &[String]) -> Diagnostic {
    let (file, name) = entry.rsplit_once(':').unwrap_or((entry, ""));
    let meant = Nearest::default().find(name, known.iter().map(String::as_str));
    let help = match meant {
        Some(meant) => format!("did you mean `{file}:{meant}`?"),
        None if known.is_empty() => "it has no function; write one: `def main(config, out):`".to_owned(),
        None => format!("it has `{}`", known.iter().take(8).cloned().collect::<Vec<_>>().join("`, `")),
    };
    Diagnostic {
        severity: Severity::Error,
        message: format!("`{file}` has no `{name}`"),
        span: entry_place(source, stage, entry, file.len() + 1..entry.len()),
        label: "stands nowhere in the file".to_owned(),
        help: Some(help),
    }
}

/// A script, of an entry or in a command, that chooses its GPU itself on this line.
pub fn chooses_gpu(source: &Source, plan: &Plan, stage: &str, file: &str, line: usize) -> Diagnostic {
    let planned = plan.stages.iter().find(|planned| planned.name == stage);
    let entry = planned.and_then(|planned| planned.entry.as_deref());
    Diagnostic {
        severity: Severity::Warning,
        message: format!("`{file}` sets CUDA_VISIBLE_DEVICES on line {line}"),
        span: match entry {
            Some(entry) => entry_place(source, stage, entry, 0..file.len()),
            None => place(source, plan, stage, file),
        },
        label: "would leave the GPU it was given".to_owned(),
        help: Some("remove that line: gpulane sets it for every job".to_owned()),
    }
}

fn interpreter(program: &str) -> Option<&'static str> {
    match program.rsplit_once('.')?.1 {
        "py" => Some("python3"),
        "sh" | "bash" => Some("bash"),
        _ => None,
    }
}

/// Where this word of a stage's command, its program or another, first stands in the source.
fn place(source: &Source, plan: &Plan, stage: &str, word: &str) -> Option<Span> {
    let planned = plan.stages.iter().find(|planned| planned.name == stage);
    planned
        .and_then(|planned| adhoc::word_place(&source.text, &planned.command, word))
        .or_else(|| in_document(&source.text, stage, word))
        .or_else(|| in_text(&source.text, stage, word))
}

/// The first argument of this text in the stage's command, or in the one in the defaults.
fn in_document(text: &str, stage: &str, word: &str) -> Option<Span> {
    with_key(text, stage, "command", |command| {
        command.get_ref().as_array()?.iter().find_map(|argument| match argument.get_ref() {
            DeValue::String(written) if written == word => {
                Some(Text::read(argument, written, text).part(0, word.len()))
            }
            _ => None,
        })
    })
}

/// Where a part of this stage's entry stands in the source.
fn entry_place(source: &Source, stage: &str, entry: &str, part: Span) -> Option<Span> {
    with_key(&source.text, stage, "entry", |node| match node.get_ref() {
        DeValue::String(written) if written == entry => {
            Some(Text::read(node, written, &source.text).part(part.start, part.len()))
        }
        _ => None,
    })
}

/// What `look` finds in the value of a stage's key, or of the one in the defaults.
fn with_key<T>(text: &str, stage: &str, key: &str, look: impl FnOnce(&Node<'_>) -> Option<T>) -> Option<T> {
    let bulk = Bulk::of(text);
    let tree = parse::sound_document(bulk.as_ref().map_or(text, |bulk| &bulk.frame))?;
    let stages = tree.get_ref().get("stage")?.get_ref().as_array()?;
    let named =
        |table: &&DeTable<'_>| table.get("name").is_some_and(|name| name.get_ref().as_str() == Some(stage));
    let table = stages.iter().filter_map(|item| item.get_ref().as_table()).find(named)?;
    let defaults = || tree.get_ref().get("defaults").and_then(|defaults| defaults.get_ref().as_table());
    look(table.get(key).or_else(|| defaults()?.get(key))?)
}

/// The first place after the stage's name where the program stands in quotes; for a text that is no sound document.
fn in_text(text: &str, stage: &str, program: &str) -> Option<Span> {
    let quoted = |word: &str, from: usize| {
        let rest = text.get(from..)?;
        let found =
            ['"', '\''].iter().filter_map(|quote| rest.find(&format!("{quote}{word}{quote}"))).min()?;
        Some(from + found + 1)
    };
    let name = quoted(stage, 0)?;
    let at = quoted(program, name + stage.len())?;
    Some(at..at + program.len())
}
