//! Processes as `/proc` tells of them: who they are, whose, and which job they say they belong to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use gpulane_model::env_vars;

/// Longer commands are cut: a person knows them by their beginning.
const LONGEST_COMMAND: usize = 100;

/// A process at the moment of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) session: u32,
    /// Ticks since boot; with the pid it names the process for good.
    pub(crate) start: u64,
    /// `Z` has ended and waits to be reaped.
    pub(crate) state: char,
    /// CPU time used so far, in ticks.
    pub(crate) ticks: u64,
    pub(crate) threads: u32,
}

/// Which job a process says it belongs to, by its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) run: PathBuf,
    pub(crate) job: String,
}

/// Every process that has not ended.
pub(crate) fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(look).filter(|process| process.state != 'Z').collect()
}

/// One process, or `None` if it is gone.
pub(crate) fn look(pid: u32) -> Option<Process> {
    parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

fn parse(pid: u32, stat: &str) -> Option<Process> {
    // The name stands in parentheses and may hold anything, parentheses too.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let small = |at: usize| fields.get(at)?.parse::<u32>().ok();
    Some(Process {
        pid,
        state: fields.first()?.chars().next()?,
        parent: small(1)?,
        session: small(3)?,
        ticks: number(11)? + number(12)?,
        threads: small(17)?,
        start: number(19)?,
    })
}

/// The id of the user whose process it is.
pub(crate) fn owner(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

/// What it runs, as `ps` shows it, shortened.
pub(crate) fn command(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    if words.is_empty() {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return format!("[{}]", name.trim_end());
    }
    shortened(&words.replace(char::is_control, " "), LONGEST_COMMAND)
}

/// The text, cut at a character.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first word of its command line.
pub(crate) fn program(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(words.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The job it says it belongs to, where its environment is ours to read and says so.
pub(crate) fn tag(pid: u32) -> Option<Tag> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let run = variable(&environment, env_vars::RUN)?;
    // All three are set for whatever a run starts; one alone may be anybody's.
    variable(&environment, env_vars::ATTEMPT)?;
    Some(Tag { run: run.into(), job: variable(&environment, env_vars::JOB)? })
}

/// A variable of its environment.
pub(crate) fn environment(pid: u32, name: &str) -> Option<String> {
    variable(&fs::read(format!("/proc/{pid}/environ")).ok()?, name)
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Whether paths and process ids mean the same to it as to us: no other container, no other root.
pub(crate) fn sees_our_files(pid: u32) -> bool {
    let same = |name: &str| {
        let theirs = fs::read_link(format!("/proc/{pid}/{name}")).ok();
        theirs.is_some() && theirs == fs::read_link(format!("/proc/self/{name}")).ok()
    };
    ["ns/mnt", "ns/pid", "root"].into_iter().all(same)
}

/// How many of its open files are GPUs.
pub(crate) fn gpu_files(pid: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("/dev/nvidia")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_tries_to_confuse() {
        let line = "42 (a) b (c)) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 12345 0 0";
        let process = parse(42, line).unwrap();
        assert_eq!((process.parent, process.session, process.start, process.state), (7, 9, 12345, 'S'));
        assert_eq!((process.ticks, process.threads), (11, 3));
    }

    #[test]
    fn we_see_our_own_files() {
        assert!(sees_our_files(std::process::id()));
        assert!(!sees_our_files(u32::MAX), "what cannot be told is not so");
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"GPULANE_RUNS=/no\0GPULANE_RUN=/runs/a\0";
        assert_eq!(variable(environment, env_vars::RUN).as_deref(), Some("/runs/a"));
    }

    #[test]
    fn commands_are_cut_between_characters() {
        assert_eq!(shortened("ééé", 2), "éé…");
        assert_eq!(shortened("ééé", 3), "ééé");
    }
}
