//! `entry`, `python` and `standbys`: a Python function instead of a command, and the warm processes kept for it.

use gpulane_model::{Stage, Standbys, template};
use template::Piece;
use toml::de::DeValue;

use crate::document::RawStage;
use crate::problems::Problems;
use crate::reader::{Node, Placed, count, text};
use crate::words::one_of_or;

/// What runs an entry: part of the Python package that is put into the run directory.
const RUNNER: &str = "{run}/.python/gpulane/_entry.py";
/// Placeholders that mean the same to all jobs of a stage.
const SHARED: [&str; 2] = ["run", "gpus"];

pub(crate) fn standbys(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Standbys> {
    match node.get_ref() {
        DeValue::String(_) => {
            let words = [("auto", Standbys::Auto), ("off", Standbys::Off)];
            one_of_or("standbys", &words, "a number per lane", node, problems)
        }
        _ => match count("standbys", "\"auto\", \"off\" or a number per lane", 0..=64, node, problems)? {
            0 => Some(Standbys::Off),
            number => Some(Standbys::PerLane(number)),
        },
    }
}

/// `FILE.py:name`, a function or a class.
pub(crate) fn python_object(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let written = text(key, node, problems)?;
    let sound = written.value.rsplit_once(':').is_some_and(|(file, object)| {
        !file.trim().is_empty()
            && !file.contains('\0')
            && object.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && object.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.')
    });
    if !sound {
        problems
            .error(&written.span, format!("`{key}` must name a file and what is in it"))
            .label("expected FILE.py:NAME")
            .help(match key {
                "model" => "write for example `embed.py:Embed`".to_owned(),
                _ => format!("write for example `{key} = \"train.py:main\"`"),
            });
        return None;
    }
    Some(written.value)
}

/// A Python function instead of a command.
pub(crate) fn entry(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    let entry = python_object("entry", node, problems)?;
    Some(Placed::new(entry, node.span()))
}

/// The Python that runs it.
pub(crate) fn python(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let written = text("python", node, problems)?;
    if written.value.trim().is_empty() || written.value.contains('\0') {
        problems.error(&written.span, "`python` must not be empty").help("write for example \"python3.12\"");
        return None;
    }
    Some(written.value)
}

/// What a stage with an entry, or with standbys, should know.
pub(crate) fn check_stage(stage: &RawStage, problems: &mut Problems<'_>) {
    let settings = &stage.settings;
    let (entry, map) = (settings.place_of("entry").is_some(), settings.place_of("map").is_some());
    if let Some(span) = settings.place_of("python").filter(|_| !entry && !settings.inherited.python) {
        let help = if map {
            "move it into `map = { … }`"
        } else {
            "a command names its program itself: write it first in `command`"
        };
        problems.error(span, "`python` goes with `entry`").label("means nothing here").help(help);
    }
    let written = settings.place_of("standbys").filter(|_| !settings.inherited.standbys);
    let Some(span) = written.filter(|_| settings.standbys.is_some_and(|standbys| standbys != Standbys::Off))
    else {
        return tell_differences(stage, entry, problems);
    };
    if !entry && !map {
        let help = "a stage with `entry = \"train.py:main\"` instead of `command` has them";
        problems.note(span, "`standbys` has no effect without `entry`").help(help);
    } else if settings.gpus.is_some_and(|gpus| gpus > 1) {
        problems.note(span, "`standbys` has no effect: only jobs on one GPU, or none, have standbys");
    }
    tell_differences(stage, entry || map, problems);
}

/// Standbys are made before it is known for which job.
fn tell_differences(stage: &RawStage, wanted: bool, problems: &mut Problems<'_>) {
    let settings = &stage.settings;
    if !wanted || settings.standbys == Some(Standbys::Off) || settings.gpus.is_some_and(|gpus| gpus > 1) {
        return;
    }
    for (name, text) in &settings.env {
        if let Some((placeholder, at)) = own_placeholder(&text.value) {
            let length = placeholder.len() + 2;
            problems
                .note(
                    &text.part(at, length),
                    format!("no standbys for this stage: `{name}` differs from job to job"),
                )
                .label("a standby gets its environment before its job")
                .help(match placeholder {
                    "lane" | "name" | "job" | "out" | "input" | "config" | "config_file" => {
                        format!("ask for `{placeholder}` in the function, or write `standbys = \"off\"`")
                    }
                    _ => format!("take `{placeholder}` from the config, or write `standbys = \"off\"`"),
                });
            return;
        }
    }
}

/// The first placeholder that stands for something of a job's own, and where.
fn own_placeholder(text: &str) -> Option<(&str, usize)> {
    template::pieces(text).into_iter().find_map(|piece| match piece {
        Piece::Placeholder { name, at } if !SHARED.contains(&name) => Some((name, at)),
        _ => None,
    })
}

/// What follows for a stage from having an entry.
pub(crate) fn settle(stage: &mut Stage) {
    if stage.env.values().any(|value| own_placeholder(value).is_some()) {
        stage.standbys = Standbys::Off;
    }
    let Some(entry) = &stage.entry else { return };
    let python = stage.python.as_deref().unwrap_or("python3");
    stage.command = vec![verbatim(python), RUNNER.to_owned()];
    if stage.standbys == Standbys::Off {
        // Nothing is imported before its time, so the file may ask for its job at once.
        stage.command.push("--alone".to_owned());
    }
    stage.command.push(verbatim(entry));
}

/// As it must be written where placeholders are filled in.
pub(crate) fn verbatim(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}
