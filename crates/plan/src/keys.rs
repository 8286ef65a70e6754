//! The keys a plan may hold, and what people write instead of them.

use crate::diagnostic::Span;
use crate::nearest::did_you_mean;
use crate::problems::Problems;

pub(crate) const PLAN: [&str; 3] = ["name", "defaults", "stage"];

pub(crate) const STAGE: [&str; 24] = [
    "name",
    "command",
    "entry",
    "python",
    "map",
    "env",
    "gpus",
    "memory",
    "cpus",
    "parallel",
    "timeout",
    "grace",
    "retries",
    "retry_delay",
    "max_failures",
    "hang",
    "result",
    "standbys",
    "start_gate",
    "mps",
    "after",
    "foreach",
    "matrix",
    "job",
];

pub(crate) const JOB: [&str; 2] = ["name", "config"];

/// Keys of `[stage.matrix]` that are not part of the configs.
pub(crate) const MATRIX: [&str; 3] = ["zip", "exclude", "include"];

pub(crate) const MAP: [&str; 16] = [
    "model",
    "input",
    "decode",
    "members",
    "batch",
    "format",
    "threads",
    "workers",
    "max_failures",
    "nan",
    "damaged",
    "ring",
    "item_timeout",
    "strict",
    "python",
    "args",
];

pub(crate) const HANG: [&str; 3] = ["after", "outside", "action"];

/// Words of other tools, and ours.
const CONFUSIONS: [(&str, &str); 42] = [
    ("cmd", "command"),
    ("run", "command"),
    ("args", "command"),
    ("argv", "command"),
    ("script", "command"),
    ("exec", "command"),
    ("gpu", "gpus"),
    ("num_gpus", "gpus"),
    ("n_gpus", "gpus"),
    ("ngpus", "gpus"),
    ("devices", "gpus"),
    ("needs", "after"),
    ("depends_on", "after"),
    ("depends", "after"),
    ("dependencies", "after"),
    ("requires", "after"),
    ("for_each", "foreach"),
    ("foreach_job", "foreach"),
    ("environment", "env"),
    ("envs", "env"),
    ("cpu", "cpus"),
    ("threads", "cpus"),
    ("cores", "cpus"),
    ("mem", "memory"),
    ("vram", "memory"),
    ("gpu_memory", "memory"),
    ("concurrency", "parallel"),
    ("max_parallel", "parallel"),
    ("parallelism", "parallel"),
    ("max_retries", "retries"),
    ("retry", "retries"),
    ("time_limit", "timeout"),
    ("sweep", "matrix"),
    ("grid", "matrix"),
    ("params", "matrix"),
    ("parameters", "matrix"),
    ("jobs", "job"),
    ("results", "result"),
    ("hang_action", "hang"),
    ("hang_after", "hang"),
    ("hang_timeout", "hang"),
    ("watchdog", "hang"),
];

fn from_other_tools(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    CONFUSIONS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
}

/// Reports a key that does not exist, and gives the one that was likely meant. `place` says where it stands:
/// `a stage`, `[defaults]`.
pub(crate) fn unknown(
    key: &str,
    span: &Span,
    known: &[&'static str],
    place: &str,
    problems: &mut Problems<'_>,
) -> Option<&'static str> {
    let dashed = key.replace('-', "_");
    let meant = known
        .iter()
        .copied()
        .find(|known| *known == dashed)
        .or_else(|| from_other_tools(key).filter(|word| known.contains(word)))
        .or_else(|| problems.nearest.find(key, known.iter().copied()));
    let help = explanation(key, meant, known);
    problems
        .error(span, format!("unknown key `{}` in {place}{}", shown(key), did_you_mean(meant)))
        .label("unknown key")
        .help(help);
    meant
}

fn explanation(key: &str, meant: Option<&str>, known: &[&str]) -> String {
    match meant {
        Some("job") => "explicit jobs are `[[stage.job]]` tables".to_owned(),
        // Not a wrong letter: it was taken for several keys.
        Some("hang") if from_other_tools(key).is_some() => {
            "write `hang = \"10m\"`, or `hang = { after = \"10m\", action = \"fail\" }`".to_owned()
        }
        Some(word) => format!("write `{word}` instead of `{}`", shown(key)),
        None if MATRIX.contains(&key) => format!("`{key}` belongs in `[stage.matrix]`"),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// A key as it may stand in a message: whole unless it is a novel.
pub(crate) fn shown(key: &str) -> String {
    let short: String = key.chars().take(60).collect();
    if short.len() < key.len() { format!("{short}…") } else { short }
}

/// Reports a key on the top level that is not the plan's.
pub(crate) fn unknown_in_plan(key: &str, span: &Span, problems: &mut Problems<'_>) {
    let lower = key.to_ascii_lowercase();
    let (message, help) = match lower.as_str() {
        "stages" => ("unknown key `stages`, did you mean `stage`?".to_owned(), STAGE_HELP.to_owned()),
        "default" => {
            ("unknown key `default`, did you mean `defaults`?".to_owned(), "write `[defaults]`".to_owned())
        }
        "matrix" | "job" | "env" | "jobs" => (
            format!("`{key}` belongs to a stage"),
            match lower.as_str() {
                "jobs" | "job" => "write `[[stage.job]]` below its `[[stage]]`".to_owned(),
                other => format!("write `[stage.{other}]` below its `[[stage]]`"),
            },
        ),
        _ if STAGE.contains(&key) => (
            format!("`{key}` belongs to a stage"),
            "move it below a `[[stage]]`, or below `[defaults]` if it is for all stages".to_owned(),
        ),
        _ => {
            unknown(key, span, &PLAN, "the plan", problems);
            return;
        }
    };
    problems.error(span, message).label("not a key of the plan itself").help(help);
}

/// How stages are written.
pub(crate) const STAGE_HELP: &str =
    "each stage begins with a line `[[stage]]`, then `name = \"…\"` and `command = […]`";
