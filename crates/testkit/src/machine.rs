//! What lives on this machine, by `/proc`: written apart from the engine's own reader, so that one does not vouch
//! for the other.

use std::path::Path;

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its id.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its command line, words separated by spaces.
    pub command: String,
    /// Its environment, as far as we may read it.
    environ: Vec<u8>,
}

impl Seen {
    /// Whether `NAME=value` stands in its environment.
    pub fn has(&self, entry: &str) -> bool {
        self.environ.split(|byte| *byte == 0).any(|line| line == entry.as_bytes())
    }

    /// Whether this text stands anywhere in its environment.
    pub fn mentions(&self, text: &str) -> bool {
        self.environ.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

/// Every process that has not ended.
pub fn processes() -> Vec<Seen> {
    let entries = std::fs::read_dir("/proc").expect("/proc is there").flatten();
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name))?;
                line.split_ascii_whitespace().nth(1).map(str::to_owned)
            };
            if field("State:")? == "Z" {
                return None;
            }
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            Some(Seen { pid, parent: field("PPid:")?.parse().ok()?, command, environ })
        })
        .collect()
}

/// The living processes that a run in `dir` started.
pub fn tagged(dir: &Path) -> Vec<Seen> {
    let tag = format!("GPULANE_RUN={}", dir.display());
    processes().into_iter().filter(|process| process.has(&tag)).collect()
}
