//! Processes as `/proc` tells of them: who they are, whose, and which job they say they belong to.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use gpulane_model::env_vars;
use gpulane_witness::{Stat, command_of, stat_of, variable_of};

/// Longer commands are cut: a person knows them by their beginning.
const LONGEST_COMMAND: usize = 100;

/// A process at the moment of looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) stat: Stat,
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
    pids.filter_map(look).filter(|process| !process.stat.has_ended()).collect()
}

/// One process, or `None` if it is gone.
pub(crate) fn look(pid: u32) -> Option<Process> {
    Some(Process { pid, stat: stat_of(pid)? })
}

/// The id of the user whose process it is.
pub(crate) fn owner(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

/// What it runs, as `ps` shows it, shortened.
pub(crate) fn command(pid: u32) -> String {
    command_of(pid, LONGEST_COMMAND).unwrap_or_else(|| "a process that ended meanwhile".to_owned())
}

/// The first word of its command line.
pub(crate) fn program(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(words.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// The job it says it belongs to, where its environment is ours to read and says so.
pub(crate) fn tag(pid: u32) -> Option<Tag> {
    // All three are set for whatever a run starts; one alone may be anybody's.
    variable_of(pid, env_vars::ATTEMPT)?;
    Some(Tag { run: variable_of(pid, env_vars::RUN)?.into(), job: variable_of(pid, env_vars::JOB)? })
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
    fn we_see_our_own_files() {
        assert!(sees_our_files(std::process::id()));
        assert!(!sees_our_files(u32::MAX), "what cannot be told is not so");
    }
}
