//! `map = { … }`: one model over many items. The same reading serves the flags of `gpulane map`. What the stage of a map may not
//! have is said here, too; whether model and inputs are there is found out by whoever may look at the disk.

use gpulane_model::{
    Bytes, DamagePolicy, Format, MapStage, Members, Millis, NanPolicy, PACKAGE_DIR, START_SCRIPT, Stage,
    Tolerance, template,
};
use serde_json::{Map, Value};
use toml::de::DeValue;

use crate::command::Text;
use crate::diagnostic::Span;
use crate::document::RawStage;
use crate::entry::{python_object, verbatim};
use crate::keys;
use crate::nearest::did_you_mean;
use crate::problems::Problems;
use crate::reader::{Limit, Node, Placed, boolean, count, duration, is_damage, text, texts, wrong_kind};
use crate::sweep;
use crate::words::one_of;

/// How often in a row a worker may fail before its model is loaded, if the plan does not say.
pub(crate) const RETRIES: u32 = 3;

/// A map over items.
pub(crate) fn read(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<MapStage>> {
    let DeValue::Table(table) = node.get_ref() else {
        wrong_kind("map", "a table", node, problems)
            .help("write for example `map = { model = \"embed.py:Embed\", input = [\"photos/*.jpg\"] }`");
        return None;
    };
    let mut map = MapStage::default();
    let (mut sound, mut has_model, mut has_input) = (true, false, false);
    for (key, value) in table {
        match key.get_ref().as_ref() {
            "model" => has_model = true,
            "input" => has_input = true,
            _ => {}
        }
        sound &= read_key(&mut map, key.get_ref(), &key.span(), value, problems).is_some();
    }
    for (key, present) in [("model", has_model), ("input", has_input)] {
        if !present && !problems.is_damaged() {
            sound = false;
            problems.error(&node.span(), format!("`map` needs `{key}`"));
        }
    }
    sound.then(|| Placed::new(map, node.span()))
}

/// Reads one key of a map. `None`: it is wrong, and that was said.
pub(crate) fn read_key(
    map: &mut MapStage,
    key: &str,
    span: &Span,
    value: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<()> {
    if is_damage(value) {
        return None;
    }
    match key {
        "model" => map.model = python_object("model", value, problems)?,
        "input" => {
            map.input = inputs(value, problems)?;
            if !map.lone {
                check_placeholders(value, problems)?;
            }
        }
        "decode" => map.decode = Some(parsed("decode", value, problems)?),
        "members" => map.members = Some(members(value, problems)?),
        "batch" => map.batch = auto_or("batch", 1_000_000, value, problems)?.at(),
        "format" => {
            let words = [("parquet", Format::Parquet), ("jsonl", Format::Jsonl)];
            map.format = one_of("format", &words, value, problems)?;
        }
        "threads" => map.threads = auto_or("threads", 4096, value, problems)?.at(),
        "workers" => map.workers = auto_or("workers", 4096, value, problems)?.at(),
        "max_failures" => map.max_failures = tolerance(value, problems)?,
        "nan" => {
            let words = [("keep", NanPolicy::Keep), ("fail", NanPolicy::Fail)];
            map.nan = one_of("nan", &words, value, problems)?;
        }
        "damaged" => {
            let words = [("fail", DamagePolicy::Fail), ("warn", DamagePolicy::Warn)];
            map.damaged = one_of("damaged", &words, value, problems)?;
        }
        "ring" => map.ring = Some(ring(value, problems)?),
        "item_timeout" => map.item_timeout = item_timeout(value, problems)?.at(),
        "strict" => map.strict = yes_or_no("strict", value, problems)?,
        "args" => map.args = args(value, problems)?,
        "python" => map.python = Some(not_empty("python", value, problems)?),
        other => {
            keys::unknown(other, span, &keys::MAP, "`map`", problems);
            return None;
        }
    }
    Some(())
}

fn inputs(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let list = texts("input", node, problems)?;
    if list.is_empty() || list.iter().any(|item| item.value.is_empty()) {
        problems.error(&node.span(), "`input` must not be empty");
        return None;
    }
    Some(list.into_iter().map(|item| item.value).collect())
}

/// A list of extensions, or a text with commas between them.
fn members(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Members> {
    const EXAMPLE: &str = "write for example `members = [\"json\", \"txt\"]`, or `members = \"*\"` for all";
    let read = match node.get_ref() {
        DeValue::String(line) => Members::from_line(line),
        DeValue::Array(_) => {
            let words = texts("members", node, problems)?;
            Members::parse(&words.iter().map(|word| word.value.trim()).collect::<Vec<_>>())
        }
        _ => {
            wrong_kind("members", "a list of extensions", node, problems).help(EXAMPLE);
            return None;
        }
    };
    match read {
        Ok(members) => Some(members),
        Err(error) => {
            problems.error(&node.span(), format!("`members`: {error}"));
            None
        }
    }
}

/// In a plan an input may name what the run itself has made.
fn check_placeholders(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<()> {
    let items = match node.get_ref() {
        DeValue::Array(items) => items.iter().collect(),
        _ => vec![node],
    };
    let mut sound = Some(());
    for item in items {
        let Some(value) = item.get_ref().as_str() else { continue };
        let text = Text::read(item, value, problems.text());
        for (name, at) in template::names_in_input(value) {
            if template::IN_INPUTS.contains(&name) {
                continue;
            }
            sound = None;
            let known = template::IN_INPUTS.map(|name| format!("{{{name}}}")).join(", ");
            let near = problems.nearest.find(name, template::IN_INPUTS);
            problems
                .error(
                    &text.part(at, name.len() + 2),
                    format!("unknown placeholder `{{{name}}}` in `input`{}", did_you_mean(near)),
                )
                .label("no such placeholder")
                .help(format!(
                    "known here: {known}; write `[{{]{name}}}` for a file with a brace in its name"
                ));
        }
    }
    sound
}

/// Keyword arguments of the model.
fn args(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Map<String, Value>> {
    let DeValue::Table(table) = node.get_ref() else {
        wrong_kind("args", "a table", node, problems).help("write for example `args = { threshold = 0.5 }`");
        return None;
    };
    let read = table.iter().map(|(key, value)| {
        let good = is_argument(key.get_ref(), &key.span(), problems);
        let value = crate::value::json(value, problems)?;
        good.then(|| (key.get_ref().clone().into_owned(), value))
    });
    read.collect::<Vec<_>>().into_iter().collect()
}

/// `--set KEY=VALUE`, which stands at `start` in the source; `None`: it is wrong, and that was said.
pub(crate) fn read_argument(
    map: &mut MapStage,
    given: &str,
    start: usize,
    problems: &mut Problems<'_>,
) -> Option<()> {
    let Some((key, text)) = given.split_once('=') else {
        problems
            .error(&(start..start + given.len()), "`--set` needs a name and its value")
            .label("no `=` in here")
            .help("write for example `--set threshold=0.5`");
        return None;
    };
    let span = start..start + key.len();
    if !is_argument(key, &span, problems) {
        return None;
    }
    let value = sweep::typed(text.trim()).unwrap_or_else(|| Value::String(text.to_owned()));
    if map.args.insert(key.to_owned(), value).is_some() {
        problems.error(&span, format!("`--set` gives `{key}` twice")).label("already given");
        return None;
    }
    Some(())
}

/// Whether it can be a keyword argument of Python's. If not, it has been said.
fn is_argument(key: &str, span: &Span, problems: &mut Problems<'_>) -> bool {
    let mut letters = key.chars();
    let sound = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !sound {
        problems
            .error(span, format!("`{}` cannot be an argument's name", keys::shown(key)))
            .help("a name begins with a letter or `_`; letters, digits and `_` follow");
    }
    sound
}

fn not_empty(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
    let written = text(key, node, problems)?;
    if written.value.is_empty() || written.value.contains('\0') {
        problems.error(&written.span, format!("`{key}` must not be empty"));
        return None;
    }
    Some(written.value)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
    key: &str,
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let written = text(key, node, problems)?;
    match written.value.trim().parse() {
        Ok(value) => Some(value),
        Err(error) => {
            problems.error(&written.span, format!("`{key}`: {error}"));
            None
        }
    }
}

/// A number from 1, or `"auto"`, which sets no limit.
fn auto_or(key: &str, most: u32, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<u32>> {
    if node.get_ref().as_str().is_some_and(|word| word.trim() == "auto") {
        return Some(Limit::Off);
    }
    count(key, "\"auto\" or a whole number", 1..=most, node, problems).map(Limit::At)
}

fn tolerance(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Tolerance> {
    if node.get_ref().is_str() {
        return parsed("max_failures", node, problems);
    }
    let most = count("max_failures", "a count or a share such as \"5%\"", 0..=u32::MAX, node, problems)?;
    Some(Tolerance::Count(u64::from(most)))
}

fn ring(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Bytes> {
    if matches!(node.get_ref(), DeValue::Integer(_) | DeValue::Float(_)) {
        let span = node.span();
        let number = problems.raw(&span).unwrap_or("2").trim_start_matches(['-', '+']);
        let [small, large] =
            ["MiB", "GiB"].map(|unit| problems.assignment("ring", &format!("\"{number}{unit}\"")));
        problems
            .error(&span, "`ring` needs a unit")
            .label("MiB or GiB?")
            .help(format!("write {small} or {large}"));
        return None;
    }
    let bytes: Bytes = parsed("ring", node, problems)?;
    if bytes.0 == 0 {
        problems.error(&node.span(), "`ring` must be more than 0").help("write for example \"2GiB\"");
        return None;
    }
    Some(bytes)
}

/// A boolean; on a command line it comes as text.
fn yes_or_no(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<bool> {
    match node.get_ref().as_str().and_then(|word| word.trim().parse().ok()) {
        Some(value) => Some(value),
        None => boolean(key, node, problems),
    }
}

fn item_timeout(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<Millis>> {
    if node.get_ref().as_str().is_some_and(|word| word.trim() == "off") {
        return Some(Limit::Off);
    }
    let timeout = duration("item_timeout", node, problems)?;
    if timeout.0 == 0 {
        problems
            .error(&node.span(), "`item_timeout` must be longer than 0")
            .label("would fail every item")
            .help("leave it out, or write \"off\", for no limit");
        return None;
    }
    Some(Limit::At(timeout))
}

/// What a stage with a map cannot have.
pub(crate) fn check_stage(stage: &RawStage, problems: &mut Problems<'_>) {
    let settings = &stage.settings;
    if settings.place_of("map").is_none() {
        return;
    }
    for key in ["foreach", "matrix", "job"] {
        if let Some(span) = settings.place_of(key) {
            problems
                .error(span, format!("a stage has either `map` or `{key}`"))
                .label("the jobs of a map are its workers, which gpulane makes")
                .help("write a stage of its own for each map");
        }
    }
    if let Some(span) = settings.place_of("max_failures").filter(|_| !settings.inherited.max_failures) {
        problems
            .error(span, "`max_failures` of a stage counts jobs; a map has items")
            .help("move it into `map = { … }`, where it is a count or a share such as \"5%\"");
    }
    if let Some(span) = settings.place_of("timeout").filter(|_| !settings.inherited.timeout) {
        problems
            .error(span, "a map has no `timeout`: its workers live as long as there are items")
            .help("`item_timeout` in `map = { … }` limits what the model may take; `hang` ends a worker that shows no sign of life");
    }
}

/// What follows for a stage from having a map.
pub(crate) fn settle(stage: &mut Stage, retries: Option<u32>) {
    let Some(map) = &stage.map else { return };
    let python = map.python.as_deref().unwrap_or("python3");
    stage.command = vec![
        verbatim(python),
        format!("{PACKAGE_DIR}/{START_SCRIPT}"),
        "worker".to_owned(),
        verbatim(&map.model),
    ];
    stage.retries = retries.unwrap_or(RETRIES);
    (stage.timeout, stage.max_failures) = (None, None);
}
