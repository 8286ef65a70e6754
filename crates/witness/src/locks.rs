//! Who holds the file locks that others wait for: `/proc/locks`, where those who wait stand below the one who took it, and
//! `/proc/PID/fdinfo`, for locks that belong to an open file: whoever has that, as every child of the taker does, keeps the lock and can
//! let go of it.
//!
//! Not every wait is in that list. Inside a container it leaves out locks whose taker is not there, gone or outside, and with them who
//! waits; file servers have lists of their own; who waits for a lock that belongs to an open file is not named. And not every process
//! can be looked at. So a wait is taken for one that the job itself keeps from ending only where one of its own processes is seen to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::proc_files::{folder_of, numbers_in, read, stat};
use crate::{Holder, Wait};

/// All locks of this machine's files that the kernel shows.
pub(crate) struct FileLocks {
    entries: Vec<Entry>,
    /// Who has the open files of locks, by kind and file: many may wait for one.
    kept: RefCell<HashMap<(Kind, String), Vec<u32>>>,
}

/// One line.
struct Entry {
    /// Entries with the same number are about the same lock.
    number: String,
    waits: bool,
    kind: Kind,
    /// For writing, so that nobody else has it.
    writes: bool,
    /// Who took it or waits for it; `None`: a lock that belongs to an open file, not to a process.
    pid: Option<u32>,
    /// Device and number of the file.
    file: String,
}

/// There is one, but it cannot be looked at.
const UNSEEN: Holder = Holder { pid: None, name: String::new(), others: None };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// Whether this is it, open elsewhere under this path, with this lock. Files that were removed have no path of their own, and
    /// file systems number theirs without regard to others.
    fn is(&self, path: &Path, entry: &Entry) -> bool {
        let has_path = self.inode.is_some() || !self.path.to_string_lossy().ends_with(" (deleted)");
        has_path && self.may_be(entry) && path == self.path
    }
}

