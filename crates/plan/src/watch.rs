//! Keys that say how a stage's jobs are watched: when one is frozen, when its work is done, when the next may start.

use gpulane_model::template::{self, Piece};
use gpulane_model::{Hang, HangAction, Millis, StartGate};
use toml::de::DeValue;

use crate::diagnostic::Span;
use crate::keys;
use crate::problems::Problems;
use crate::reader::{Limit, Node, Placed, count, duration, is_damage, texts};
use crate::words::{one_of, one_of_or};

/// A watchdog that looks more often than it can see a change says nothing.
const SHORTEST: Millis = Millis::seconds(1);

/// What people write for `"off"`.
const OFF: [&str; 9] = ["of", "off", "no", "none", "never", "false", "disable", "disabled", "0"];

/// The watchdog.
pub(crate) fn hang(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<Hang>> {
    if node.get_ref().as_str() == Some("off") {
        return Some(Limit::Off);
    }
    let hang = match node.get_ref() {
        DeValue::Table(_) => hang_table(node, problems),
        _ => {
            hang_after("hang", node, problems).map(|after| Hang { after, adaptive: false, ..Hang::default() })
        }
    };
    hang.map(Limit::At)
}

fn hang_after(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Millis> {
    if no_time(key, node, problems) {
        return None;
    }
    let after = duration(key, node, problems)?;
    if after < SHORTEST {
        let help = format!("write {} or more, or {} for no watchdog", quoted(problems, "1s"), off(problems));
        problems.error(&node.span(), format!("`{key}` shorter than 1 s cannot be judged")).help(help);
        return None;
    }
    Some(after)
}

/// Reports what is no time at all: a word of this key that stands in the wrong place, or one of another tool. False if it
/// may be a time.
fn no_time(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> bool {
    let word = match node.get_ref() {
        DeValue::String(text) if text.parse::<Millis>().is_err() && text.trim().parse::<u64>().is_err() => {
            text.trim().to_ascii_lowercase()
        }
        DeValue::Boolean(value) => value.to_string(),
        _ => return false,
    };
    let help = if OFF.contains(&word.as_str()) {
        format!("write {} for no watchdog", off(problems))
    } else if ACTIONS.iter().any(|(action, _)| *action == word) {
        format!("an action stands beside the time{}: write `{}`", in_a_plan(problems), table(&word))
    } else {
        let time = quoted(problems, "10m");
        format!("write a time such as {time}, {} for no watchdog, or `{}`", off(problems), table("fail"))
    };
    let shown = problems.raw(&node.span()).map(|raw| raw.trim_matches(['"', '\'']));
    let shown = keys::shown(shown.unwrap_or_default());
    problems
        .error(&node.span(), format!("`{key}` cannot be `{shown}`"))
        .label("expected a duration")
        .help(help);
    true
}

/// How the watchdog is switched off, wherever the mistake stands.
fn off(problems: &Problems<'_>) -> String {
    problems.assignment("hang", "\"off\"")
}

/// A time as it would stand there.
fn quoted(problems: &Problems<'_>, time: &str) -> String {
    problems.assignment("hang", &format!("\"{time}\""))
}

/// `hang` in full, with this action.
fn table(action: &str) -> String {
    format!("hang = {{ after = \"10m\", action = \"{action}\" }}")
}

/// A flag takes no table.
fn in_a_plan(problems: &Problems<'_>) -> &'static str {
    if problems.flag.is_some() { " in a plan" } else { "" }
}

fn hang_table(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Hang> {
    let table = node.get_ref().as_table()?;
    let mut hang = Hang::default();
    let mut sound = true;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            _ if is_damage(value) => sound = false,
            "after" => match hang_after("after", value, problems) {
                Some(after) => (hang.after, hang.adaptive) = (after, false),
                None => sound = false,
            },
            "outside" => match outside(value, problems) {
                Some(Limit::At(outside)) => hang.outside = Some(outside),
                Some(Limit::Off) => hang.outside = None,
                None => sound = false,
            },
            "action" => match hang_action(value, problems) {
                Some(action) => hang.action = action,
                None => sound = false,
            },
            other => {
                keys::unknown(other, &key.span(), &keys::HANG, "`hang`", problems);
                sound = false;
            }
        }
    }
    let written = table.iter().find(|(key, _)| key.get_ref() == "outside");
    let span = written.map_or_else(|| node.span(), |(_, value)| value.span());
    (sound && is_long_enough(&hang, &span, problems)).then_some(hang)
}

/// Reports an `outside` that would be over before anything is suspected.
fn is_long_enough(hang: &Hang, span: &Span, problems: &mut Problems<'_>) -> bool {
    let early = hang.outside.filter(|outside| !hang.adaptive && *outside < hang.after);
    if let Some(outside) = early {
        problems
            .error(span, format!("`outside` ({outside}) is shorter than `after` ({})", hang.after))
            .help("a job is suspected after `after`: write a longer time, or leave `outside` out for no end");
    }
    early.is_none()
}

/// `--hang-outside`, which has a flag of its own because `--hang` takes no table; `hang` is what that one said.
pub(crate) fn hang_outside(
    hang: Option<Limit<Hang>>,
    node: &Node<'_>,
    problems: &mut Problems<'_>,
) -> Option<Limit<Hang>> {
    let hang = match hang {
        Some(Limit::Off) => {
            problems
                .error(&node.span(), "there is no watchdog to wait any longer")
                .help("leave `--hang-outside` out, or `--hang off`");
            return None;
        }
        Some(Limit::At(hang)) => hang,
        None => Hang::default(),
    };
    let outside = match outside(node, problems)? {
        Limit::At(outside) => Some(outside),
        Limit::Off => None,
    };
    let hang = Hang { outside, ..hang };
    is_long_enough(&hang, &node.span(), problems).then_some(Limit::At(hang))
}

/// How long a job may wait that is only suspected.
fn outside(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<Millis>> {
    if node.get_ref().as_str() == Some("off") {
        return Some(Limit::Off);
    }
    duration("outside", node, problems).map(Limit::At)
}

fn hang_action(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<HangAction> {
    let word = node.get_ref().as_str().map(str::to_ascii_lowercase);
    if word.is_some_and(|word| OFF.contains(&word.as_str())) {
        let help = format!("write {} for no watchdog, or \"warn\" to be told and no more", off(problems));
        problems.error(&node.span(), "`action` says what becomes of a frozen job").help(help);
        return None;
    }
    one_of("action", &ACTIONS, node, problems)
}

const ACTIONS: [(&str, HangAction); 3] =
    [("retry", HangAction::Retry), ("fail", HangAction::Fail), ("warn", HangAction::Warn)];

/// Whether starts wait while others start up.
pub(crate) fn start_gate(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<StartGate> {
    let word = node.get_ref().as_str();
    if word.is_some_and(|word| word.trim().parse::<u32>().is_err()) {
        let words = [("auto", StartGate::Auto), ("off", StartGate::Off)];
        return one_of_or("start_gate", &words, "a number of starts at once, such as 2", node, problems);
    }
    let expected = "\"auto\", \"off\" or a number of starts at once";
    count("start_gate", expected, 1..=100_000, node, problems).map(StartGate::AtOnce)
}

/// Globs of files under `out`; nothing else.
pub(crate) fn result(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let files = texts("result", node, problems)?;
    let mut sound = true;
    for file in &files {
        if filled_in(file, problems) {
            sound = false;
            continue;
        }
        let Some(complaint) = complaint(&file.value) else { continue };
        sound = false;
        problems
            .error(&file.span, format!("this file of `result` {complaint}"))
            .label("must be a file under the job's `{out}`")
            .help("write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"");
    }
    sound.then(|| files.into_iter().map(|file| file.value).collect())
}

/// Reports a placeholder: it would be taken for a part of the name, and no such file ever appears.
fn filled_in(file: &Placed<String>, problems: &mut Problems<'_>) -> bool {
    let name = template::pieces(&file.value).find_map(|piece| match piece {
        Piece::Placeholder { name, .. } => Some(name),
        Piece::Text(_) => None,
    });
    let Some(name) = name else { return false };
    let below = file.value.strip_prefix("{out}").map(|below| below.trim_start_matches('/'));
    let (message, help) = match below.filter(|below| !below.is_empty() && !below.contains('{')) {
        Some(below) => {
            ("paths in `result` are already under `{out}`".to_owned(), format!("write \"{below}\""))
        }
        None if name == "out" => {
            let help = "write the path below it, for example \"model.pt\"";
            ("paths in `result` are already under `{out}`".to_owned(), help.to_owned())
        }
        None => {
            let other = file.value.replace(&format!("{{{name}}}"), "*");
            (format!("`{{{name}}}` is not replaced in `result`"), format!("write \"{other}\""))
        }
    };
    problems.error(&file.span, message).label("no placeholder has a place here").help(help);
    true
}

/// What is wrong with such a glob.
fn complaint(file: &str) -> Option<String> {
    let complaint = if file.is_empty() {
        "is empty"
    } else if file.contains('\0') {
        "contains a NUL character"
    } else if file.starts_with('/') || file.starts_with('~') {
        "is not relative"
    } else if file.split('/').any(|part| part == "..") {
        "leaves the output directory"
    } else {
        return glob::Pattern::new(file).err().map(|error| format!("is no pattern: {}", error.msg));
    };
    Some(complaint.to_owned())
}
