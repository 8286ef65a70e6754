//! Who descends from whom, read from `/proc`, and signals that cannot hit a stranger: a process is named by its id
//! and its start time, and signalled through a pidfd opened before the start time is checked.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use gpulane_model::env_vars;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process at the moment of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    /// Ticks since boot; with the pid it names the process for good.
    pub(crate) start: u64,
    /// `Z` has ended and waits to be reaped.
    pub(crate) state: u8,
    pub(crate) session: i32,
    /// The main thread may have ended before the others.
    pub(crate) threads: u32,
    /// It only watches and reports: what it does is no sign of its job's life.
    pub(crate) monitor: bool,
    /// Time on a CPU so far, all its threads together, in clock ticks.
    pub(crate) cpu: u64,
    /// CPU time of all children it has waited for, in clock ticks.
    pub(crate) children: u64,
    /// Page faults so far.
    pub(crate) faults: u64,
}

impl Process {
    /// Nothing of it is left but its exit status. (One whose main thread has ended before the others is `Z`, too.)
    pub(crate) fn has_ended(&self) -> bool {
        self.state == b'Z' && self.threads <= 1
    }
}

/// Which job a process says it belongs to, by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) run: String,
    pub(crate) job: String,
    pub(crate) attempt: u32,
}

/// Stands in a standby's name before its number.
const STANDBY: &str = "/standby-";

impl Tag {
    /// What a standby's processes are called, in place of a job's name. Its attempt is 0.
    pub(crate) fn standby(stage: &str, number: u32) -> String {
        format!("{stage}{STANDBY}{number}")
    }

    /// The standby's number, if it is one's: of a job that was one, it still is what it and its forks say.
    pub(crate) fn standby_number(&self) -> Option<u32> {
        self.job.rsplit_once(STANDBY)?.1.parse().ok().filter(|_| self.attempt == 0)
    }
}

/// All processes of the machine, once.
pub(crate) struct Table {
    processes: HashMap<i32, Process>,
    /// By parent; made once, since all jobs share one table.
    children: OnceCell<HashMap<i32, Vec<i32>>>,
}

impl Table {
    pub(crate) fn read() -> Self {
        let processes = std::fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
            .filter_map(look)
            .map(|process| (process.pid.as_raw_nonzero().get(), process))
            .collect();
        Self { processes, children: OnceCell::new() }
    }

    /// A table of these processes and no others.
    #[cfg(test)]
    pub(crate) fn of(processes: &[Process]) -> Self {
        let named = processes.iter().map(|process| (process.pid.as_raw_nonzero().get(), *process));
        Self { processes: named.collect(), children: OnceCell::new() }
    }

    pub(crate) fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes.values().filter(|process| !process.has_ended())
    }

    /// The process with this id.
    pub(crate) fn get(&self, pid: Pid) -> Option<&Process> {
        self.processes.get(&pid.as_raw_nonzero().get())
    }

    pub(crate) fn children_of(&self, parent: Pid) -> Vec<Pid> {
        let parent = parent.as_raw_nonzero().get();
        self.processes
            .values()
            .filter(|process| process.parent == parent)
            .map(|process| process.pid)
            .collect()
    }

    /// The process itself, its parent, and so on.
    pub(crate) fn ancestors_of(&self, pid: Pid) -> HashSet<Pid> {
        let mut found = HashSet::new();
        let mut next = Some(pid);
        while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
            let process = self.processes.get(&pid.as_raw_nonzero().get());
            next = process.and_then(|process| Pid::from_raw(process.parent));
        }
        found
    }

    /// The living among `roots` and all their descendants.
    pub(crate) fn closure(&self, roots: &[Pid]) -> Vec<Process> {
        let mut members: HashSet<i32> = roots.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        let children = self.children.get_or_init(|| {
            let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
            for process in self.processes.values() {
                children.entry(process.parent).or_default().push(process.pid.as_raw_nonzero().get());
            }
            children
        });
        let mut open: Vec<i32> = members.iter().copied().collect();
        while let Some(pid) = open.pop() {
            for child in children.get(&pid).into_iter().flatten() {
                if members.insert(*child) {
                    open.push(*child);
                }
            }
        }
        members
            .into_iter()
            .filter_map(|pid| self.processes.get(&pid))
            .filter(|process| !process.has_ended())
            .copied()
            .collect()
    }

    /// The living that belong to the job with this main process: all below it, and whoever stayed in its session.
    pub(crate) fn family(&self, main: Pid) -> Vec<Process> {
        let session = main.as_raw_nonzero().get();
        let mut roots: Vec<Pid> =
            self.processes.values().filter(|process| process.session == session).map(|one| one.pid).collect();
        roots.push(main);
        self.closure(&roots)
    }

    /// The living whose environment names this run directory: for what outlived its engine and guardian.
    pub(crate) fn tagged(&self, run: &Path) -> Vec<Process> {
        self.processes
            .values()
            .filter(|process| !process.has_ended())
            .filter(|process| tag_of(process.pid).is_some_and(|tag| Path::new(&tag.run) == run))
            .copied()
            .collect()
    }
}

/// One process, or `None` if it is gone.
pub(crate) fn look(pid: Pid) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_stat(pid, &stat)
}

/// The children of one process, as the kernel lists them; none where it does not.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children = |list: String| -> Vec<Pid> {
        list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    };
    lists.flat_map(children).collect()
}

