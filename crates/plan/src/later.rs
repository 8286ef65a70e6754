//! Keys whose effect belongs to later versions: they are checked in full now, so that a plan written today is
//! right tomorrow, and a note says that they do nothing yet.

use gpulane_model::{Hang, HangAction, MapStage, Millis, Standbys, StartGate};
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::keys;
use crate::problems::Problems;
use crate::reader::{Limit, Node, Placed, count, duration, is_damage, text, texts, wrong_kind};

/// The watchdog.
pub(crate) fn hang(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<Hang>> {
    if node.get_ref().as_str() == Some("off") {
        return Some(Limit::Off);
    }
    let hang = match node.get_ref() {
        DeValue::Table(_) => hang_table(node, problems),
        _ => hang_after("hang", node, problems).map(|after| Hang { after, action: HangAction::default() }),
    };
    let hang = hang?;
    problems.not_yet("`hang`", &node.span());
    Some(Limit::At(hang))
}

fn hang_after(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Millis> {
    let after = duration(key, node, problems)?;
    if after.0 == 0 {
        problems
            .error(&node.span(), format!("`{key}` must be longer than 0"))
            .help("write \"off\" for no watchdog");
        return None;
    }
    Some(after)
}

fn hang_table(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Hang> {
    let table = node.get_ref().as_table()?;
    let mut hang = Hang { after: Millis::seconds(600), action: HangAction::default() };
    let mut sound = true;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            _ if is_damage(value) => sound = false,
            "after" => match hang_after("after", value, problems) {
                Some(after) => hang.after = after,
                None => sound = false,
            },
            "action" => match one_of("action", &ACTIONS, value, problems) {
                Some(action) => hang.action = action,
                None => sound = false,
            },
            other => {
                keys::unknown(other, &key.span(), &keys::HANG, "`hang`", problems);
                sound = false;
            }
        }
    }
    sound.then_some(hang)
}

const ACTIONS: [(&str, HangAction); 3] =
    [("retry", HangAction::Retry), ("fail", HangAction::Fail), ("warn", HangAction::Warn)];

/// One of these words.
pub(crate) fn one_of<T: Copy>(
    key: &str,
    words: &[(&str, T)],
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    one_of_or(key, words, "", node, problems)
}

/// One of these words, where the caller has seen that it is not what else the key takes; `other` says what that is.
pub(crate) fn one_of_or<T: Copy>(
    key: &str,
    words: &[(&str, T)],
    other: &str,
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let written = text(key, node, problems)?;
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == written.value) {
        return Some(*found);
    }
    let meant = problems.nearest.find(&written.value, words.iter().map(|(word, _)| *word));
    let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    problems
        .error(
            &node.span(),
            format!(
                "`{key}` cannot be `{}`{}",
                keys::shown(&written.value),
                crate::nearest::did_you_mean(meant)
            ),
        )
        .help(if other.is_empty() {
            format!("one of {}", all.join(", "))
        } else {
            format!("one of {}, or {other}", all.join(", "))
        });
    None
}

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

pub(crate) fn start_gate(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<StartGate> {
    let gate = if node.get_ref().is_str() {
        one_of("start_gate", &[("auto", StartGate::Auto), ("off", StartGate::Off)], node, problems)?
    } else {
        let expected = "\"auto\", \"off\" or a number of starts at once";
        StartGate::AtOnce(count("start_gate", expected, 1..=100_000, node, problems)?)
    };
    if gate != StartGate::Off {
        problems.not_yet("`start_gate`", &node.span());
    }
    Some(gate)
}

/// Files under `out`. They may be globs but must stay there.
pub(crate) fn result(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let files = texts("result", node, problems)?;
    let mut sound = true;
    for file in &files {
        let complaint = if file.value.is_empty() {
            "is empty"
        } else if file.value.contains('\0') {
            "contains a NUL character"
        } else if file.value.starts_with('/') || file.value.starts_with('~') {
            "is not relative"
        } else if file.value.split('/').any(|part| part == "..") {
            "leaves the output directory"
        } else {
            continue;
        };
        sound = false;
        problems
            .error(&file.span, format!("this file of `result` {complaint}"))
            .label("must be a file under the job's `{out}`")
            .help("write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"");
    }
    if sound {
        problems.not_yet("`result`", &node.span());
    }
    sound.then(|| files.into_iter().map(|file| file.value).collect())
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
    let mut map = MapStage { model: String::new(), input: Vec::new(), decode: None, batch: None };
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
        "decode" => map.decode = not_empty("decode", value, problems)?.pop(),
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
