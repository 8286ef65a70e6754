//! The document as a whole: parses the text, reads the top level and every stage. Nothing here knows how stages
//! depend on one another.

use toml::de::{DeTable, DeValue};

use crate::diagnostic::Span;
use crate::keys;
use crate::names;
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
    /// A stage whose name is missing or wrong is checked all the same, but nothing can refer to it.
    pub(crate) name: Option<Placed<String>>,
    /// Its `[[stage]]`.
    pub(crate) span: Span,
    pub(crate) settings: Settings,
}

/// Reads the whole text; what can be read is read, whatever is wrong elsewhere.
pub(crate) fn read(source: &str, problems: &mut Problems<'_>) -> RawPlan {
    let (tree, errors) = DeTable::parse_recoverable(source);
    for error in &errors {
        syntax(error, source, problems);
    }
    let mut plan = RawPlan::default();
    let mut defaults = Settings::default();
    let mut stages = None;
    for (key, node) in tree.get_ref() {
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
        None if problems.is_damaged() || tree.get_ref().contains_key("stages") => {}
        None => {
            problems.error(&(0..0), "the plan has no stage").help(keys::STAGE_HELP);
        }
    }
    for stage in &mut plan.stages {
        stage.settings.fill_from(&defaults);
    }
    plan
}

fn syntax(error: &toml::de::Error, source: &str, problems: &mut Problems<'_>) {
    let message = error.message();
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let raw = error.span().and_then(|span| source.get(span)).unwrap_or_default();
    let (message, help) = match (what, raw) {
        ("duplicate key", raw) => (
            format!("duplicate key `{}`", keys::shown(raw)),
            Some("each key stands once in a table".to_owned()),
        ),
        (what, "True" | "False") => (what.to_owned(), Some(format!("write `{}`", raw.to_lowercase()))),
        (what, "None" | "null" | "nil") => {
            (what.to_owned(), Some("TOML has no empty value; leave the key out".to_owned()))
        }
        (what, _) => (what.to_owned(), None),
    };
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
                } else if !settings.read(key.get_ref(), key.span(), node, problems) {
                    keys::unknown(key.get_ref(), &key.span(), &keys::STAGE, "`[defaults]`", problems);
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
            stage.name = text("name", node, problems)
                .filter(|_| !is_damage(node))
                .filter(|name| names::check(&name.value, "stage", &name.span, problems));
        } else if !stage.settings.read(key.get_ref(), key.span(), node, problems) {
            keys::unknown(key.get_ref(), &key.span(), &keys::STAGE, "a stage", problems);
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