fn parse_stat(pid: Pid, stat: &[u8]) -> Option<Process> {
    // The command name stands in parentheses and may hold anything, parentheses too.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let name = stat.iter().position(|byte| *byte == b'(').and_then(|at| stat.get(at + 1..after_name - 2));
    let monitor =
        name.and_then(|name| std::str::from_utf8(name).ok()).is_some_and(gpulane_witness::is_monitor);
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = |skipped: usize| fields.nth(skipped)?.parse::<i64>().ok();
    let (parent, session) = (number(0)?, number(1)?);
    // In between: the terminal and flags; the faults of children that were waited for.
    let (minor, major) = (number(3)?, number(1)?);
    let (user, system) = (number(1)?, number(0)?);
    let (of_children, in_kernel) = (number(0)?, number(0)?);
    let (threads, start) = (number(2)?, number(1)?);
    Some(Process {
        pid,
        parent: i32::try_from(parent).ok()?,
        start: start.unsigned_abs(),
        state,
        session: i32::try_from(session).ok()?,
        threads: u32::try_from(threads).unwrap_or(1),
        monitor,
        cpu: user.unsigned_abs() + system.unsigned_abs(),
        children: of_children.unsigned_abs() + in_kernel.unsigned_abs(),
        faults: minor.unsigned_abs() + major.unsigned_abs(),
    })
}

/// Sends `signal` unless the process is gone. Never hits another one that got its id since.
pub(crate) fn signal(process: &Process, signal: Signal) {
    let Ok(pidfd) = pidfd_open(process.pid, PidfdFlags::empty()) else { return };
    if look(process.pid).is_some_and(|now| now.start == process.start) {
        // Already ended is what we wanted.
        let _ = pidfd_send_signal(&pidfd, signal);
    }
}

/// Whose a process is, by its environment.
pub(crate) enum Mark {
    Of(Tag),
    Nobody,
    /// Cannot be told yet: it is just becoming another program. (One that erased its environment looks the same.)
    Unclear,
}

/// A process that becomes another program has no environment for a moment, and one that is read just then ends early. So
/// only what reads the same twice is believed to bear no tag.
pub(crate) fn mark_of(pid: Pid) -> Mark {
    // Not ours to read, or gone.
    let Some(first) = environ(pid) else { return Mark::Nobody };
    if let Some(tag) = tag_in(&first) {
        return Mark::Of(tag);
    }
    let is_settled = !first.is_empty() && environ(pid).is_none_or(|second| second == first);
    if is_settled { Mark::Nobody } else { Mark::Unclear }
}

/// Most files of a process that are looked at.
const MOST_FILES: usize = 64;

/// The files that a process has open, as the kernel names them; the first of them, where there are many.
pub(crate) fn open_files(pid: Pid) -> impl Iterator<Item = PathBuf> {
    let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(MOST_FILES).filter_map(|entry| std::fs::read_link(entry.path()).ok())
}

/// Whose log the process writes to as its stdout or stderr: a daemon without its job's environment mostly keeps these. `jobs` is where
/// the jobs of `run` have theirs, as the kernel names it.
pub(crate) fn writer_of(pid: Pid, jobs: &Path, run: &str) -> Option<Tag> {
    let target = |number| std::fs::read_link(format!("/proc/{}/fd/{number}", pid.as_raw_nonzero())).ok();
    [1, 2].into_iter().filter_map(target).find_map(|file| tag_in_path(jobs, &file, run))
}

/// The job that a file below `jobs` is of: `STAGE/NAME/attempt-1/stdout.log`.
pub(crate) fn tag_in_path(jobs: &Path, file: &Path, run: &str) -> Option<Tag> {
    let mut parts = file.strip_prefix(jobs).ok()?.iter().map(|part| part.to_str());
    let (stage, name, attempt) = (parts.next()??, parts.next()??, parts.next()??);
    let attempt = attempt.strip_prefix("attempt-")?.parse().ok()?;
    Some(Tag { run: run.to_owned(), job: format!("{stage}/{name}"), attempt })
}

/// Where the jobs of a run have their files, as the kernel names files that are open.
pub(crate) fn jobs_folder(run: &str) -> PathBuf {
    std::fs::canonicalize(run).unwrap_or_else(|_| PathBuf::from(run)).join("jobs")
}

/// What the process's environment says, if it is ours to read and says anything.
pub(crate) fn tag_of(pid: Pid) -> Option<Tag> {
    tag_in(&environ(pid)?)
}

fn environ(pid: Pid) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()
}

fn tag_in(environ: &[u8]) -> Option<Tag> {
    let value = |name: &str| {
        environ.split(|byte| *byte == 0).find_map(|entry| {
            let text = std::str::from_utf8(entry).ok()?;
            text.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
        })
    };
    Some(Tag {
        run: value(env_vars::RUN)?,
        job: value(env_vars::JOB)?,
        attempt: value(env_vars::ATTEMPT)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_stat_line_whose_name_tries_to_confuse() {
        let line = b"42 (a) b (c)) S 7 8 9 0 -1 4194560 1 20 3 40 5 60 7 8 20 0 1 0 12345 0 0";
        let process = parse_stat(Pid::from_raw(42).unwrap(), line).unwrap();
        assert_eq!((process.parent, process.start, process.state), (7, 12345, b'S'));
        assert_eq!((process.session, process.faults, process.cpu, process.threads), (9, 4, 65, 1));
    }

    #[test]
    fn finds_itself_below_its_parent() {
        let me = rustix::process::getpid();
        let table = Table::read();
        let parent = Pid::from_raw(table.processes[&me.as_raw_nonzero().get()].parent).unwrap();
        assert!(table.closure(&[parent]).iter().any(|process| process.pid == me));
    }
}
