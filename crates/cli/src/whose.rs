//! Whose a process on a GPU is, from what `/proc` lets us read: user, command, and the run and job that started it.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpulane_gpu::{Holder, ProcessReading};
use gpulane_model::env_vars;
use gpulane_report::{SeenHolder, Whose};

/// Longer lines of parents than this are loops of ids that were given out anew.
const GENERATIONS: usize = 64;

/// Knows who has leased GPUs.
pub(crate) struct Attribution {
    /// By an engine's process: its run.
    engines: HashMap<u32, PathBuf>,
}

impl Attribution {
    pub(crate) fn new(leases: &[(String, Holder)]) -> Self {
        Self { engines: leases.iter().map(|(_, holder)| (holder.pid, holder.run.clone())).collect() }
    }

    /// What can be known of a process.
    pub(crate) fn of(&self, process: &ProcessReading) -> SeenHolder {
        let place = Path::new("/proc").join(process.pid.to_string());
        let Ok(owner) = std::fs::metadata(&place).map(|found| found.uid()) else {
            return SeenHolder { process: *process, user: None, command: None, whose: Whose::Unknown };
        };
        SeenHolder {
            process: *process,
            user: Some(gpulane_gpu::user_name(owner)),
            command: command(&place),
            whose: self.whose(process.pid),
        }
    }

    /// The run it belongs to, by its own environment or that of the nearest parent that tells.
    fn whose(&self, pid: u32) -> Whose {
        let line = std::iter::successors(Some(pid), |pid| parent(*pid)).take(GENERATIONS);
        for pid in line {
            if let Some(run) = self.engines.get(&pid) {
                return Whose::Run { run: run.clone(), job: None };
            }
            // Another user's cannot be read; a parent's may.
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if let Some(run) = variable(&environment, env_vars::RUN) {
                return Whose::Run { run: run.into(), job: variable(&environment, env_vars::JOB) };
            }
        }
        Whose::Foreign
    }
}

/// Its command line; a process without one has its name, as `ps` shows it.
fn command(place: &Path) -> Option<String> {
    let words = std::fs::read(place.join("cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    if !words.is_empty() {
        return Some(words);
    }
    let name = std::fs::read_to_string(place.join("comm")).ok()?;
    Some(format!("[{}]", name.trim_end()))
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parent_in(&stat).filter(|parent| *parent > 1)
}

/// The parent in a line of `stat`. The name before it may hold spaces and parentheses of its own.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use gpulane_model::Bytes;

    use super::*;

    fn process(pid: u32) -> ProcessReading {
        ProcessReading { pid, memory: Some(Bytes(1)), compute: true }
    }

    /// A shell whose child is what holds the GPU; gives the child's id.
    fn family(command: &mut Command) -> (std::process::Child, u32) {
        let mut shell =
            command.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let child = line.trim().parse().unwrap();
        // Its own command is to be seen once it has become it.
        let command = || std::fs::read(format!("/proc/{child}/cmdline")).unwrap();
        while !command().starts_with(b"sleep") {
            std::thread::yield_now();
        }
        (shell, child)
    }

    fn end(mut shell: std::process::Child, child: u32) {
        Command::new("kill").arg(child.to_string()).status().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_jobs_process_is_known_by_its_environment() {
        let mut command = Command::new("sh");
        command.env(env_vars::RUN, "/runs/a").env(env_vars::JOB, "train/x");
        let (shell, child) = family(&mut command);
        let seen = Attribution::new(&[]).of(&process(child));
        let run = Whose::Run { run: "/runs/a".into(), job: Some("train/x".into()) };
        assert_eq!((seen.whose, seen.command.as_deref()), (run, Some("sleep 60")));
        assert!(seen.user.is_some());
        end(shell, child);
    }

    #[test]
    fn a_process_below_an_engine_belongs_to_its_run() {
        let mut command = Command::new("sh");
        command.env_remove(env_vars::RUN);
        let (shell, child) = family(&mut command);
        let since = gpulane_model::Millis(0);
        let holder = Holder { pid: shell.id(), user: "me".into(), run: "/runs/b".into(), since };
        let seen = Attribution::new(&[("GPU-0".into(), holder)]).of(&process(child));
        assert_eq!(seen.whose, Whose::Run { run: "/runs/b".into(), job: None });
        end(shell, child);
    }

    #[test]
    fn others_are_foreign_and_ids_of_elsewhere_unknown() {
        let unknown = Attribution::new(&[]).of(&process(u32::MAX));
        assert_eq!((unknown.whose, unknown.user), (Whose::Unknown, None));
        assert_eq!(parent_in("77 (a) b) R 42 77 77 0"), Some(42));
        let environment = b"GPULANE_RUNS=/no\0GPULANE_RUN=/runs/a\0";
        assert_eq!(variable(environment, env_vars::RUN).as_deref(), Some("/runs/a"));
    }
}
