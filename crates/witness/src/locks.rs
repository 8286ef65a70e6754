//! Who holds the file locks that others wait for: `/proc/locks`, where those who wait stand below the one who holds, and
//! `/proc/PID/fdinfo`, for a lock whose taker is gone while others keep the file open.
//!
//! Inside a container, `/proc/locks` leaves out locks whose taker is not there: gone, or outside; and with them who waits. Locks of
//! file servers are waited for without being in it, too.

use std::path::{Path, PathBuf};

use crate::Holder;
use crate::proc_files::{folder_of, numbers_in, read, stat};

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
    /// `None` where the kernel does not show them.
    pub(crate) fn read() -> Option<Self> {
        Some(Self::parse(&read(Path::new("/proc/locks"))?))
    }

    fn parse(text: &str) -> Self {
        Self { entries: text.lines().filter_map(parse_line).collect() }
    }

    /// Who holds what this one waits for, with a call for this descriptor. `None` if that is one of those looked at, or gone.
    pub(crate) fn holder(&self, waiter: u32, fd: Option<u32>, looked_at: &[u32]) -> Option<Holder> {
        let mut waits =
            self.entries.iter().filter(|entry| entry.waits && entry.pid == Some(waiter)).peekable();
        if waits.peek().is_none() {
            return unlisted(&target(waiter, fd?)?, looked_at);
        }
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

fn alive(pid: u32) -> Option<Holder> {
    let stat = stat(&folder_of(pid)).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
    Some(Holder { pid: Some(pid), name: stat.name })
}

/// Who took the lock may be gone, as `flock 9` of a shell script is at once: it stays with the open file.
fn keeper(file: &str, looked_at: &[u32]) -> Option<Holder> {
    outsider(looked_at, |_, entry| entry.file == file)
}

/// Who holds the lock of a file for which somebody waits who stands nowhere.
fn unlisted(path: &Path, looked_at: &[u32]) -> Option<Holder> {
    let same = |fd: &Path, _: &Entry| std::fs::read_link(fd).is_ok_and(|target| target == path);
    if looked_at.iter().any(|pid| holds(*pid, same)) {
        return None;
    }
    outsider(looked_at, same).or_else(|| Some(Holder::default()))
}

fn outsider(looked_at: &[u32], is_it: impl Fn(&Path, &Entry) -> bool) -> Option<Holder> {
    let mut others = numbers_in(Path::new("/proc")).into_iter().filter(|pid| !looked_at.contains(pid));
    others.find_map(|pid| if holds(pid, &is_it) { alive(pid) } else { None })
}

/// Whether it has a file open whose lock is held, and which is the one: by its link in `/proc` and what is said of the lock.
fn holds(pid: u32, is_it: impl Fn(&Path, &Entry) -> bool) -> bool {
    let folder = folder_of(pid);
    numbers_in(&folder.join("fdinfo")).into_iter().any(|fd| {
        let held = |line: &str| line.strip_prefix("lock:").and_then(parse_line);
        let info = read(&folder.join("fdinfo").join(fd.to_string())).unwrap_or_default();
        let link = folder.join("fd").join(fd.to_string());
        info.lines().filter_map(held).any(|entry| !entry.waits && is_it(&link, &entry))
    })
}

/// What a descriptor stands for, if that has a path.
fn target(pid: u32, fd: u32) -> Option<PathBuf> {
    let link = folder_of(pid).join("fd").join(fd.to_string());
    std::fs::read_link(link).ok().filter(|target| target.is_absolute())
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
            assert_eq!(locks().holder(waiter, None, &[waiter]).map(|holder| holder.pid), Some(Some(me)));
        }
        assert_eq!(
            locks().holder(4_000_000_001, None, &[4_000_000_001, me]),
            None,
            "it is one of those looked at"
        );
    }

    #[test]
    fn nobody_is_named_without_reason() {
        assert_eq!(locks().holder(4_000_000_003, None, &[]), None, "nobody has such a file open");
        assert_eq!(locks().holder(std::process::id(), None, &[]), None, "who holds does not wait");
    }

    #[test]
    fn where_the_lock_is_not_listed_open_files_tell() {
        use std::os::fd::AsRawFd;
        let (none, me) = (FileLocks::parse(""), std::process::id());
        let file = tempfile::NamedTempFile::new().unwrap();
        let fd = u32::try_from(file.as_file().as_raw_fd()).ok();
        assert_eq!(none.holder(me, fd, &[me]), Some(Holder::default()), "nobody that can be seen");
        rustix::fs::flock(file.as_file(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(none.holder(me, fd, &[]).and_then(|holder| holder.pid), Some(me));
        assert_eq!(none.holder(me, fd, &[me]), None, "it is one of those looked at");
        assert_eq!(none.holder(me, None, &[me]), None, "not known for what");
    }
}
