//! Running jobs and how they end. A job has ended when its whole tree is gone, not when its main process is.
//!
//! We adopt orphans, so whatever a job leaves behind becomes our child; one look at our children after an exit
//! tells whether anything is left. What is left first gets a moment to end by itself, then TERM, the stage's grace,
//! then KILL until nothing is left.

mod adopted;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use gpulane_core::{Manner, Remains};
use gpulane_model::{Attempt, JobId, Millis, ProcessExit};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::leftovers;
use crate::process::spawn::Spawned;
use crate::process::subreaper::Children;
use crate::process::tree::{self, Process, Table};

/// Helpers such as Python's resource tracker end by themselves right after their parent.
const SETTLE: Millis = Millis(300);
/// Until it can be told whose a process is that is just becoming another program.
const LOOK_AGAIN: Millis = Millis(5);
/// Between two rounds of KILL: a process may have forked while we looked.
const KILL_AGAIN: Millis = Millis(50);
/// How long a frozen Python may take to show where its threads are.
const ABORTING: Millis = Millis::seconds(2);
/// After this long under KILL a process is stuck in the kernel; the run goes on without it.
const KILL_PATIENCE: Millis = Millis::seconds(20);

/// A job whose tree may still have processes.
pub(super) struct Running {
    pub(super) attempt: Attempt,
    names: Names,
    grace: Millis,
    /// Id of the main process and of its session.
    pid: Pid,
    main: Main,
    /// When the main process was first seen to have ended, where something may or may not be left of the job.
    ended: Option<Millis>,
    ending: Option<Ending>,
}

/// What a job's processes are called in their environment.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// `STAGE/NAME`.
    pub(super) name: String,
    /// For one that was a standby: what it was called then. What it started before it was a job still is, and so is itself.
    pub(super) alias: Option<String>,
}

enum Main {
    Alive { pidfd: OwnedFd },
    Ended(ProcessExit),
}

/// Whose a process is that we adopted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Job(JobId),
    /// A standby's that waits.
    Standby,
    /// A job's of this run that is over, or a standby's that is gone.
    Past,
    /// Nothing tells whose it is.
    Nobody,
    /// Cannot be told yet.
    Unclear,
}

/// The stepwise end of a tree.
struct Ending {
    step: Step,
    /// When the next step is taken.
    due: Millis,
    /// When the first KILL was sent.
    killed: Option<Millis>,
    /// Abort before KILL: it is frozen.
    frozen: bool,
    /// How many processes outlived the main one and had to be ended, and what some of them were.
    left: u32,
    who: Vec<String>,
    /// Survivors whose end we will hear of.
    watched: HashMap<Pid, OwnedFd>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Settling,
    Terminating,
    Aborting,
    Killing,
}

/// What became of a job after a look at it.
pub(super) enum Look {
    /// Nothing of it is left.
    Gone(Gone),
    /// Look again at this time, or when one of `watch` ends.
    Again { at: Millis, watch: Vec<Pid> },
    /// Nothing to do.
    Still,
}

/// How a job's tree ended.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    /// How its main process did.
    pub(super) exit: ProcessExit,
    /// How many outlived that one and had to be ended, and what some of them were.
    pub(super) left: u32,
    pub(super) who: Vec<String>,
    /// It was frozen and did not end before it was aborted.
    pub(super) aborted: bool,
    /// Those that nothing can end.
    pub(super) stuck: Option<Remains>,
}

/// All running jobs, and every process we adopted from them.
pub(super) struct Roster {
    running: HashMap<JobId, Running>,
    mains: HashMap<Pid, JobId>,
    children: Children,
    /// Adopted processes whose job is known.
    adopted: HashMap<Pid, JobId>,
    /// Processes of ours that are no job and not to be ended with them.
    spared: HashSet<Pid>,
    /// Those of them that may become a job, with what their processes are called.
    standbys: HashMap<Pid, String>,
    /// This run's directory, as in its processes' environment.
    run: String,
    /// Where its jobs have their logs.
    jobs: PathBuf,
}

impl Roster {
    pub(super) fn new(run: String) -> Self {
        Self {
            jobs: tree::jobs_folder(&run),
            running: HashMap::new(),
            mains: HashMap::new(),
            children: Children::open(),
            adopted: HashMap::new(),
            spared: HashSet::new(),
            standbys: HashMap::new(),
            run,
        }
    }

