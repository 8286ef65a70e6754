//! Keys that say how a stage's jobs are watched: when one is frozen, when its work is done, when the next may start.

use gpulane_model::{Hang, HangAction, Millis, StartGate};
use toml::de::DeValue;

use crate::keys;
use crate::problems::Problems;
use crate::reader::{Limit, Node, count, duration, is_damage, texts};
use crate::words::one_of;

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
    let mut hang = Hang::default();
    let mut sound = true;
    for (key, value) in table {
        match key.get_ref().as_ref() {
            _ if is_damage(value) => sound = false,
            "after" => match hang_after("after", value, problems) {
                Some(after) => (hang.after, hang.adaptive) = (after, false),
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

/// Whether starts wait while others start up.
pub(crate) fn start_gate(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<StartGate> {
    if node.get_ref().is_str() {
        return one_of("start_gate", &[("auto", StartGate::Auto), ("off", StartGate::Off)], node, problems);
    }
    let expected = "\"auto\", \"off\" or a number of starts at once";
    count("start_gate", expected, 1..=100_000, node, problems).map(StartGate::AtOnce)
}

/// Globs of files under `out`; nothing else.
pub(crate) fn result(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let files = texts("result", node, problems)?;
    let mut sound = true;
    for file in &files {
        let Some(complaint) = complaint(&file.value) else { continue };
        sound = false;
        problems
            .error(&file.span, format!("this file of `result` {complaint}"))
            .label("must be a file under the job's `{out}`")
            .help("write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"");
    }
    sound.then(|| files.into_iter().map(|file| file.value).collect())
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
