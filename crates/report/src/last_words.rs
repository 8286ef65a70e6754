//! The end of what a job printed: which log tells most of a failure, and which of its lines.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, JobId, Plan, RunState};

use crate::clean::clean;
use crate::lines::Lines;

/// Lines shown of the end of a failed job's log.
const TAIL: usize = 5;
/// Bytes read for them.
const TAIL_BYTES: u64 = 4096;

/// The log that tells most of how a job's newest attempt ended: stderr, or stdout if that is empty. `None`: it
/// printed nothing, or never started.
pub(crate) fn log_of(dir: &RunDir, plan: &Plan, state: &RunState, job: JobId) -> Option<PathBuf> {
    let attempt = Attempt(state.job(job).attempts);
    if attempt.0 == 0 {
        return None;
    }
    let has_text = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.len() > 0);
    let stderr = dir.stderr_log(plan, job, attempt);
    let stdout = dir.stdout_log(plan, job, attempt);
    [stderr, stdout].into_iter().find(has_text)
}

/// The last lines of a log that are not blank.
pub(crate) fn last_lines(log: &Path) -> Vec<String> {
    let Ok(file) = File::open(log) else { return Vec::new() };
    let length = file.metadata().map_or(0, |data| data.len());
    let from = length.saturating_sub(TAIL_BYTES);
    let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(0)];
    let Ok(read) = file.read_at(&mut bytes, from) else { return Vec::new() };
    let mut found = Vec::new();
    let mut lines = Lines::new(bytes.len());
    if from > 0 {
        lines.jump();
    }
    let mut keep = |line: crate::lines::Line<'_>| {
        let text = clean(line.text, false).trim_end().to_owned();
        if !text.is_empty() {
            found.push(text);
        }
    };
    lines.push(&bytes[..read], &mut keep);
    lines.finish(&mut keep);
    found.split_off(found.len().saturating_sub(TAIL))
}

/// A line without the addresses in it, which differ between jobs that say the same.
pub(crate) fn alike(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("0x");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_make_no_difference() {
        assert_eq!(alike("<Net object at 0x7f3a99> and 0xFF"), "<Net object at 0x> and 0x");
        assert_eq!(alike("seed 17"), "seed 17");
    }
}
