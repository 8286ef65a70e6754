//! Who holds the file locks that others wait for: `/proc/locks`, where those who wait stand below the one who holds, and
//! `/proc/PID/fdinfo`, for a lock whose taker is gone while others keep the file open.
//!
//! Not every wait is in that list. Inside a container it leaves out locks whose taker is not there, gone or outside, and with them who
//! waits; file servers have lists of their own; who waits for a lock that belongs to an open file is not named. And not every process
//! can be looked at. So a wait is taken for one that the job itself keeps from ending only where one of its own processes is seen to.

use std::path::{Path, PathBuf};

use crate::proc_files::{folder_of, numbers_in, read, stat};
use crate::{Holder, Wait};

/// All locks of this machine's files that the kernel shows.
pub(crate) struct FileLocks {
    entries: Vec<Entry>,
}

/// One line.
struct Entry {
    /// Entries with the same number are about the same lock.
    number: String,
    waits: bool,
    kind: Kind,
    /// Who took it or waits for it; `None`: a lock that belongs to an open file, not to a process.
    pid: Option<u32>,
    /// Device and number of the file.
    file: String,
}

/// There is one, but it cannot be looked at.
const UNSEEN: Holder = Holder { pid: None, name: String::new() };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// By `flock`: stays with the open file.
    Flock,
    /// By `fcntl`: its process's own, gone with it.
    Posix,
    /// By `fcntl`, too, but stays with the open file; leases.
    Other,
}

/// A file that somebody has open, as well as that can be told without asking its file system, which may hang.
struct OpenFile {
    path: PathBuf,
    /// Linux tells it since 5.14.
    inode: Option<u64>,
}

impl OpenFile {
    fn of(pid: u32, fd: u32) -> Option<Self> {
        let (folder, fd) = (folder_of(pid), fd.to_string());
        let path = std::fs::read_link(folder.join("fd").join(&fd)).ok()?;
        let info = read(&folder.join("fdinfo").join(fd)).unwrap_or_default();
        let inode = info.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse().ok());
        Some(Self { path, inode })
    }

    /// Whether this lock may be about it.
    fn may_be(&self, entry: &Entry) -> bool {
        self.inode.is_none_or(|inode| entry.inode() == Some(inode))
    }

    /// Whether this is it, open elsewhere under this link, with this lock. Files that were removed have no path of their own, and
    /// file systems number theirs without regard to others.
    fn is(&self, link: &Path, entry: &Entry) -> bool {
        let has_path = self.inode.is_some() || !self.path.to_string_lossy().ends_with(" (deleted)");
        has_path && self.may_be(entry) && std::fs::read_link(link).is_ok_and(|path| path == self.path)
    }
}

