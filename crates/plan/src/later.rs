//! Keys whose effect belongs to later versions: they are checked in full now, so that a plan written today is
//! right tomorrow, and a note says that they do nothing yet.

use gpulane_model::{MapStage, Standbys};
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::keys;
use crate::problems::Problems;
use crate::reader::{Node, Placed, count, is_damage, text, texts, wrong_kind};
use crate::words::one_of;

pub(crate) fn standbys(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Standbys> {
    let standbys = match node.get_ref() {
        DeValue::String(_) => {
            one_of("standbys", &[("auto", Standbys::Auto), ("off", Standbys::Off)], node, problems)?
        }
        _ => match count("standbys", "\"auto\", \"off\" or a number per lane", 0..=64, node, problems)? {
            0 => Standbys::Off,
            number => Standbys::PerLane(number),
        },
    };
    if standbys != Standbys::Off {
        problems.not_yet("`standbys`", &node.span());
    }
    Some(standbys)
}

/// `FILE.py:name`, a function or a class.
fn python_object(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<String> {
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
            .help(format!("write for example `{key} = \"train.py:main\"`"));
        return None;
    }
    Some(written.value)
}

/// A Python function instead of a command. Cannot run yet.
pub(crate) fn entry(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    let entry = python_object("entry", node, problems)?;
    cannot_run("entry", &node.span(), problems);
    Some(Placed::new(entry, node.span()))
}

fn cannot_run(key: &str, span: &Span, problems: &mut Problems<'_>) {
    problems
        .error(span, format!("not yet: stages with `{key}` come with a later version"))
        .label("this version runs stages with `command`")
        .help(match key {
            "entry" => "write `command = [\"python\", \"train.py\", \"--config\", \"{config}\", \"--out\", \"{out}\"]`",
            _ => "write a script that handles the items and start it with `command`",
        });
}

/// A map over items. Cannot run yet.
pub(crate) fn map(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<MapStage>> {
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
        sound &= map_key(&mut map, key.get_ref(), &key.span(), value, problems).is_some();
    }
    for (key, present) in [("model", has_model), ("input", has_input)] {
        if !present && !problems.is_damaged() {
            sound = false;
            problems.error(&node.span(), format!("`map` needs `{key}`"));
        }
    }
    if sound {
        cannot_run("map", &node.span(), problems);
    }
    sound.then(|| Placed::new(map, node.span()))
}

fn map_key(
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
        "input" => map.input = not_empty("input", value, problems)?,
        "decode" => {
            let written = text("decode", value, problems)?;
            match written.value.parse() {
                Ok(decode) => map.decode = Some(decode),
                Err(error) => {
                    problems.error(&written.span, format!("`decode`: {error}"));
                    return None;
                }
            }
        }
        "batch" => map.batch = Some(count("batch", "a whole number", 1..=1_000_000, value, problems)?),
        other => {
            keys::unknown(other, span, &keys::MAP, "`map`", problems);
            return None;
        }
    }
    Some(())
}

fn not_empty(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let list = if key == "input" { texts(key, node, problems)? } else { vec![text(key, node, problems)?] };
    if list.is_empty() || list.iter().any(|item| item.value.is_empty()) {
        problems.error(&node.span(), format!("`{key}` must not be empty"));
        return None;
    }
    Some(list.into_iter().map(|item| item.value).collect())
}
