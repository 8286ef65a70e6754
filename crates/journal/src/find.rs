//! Which run a person means by a few letters.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use crate::rundir::PLAN;
use crate::{RunDir, RunDirError};

pub(crate) fn find(text: &str, runs: &Path) -> Result<RunDir, RunDirError> {
    let as_path = Path::new(text);
    // A directory that may not be looked into could well hold one; opening it says whose it is.
    let is_there = || match fs::metadata(as_path.join(PLAN)) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    if !text.is_empty() && is_there() {
        return RunDir::open(as_path);
    }
    let names = names(runs);
    let mut matches: Vec<&String> =
        names.iter().filter(|name| !text.is_empty() && name.starts_with(text)).collect();
    // A whole name is meant even where others go on from it.
    if let Some(exact) = matches.iter().position(|name| *name == text) {
        matches = vec![matches[exact]];
    }
    match matches[..] {
        [name] => RunDir::open(&runs.join(name)),
        [] if !text.is_empty() && as_path.is_dir() => Err(RunDirError::NotARun { path: as_path.to_owned() }),
        [] => Err(RunDirError::NoSuchRun {
            text: text.to_owned(),
            runs: runs.to_owned(),
            candidates: nearest(text, &names),
        }),
        _ => Err(RunDirError::Ambiguous {
            text: text.to_owned(),
            candidates: matches.into_iter().cloned().collect(),
        }),
    }
}

pub(crate) fn latest(runs: &Path) -> Option<RunDir> {
    names(runs).first().and_then(|name| RunDir::open(&runs.join(name)).ok())
}

/// The names that hold the text or lack only a few letters of it, otherwise the newest.
fn nearest(text: &str, names: &[String]) -> Vec<String> {
    let text = text.to_lowercase();
    let near = |name: &&String| {
        let name = name.to_lowercase();
        let shared = name.chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
        !text.is_empty() && (name.contains(&text) || shared >= 3)
    };
    let found: Vec<String> = names.iter().filter(near).cloned().collect();
    if found.is_empty() { names.to_vec() } else { found }
}

/// The runs under a directory, the one started last first. A plan is frozen at the start, so its age is the run's.
fn names(runs: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(runs) else { return Vec::new() };
    let mut found: Vec<(SystemTime, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let started = fs::metadata(entry.path().join(PLAN)).and_then(|plan| plan.modified()).ok()?;
            Some((started, entry.file_name().into_string().ok()?))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, name)| name).collect()
}