impl FileLocks {
    /// Empty where the kernel does not show them.
    pub(crate) fn read() -> Self {
        Self::parse(&read(Path::new("/proc/locks")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self { entries: text.lines().filter_map(parse_line).collect() }
    }

    /// Who holds what this one waits for, by preference one of those looked at; one of which nothing is known if that cannot be seen.
    pub(crate) fn holder(&self, waiter: u32, wait: &Wait, looked_at: &[u32]) -> Holder {
        let file = wait.fd.and_then(|fd| OpenFile::of(waiter, fd));
        let is_it = |entry: &&Entry| {
            entry.waits && entry.pid == Some(waiter) && file.as_ref().is_none_or(|file| file.may_be(entry))
        };
        let listed = self.entries.iter().find(is_it);
        let held = listed
            .and_then(|waits| self.entries.iter().find(|entry| !entry.waits && entry.number == waits.number));
        let Some(held) = held else {
            return file.map_or(UNSEEN, |file| unlisted(waiter, wait, &file, looked_at));
        };
        match held.pid {
            Some(pid) if looked_at.contains(&pid) => insider(pid),
            Some(pid) if held.kind == Kind::Posix => alive(pid).unwrap_or(UNSEEN),
            Some(pid) => alive(pid).unwrap_or_else(|| keeper(held, looked_at)),
            None => keeper(held, looked_at),
        }
    }
}

impl Entry {
    fn inode(&self) -> Option<u64> {
        self.file.rsplit(':').next()?.parse().ok()
    }
}

/// `1: -> FLOCK  ADVISORY  WRITE 9344 fe:00:10027401 0 EOF`, without the arrow for the one who holds it.
fn parse_line(line: &str) -> Option<Entry> {
    let (number, rest) = line.split_once(':')?;
    let waits = rest.trim_start().starts_with("->");
    let fields: Vec<&str> = rest.trim_start().trim_start_matches("->").split_whitespace().collect();
    let [kind, _, _, pid, file, ..] = fields[..] else { return None };
    let kind = match kind {
        "FLOCK" => Kind::Flock,
        "POSIX" => Kind::Posix,
        _ => Kind::Other,
    };
    Some(Entry {
        number: number.trim().to_owned(),
        waits,
        kind,
        pid: pid.parse().ok(),
        file: file.to_owned(),
    })
}

fn alive(pid: u32) -> Option<Holder> {
    let stat = stat(&folder_of(pid)).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
    Some(Holder { pid: Some(pid), name: stat.name })
}

/// Who took the lock may be gone, as `flock 9` of a shell script is at once: it stays with the open file.
fn keeper(held: &Entry, looked_at: &[u32]) -> Holder {
    let is_it = |_: u32, _: &Path, entry: &Entry| entry.kind == held.kind && entry.file == held.file;
    match looked_at.iter().find(|pid| holds(**pid, is_it)) {
        Some(pid) => insider(*pid),
        None => outsider(looked_at, is_it).unwrap_or(UNSEEN),
    }
}

/// One of those looked at.
fn insider(pid: u32) -> Holder {
    Holder { pid: Some(pid), name: stat(&folder_of(pid)).map(|stat| stat.name).unwrap_or_default() }
}

/// Who holds the lock of a file for which somebody waits who stands nowhere. Of locks by `fcntl`, which are of parts of a file, it cannot
/// be told here whether one is in another's way; those of a living process that can be seen would stand in the list.
fn unlisted(waiter: u32, wait: &Wait, file: &OpenFile, looked_at: &[u32]) -> Holder {
    let by_flock = wait.call == "flock";
    let is_it =
        |_: u32, link: &Path, entry: &Entry| (entry.kind == Kind::Flock) == by_flock && file.is(link, entry);
    // The lock that it has itself, through the same open file, is being replaced.
    let is_another = |fd: u32, link: &Path, entry: &Entry| Some(fd) != wait.fd && is_it(fd, link, entry);
    let own = |pid: &u32| if *pid == waiter { holds(*pid, is_another) } else { holds(*pid, is_it) };
    match looked_at.iter().find(|pid| by_flock && own(pid)) {
        Some(pid) => insider(*pid),
        None => outsider(looked_at, is_it).unwrap_or(UNSEEN),
    }
}

fn outsider(looked_at: &[u32], is_it: impl Fn(u32, &Path, &Entry) -> bool) -> Option<Holder> {
    let mut others = numbers_in(Path::new("/proc")).into_iter().filter(|pid| !looked_at.contains(pid));
    others.find_map(|pid| if holds(pid, &is_it) { alive(pid) } else { None })
}

/// Whether it has a file open whose lock is held, and which is the one: by its descriptor, the link of that in `/proc`, and what is said
/// of the lock.
fn holds(pid: u32, is_it: impl Fn(u32, &Path, &Entry) -> bool) -> bool {
    let folder = folder_of(pid);
    numbers_in(&folder.join("fdinfo")).into_iter().any(|fd| {
        let held = |line: &str| line.strip_prefix("lock:").and_then(parse_line);
        let info = read(&folder.join("fdinfo").join(fd.to_string())).unwrap_or_default();
        let link = folder.join("fd").join(fd.to_string());
        info.lines().filter_map(held).any(|entry| !entry.waits && is_it(fd, &link, &entry))
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::{FlockOperation, flock};
    use tempfile::NamedTempFile;

    use super::*;

    fn by(call: &str, fd: Option<u32>) -> Wait {
        Wait { call: call.to_owned(), fd, ..Wait::default() }
    }

    fn number(file: &std::fs::File) -> Option<u32> {
        u32::try_from(file.as_raw_fd()).ok()
    }

    /// A lock held by this process, for which two others wait, and one of a process that cannot be seen.
    fn locks() -> FileLocks {
        FileLocks::parse(&format!(
            "1: FLOCK  ADVISORY  WRITE {} fe:00:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4000000001 fe:00:77 0 EOF\n\
             1:  -> FLOCK  ADVISORY  WRITE 4000000002 fe:00:77 0 EOF\n2: POSIX  ADVISORY  WRITE 4000000004 fe:00:78 0 EOF\n\
             2: -> POSIX ADVISORY  WRITE 4000000003 fe:00:78 0 EOF\nrubbish\n3: -> POSIX\n",
            std::process::id()
        ))
    }

    #[test]
    fn a_holder_that_lives_outside_is_named() {
        let (me, wait) = (std::process::id(), by("flock", None));
        for waiter in [4_000_000_001, 4_000_000_002] {
            assert_eq!(locks().holder(waiter, &wait, &[waiter]).pid, Some(me));
        }
        let own = [4_000_000_001, me];
        assert_eq!(locks().holder(4_000_000_001, &wait, &own).pid, Some(me), "it is one of those looked at");
    }

    #[test]
    fn a_holder_that_cannot_be_seen_is_one_nevertheless() {
        let holder = locks().holder(4_000_000_003, &by("fcntl", None), &[4_000_000_003]);
        assert_eq!(holder, Holder::default());
    }

    #[test]
    fn where_the_lock_is_not_listed_open_files_tell() {
        let (none, me) = (FileLocks::parse(""), std::process::id());
        let file = NamedTempFile::new().unwrap();
        let again = file.reopen().unwrap();
        let wait = by("flock", number(&again));
        assert_eq!(none.holder(me, &wait, &[me]), Holder::default(), "nobody that can be seen");
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        assert_eq!(none.holder(me, &wait, &[]).pid, Some(me));
        assert_eq!(none.holder(me, &wait, &[me]).pid, Some(me), "it is one of those looked at");
        let same = by("flock", number(file.as_file()));
        assert_eq!(
            none.holder(me, &same, &[me]),
            Holder::default(),
            "its own lock, to be replaced by another"
        );
        let parts = by("fcntl", number(&again));
        assert_eq!(none.holder(me, &parts, &[me]), Holder::default(), "locks of parts mind only their kind");
        assert_eq!(none.holder(me, &by("flock", None), &[me]), Holder::default(), "not known for what");
    }

    #[test]
    fn files_that_were_removed_are_told_apart_though_they_had_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let make = || {
            let file = std::fs::File::create_new(folder.path().join("lock")).unwrap();
            std::fs::remove_file(folder.path().join("lock")).unwrap();
            file
        };
        let (waited, held, me) = (make(), make(), std::process::id());
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let holder = FileLocks::parse("").holder(me, &by("flock", number(&waited)), &[me]);
        assert_eq!(holder, Holder::default());
    }
}
