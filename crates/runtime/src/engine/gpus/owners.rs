//! Whose process is it: a job's, otherwise ours, or a stranger's. Found once for each process, by descent first and
//! by the mark in its environment where it has left its family.

use std::collections::{HashMap, HashSet};

use gpulane_model::{Attempt, JobId};
use rustix::process::Pid;

use super::super::ending::Names;
use crate::process::tree;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A running job's.
    Job(JobId),
    /// Started by us, but no job: the MPS daemon and its server.
    Ours,
    /// A standby's, which has no business there; or it was that of a job that has ended.
    Standby,
    /// Bears our mark, but no job we follow is its owner: it has outlived one, or is so young that we were not told yet.
    Stray,
    /// Somebody else's.
    Foreign,
    /// There is no process of this id: it has just ended, or the id is one of another namespace.
    Unknown,
}

/// Finds owners, and remembers them.
pub(super) struct Owners {
    /// This run's directory, as in its processes' environment.
    run: String,
    engine: i32,
    mains: HashMap<i32, JobId>,
    names: HashMap<(String, Attempt), JobId>,
    known: HashMap<u32, Owner>,
}

impl Owners {
    pub(super) fn new(run: String) -> Self {
        let engine = rustix::process::getpid().as_raw_nonzero().get();
        Self { run, engine, mains: HashMap::new(), names: HashMap::new(), known: HashMap::new() }
    }

    pub(super) fn add(&mut self, job: JobId, attempt: Attempt, names: Names, main: i32) {
        self.mains.insert(main, job);
        self.names.insert((names.name, attempt), job);
        if let Some(alias) = names.alias {
            self.names.insert((alias, Attempt(0)), job);
        }
        self.known.retain(|_, owner| matches!(owner, Owner::Job(_)));
    }

    pub(super) fn remove(&mut self, job: JobId) {
        self.mains.retain(|_, known| *known != job);
        self.names.retain(|_, known| *known != job);
        self.known.retain(|_, owner| matches!(owner, Owner::Job(known) if *known != job));
    }

    /// The owner of a process the driver names.
    pub(super) fn of(&mut self, pid: u32) -> Owner {
        match self.known.get(&pid) {
            // As long as the driver names it, it is that job's, also when the process itself is gone.
            Some(Owner::Job(job)) => return Owner::Job(*job),
            Some(owner) if *owner != Owner::Unknown && is_there(pid) => return *owner,
            _ => {}
        }
        let owner = self.find(pid);
        self.known.insert(pid, owner);
        owner
    }

    /// Forgets all but these, which the driver names now.
    pub(super) fn keep_only(&mut self, named: &HashSet<u32>) {
        self.known.retain(|pid, _| named.contains(pid));
    }

    fn find(&self, pid: u32) -> Owner {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Owner::Unknown };
        let mut next = Some(pid);
        let mut below_us = false;
        // Families are shallow; the bound only keeps a changing table from leading us round.
        for _ in 0..64 {
            let Some(process) = next.and_then(tree::look) else { break };
            let id = process.pid.as_raw_nonzero().get();
            if let Some(job) = self.mains.get(&id) {
                return Owner::Job(*job);
            }
            below_us |= id == self.engine;
            next = Pid::from_raw(process.parent);
        }
        match tree::tag_of(pid).filter(|tag| tag.run == self.run) {
            Some(tag) => {
                let (standby, attempt) = (tag.standby_number().is_some(), tag.attempt);
                match self.names.get(&(tag.job, Attempt(attempt))) {
                    Some(job) => Owner::Job(*job),
                    None if standby => Owner::Standby,
                    // The MPS daemon and its server: no job, no attempt.
                    None if attempt == 0 => Owner::Ours,
                    None => Owner::Stray,
                }
            }
            None if below_us => Owner::Ours,
            None if tree::look(pid).is_none() => Owner::Unknown,
            None => Owner::Foreign,
        }
    }
}

fn is_there(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}