    pub(super) fn add(
        &mut self,
        job: JobId,
        attempt: Attempt,
        names: Names,
        grace: Millis,
        spawned: Spawned,
    ) {
        let Spawned { pid, pidfd } = spawned;
        self.mains.insert(pid, job);
        let main = Main::Alive { pidfd };
        self.running.insert(job, Running { attempt, names, grace, pid, main, ended: None, ending: None });
    }

    /// Leaves a child of ours alone that is no job.
    pub(super) fn spare(&mut self, pid: Pid) {
        self.spared.insert(pid);
    }

    /// That child has ended; its number may be another's from now on.
    pub(super) fn spare_no_more(&mut self, pid: Pid) {
        self.spared.remove(&pid);
    }

    /// Leaves a child alone that may become a job, and all that it starts meanwhile.
    pub(super) fn attend(&mut self, pid: Pid, tag: String) {
        self.spare(pid);
        self.standbys.insert(pid, tag);
    }

    /// It has become a job, or has ended.
    pub(super) fn dismiss(&mut self, pid: Pid) {
        self.spare_no_more(pid);
        self.standbys.remove(&pid);
    }

    /// Whether the process bears the mark of a job of ours that does not run any more.
    pub(super) fn is_leftover(&self, pid: Pid) -> bool {
        let of_job = |tag: &tree::Tag| tag.attempt > 0 || tag.standby_number().is_some();
        let ours = tree::tag_of(pid).is_some_and(|tag| tag.run == self.run && of_job(&tag));
        ours && matches!(self.owner(pid), Owner::Past | Owner::Nobody | Owner::Unclear)
    }

