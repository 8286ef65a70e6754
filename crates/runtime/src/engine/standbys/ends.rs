//! How standbys go: ended by us, or by their own doing, which counts. A stage whose standbys keep going by themselves has none any
//! more; otherwise they would be made again for ever.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpulane_model::{JobId, Millis, ProcessExit, StageId};
use rustix::fs::fstat;
use rustix::process::{Pid, Signal, pidfd_send_signal};

use super::super::ending::reap;
use super::memory::{self, Host};
use super::speech::{self, Word};
use super::{Handed, MOST_WORDS, Stand, Standby, Standbys, Useless, Why};

/// A stage whose standbys end by themselves so often, with none that became a job in between, has none any more.
pub(super) const MOST_DEATHS: u32 = 5;
/// What one may print before it has a job's log to print to, in bytes.
pub(super) const MOST_PRINTED: u64 = 16 << 20;

/// Why one is of no use by its own doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fall {
    /// Nothing more can be heard from it. Mostly because it ends: a process closes its files before its end can be seen.
    Silent,
    /// It prints without end: that is memory until it has a log.
    Loud,
}

/// What the end of a job that was a standby tells beyond that.
#[derive(Default)]
pub(in super::super) struct Parting {
    /// It had imported all and was gone before it took the job: how, for a person.
    pub(in super::super) never_begun: Option<String>,
    /// What the core should know of the stage's standbys.
    pub(in super::super) useless: Option<Useless>,
}

