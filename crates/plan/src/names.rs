//! Names of plans, stages and jobs. They become directory names, so they keep to characters that are safe in
//! every file system and shell; a job's name that does not is changed, with a hash so that names stay distinct.

use std::fmt::Write as _;

use gpulane_model::{Config, LONGEST_NAME as LONGEST, is_allowed_in_job, is_job_name, is_plain};
use serde_json::{Map, Value};

use crate::diagnostic::Span;
use crate::problems::Problems;

/// Hex digits of the hash: even two million names that differ only in replaced characters stay distinct.
const HASH_DIGITS: usize = 10;

/// The name a job has if it has none of its own: `key=value` pairs in order.
pub(crate) fn from_config(config: &Map<String, Value>) -> String {
    let mut name = String::new();
    for (key, value) in config {
        if !name.is_empty() {
            name.push(',');
        }
        push_pair(&mut name, key, value);
    }
    name
}

/// Appends `key=value`, strings bare.
pub(crate) fn push_pair(name: &mut String, key: &str, value: &Value) {
    match value {
        Value::String(text) => _ = write!(name, "{key}={text}"),
        other => _ = write!(name, "{key}={}", Config::value_text(other)),
    }
}

/// The name as it will stand on disk.
pub(crate) fn for_job(name: &str) -> Box<str> {
    if is_job_name(name) {
        return name.into();
    }
    let guarded = name.starts_with(['.', '-']);
    let kept = LONGEST - HASH_DIGITS - 1;
    let mut safe: String =
        name.chars().take(kept).map(|c| if is_allowed_in_job(c) { c } else { '_' }).collect();
    if guarded {
        safe.replace_range(..1, "_");
    }
    _ = write!(safe, "-{:0width$x}", mixed_hash(name) & ((1 << (4 * HASH_DIGITS)) - 1), width = HASH_DIGITS);
    safe.into_boxed_str()
}

/// The stable hash of a text with a final mix, since only some of its digits are used.
fn mixed_hash(text: &str) -> u64 {
    let mut hash = gpulane_model::stable_hash(text.bytes());
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// A name for a plan made from a file or a program: wrong characters become `_`.
pub(crate) fn from_path(path: &str) -> String {
    let stem = std::path::Path::new(path).file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name: String = stem.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "plan".to_owned() } else { name.to_owned() }
}

/// Reports a plan's or stage's name that cannot be a directory's name. `whose` is `plan` or `stage`.
pub(crate) fn check(name: &str, whose: &str, span: &Span, problems: &mut Problems<'_>) -> bool {
    let wrong = name.chars().find(|c| !is_plain(*c));
    let complaint = if name.is_empty() {
        format!("a {whose}'s name must not be empty")
    } else if let Some(wrong) = wrong {
        format!("a {whose}'s name must not contain {}", shown(wrong))
    } else if name.starts_with(['.', '-']) {
        format!("a {whose}'s name must not begin with `{}`", &name[..1])
    } else if name.len() > LONGEST {
        format!("a {whose}'s name must not be longer than {LONGEST} characters")
    } else {
        return true;
    };
    let fixed = from_path(&name.replace(['/', '\\'], "_").replace('.', "_"));
    problems
        .error(span, complaint)
        .label("becomes a directory's name")
        .help(format!("letters, digits and `._+-` may stand in it; for example \"{fixed}\""));
    false
}

fn shown(c: char) -> String {
    match c {
        ' ' => "a space".to_owned(),
        c if c.is_control() => format!("the character {}", c.escape_default()),
        c => format!("`{c}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_names_stay_and_others_are_changed_but_distinct() {
        assert_eq!(&*for_job("type=edm,lr=0.001"), "type=edm,lr=0.001");
        for text in ["a b", "a/b", "..", ".", "-rf", "", "é", &"x".repeat(200), "a\0b"] {
            let name = for_job(text);
            assert!(name.len() <= LONGEST, "{text}");
            assert!(name.chars().all(is_allowed_in_job), "{name}");
            assert!(!name.starts_with(['.', '-']) || text.is_empty(), "{name}");
        }
        assert_ne!(for_job("a b"), for_job("a/b"));
        assert_ne!(for_job(&"x".repeat(200)), for_job(&"x".repeat(201)));
    }

    #[test]
    fn names_never_change_between_versions() {
        assert_eq!(&*for_job("prompt=a cat"), "prompt=a_cat-9b67b67bfd");
    }

    #[test]
    fn a_plan_is_named_after_its_file() {
        for (path, name) in [
            ("sweeps/my plan.toml", "my_plan"),
            ("a.b.toml", "a.b"),
            ("", "plan"),
            (".toml", "toml"),
            ("..", "plan"),
            ("/usr/bin/python3.12", "python3"),
        ] {
            assert_eq!(from_path(path), name, "{path}");
        }
    }
}
