//! The files of `/proc` about one process or thread, as plain values. What cannot be read is absent, never an error:
//! processes end while they are looked at.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Milliseconds in one of the ticks in which `/proc` counts CPU time: a hundred a second, whatever the kernel's own are.
const TICK: u64 = 10;

/// `stat` of a process or thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What the kernel calls it.
    pub name: String,
    /// `Z`: its main thread has ended.
    pub state: char,
    /// Its parent's id.
    pub parent: u32,
    /// The id of its session's leader.
    pub session: u32,
    /// CPU time used, in milliseconds.
    pub cpu: u64,
    /// How many threads it has.
    pub threads: u32,
    /// Ticks since boot; with the id it names the process for good.
    pub start: u64,
}

impl Stat {
    /// Nothing of it is left but its exit status. (One whose main thread has ended before the others is `Z`, too.)
    pub fn has_ended(&self) -> bool {
        self.state == 'Z' && self.threads <= 1
    }
}

/// A process's folder.
pub(crate) fn folder_of(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// One process, or `None` if it is gone.
pub fn stat_of(pid: u32) -> Option<Stat> {
    stat(&folder_of(pid))
}

/// `/proc/PID/stat`, or `/proc/PID/task/TID/stat`.
pub(crate) fn stat(folder: &Path) -> Option<Stat> {
    parse_stat(&read(&folder.join("stat"))?)
}

/// The name stands in brackets and may itself hold any of them, so it ends at the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let rest: Vec<&str> = text[close + 1..].split_whitespace().collect();
    Some(Stat {
        name: text.get(open + 1..close)?.to_owned(),
        state: rest.first()?.chars().next()?,
        parent: rest.get(1)?.parse().ok()?,
        session: rest.get(3)?.parse().ok()?,
        cpu: ticks(&rest, 11)?.saturating_add(ticks(&rest, 12)?).saturating_mul(TICK),
        threads: rest.get(17)?.parse().ok()?,
        start: rest.get(19)?.parse().ok()?,
    })
}

fn ticks(fields: &[&str], at: usize) -> Option<u64> {
    fields.get(at)?.parse().ok()
}

/// The function of the kernel a thread sleeps in; `None` if it sleeps in none, or the kernel does not tell.
pub(crate) fn wchan(folder: &Path) -> Option<String> {
    read(&folder.join("wchan")).filter(|name| !name.is_empty() && name != "0")
}

/// How often a thread has been taken off a CPU, of its own will or not.
pub(crate) fn switches(folder: &Path) -> u64 {
    let Some(status) = read(&folder.join("status")) else { return 0 };
    let counts = status.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    counts.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// The command line in one line, cut after so many characters; the name in brackets where there is none, and nothing where there
/// is no process.
pub fn command_of(pid: u32, longest: usize) -> Option<String> {
    let folder = folder_of(pid);
    let argv = fs::read(folder.join("cmdline")).unwrap_or_default();
    let argv: Vec<_> =
        argv.split(|byte| *byte == 0).filter(|arg| !arg.is_empty()).map(String::from_utf8_lossy).collect();
    let line = argv.join(" ");
    if line.trim().is_empty() {
        return name_of(pid).map(|name| format!("[{name}]"));
    }
    Some(shortened(&line.trim().replace(char::is_control, " "), longest))
}

/// What the kernel calls it. Unlike the command line this can be read of a process that is stuck in the kernel.
pub fn name_of(pid: u32) -> Option<String> {
    let name = read(&folder_of(pid).join("comm"))?;
    Some(name.trim_end().replace(char::is_control, " ")).filter(|name| !name.is_empty())
}

/// The text, cut between two characters.
pub fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A variable of its environment, where that is ours to read.
pub fn variable_of(pid: u32, name: &str) -> Option<String> {
    variable(&fs::read(folder_of(pid).join("environ")).ok()?, name)
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// How many descriptors the process may have, the soft limit.
pub(crate) fn descriptor_limit(folder: &Path) -> Option<u64> {
    let limits = read(&folder.join("limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The threads of a process, the main one first.
pub(crate) fn tasks(folder: &Path, pid: u32) -> Vec<u32> {
    let mut tids = numbers_in(&folder.join("task"));
    tids.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    tids
}

/// A process and all that are below it by their parents: itself first, then its children, then theirs.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in numbers_in(Path::new("/proc")) {
        if let Some(stat) = stat_of(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        // Removed as it is used: parents read one after another can form a circle when ids are used again.
        let mut below = children.remove(parent).unwrap_or_default();
        below.retain(|pid| !found.contains(pid));
        below.sort_unstable();
        found.append(&mut below);
        next += 1;
    }
    found
}

/// The entries of a folder whose names are numbers.
pub(crate) fn numbers_in(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A file as text.
pub(crate) fn read(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_read() {
        let fields: Vec<String> = (4..=30).map(|field| field.to_string()).collect();
        let stat = parse_stat(&format!("7 (a) b (c) S {}", fields.join(" "))).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.start), ("a) b (c", 'S', 4, 22));
        assert_eq!(stat.cpu, 290, "14 and 15 ticks of 10 ms");
        assert_eq!((stat.session, stat.threads), (6, 20));
    }

    #[test]
    fn a_main_thread_that_left_before_the_others_has_not_ended_its_process() {
        let stat = |threads: u32| {
            parse_stat(&format!("7 (x) Z 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 9")).unwrap()
        };
        assert!(stat(1).has_ended() && !stat(2).has_ended());
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        assert_eq!(variable(b"RUNS=/no\0RUN=/runs/a\0", "RUN").as_deref(), Some("/runs/a"));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("ééé", 2), "éé…");
        assert_eq!(shortened("ééé", 3), "ééé");
    }

    #[test]
    fn a_torn_line_is_no_process() {
        assert!(parse_stat("7 (x").is_none());
        assert!(parse_stat("7 (x) S 1 2").is_none());
    }

    #[test]
    fn the_root_comes_first_even_if_it_is_gone() {
        assert_eq!(descendants(u32::MAX), [u32::MAX]);
    }
}
