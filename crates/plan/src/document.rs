//! The document as a whole: parses the text, reads the top level and every stage. Nothing here knows how stages
//! depend on one another.

use std::rc::Rc;

use toml::de::{DeTable, DeValue};

use crate::bulk::{self, Bulk};
use crate::diagnostic::Span;
use crate::entries::{self, Entries};
use crate::keys;
use crate::names;
use crate::parse;
use crate::problems::Problems;
use crate::reader::{Node, Placed, is_damage, text, wrong_kind};
use crate::settings::Settings;

/// A plan as it was written.
#[derive(Default)]
pub(crate) struct RawPlan {
    pub(crate) name: Option<String>,
    pub(crate) stages: Vec<RawStage>,
}

/// A stage as it was written, with the defaults filled in.
pub(crate) struct RawStage {
    /// A stage whose name is missing is checked all the same, but nothing can refer to it.
    pub(crate) name: Option<Placed<String>>,
    /// Its `[[stage]]`.
    pub(crate) span: Span,
    pub(crate) settings: Settings,
}

/// Reads the whole text; what can be read is read, whatever is wrong elsewhere.
pub(crate) fn read<'s>(source: &'s str, problems: &mut Problems<'s>) -> RawPlan {
    if let Some(bulk) = Bulk::of(source) {
        if let Some(plan) = read_bulk(&bulk, source, problems) {
            return plan;
        }
        *problems = Problems::new(source);
    }
    let (tree, errors) = match parse::document(source) {
        Ok(parsed) => parsed,
        Err(opening) => {
            too_deep(&opening, problems);
            return RawPlan::default();
        }
    };
    for error in &errors {
        // Further errors on one line mostly follow from its first.
        if !error.span().is_some_and(|span| problems.is_damaged_at(span.start)) {
            syntax(error, source, problems);
        }
    }
    let (mut plan, defaults) = read_tree(tree.get_ref(), problems);
    for stage in &mut plan.stages {
        stage.settings.fill_from(&defaults);
    }
    plan
}

/// A plan with very many explicit jobs, a piece at a time. `None` if it must be read as a whole after all.
fn read_bulk(bulk: &Bulk, source: &str, problems: &mut Problems<'_>) -> Option<RawPlan> {
    let tree = parse::sound_document(&bulk.frame)?;
    let heads = bulk.stage_heads(tree.get_ref())?;
    let (mut plan, defaults) = read_tree(tree.get_ref(), problems);
    for (stage, pieces) in bulk.pieces_by_stage(&heads)? {
        let mut entries = Entries::default();
        for piece in pieces {
            let tree = parse::sound_document(source.get(piece.clone())?)?;
            problems.base = piece.start;
            entries::add_jobs(bulk::only_jobs(tree.get_ref())?, &mut entries, problems);
            problems.base = 0;
        }
        let settings = &mut plan.stages.get_mut(stage)?.settings;
        settings.written.push(Placed::new("job", heads[stage].clone()));
        settings.jobs = Some(Rc::new(entries));
    }
    for stage in &mut plan.stages {
        stage.settings.fill_from(&defaults);
    }
    Some(plan)
}

fn read_tree(tree: &DeTable<'_>, problems: &mut Problems<'_>) -> (RawPlan, Settings) {
    let mut plan = RawPlan::default();
    let mut defaults = Settings::default();
    let mut stages = None;
    for (key, node) in tree {
        match key.get_ref().as_ref() {
            "name" if is_damage(node) => {}
            "name" => plan.name = plan_name(node, problems),
            "defaults" => defaults = read_defaults(node, problems),
            "stage" => stages = Some(node),
            other => keys::unknown_in_plan(other, &key.span(), problems),
        }
    }
    match stages {
        Some(node) => plan.stages = read_stages(node, problems),
        None if problems.is_damaged() || tree.contains_key("stages") => {}
        None => _ = problems.error(&(0..0), "the plan has no stage").help(keys::STAGE_HELP),
    }
    (plan, defaults)
}

fn too_deep(opening: &Span, problems: &mut Problems<'_>) {
    problems
        .syntax(Some(opening.clone()), format!("not TOML: brackets are open {} deep", parse::DEEPEST + 1))
        .label("the outermost of them; is it closed?");
}

fn syntax(error: &toml::de::Error, source: &str, problems: &mut Problems<'_>) {
    let message = error.message();
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let raw = error.span().and_then(|span| source.get(span)).unwrap_or_default();
    let starts_line =
        error.span().is_some_and(|span| source[..span.start].trim_end_matches(' ').ends_with('\n'));
    let (message, help) = match (what, raw) {
        ("duplicate key", raw) => (
            format!("duplicate key `{}`", keys::shown(raw)),
            Some("each key stands once in a table".to_owned()),
        ),
        ("missing comma between array elements", _) if starts_line => {
            (what.to_owned(), Some("or does a line above lack its `]`?".to_owned()))
        }
        (what, "True" | "False") => (what.to_owned(), Some(format!("write `{}`", raw.to_lowercase()))),
        (what, "None" | "null" | "nil") => {
            (what.to_owned(), Some("TOML has no empty value; leave the key out".to_owned()))
        }
        ("invalid boolean", word) => {
            (format!("`{}` is no value", keys::shown(word)), Some(format!("write text in quotes: {word:?}")))
        }
        (what, _) => (what.to_owned(), None),
    };
    let expected = if what == "invalid boolean" { "" } else { expected };
    let label = if expected.is_empty() { String::new() } else { format!("expected {expected}") };
    problems.syntax(error.span(), format!("not TOML: {message}")).label(label).maybe_help(help);
}

