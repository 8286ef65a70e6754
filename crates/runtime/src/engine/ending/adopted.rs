//! The processes we adopted: whose they are, and the end of those that no job or standby that lives may own.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::{Owner, Roster, Running};
use crate::process::tree::{self, Mark, Table};

/// How often the list of our children is read in a row because something had ended. What a job that forks without end adds
/// meanwhile is found by the next look.
const MOST_LOOKS: u32 = 100;
/// Between two rounds of KILL at the end.
const BETWEEN: Duration = Duration::from_millis(1);

impl Roster {
    /// Ends what belongs to a job that has already ended, and reaps what has. `true` while any orphan lives.
    pub(in super::super) fn sweep(&mut self) -> bool {
        let orphans = self.orphans();
        let strays: Vec<Pid> =
            orphans.iter().filter(|(_, owner)| self.is_stray(*owner)).map(|(pid, _)| *pid).collect();
        if !strays.is_empty() {
            for process in Table::read().closure(&strays) {
                tree::signal(&process, Signal::KILL);
            }
        }
        !orphans.is_empty()
    }

    /// Whether it belongs to a job that is over. What nothing tells of, or not yet, may be anybody's who is there.
    pub(super) fn is_stray(&self, owner: Owner) -> bool {
        match owner {
            Owner::Past => true,
            Owner::Nobody | Owner::Unclear => self.running.is_empty() && self.standbys.is_empty(),
            Owner::Job(_) | Owner::Standby => false,
        }
    }

    /// Our living children that are no job's main process, each with its job where that can be told.
    pub(super) fn orphans(&mut self) -> Vec<(Pid, Owner)> {
        let mut orphans = Vec::new();
        for pid in self.living_orphans() {
            let known = self.adopted.get(&pid).copied().filter(|job| self.running.contains_key(job));
            orphans.push((pid, known.map_or_else(|| self.owner(pid), Owner::Job)));
        }
        if self.adopted.is_empty() && orphans.is_empty() {
            return orphans;
        }
        let living: HashSet<Pid> = orphans.iter().map(|(pid, _)| *pid).collect();
        self.adopted.retain(|pid, _| living.contains(pid));
        self.adopted.extend(orphans.iter().filter_map(|(pid, owner)| Some((*pid, owner.job()?))));
        orphans
    }

    /// Whatever one that ended left behind becomes ours only then, so the list is read until nothing more has ended.
    fn living_orphans(&self) -> Vec<Pid> {
        let mut living = Vec::new();
        for _ in 0..MOST_LOOKS {
            let mut reaped = false;
            living = self.children.read();
            living.retain(|pid| !self.spared.contains(pid) && !self.mains.contains_key(pid));
            living.retain(|pid| match fate(*pid) {
                Fate::Lives => true,
                Fate::Reaped => {
                    reaped = true;
                    false
                }
                Fate::NotOurs => false,
            });
            if !reaped {
                break;
            }
        }
        living
    }

    /// By session, which a daemon leaves, by environment, which it usually keeps, or by the log it writes to.
    pub(super) fn owner(&self, pid: Pid) -> Owner {
        let session = tree::look(pid).and_then(|process| Pid::from_raw(process.session));
        let by_session = self.running.iter().find(|(_, running)| Some(running.pid) == session);
        if let Some((job, _)) = by_session {
            return Owner::Job(*job);
        }
        if session.is_some_and(|session| self.standbys.contains_key(&session)) {
            return Owner::Standby;
        }
        let marked = match tree::mark_of(pid) {
            Mark::Of(tag) if tag.run == self.run => Ok(tag),
            Mark::Of(_) | Mark::Nobody => Err(Owner::Nobody),
            Mark::Unclear => Err(Owner::Unclear),
        };
        let tag = match marked {
            Ok(tag) => tag,
            Err(owner) => match tree::writer_of(pid, &self.jobs, &self.run) {
                Some(tag) => tag,
                None => return owner,
            },
        };
        let same = |running: &Running| running.names.name == tag.job && running.attempt.0 == tag.attempt;
        let was = |running: &Running| tag.attempt == 0 && running.names.alias.as_ref() == Some(&tag.job);
        let job = self.running.iter().find(|(_, running)| same(running) || was(running));
        match job {
            Some((job, _)) => Owner::Job(*job),
            None if tag.attempt == 0 && self.standbys.values().any(|known| *known == tag.job) => {
                Owner::Standby
            }
            None => Owner::Past,
        }
    }

    /// Ends every child there is, standbys and what nobody is known to own included: for when the run is over. Gives up on what
    /// does not end in this time.
    pub(in super::super) fn end_all_children(&mut self, patience: Duration) {
        let begun = Instant::now();
        self.spared.clear();
        self.standbys.clear();
        loop {
            let left = self.living_orphans();
            if left.is_empty() {
                return;
            }
            for process in Table::read().closure(&left) {
                tree::signal(&process, Signal::KILL);
            }
            if begun.elapsed() > patience {
                return;
            }
            std::thread::sleep(BETWEEN);
        }
    }
}

/// What became of a process on the list of our children.
enum Fate {
    Lives,
    /// It had ended, and is off the process table now.
    Reaped,
    /// The kernel knows no such child: it was reaped since, or the list numbers processes in another way than we do.
    NotOurs,
}

fn fate(pid: Pid) -> Fate {
    match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(None) => Fate::Lives,
        Ok(Some(_)) => Fate::Reaped,
        Err(_) => Fate::NotOurs,
    }
}
