//! Small files of the kernel: a number, or a number behind a name.

use std::path::Path;

use gpulane_model::Bytes;

/// The number a file holds; `None` for `max`, for what is no number, and where there is no such file.
pub(crate) fn number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number behind a name at the beginning of a line: `MemAvailable:    7 kB`, `oom_kill 3`.
pub(crate) fn named(text: &str, name: &str) -> Option<u64> {
    let behind = |line: &str| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([':', ' ', '\t']).then(|| rest.trim_start_matches(':').trim().to_owned())
    };
    text.lines().find_map(behind)?.split_ascii_whitespace().next()?.parse().ok()
}

/// Kibibytes behind a name.
pub(crate) fn kib(text: &str, name: &str) -> Option<Bytes> {
    named(text, name).map(|kib| Bytes(kib.saturating_mul(1024)))
}

/// The part in percent. Of nothing it is nothing.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * 100 / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_behind_names() {
        let text = "MemTotalX: 1 kB\nMemTotal:       2 kB\noom 4\noom_kill 3\n";
        assert_eq!(kib(text, "MemTotal"), Some(Bytes(2048)));
        assert_eq!(named(text, "oom_kill"), Some(3));
        assert_eq!(named(text, "Swap"), None);
        assert_eq!(percent(u64::MAX, 0), u64::MAX);
        assert_eq!(percent(u64::MAX / 2, u64::MAX), 49);
    }
}