impl Standbys {
    /// What it speaks through, if nothing more is to be heard.
    pub(in super::super) fn silenced(&self, number: u32) -> Option<BorrowedFd<'_>> {
        let useless = self.waiting.get(&number).filter(|standby| !standby.stand.is_of_use());
        let handed = self.handed.get(&number).filter(|handed| handed.silent);
        useless.map(|standby| standby.socket.as_fd()).or_else(|| handed.map(|handed| handed.socket.as_fd()))
    }

    /// The job's processes are gone. If it never came to begin, its log gets what the standby has printed: that tells why.
    pub(in super::super) fn on_job_gone(&mut self, job: JobId, exit: ProcessExit, now: Millis) -> Parting {
        let parting = self.part(job, exit, now);
        // That it had begun may have been heard only now.
        self.paces.on_ended(job, exit.success(), now);
        parting
    }

    fn part(&mut self, job: JobId, exit: ProcessExit, now: Millis) -> Parting {
        let Some(number) =
            self.handed.iter().find(|(_, handed)| handed.job == job).map(|(number, _)| *number)
        else {
            return Parting::default();
        };
        let useless = self.hear(number, now);
        let Some(handed) = self.handed.remove(&number) else {
            return Parting { useless, ..Parting::default() };
        };
        let overdue = handed.is_overdue();
        let Handed { stage, printed, logs, ready, failed, .. } = handed;
        // On a full disk the rest is lost, as it would be for any job.
        let _ = speech::copy(&printed.stdout, &logs.stdout);
        let _ = speech::copy(&printed.stderr, &logs.stderr);
        // A runner that cannot speak any more exits with 0, and has done nothing.
        if failed || !ready && !overdue && !exit.success() {
            // The import failed, as it would have without us.
            return Parting { useless, ..Parting::default() };
        }
        self.cold.insert(job);
        let (how, never_begun) = if overdue {
            ("for not taking its job".to_owned(), "its standby did not take the job and was ended".to_owned())
        } else {
            let how = how(Stand::Ready, exit);
            let never_begun = format!("its standby ended {how} before it began");
            (how, never_begun)
        };
        let never_begun = Some(never_begun);
        Parting { never_begun, useless: useless.or_else(|| self.count(stage, &how)) }
    }

    /// Ends one; nobody's work is in it.
    pub(in super::super) fn end(&mut self, number: u32) {
        self.leave(number, Stand::Leaving);
    }

    /// Ends one that is of no use by its own doing.
    pub(super) fn fall(&mut self, number: u32, fall: Fall) {
        if self.waiting.get(&number).is_some_and(|standby| standby.stand.is_of_use()) {
            self.leave(number, Stand::Fallen(fall));
        }
    }

    /// Ends those that have printed too much. The stages of which that is not known yet.
    pub(in super::super) fn end_the_loud(&mut self) -> Vec<StageId> {
        let size = |file: &OwnedFd| fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let is_loud = |one: &Standby| size(&one.printed.stdout) + size(&one.printed.stderr) > MOST_PRINTED;
        let loud: Vec<_> = self.of_use().filter(|(_, one)| is_loud(one)).collect();
        let loud: Vec<_> = loud.into_iter().map(|(number, one)| (number, one.mould.stage)).collect();
        for (number, _) in &loud {
            self.fall(*number, Fall::Loud);
        }
        loud.into_iter().map(|(_, stage)| stage).filter(|stage| self.loud.insert(*stage)).collect()
    }

    /// Ends the youngest of those that import, if all take more together than standbys may have.
    pub(in super::super) fn end_the_heavy(&mut self) {
        if self.of_use().any(|(_, one)| one.stand == Stand::Importing)
            && let Some(host) = Host::now()
        {
            self.keep_within(host.share());
        }
    }

    pub(super) fn keep_within(&mut self, most: u64) {
        let size = |one: &Standby| memory::resident(one.pid).unwrap_or(0);
        let mut all: Vec<_> =
            self.of_use().map(|(number, one)| (number, one.mould.stage, one.stand, size(one))).collect();
        all.sort_unstable_by_key(|(number, _, stand, _)| (*stand == Stand::Importing, *number));
        let mut taken: u64 = all.iter().map(|(.., size)| size).sum();
        while taken > most && all.len() > 1 {
            let Some((number, stage, Stand::Importing, size)) = all.pop() else { return };
            // The next one is not started only to be ended again.
            let least = self.least_sizes.entry(stage).or_default();
            *least = (*least).max(size);
            self.end(number);
            taken = taken.saturating_sub(size);
        }
    }

    fn leave(&mut self, number: u32, stand: Stand) {
        if let Some(standby) = self.waiting.get_mut(&number) {
            standby.stand = stand;
            // Already ended is what we wanted.
            let _ = pidfd_send_signal(&standby.pidfd, Signal::KILL);
        }
    }

    /// Ends all. They are reaped by whoever outlives us.
    pub(in super::super) fn end_all(&mut self) {
        let numbers: Vec<u32> = self.waiting.keys().copied().collect();
        for number in numbers {
            self.end(number);
        }
    }

    /// One has ended: its process, to be forgotten, and what the core should know.
    pub(in super::super) fn on_ended(&mut self, number: u32) -> Option<(Pid, Option<Useless>)> {
        let useless = self.hear_last(number);
        let exit = match reap(&self.waiting.get(&number)?.pidfd) {
            Ok(None) => return None,
            Ok(Some(exit)) => exit,
            Err(_) => ProcessExit::Signal(0),
        };
        let Standby { mould, pid, stand, .. } = self.waiting.remove(&number)?;
        self.stirred = true;
        if useless.is_some() || stand == Stand::Leaving {
            return Some((pid, useless));
        }
        let useless = self.count(mould.stage, &how(stand, exit));
        Some((pid, useless))
    }

    /// One more of the stage has gone by its own doing.
    fn count(&mut self, stage: StageId, how: &str) -> Option<Useless> {
        let deaths = self.deaths.entry(stage).or_default();
        *deaths += 1;
        let why = || Why::Deaths(format!("they ended by themselves {deaths} times, the last {how}"));
        (*deaths >= MOST_DEATHS).then(|| Useless { stage, why: why() })
    }

    /// What it said before it ended. That its socket is closed means nothing then.
    fn hear_last(&mut self, number: u32) -> Option<Useless> {
        let standby = self.waiting.get(&number).filter(|standby| standby.stand.is_of_use())?;
        for _ in 0..MOST_WORDS {
            match speech::hear(&standby.socket)? {
                Word::Failed(why) => {
                    return Some(Useless { stage: standby.mould.stage, why: Why::Import(why) });
                }
                Word::Silence => return None,
                Word::Ready | Word::Begun => {}
            }
        }
        None
    }
}

fn how(stand: Stand, exit: ProcessExit) -> String {
    match (stand, exit) {
        (Stand::Fallen(Fall::Loud), _) => {
            "for printing more than 16 MiB while importing or waiting".to_owned()
        }
        (_, ProcessExit::Code(code)) => format!("with exit code {code}"),
        // Who killed it, the kernel or we, cannot be told.
        (Stand::Fallen(Fall::Silent), ProcessExit::Signal(libc::SIGKILL)) => {
            "by signal 9: out of memory, or the import closes descriptors that are not its own".to_owned()
        }
        (_, ProcessExit::Signal(signal)) => format!("by signal {signal}"),
    }
}
