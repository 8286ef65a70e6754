//! What Python shows when a frozen program is aborted: where each of its threads is, also those in C code. It goes to the
//! job's stderr; the evidence has it too.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::looks;

/// How Python begins.
const BEGINNING: &str = "Fatal Python error: Aborted";
/// What may follow: stacks of some hundred threads.
const MOST: u64 = 256 << 10;

/// Adds what an aborted program showed to its stacks.
pub(in crate::engine) fn keep(stderr: &Path, stacks: &Path) {
    if let Some(words) = words(stderr) {
        // A full disk costs this part of the file.
        let _ = looks::keep(stacks, &format!("==== at its end, by Python's faulthandler ====\n\n{words}"));
    }
}

fn words(stderr: &Path) -> Option<String> {
    let mut file = gpulane_files::open(stderr).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST))).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let at = text.rfind(BEGINNING)?;
    Some(text[at..].trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_abort_is_kept_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (stderr, stacks) = (dir.path().join("stderr.log"), dir.path().join("stacks.txt"));
        std::fs::write(
            &stderr,
            "epoch 1\nFatal Python error: Aborted\n\nThread 1:\n  File \"a.py\", line 2\n",
        )
        .unwrap();
        std::fs::write(&stacks, "first\n").unwrap();
        keep(&stderr, &stacks);
        let text = std::fs::read_to_string(&stacks).unwrap();
        assert!(text.starts_with("first\n==== at its end"), "{text}");
        assert!(text.ends_with("line 2\n") && !text.contains("epoch"), "{text}");
    }

    #[test]
    fn a_program_that_showed_nothing_leaves_the_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (stderr, stacks) = (dir.path().join("stderr.log"), dir.path().join("stacks.txt"));
        std::fs::write(&stderr, "epoch 1\n").unwrap();
        keep(&stderr, &stacks);
        assert!(!stacks.exists());
    }
}