    /// How many jobs run.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    pub(super) fn get(&self, job: JobId) -> Option<&Running> {
        self.running.get(&job)
    }

    /// Readable when the job's main process has ended.
    pub(super) fn main_of(&self, job: JobId) -> Option<impl AsFd + '_> {
        match &self.running.get(&job)?.main {
            Main::Alive { pidfd } => Some(pidfd.as_fd()),
            Main::Ended(_) => None,
        }
    }

    pub(super) fn watched(&self, job: JobId, pid: Pid) -> Option<impl AsFd + '_> {
        self.running.get(&job)?.ending.as_ref()?.watched.get(&pid).map(AsFd::as_fd)
    }

    /// The main process has ended: reap it and see what it left.
    pub(super) fn on_main_ended(&mut self, job: JobId, now: Millis) -> Look {
        let Some(running) = self.running.get_mut(&job) else { return Look::Still };
        let Main::Alive { pidfd } = &running.main else { return Look::Still };
        let exit = match reap(pidfd) {
            Ok(Some(exit)) => exit,
            Ok(None) => return Look::Still,
            // Somebody else took its status; that it ended is all we know.
            Err(_) => ProcessExit::Signal(0),
        };
        running.main = Main::Ended(exit);
        self.mains.remove(&running.pid);
        self.look(job, now)
    }

    /// Looks at a job whose main process has ended, and takes the next step if it is due.
    pub(super) fn look(&mut self, job: JobId, now: Millis) -> Look {
        let orphans = self.orphans();
        let Some(running) = self.running.get_mut(&job) else { return Look::Still };
        let stuck = running.is_stuck(now);
        let exit = match running.main {
            Main::Ended(exit) => exit,
            // Reaped as an orphan, should it ever end.
            Main::Alive { .. } if stuck => ProcessExit::Signal(libc::SIGKILL),
            Main::Alive { .. } => return self.press(job, now),
        };
        let survivors: HashSet<Pid> =
            orphans.iter().filter(|(_, owner)| *owner == Owner::Job(job)).map(|(pid, _)| *pid).collect();
        let undecided = orphans.iter().any(|(_, owner)| *owner == Owner::Unclear);
        if survivors.is_empty() && !stuck && undecided {
            let ended = *running.ended.get_or_insert(now);
            if now.since(ended) < SETTLE {
                return Look::Again { at: now.after(LOOK_AGAIN), watch: Vec::new() };
            }
        }
        if survivors.is_empty() || stuck {
            return self.gone(job, exit, stuck);
        }
        let ending = running.ending.get_or_insert_with(|| Ending::begin(Step::Settling, now.after(SETTLE)));
        ending.watched.retain(|pid, _| survivors.contains(pid));
        let mut watch = Vec::new();
        for pid in survivors {
            if !ending.watched.contains_key(&pid)
                && let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
            {
                ending.watched.insert(pid, pidfd);
                watch.push(pid);
            }
        }
        let due = ending.due;
        match self.press(job, now) {
            Look::Again { at, .. } => Look::Again { at, watch },
            _ => Look::Again { at: due, watch },
        }
    }

    /// The job is over, also if something of it will never end.
    fn gone(&mut self, job: JobId, exit: ProcessExit, stuck: bool) -> Look {
        let stuck = if stuck { leftovers::stuck(&self.members(job)) } else { None };
        let Some(running) = self.running.remove(&job) else { return Look::Still };
        self.mains.remove(&running.pid);
        let ending = running.ending.unwrap_or_else(|| Ending::begin(Step::Settling, Millis(0)));
        let aborted = ending.frozen && matches!(ending.step, Step::Aborting | Step::Killing);
        Look::Gone(Gone { exit, left: ending.left, who: ending.who, aborted, stuck })
    }

    /// Begins to end a job: TERM and grace, or KILL at once.
    pub(super) fn terminate(&mut self, job: JobId, manner: Manner, now: Millis) -> Look {
        let at_once = manner == Manner::Now;
        let Some(running) = self.running.get_mut(&job) else { return Look::Still };
        let step = if at_once { Step::Terminating } else { Step::Settling };
        match &mut running.ending {
            // Already under way: only KILL can be new.
            Some(ending) if at_once => ending.hasten(now),
            Some(_) => return Look::Still,
            None => {
                let frozen = manner == Manner::Frozen;
                running.ending = Some(Ending { frozen, ..Ending::begin(step, now) });
            }
        }
        self.press(job, now)
    }

    /// Takes the step that is due, if one is.
    fn press(&mut self, job: JobId, now: Millis) -> Look {
        let members = match self.running.get(&job).and_then(|running| running.ending.as_ref()) {
            Some(ending) if ending.due <= now => self.members(job),
            _ => return Look::Still,
        };
        let Some(running) = self.running.get_mut(&job) else { return Look::Still };
        let main_ended = matches!(running.main, Main::Ended(_));
        let Some(ending) = &mut running.ending else { return Look::Still };
        let signal = match ending.step {
            Step::Settling => {
                ending.step = Step::Terminating;
                ending.due = now.after(running.grace);
                Signal::TERM
            }
            Step::Terminating if ending.frozen => {
                ending.step = Step::Aborting;
                ending.due = now.after(ABORTING);
                Signal::ABORT
            }
            Step::Terminating | Step::Aborting | Step::Killing => {
                ending.step = Step::Killing;
                ending.due = now.after(KILL_AGAIN);
                ending.killed.get_or_insert(now);
                Signal::KILL
            }
        };
        if main_ended && ending.left == 0 {
            ending.left = u32::try_from(members.len()).unwrap_or(u32::MAX);
            ending.who = leftovers::describe(&members);
        }
        for process in &members {
            if signal == Signal::ABORT {
                leftovers::leave_no_core(process);
            }
            tree::signal(process, signal);
        }
        Look::Again { at: ending.due, watch: Vec::new() }
    }

    /// Every living process of a job's tree.
    fn members(&mut self, job: JobId) -> Vec<Process> {
        let orphans = self.orphans();
        let mut roots: Vec<Pid> =
            orphans.into_iter().filter(|(_, owner)| *owner == Owner::Job(job)).map(|(pid, _)| pid).collect();
        if let Some(Running { main: Main::Alive { .. }, pid, .. }) = self.running.get(&job) {
            roots.push(*pid);
        }
        Table::read().closure(&roots)
    }
}

impl Owner {
    fn job(self) -> Option<JobId> {
        match self {
            Self::Job(job) => Some(job),
            Self::Standby | Self::Past | Self::Nobody | Self::Unclear => None,
        }
    }
}

impl Running {
    /// Under KILL for so long that it must be stuck in the kernel.
    fn is_stuck(&self, now: Millis) -> bool {
        let killed = self.ending.as_ref().and_then(|ending| ending.killed);
        killed.is_some_and(|at| now.since(at) > KILL_PATIENCE)
    }
}

impl Ending {
    fn begin(step: Step, due: Millis) -> Self {
        Self { step, due, killed: None, frozen: false, left: 0, who: Vec::new(), watched: HashMap::new() }
    }

    fn hasten(&mut self, now: Millis) {
        self.step = Step::Killing;
        self.due = now;
    }
}

/// Takes the exit status of a process that has ended; `None` if it has not.
pub(super) fn reap(pidfd: &OwnedFd) -> io::Result<Option<ProcessExit>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), options)?;
    Ok(status.map(|status| match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, signal) => ProcessExit::Signal(signal.unwrap_or(0)),
    }))
}

#[cfg(test)]
mod tests;
