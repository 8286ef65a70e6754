//! Who holds the file locks that others wait for: `/proc/locks`, where those who wait stand below the one who holds, and
//! `/proc/PID/fdinfo`, for a lock whose taker is gone while others keep the file open.

use std::path::{Path, PathBuf};

use crate::Holder;
use crate::proc_files::{numbers_in, read, stat};

/// All locks of this machine's files that the kernel shows.
pub(crate) struct FileLocks {
    entries: Vec<Entry>,
}

/// One line.
struct Entry {
    /// Those with the same number are about the same lock.
    number: String,
    waits: bool,
    /// Who took it or waits for it; `None`: a lock that belongs to an open file, not to a process.
    pid: Option<u32>,
    /// Device and number of the file.
    file: String,
}

impl FileLocks {
    pub(crate) fn read() -> Self {
        Self::parse(&read(Path::new("/proc/locks")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self { entries: text.lines().filter_map(parse_line).collect() }
    }

    /// The living process that holds what this one waits for. `None` if that is one of those looked at, or not to be found.
    pub(crate) fn holder(&self, waiter: u32, looked_at: &[u32]) -> Option<Holder> {
        let mut waits = self.entries.iter().filter(|entry| entry.waits && entry.pid == Some(waiter));
        waits.find_map(|waits| {
            let held = self.entries.iter().find(|entry| !entry.waits && entry.number == waits.number)?;
            match held.pid {
                Some(pid) if looked_at.contains(&pid) => None,
                Some(pid) => alive(pid).or_else(|| keeper(&held.file, looked_at)),
                None => keeper(&held.file, looked_at),
            }
        })
    }
}

/// `1: -> FLOCK  ADVISORY  WRITE 9344 fe:00:10027401 0 EOF`, without the arrow for the one who holds it.
fn parse_line(line: &str) -> Option<Entry> {
    let (number, rest) = line.split_once(':')?;
    let waits = rest.trim_start().starts_with("->");
    let fields: Vec<&str> = rest.trim_start().trim_start_matches("->").split_whitespace().collect();
    let [_, _, _, pid, file, ..] = fields[..] else { return None };
    Some(Entry { number: number.trim().to_owned(), waits, pid: pid.parse().ok(), file: file.to_owned() })
}

fn folder_of(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

fn alive(pid: u32) -> Option<Holder> {
    let stat = stat(&folder_of(pid)).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
    Some(Holder { pid, name: stat.name })
}

/// Who took the lock may be gone, as `flock 9` of a shell script is at once: it stays with the open file.
fn keeper(file: &str, looked_at: &[u32]) -> Option<Holder> {
    let mut others = numbers_in(Path::new("/proc")).into_iter().filter(|pid| !looked_at.contains(pid));
    others.find_map(|pid| if keeps(pid, file) { alive(pid) } else { None })
}

fn keeps(pid: u32, file: &str) -> bool {
    let open = folder_of(pid).join("fdinfo");
    numbers_in(&open).into_iter().any(|fd| {
        let held = |line: &str| line.strip_prefix("lock:").and_then(parse_line);
        let info = read(&open.join(fd.to_string())).unwrap_or_default();
        info.lines().filter_map(held).any(|entry| !entry.waits && entry.file == file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock held by this process, for which two others wait, and one that belongs to an open file.
    fn locks() -> FileLocks {
        FileLocks::parse(&format!(
            "1: FLOCK  ADVISORY  WRITE {} fe:00:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4000000001 fe:00:77 0 EOF\n\
             1:  -> FLOCK  ADVISORY  WRITE 4000000002 fe:00:77 0 EOF\n2: OFDLCK ADVISORY  WRITE -1 fe:00:78 0 EOF\n\
             2: -> OFDLCK ADVISORY  WRITE 4000000003 fe:00:78 0 EOF\nrubbish\n3: -> POSIX\n",
            std::process::id()
        ))
    }

    #[test]
    fn a_holder_that_lives_outside_is_named() {
        let me = std::process::id();
        for waiter in [4_000_000_001, 4_000_000_002] {
            assert_eq!(locks().holder(waiter, &[waiter]).map(|holder| holder.pid), Some(me));
        }
        assert_eq!(locks().holder(4_000_000_001, &[4_000_000_001, me]), None, "it is one of those looked at");
    }

    #[test]
    fn nobody_is_named_without_reason() {
        assert_eq!(locks().holder(4_000_000_003, &[]), None, "nobody has such a file open");
        assert_eq!(locks().holder(std::process::id(), &[]), None, "who holds does not wait");
    }
}
