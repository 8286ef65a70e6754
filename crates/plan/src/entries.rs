//! Points written out one by one: `[[stage.job]]` tables and the matrix's `include`. Each is turned at once into
//! its name and config text, so that a hundred thousand of them never exist as trees of values.

use std::collections::HashMap;

use gpulane_model::{Config, template};
use serde_json::{Map, Value};
use toml::de::{DeArray, DeTable, DeValue};

use crate::diagnostic::Span;
use crate::keys;
use crate::names;
use crate::problems::Problems;
use crate::reader::{Node, is_damage, text, wrong_kind};
use crate::value;

/// A job before it has its place in the plan.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) name: Box<str>,
    pub(crate) config: Config,
    /// Where to point if its name is taken.
    pub(crate) span: Span,
}

/// How many points have each config key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyUse {
    pub(crate) points: usize,
    pub(crate) counts: HashMap<String, usize>,
}

impl KeyUse {
    pub(crate) fn add(&mut self, key: &str, points: usize) {
        match self.counts.get_mut(key) {
            Some(count) => *count += points,
            None => _ = self.counts.insert(key.to_owned(), points),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.points += other.points;
        for (key, count) in &other.counts {
            self.add(key, *count);
        }
    }
}

/// Points written out one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    pub(crate) points: Vec<Point>,
    /// Also of those that were wrong: a placeholder for their keys is right.
    pub(crate) keys: KeyUse,
}

pub(crate) fn jobs(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Entries> {
    let DeValue::Array(items) = node.get_ref() else {
        wrong_kind("job", "a list of tables", node, problems)
            .help("write `[[stage.job]]` with double brackets, then `name = \"…\"` and `config = { … }`");
        return None;
    };
    if items.is_empty() {
        problems
            .error(&node.span(), "`job` is an empty list")
            .help("leave it out, or write `[[stage.job]]` tables");
        return None;
    }
    let mut entries = Entries::default();
    add_jobs(items, &mut entries, problems);
    Some(entries)
}

/// Reads these jobs behind those there are.
pub(crate) fn add_jobs(items: &DeArray<'_>, entries: &mut Entries, problems: &mut Problems<'_>) {
    entries.points.reserve(items.len());
    for item in items {
        if let DeValue::Table(table) = item.get_ref() {
            job(table, &item.span(), entries, problems);
        } else {
            wrong_kind("job", "a list of tables", item, problems)
                .help("write `[[stage.job]]`, then `config = { … }`");
        }
    }
}

fn job(table: &DeTable<'_>, span: &Span, entries: &mut Entries, problems: &mut Problems<'_>) {
    let mut name = None;
    let mut config = Some(Map::new());
    let mut name_span = span.clone();
    let mut damaged = false;
    for (key, node) in table {
        match key.get_ref().as_ref() {
            _ if is_damage(node) => damaged = true,
            "name" => {
                let written = text("name", node, problems);
                damaged |= written.is_none();
                name_span = node.span();
                name = written.map(|written| written.value);
            }
            "config" => {
                if let DeValue::Table(table) = node.get_ref() {
                    config = entry(table, &mut entries.keys, problems);
                } else {
                    config = None;
                    wrong_kind("config", "a table", node, problems)
                        .help("write for example `config = { lr = 0.001 }`");
                }
            }
            other => unknown(other, &key.span(), problems),
        }
    }
    entries.keys.points += 1;
    let Some(config) = config.filter(|_| !damaged) else { return };
    let derived = name.clone().unwrap_or_else(|| names::from_config(&config));
    if derived.is_empty() {
        let message = if name.is_some() {
            "a job's name must not be empty"
        } else {
            "this job has neither name nor config"
        };
        problems.error(&name_span, message).help("give it `name = \"…\"`, or a config to be named after");
        return;
    }
    entries.points.push(Point {
        name: names::for_job(&derived),
        config: Config::from_map(&config),
        span: problems.placed(&name_span),
    });
}

fn unknown(key: &str, span: &Span, problems: &mut Problems<'_>) {
    if keys::STAGE.contains(&key) {
        problems
            .error(span, format!("`{key}` belongs to the stage, not to one job"))
            .label("everything below `[[stage.job]]` is this job's")
            .help(format!("move `{key}` above the first `[[stage.job]]`"));
    } else {
        keys::unknown(key, span, &keys::JOB, "a job", problems);
    }
}

/// The entries of a config; `None` if a value is wrong. Its keys count either way.
pub(crate) fn entry(
    table: &DeTable<'_>,
    keys: &mut KeyUse,
    problems: &mut Problems<'_>,
) -> Option<Map<String, Value>> {
    let mut config = Map::new();
    let mut sound = true;
    for (key, node) in table {
        let name = key.get_ref();
        sound &= check_key(name, &key.span(), problems);
        keys.add(name, 1);
        match value::json(node, problems) {
            Some(value) => _ = config.insert(name.clone().into_owned(), value),
            None => sound = false,
        }
    }
    sound.then_some(config)
}

/// Reports a config key that could not stand in braces, or would hide a placeholder every job has.
pub(crate) fn check_key(key: &str, span: &Span, problems: &mut Problems<'_>) -> bool {
    let mut chars = key.chars();
    let sound = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !sound {
        problems
            .error(span, format!("`{}` cannot be a config key", keys::shown(key)))
            .label("could not stand in a placeholder")
            .help("a key begins with a letter or `_`; letters, digits and `_-.` follow");
        return false;
    }
    if template::BUILT_IN.contains(&key) {
        problems
            .error(span, format!("the config key `{key}` would hide the placeholder `{{{key}}}`"))
            .label("every job already has a placeholder of this name")
            .help(format!("rename it, for example to `{}`", renamed(key)));
        return false;
    }
    true
}

fn renamed(key: &str) -> String {
    match key {
        "gpus" => "gpu_count".to_owned(),
        "name" => "model_name".to_owned(),
        other => format!("my_{other}"),
    }
}

/// The extra points of a matrix's `include`.
pub(crate) fn include(node: &Node<'_>, problems: &mut Problems<'_>) -> Entries {
    let mut entries = Entries::default();
    let DeValue::Array(items) = node.get_ref() else {
        wrong_kind("include", "a list of tables", node, problems)
            .help("write for example `include = [{ lr = 0.1, seed = 7 }]`");
        return entries;
    };
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            wrong_kind("include", "a list of tables", item, problems);
            continue;
        };
        entries.keys.points += 1;
        let Some(config) = entry(table, &mut entries.keys, problems) else { continue };
        if config.is_empty() {
            problems.error(&item.span(), "this point of `include` is empty");
            continue;
        }
        let name = names::for_job(&names::from_config(&config));
        entries.points.push(Point { name, config: Config::from_map(&config), span: item.span() });
    }
    entries
}
