//! `map = { … }`: one model over many items. The same reading serves the flags of `gpulane map`. What the stage of a map may not
//! have is said here, too; whether model and inputs are there is found out by whoever may look at the disk.

use gpulane_model::{Bytes, Format, MapStage, NanPolicy, Stage, Tolerance};
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::document::RawStage;
use crate::entry::{python_object, verbatim};
use crate::keys;
use crate::problems::Problems;
use crate::reader::{Limit, Node, Placed, count, is_damage, text, texts, wrong_kind};
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
        "input" => map.input = inputs(value, problems)?,
        "decode" => map.decode = Some(parsed("decode", value, problems)?),
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
        "ring" => map.ring = Some(ring(value, problems)?),
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
    let bytes: Bytes = parsed("ring", node, problems)?;
    if bytes.0 == 0 {
        problems.error(&node.span(), "`ring` must be more than 0").help("write for example \"2GiB\"");
        return None;
    }
    Some(bytes)
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
            .help("`hang` ends a worker that shows no sign of life");
    }
}

/// What follows for a stage from having a map.
pub(crate) fn settle(stage: &mut Stage, retries: Option<u32>) {
    let Some(map) = &stage.map else { return };
    let python = map.python.as_deref().unwrap_or("python3");
    stage.command = ["-m", "gpulane.worker"].map(str::to_owned).to_vec();
    stage.command.insert(0, verbatim(python));
    stage.command.push(verbatim(&map.model));
    stage.retries = retries.unwrap_or(RETRIES);
    (stage.timeout, stage.max_failures) = (None, None);
}
