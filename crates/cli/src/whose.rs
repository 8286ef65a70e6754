//! Whose a process on a GPU is, from what `/proc` lets us read: user, command, and the run and job that started it.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpulane_gpu::{Holder, ProcessReading};
use gpulane_model::env_vars;
use gpulane_report::{SeenHolder, Whose};
use gpulane_witness::{stat_of, variable_of};

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
            user: Some(gpulane_files::user_name(owner)),
            command: gpulane_witness::command_of(process.pid, usize::MAX),
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
            if let Some(run) = variable_of(pid, env_vars::RUN) {
                return Whose::Run { run: run.into(), job: variable_of(pid, env_vars::JOB) };
            }
        }
        Whose::Foreign
    }
}

fn parent(pid: u32) -> Option<u32> {
    stat_of(pid).map(|stat| stat.parent).filter(|parent| *parent > 1)
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
    }
}