impl FileLocks {
    /// Empty where the kernel does not show them.
    pub(crate) fn read() -> Self {
        Self::parse(&read(Path::new("/proc/locks")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self { entries: text.lines().filter_map(parse_line).collect(), kept: RefCell::default() }
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
            Some(pid) if held.kind == Kind::Posix => {
                alive(pid).map_or(UNSEEN, |holder| Holder { others: Some(Vec::new()), ..holder })
            }
            taker => self.keepers(held, taker, looked_at),
        }
    }

    /// Who has a lock for writing, by `fcntl`, on some of the file that this descriptor is.
    pub(crate) fn writer(&self, pid: u32, fd: u32) -> Option<u32> {
        let inode = OpenFile::of(pid, fd)?.inode?;
        let writes = |entry: &&Entry| entry.kind == Kind::Posix && entry.writes && !entry.waits;
        let mut held = self.entries.iter().filter(writes).filter(|entry| entry.inode() == Some(inode));
        held.find_map(|entry| entry.pid)
    }

    /// All who have the open file of a lock, the one who took it first; that one may be gone, as `flock 9` of a shell script is at once.
    fn keepers(&self, held: &Entry, taker: Option<u32>, looked_at: &[u32]) -> Holder {
        let find = || all_who(|_, _, _, entry: &Entry| entry.kind == held.kind && entry.file == held.file);
        let mut kept = self.kept.borrow_mut();
        let pids = kept.entry((held.kind, held.file.clone())).or_insert_with(find);
        first_of(pids, taker, looked_at).unwrap_or_else(|| taker.and_then(alive).unwrap_or(UNSEEN))
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
    let [kind, _, access, pid, file, ..] = fields[..] else { return None };
    let kind = match kind {
        "FLOCK" => Kind::Flock,
        "POSIX" => Kind::Posix,
        _ => Kind::Other,
    };
    Some(Entry {
        number: number.trim().to_owned(),
        waits,
        kind,
        writes: access == "WRITE",
        pid: pid.parse().ok(),
        file: file.to_owned(),
    })
}

fn alive(pid: u32) -> Option<Holder> {
    let stat = stat(&folder_of(pid)).filter(|stat| !matches!(stat.state, 'Z' | 'X'))?;
    Some(Holder { pid: Some(pid), name: stat.name, others: None })
}

/// One to be named of all who hold a lock: this one if it is among them, otherwise by preference one of those looked at.
fn first_of(pids: &[u32], preferred: Option<u32>, looked_at: &[u32]) -> Option<Holder> {
    let inside = || pids.iter().copied().find(|pid| looked_at.contains(pid));
    let first = preferred.filter(|pid| pids.contains(pid)).or_else(inside).or(pids.first().copied())?;
    let name = stat(&folder_of(first)).map(|stat| stat.name).unwrap_or_default();
    let others = pids.iter().copied().filter(|pid| *pid != first).collect();
    Some(Holder { pid: Some(first), name, others: Some(others) })
}

/// Who holds the lock of a file for which somebody waits who stands nowhere. Of locks by `fcntl`, which are of parts of a file, it cannot
/// be told here whether one is in another's way; those of a living process that can be seen would stand in the list. Who else has the
/// open file cannot be told where its taker is not to be seen.
fn unlisted(waiter: u32, wait: &Wait, file: &OpenFile, looked_at: &[u32]) -> Holder {
    let by_flock = wait.call == "flock";
    let pids = all_who(|pid, fd, link, entry: &Entry| {
        // The lock that it has itself, through the same open file, is being replaced.
        let own = pid == waiter && Some(fd) == wait.fd;
        let inside = looked_at.contains(&pid);
        !own && (by_flock || !inside) && (entry.kind == Kind::Flock) == by_flock && file.is(link, entry)
    });
    first_of(&pids, None, looked_at).map_or(UNSEEN, |holder| Holder { others: None, ..holder })
}

/// All processes that have a file open whose lock is held, and which is the one: by the process, its descriptor, the path of that, and what
/// is said of the lock.
fn all_who(is_it: impl Fn(u32, u32, &Path, &Entry) -> bool) -> Vec<u32> {
    let holds = |pid: &u32| {
        let folder = folder_of(*pid);
        numbers_in(&folder.join("fd")).into_iter().any(|fd| {
            let path = std::fs::read_link(folder.join("fd").join(fd.to_string()));
            // Pipes, sockets and the like have no locks.
            let Some(path) = path.ok().filter(|path| path.is_absolute()) else { return false };
            let info = read(&folder.join("fdinfo").join(fd.to_string())).unwrap_or_default();
            let held = |line: &str| line.strip_prefix("lock:").and_then(parse_line);
            info.lines().filter_map(held).any(|entry| !entry.waits && is_it(*pid, fd, &path, &entry))
        })
    };
    numbers_in(Path::new("/proc")).into_iter().filter(holds).collect()
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
    fn all_who_have_the_open_file_hold_its_lock() {
        let file = NamedTempFile::new().unwrap();
        flock(file.as_file(), FlockOperation::LockExclusive).unwrap();
        let (again, me) = (file.reopen().unwrap(), std::process::id());
        let shared = file.as_file().try_clone().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").stdin(shared).spawn().unwrap();
        let inode = std::os::unix::fs::MetadataExt::ino(&again.metadata().unwrap());
        let all = std::fs::read_to_string("/proc/locks").unwrap();
        let held = all.lines().find(|line| line.contains(&format!(":{inode} "))).unwrap();
        let (number, what) = held.split_once(':').unwrap();
        let waits = what.replace(&format!(" {me} "), " 4000000001 ");
        let locks = FileLocks::parse(&format!("{held}\n{number}: -> {}\n", waits.trim_start()));
        let holder = locks.holder(4_000_000_001, &by("flock", None), &[]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((holder.pid, holder.others), (Some(me), Some(vec![child.id()])));
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