fn plan_name(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let name = text("name", node, problems)?;
    names::check(&name.value, "plan", &name.span, problems).then_some(name.value)
}

fn read_defaults(node: &Node<'_>, problems: &mut Problems<'_>) -> Settings {
    let mut settings = Settings::default();
    match node.get_ref() {
        _ if is_damage(node) => {}
        DeValue::Table(table) => {
            for (key, node) in table {
                if key.get_ref() == "name" {
                    problems
                        .error(&key.span(), "`name` cannot have a default")
                        .label("every stage has a name of its own");
                } else if !settings.read(key.get_ref(), key.span(), node, problems)
                    && !is_args_of_map(key.get_ref(), &key.span(), node, table, problems)
                {
                    settings.read_unknown(key.get_ref(), key.span(), "`[defaults]`", node, problems);
                }
            }
        }
        _ => {
            wrong_kind("defaults", "a table", node, problems)
                .help("write `[defaults]`, then for example `retries = 1`");
        }
    }
    settings
}

fn read_stages(node: &Node<'_>, problems: &mut Problems<'_>) -> Vec<RawStage> {
    match node.get_ref() {
        _ if is_damage(node) => Vec::new(),
        DeValue::Array(items) => {
            if items.is_empty() {
                problems.error(&node.span(), "the plan has no stage").help(keys::STAGE_HELP);
            }
            items.iter().filter_map(|item| read_stage(item, problems)).collect()
        }
        DeValue::Table(table) => {
            single_brackets(table, &node.span(), problems);
            Vec::new()
        }
        _ => {
            wrong_kind("stage", "a list of tables", node, problems).help(keys::STAGE_HELP);
            Vec::new()
        }
    }
}

/// `[stage]` or `[stage.train]` instead of `[[stage]]`.
fn single_brackets(table: &DeTable<'_>, span: &Span, problems: &mut Problems<'_>) {
    let named = table
        .iter()
        .find(|(key, node)| node.get_ref().is_table() && !keys::STAGE.contains(&key.get_ref().as_ref()));
    let help = match named {
        Some((key, _)) => {
            format!("write `[[stage]]`, then `name = {:?}` below it", keys::shown(key.get_ref()))
        }
        None => "write `[[stage]]` with double brackets".to_owned(),
    };
    problems
        .error(span, "stages are a list: each begins with `[[stage]]`")
        .label("single brackets make a single table")
        .help(help);
}

/// A wrong name is kept: other stages may refer to it, and they are right.
fn stage_name(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    if is_damage(node) {
        return None;
    }
    let name = text("name", node, problems)?;
    names::check(&name.value, "stage", &name.span, problems);
    Some(name)
}

fn read_stage(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<RawStage> {
    let DeValue::Table(table) = node.get_ref() else {
        wrong_kind("stage", "a list of tables", node, problems).help(keys::STAGE_HELP);
        return None;
    };
    let mut stage = RawStage { name: None, span: node.span(), settings: Settings::default() };
    let mut has_name = false;
    for (key, node) in table {
        if key.get_ref() == "name" {
            has_name = true;
            stage.name = stage_name(node, problems);
        } else if !stage.settings.read(key.get_ref(), key.span(), node, problems)
            && !is_args_of_map(key.get_ref(), &key.span(), node, table, problems)
        {
            let meant = stage.settings.read_unknown(key.get_ref(), key.span(), "a stage", node, problems);
            has_name |= meant == Some("name");
        }
    }
    if !has_name && !problems.is_damaged() {
        problems
            .error(&stage.span, "this stage has no name")
            .label("a stage needs a name")
            .help("write for example `name = \"train\"`");
    }
    Some(stage)
}

/// Whether this key is what a map has, not a stage: of what runs, only a command could have a list of that name. It has been said.
fn is_args_of_map(
    key: &str,
    span: &Span,
    node: &Node<'_>,
    beside: &DeTable<'_>,
    problems: &mut Problems<'_>,
) -> bool {
    let (entry, map) = (beside.contains_key("entry"), beside.contains_key("map"));
    if key != "args" || !(node.get_ref().is_table() || entry || map) {
        return false;
    }
    let help = if map {
        "move it into `map = { … }`"
    } else {
        "values for jobs stand below `[stage.matrix]`, or in the `config` of a `[[stage.job]]`"
    };
    problems.error(span, "`args` belongs to `map`").label("not a key of a stage").help(help);
    true
}
