//! Placeholders in argv and environment: each must be one that every job of the stage has.

use std::collections::HashSet;

use gpulane_model::template::{self, Piece};

use crate::command::Text;
use crate::document::RawStage;
use crate::entries::{KeyUse, Point};
use crate::nearest::did_you_mean;
use crate::problems::Problems;

/// What a stage's jobs can fill in.
pub(crate) struct Fillings<'e> {
    /// `None`: unknown because something else is wrong.
    pub(crate) keys: Option<&'e KeyUse>,
    pub(crate) points: &'e [Point],
    pub(crate) has_input: bool,
}

/// Reports every placeholder that some job could not fill.
pub(crate) fn check(stage: &RawStage, fillings: &Fillings<'_>, problems: &mut Problems<'_>) {
    let settings = &stage.settings;
    let args = settings.command.iter().flat_map(|command| &command.args);
    // One report per name: the scan for a job without the key is not free.
    let mut partial = HashSet::new();
    for text in args.chain(settings.env.values()) {
        for piece in template::pieces(&text.value) {
            let Piece::Placeholder { name, at } = piece else { continue };
            if template::BUILT_IN.contains(&name) {
                if name == "input" && !fillings.has_input {
                    no_input(text, at, problems);
                }
                continue;
            }
            let Some(keys) = fillings.keys else { continue };
            match keys.counts.get(name) {
                None => unknown(text, name, at, fillings, keys, problems),
                Some(count) if *count < keys.points && partial.insert(name) => {
                    not_everywhere(text, name, at, fillings, problems);
                }
                Some(_) => {}
            }
        }
    }
}

fn no_input(text: &Text, at: usize, problems: &mut Problems<'_>) {
    problems
        .error(&text.part(at, "{input}".len()), "`{input}` needs `foreach`")
        .label("there is no other job whose output could come in")
        .help("add `foreach = \"STAGE\"`, or write `{{input}}` for the text itself");
}

/// Placeholders of other tools, and ours.
const CONFUSIONS: [(&str, &str); 9] = [
    ("output", "out"),
    ("out_dir", "out"),
    ("output_dir", "out"),
    ("outdir", "out"),
    ("cfg", "config"),
    ("num_gpus", "gpus"),
    ("ngpus", "gpus"),
    ("run_dir", "run"),
    ("in", "input"),
];

fn unknown(
    text: &Text,
    name: &str,
    at: usize,
    fillings: &Fillings<'_>,
    keys: &KeyUse,
    problems: &mut Problems<'_>,
) {
    if !problems.surely_unknown(name) {
        return;
    }
    let built_in = template::BUILT_IN.iter().copied().filter(|name| fillings.has_input || *name != "input");
    let meant = CONFUSIONS
        .iter()
        .find(|(theirs, ours)| *theirs == name && (fillings.has_input || *ours != "input"))
        .map(|(_, ours)| *ours)
        .or_else(|| problems.nearest.find(name, keys.counts.keys().map(String::as_str).chain(built_in)));
    let remedy = match meant {
        Some(word) => format!("write `{{{word}}}`"),
        None if problems.nearest.is_spent() => "give the jobs such a key".to_owned(),
        None => known_here(fillings, keys),
    };
    problems
        .error(
            &text.part(at, name.len() + 2),
            format!("unknown placeholder `{{{name}}}`{}", did_you_mean(meant)),
        )
        .label("no such config key or placeholder")
        .help(if text.value[..at].ends_with('$') {
            format!("{remedy}; write `${name}` or `${{{{{name}}}}}` for a variable of the shell")
        } else {
            format!("{remedy}; write `{{{{{name}}}}}` for the text itself")
        });
}

fn known_here(fillings: &Fillings<'_>, keys: &KeyUse) -> String {
    let mut known: Vec<&str> = keys.counts.keys().map(String::as_str).collect();
    known.sort_unstable();
    known.truncate(20);
    known.extend(template::BUILT_IN.iter().filter(|name| fillings.has_input || **name != "input"));
    format!("known here: {}", known.join(", "))
}

fn not_everywhere(text: &Text, name: &str, at: usize, fillings: &Fillings<'_>, problems: &mut Problems<'_>) {
    let without = fillings.points.iter().find(|point| !point.config.entries().contains_key(name));
    let who = without.map_or_else(|| "a job".to_owned(), |point| format!("job `{}`", point.name));
    problems
        .error(&text.part(at, name.len() + 2), format!("`{{{name}}}` is not in every job's config"))
        .label(format!("{who} has no `{name}`"))
        .help(format!("give every job of this stage a `{name}`, or pass `{{config}}` instead"));
}
