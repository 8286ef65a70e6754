//! What a job leaves to say that its work is done: the file `gpulane.done()` makes, or the results its stage declares.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

/// As many files are looked at for one pattern.
const MOST: usize = 1000;

/// Whether the job has said so itself.
pub(super) fn is_done(mark: &Path) -> bool {
    mark.exists()
}

/// The declared results of an attempt.
pub(super) struct Results {
    patterns: Vec<String>,
    /// As in the plan.
    declared: String,
}

impl Results {
    /// `None`: the stage declares none.
    pub(super) fn new(out: &Path, declared: &[String]) -> Option<Self> {
        if declared.is_empty() {
            return None;
        }
        let out = Pattern::escape(&out.to_string_lossy());
        let patterns = declared.iter().map(|pattern| format!("{out}/{pattern}")).collect();
        Some(Self { patterns, declared: declared.join(", ") })
    }

    /// How many bytes they hold, once each pattern has a file that is not empty; something else whenever one changed.
    pub(super) fn found(&self) -> Option<u64> {
        self.patterns.iter().try_fold(0u64, |sum, pattern| {
            let bytes = files(pattern).filter_map(|file| weight(&file)).reduce(u64::wrapping_add)?;
            Some(sum.wrapping_add(bytes))
        })
    }

    /// How it is known that the work is done.
    pub(super) fn because(&self) -> String {
        format!("wrote its result ({})", self.declared)
    }
}

fn files(pattern: &str) -> impl Iterator<Item = PathBuf> {
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    // A pattern was checked with the plan; what cannot be read is not there.
    glob::glob_with(pattern, options).into_iter().flatten().flatten().take(MOST)
}

/// Changes whenever the file does; `None` for what is no file or is empty.
fn weight(file: &Path) -> Option<u64> {
    let data = file.metadata().ok().filter(|data| data.is_file() && data.len() > 0)?;
    Some(data.len().wrapping_add(data.mtime_nsec().unsigned_abs()).wrapping_add(data.mtime().unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_there_when_each_pattern_has_a_file_with_something_in_it() {
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("a[1]");
        std::fs::create_dir_all(out.join("deep/er")).unwrap();
        let results = Results::new(&out, &["model.pt".into(), "**/*.json".into()]).unwrap();
        std::fs::write(out.join("model.pt"), "weights").unwrap();
        assert_eq!(results.found(), None);
        std::fs::write(out.join("deep/er/metrics.json"), "").unwrap();
        assert_eq!(results.found(), None);
        std::fs::write(out.join("deep/er/metrics.json"), "{}").unwrap();
        let first = results.found().unwrap();
        std::fs::write(out.join("model.pt"), "better weights").unwrap();
        assert_ne!(results.found(), Some(first));
    }

    #[test]
    fn a_star_does_not_reach_into_folders() {
        let out = tempfile::tempdir().unwrap();
        std::fs::create_dir(out.path().join("partial")).unwrap();
        std::fs::write(out.path().join("partial/model.pt"), "half").unwrap();
        assert_eq!(Results::new(out.path(), &["*.pt".into()]).unwrap().found(), None);
    }
}
