//! The end of what a job printed: which log tells most of a failure, and which of its lines.

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
/// The same where it may be a crash of Python, which is told with the frames of all threads.
const DUMP_BYTES: u64 = 32 * 1024;
/// How the other lines of such a story begin, but for those that are set in.
const DUMP: [&str; 4] = ["Thread 0x", "Current thread", "Extension modules: ", "Python runtime state: "];
/// Digits of an address.
const ADDRESS: usize = 8;
/// In the frames of what calls an entry.
const RUNNER: &str = "/.python/gpulane/";

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

/// What to show of the end of a log: its last lines; after a crash of Python the fault and where it was.
pub(crate) fn last_words(log: &Path) -> Vec<String> {
    let mut lines = lines_at_end(log, DUMP_BYTES);
    fault(&lines).unwrap_or_else(|| lines.split_off(lines.len().saturating_sub(TAIL)))
}

/// The last lines of a log that are not blank.
pub(crate) fn last_lines(log: &Path) -> Vec<String> {
    let mut lines = lines_at_end(log, TAIL_BYTES);
    lines.split_off(lines.len().saturating_sub(TAIL))
}

/// The lines in the last bytes of a log that are whole and not blank.
fn lines_at_end(log: &Path, most: u64) -> Vec<String> {
    let Ok(file) = gpulane_files::open(log) else { return Vec::new() };
    let length = file.metadata().map_or(0, |data| data.len());
    let from = length.saturating_sub(most);
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
    found
}

/// The heart of what Python's `faulthandler` writes about a crash, if the lines end with that: what the fault was, and the frames
/// of the thread that had it, innermost first, without those of the runner.
fn fault(lines: &[String]) -> Option<Vec<String>> {
    let at = lines.iter().rposition(|line| line.starts_with("Fatal Python error: "))?;
    let (fatal, dump) = lines[at..].split_first()?;
    let belongs = |line: &String| DUMP.iter().any(|start| line.starts_with(start)) || line.starts_with("  ");
    if !dump.iter().all(belongs) {
        return None;
    }
    let thread = dump.iter().skip_while(|line| !line.starts_with("Current thread 0x")).skip(1);
    let frames = thread.take_while(|line| line.starts_with("  ")).filter(|line| !line.contains(RUNNER));
    Some(std::iter::once(fatal).chain(frames.take(TAIL)).cloned().collect())
}

/// A line without the addresses in it, which differ between jobs that say the same. Short numbers may be what it is about.
pub(crate) fn alike(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("0x");
        let rest = part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        text.push_str(if part.len() - rest.len() >= ADDRESS { rest } else { part });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_make_no_difference() {
        assert_eq!(alike("<Net object at 0x7f3a99001234> and 0xFF"), "<Net object at 0x> and 0xFF");
        assert_eq!(alike("seed 17"), "seed 17");
    }

    fn said(text: &str) -> Vec<String> {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), text).unwrap();
        last_words(log.path())
    }

    const CRASH: &str = "\
epoch 1
Fatal Python error: Segmentation fault

Thread 0x00007f12 (most recent call first):
  File \"/usr/lib/python3.12/threading.py\", line 320 in wait

Current thread 0x00007f11 (most recent call first):
  File \"/usr/lib/python3.12/ctypes/__init__.py\", line 519 in string_at
  File \"train.py\", line 3 in main
  File \"/run/.python/gpulane/_entry.py\", line 233 in call
  File \"/run/.python/gpulane/_entry.py\", line 387 in <module>

Thread 0x00007f10 (most recent call first):
  <no Python frame>

Extension modules: numpy._core (total: 1)
";

    #[test]
    fn a_crash_of_python_is_told_by_its_fault_and_its_frames() {
        let expected = [
            "Fatal Python error: Segmentation fault",
            "  File \"/usr/lib/python3.12/ctypes/__init__.py\", line 519 in string_at",
            "  File \"train.py\", line 3 in main",
        ];
        assert_eq!(said(CRASH), expected);
        let deep = CRASH.replace(
            "  File \"train.py\", line 3 in main\n",
            &"  File \"deep.py\", line 1 in f\n".repeat(200),
        );
        assert_eq!(said(&deep).len(), 1 + TAIL);
    }

    #[test]
    fn what_was_said_after_a_crash_of_another_process_is_what_is_shown() {
        let last = said(&format!("{CRASH}Traceback (most recent call last):\nRuntimeError: worker died\n"));
        assert_eq!(last.last().map(String::as_str), Some("RuntimeError: worker died"));
        assert_eq!(last.len(), TAIL);
    }
}
