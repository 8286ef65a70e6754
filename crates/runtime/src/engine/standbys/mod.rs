//! Standbys: processes that have imported a stage's file and wait for a job. Which ones are wanted is the core's decision; here they
//! are kept, heard, handed their job, and ended. One serves one job and no other.
//!
//! - `speech`: what they say and are told.
//! - `ends`: how they go, and what that means.
//! - `answers`: those that do not take their job.
//! - `pace`: how quickly they are made and used up.
//! - `priority`, `memory`: what keeps them from being a burden.

mod answers;
mod ends;
mod memory;
mod pace;
mod priority;
mod speech;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpulane_core::{Pace, StandbyWish, StandbysThere};
use gpulane_model::{Bytes, GpuIndex, JobId, Machine, Millis, Plan, StageId};
use rustix::process::Pid;

use super::files::LogFiles;
use super::vigil::Pressure;
use crate::process::spawn::Spawned;
pub(super) use answers::Press;
use ends::Fall;
pub(super) use ends::Parting;
use memory::Host;
use pace::Paces;
use priority::Priority;
use speech::Word;

/// So long the CPUs are busy with jobs before one imports all the same.
const PATIENCE: Millis = Millis::seconds(5);
/// So many of a stage import at once before it is known how large they are.
const SOUNDING: usize = 4;
/// A standby has three words to say; more than this many in a row are heard in turn with others.
const MOST_WORDS: u32 = 16;

/// What a standby is made for. One fits a start exactly if these are equal: then its environment is the one that the job would
/// have got, but for the names that are the job's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mould {
    pub(super) stage: StageId,
    pub(super) gpu: Option<GpuIndex>,
    pub(super) cpus: u32,
    /// What its job may take of the GPU, where it shares it by memory.
    pub(super) reserve: Option<Bytes>,
    /// Variables for sharing the GPU through MPS.
    pub(super) extra: Vec<(String, String)>,
}

/// What a standby is started with.
pub(super) struct Cradle {
    pub(super) number: u32,
    ours: OwnedFd,
    pub(super) theirs: OwnedFd,
    /// Where it prints.
    pub(super) printed: LogFiles,
}

/// One that waits, or will when it has imported its file.
struct Standby {
    mould: Mould,
    tag: String,
    pid: Pid,
    pidfd: OwnedFd,
    socket: OwnedFd,
    printed: LogFiles,
    /// When it was started.
    since: Millis,
    stand: Stand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Importing,
    Ready,
    /// It said why it cannot be of use, or was ended: it is as good as gone.
    Leaving,
    /// The same by its own doing: that counts.
    Fallen(Fall),
}

impl Stand {
    /// It may still become a job.
    fn is_of_use(self) -> bool {
        matches!(self, Self::Importing | Self::Ready)
    }
}

/// A job that was handed to a standby and has not begun: it may still be importing.
struct Handed {
    job: JobId,
    stage: StageId,
    pid: Pid,
    socket: OwnedFd,
    printed: LogFiles,
    logs: LogFiles,
    /// When its process was started.
    since: Millis,
    /// It has imported its file: nothing stands between it and the job.
    ready: bool,
    /// It has said that it cannot be imported: its end is the job's own.
    failed: bool,
    /// It will say nothing more.
    silent: bool,
    /// Looks in a row at which it should have taken the job, and had not.
    looks: u32,
}

/// A standby that has become a job.
pub(super) struct Warm {
    pub(super) spawned: Spawned,
    /// What its processes are called in their environment, for ever.
    pub(super) alias: String,
}

/// Something to tell the core.
pub(super) struct Useless {
    pub(super) stage: StageId,
    /// What became of them.
    pub(super) why: Why,
}

/// Why standbys are of no use.
pub(super) enum Why {
    /// The file cannot be imported; the last line of the trace.
    Import(String),
    /// They do not live; in words.
    Deaths(String),
}

/// All standbys of a run.
#[allow(clippy::struct_excessive_bools)] // each is a thing that is so or not
pub(super) struct Standbys {
    /// Some stage may have any.
    possible: bool,
    /// The wishes are to be looked at again.
    pub(super) stirred: bool,
    /// An alarm for them is set.
    pub(super) alarm: bool,
    /// So is one for what they print.
    pub(super) listening: bool,
    /// Stages of which it was said that they print too much.
    loud: HashSet<StageId>,
    waiting: HashMap<u32, Standby>,
    handed: HashMap<u32, Handed>,
    /// Jobs whose standby was gone before it took them: the next time they are given none.
    cold: HashSet<JobId>,
    /// How many there have been.
    counter: u32,
    /// By stage: the largest seen, in bytes.
    sizes: HashMap<StageId, u64>,
    /// By stage: what one had that was ended because all took too much; they are not smaller.
    least_sizes: HashMap<StageId, u64>,
    paces: Paces,
    /// By stage: how many have ended by themselves in a row.
    deaths: HashMap<StageId, u32>,
    priority: Priority,
    pressure: Pressure,
    /// Cores that had nothing to do at the last look, less those given to a standby since.
    idle: u32,
    cores: u32,
    /// When the last one was started.
    last_start: Millis,
    /// That memory is short was said.
    pub(super) shortage_said: bool,
}

impl Standbys {
    pub(super) fn new(plan: &Plan, machine: &Machine) -> Self {
        let may = |stage: &gpulane_model::Stage| {
            (stage.entry.is_some() || stage.map.is_some())
                && stage.standbys != gpulane_model::Standbys::Off
                && stage.gpus <= 1
        };
        let possible = plan.stages.iter().any(may);
        Self {
            possible,
            stirred: true,
            alarm: false,
            listening: false,
            loud: HashSet::new(),
            waiting: HashMap::new(),
            handed: HashMap::new(),
            cold: HashSet::new(),
            counter: 0,
            sizes: HashMap::new(),
            least_sizes: HashMap::new(),
            paces: Paces::default(),
            deaths: HashMap::new(),
            priority: if possible { Priority::try_out() } else { Priority::default() },
            pressure: Pressure::new(machine.cores),
            idle: 0,
            cores: machine.cores.max(1),
            last_start: Millis(0),
            shortage_said: false,
        }
    }

    /// Whether there is anything to look after.
    pub(super) fn need_a_look(&mut self) -> bool {
        std::mem::take(&mut self.stirred) && self.possible
    }

    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether there are any, or jobs that one of them has yet to take.
    pub(super) fn any_to_hear(&self) -> bool {
        self.any() || !self.handed.is_empty()
    }

    /// Those that wait or will, for the core.
    pub(super) fn there(&self) -> Vec<StandbysThere> {
        let of_use = self.of_use();
        of_use.map(|(_, standby)| (standby.mould.stage, standby.mould.gpu, 1)).collect()
    }

    /// How quickly those of each stage are made and used up, for the core.
    pub(super) fn paces(&self, now: Millis) -> HashMap<StageId, Pace> {
        self.paces.at(now)
    }

    fn of_use(&self) -> impl Iterator<Item = (u32, &Standby)> {
        self.waiting
            .iter()
            .filter(|(_, standby)| standby.stand.is_of_use())
            .map(|(number, standby)| (*number, standby))
    }

    /// Which are not wanted any more, and what is missing, the most needed first. Until it is known how large those of a stage are, a
    /// few of it are made at a time: how many there is memory for cannot be told. When one is ready or gone, we are asked again.
    pub(super) fn compare(&self, wanted: &[(Mould, u32)]) -> (Vec<u32>, Vec<Mould>) {
        let mut missing: Vec<(&Mould, u32)> = wanted.iter().map(|(mould, count)| (mould, *count)).collect();
        let mut all: Vec<(u32, &Standby)> = self.of_use().collect();
        // Those furthest on are kept.
        all.sort_by_key(|(number, standby)| (standby.stand == Stand::Importing, *number));
        let mut surplus = Vec::new();
        for (number, standby) in all {
            match missing.iter_mut().find(|(mould, count)| **mould == standby.mould && *count > 0) {
                Some((_, count)) => *count -= 1,
                None => surplus.push(number),
            }
        }
        let mut missing: Vec<Mould> =
            missing.into_iter().flat_map(|(mould, count)| (0..count).map(move |_| mould.clone())).collect();
        let mut sounding: HashMap<StageId, usize> = HashMap::new();
        missing.retain(|Mould { stage, .. }| {
            self.sizes.contains_key(stage) || {
                let importing = sounding.entry(*stage).or_insert_with(|| self.importing(*stage));
                *importing += 1;
                *importing <= SOUNDING
            }
        });
        (surplus, missing)
    }

    fn importing(&self, stage: StageId) -> usize {
        let of_stage = self.of_use().filter(|(_, one)| one.mould.stage == stage);
        of_stage.filter(|(_, one)| one.stand == Stand::Importing).count()
    }

    /// Whether the CPUs have room for another import.
    pub(super) fn may_import(&mut self, now: Millis) -> bool {
        if let Some(idle) = self.pressure.look() {
            self.idle = idle;
        }
        self.has_room(now)
    }

    /// One at a time where it does not slow the jobs, more only on idle cores. Where it does and no core is ever idle, one now and then:
    /// an import now or when its lane is free costs the same.
    fn has_room(&self, now: Millis) -> bool {
        let importing = self.of_use().filter(|(_, one)| one.stand == Stand::Importing).count();
        let alone = importing == 0 && (self.priority.can_be_low() || now.since(self.last_start) >= PATIENCE);
        importing < self.cores as usize && (self.idle > 0 || alone)
    }

    /// Why the host has no memory for another one of this stage; `None`: it has.
    pub(super) fn shortage(&self, stage: StageId) -> Option<String> {
        let size = self.sizes.get(&stage).max(self.least_sizes.get(&stage)).copied().unwrap_or(0);
        Host::now()?.refuses(self.taken(), size)
    }

    /// What they have or will have together, in bytes. While they import: at least what they have now.
    fn taken(&self) -> u64 {
        let size = |standby: &Standby| {
            let known = self.sizes.get(&standby.mould.stage).copied();
            let importing = || memory::resident(standby.pid).filter(|_| standby.stand == Stand::Importing);
            known.max(importing()).unwrap_or(0)
        };
        self.of_use().map(|(_, standby)| size(standby)).sum()
    }

    /// What the next one is started with.
    pub(super) fn cradle(&mut self) -> io::Result<Cradle> {
        self.counter += 1;
        let (ours, theirs) = speech::pair()?;
        let printed = LogFiles { stdout: speech::scratch()?, stderr: speech::scratch()? };
        Ok(Cradle { number: self.counter, ours, theirs, printed })
    }

    /// One was started.
    pub(super) fn add(&mut self, mould: Mould, tag: String, cradle: Cradle, spawned: Spawned, now: Millis) {
        self.last_start = now;
        let Cradle { number, ours: socket, printed, .. } = cradle;
        let Spawned { pid, pidfd } = spawned;
        self.priority.lower(pid);
        self.idle = self.idle.saturating_sub(1);
        let stand = Stand::Importing;
        self.waiting.insert(number, Standby { mould, tag, pid, pidfd, socket, printed, since: now, stand });
    }

    /// Readable when it has ended, and when it has said something.
    pub(super) fn ears(&self, number: u32) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        self.waiting.get(&number).map(|standby| (standby.pidfd.as_fd(), standby.socket.as_fd()))
    }

    /// The stage of one that waits.
    pub(super) fn stage_of(&self, number: u32) -> Option<StageId> {
        self.waiting.get(&number).map(|standby| standby.mould.stage)
    }

    /// Whether the job is to start without one.
    pub(super) fn is_cold(&self, job: JobId) -> bool {
        self.cold.contains(&job)
    }

    /// It has started without.
    pub(super) fn on_cold_start(&mut self, job: JobId, stage: StageId, now: Millis) {
        self.cold.remove(&job);
        if self.possible {
            self.paces.on_begun(job, stage, true, now);
        }
    }

    /// Gives the job to a standby that fits it, if there is one that takes it: rather one that is ready, then the oldest.
    /// `environment`: what is the job's own. The logs are kept only if so.
    pub(super) fn hand_over(
        &mut self,
        job: JobId,
        mould: &Mould,
        logs: &LogFiles,
        environment: &[u8],
    ) -> Option<Warm> {
        loop {
            let fitting = self.of_use().filter(|(_, standby)| standby.mould == *mould);
            let number = fitting
                .min_by_key(|(number, standby)| (standby.stand == Stand::Importing, *number))
                .map(|(number, _)| number)?;
            let standby = self.waiting.get_mut(&number)?;
            self.priority.restore(standby.pid);
            let logs = logs.twin().ok()?;
            match speech::hand_over(&standby.socket, &logs, environment) {
                Ok(()) => {}
                // It has died, or will not listen; its end is noticed by itself.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.fall(number, Fall::Silent);
                    continue;
                }
                Err(_) => {
                    self.end(number);
                    continue;
                }
            }
            let Standby { mould, tag, pid, pidfd, socket, printed, since, stand } =
                self.waiting.remove(&number)?;
            let (stage, ready) = (mould.stage, stand == Stand::Ready);
            self.handed.insert(
                number,
                Handed {
                    job,
                    stage,
                    pid,
                    socket,
                    printed,
                    logs,
                    since,
                    ready,
                    failed: false,
                    silent: false,
                    looks: 0,
                },
            );
            self.stirred = true;
            return Some(Warm { spawned: Spawned { pid, pidfd }, alias: tag });
        }
    }

    /// One has said something: what the core should know of it.
    pub(super) fn hear(&mut self, number: u32, now: Millis) -> Option<Useless> {
        self.stirred = true;
        // Whoever has more to say than a standby has words is heard again in the next round.
        for _ in 0..MOST_WORDS {
            let (socket, stage) = match (self.waiting.get(&number), self.handed.get(&number)) {
                (Some(standby), _) => (&standby.socket, standby.mould.stage),
                (_, Some(handed)) => (&handed.socket, handed.stage),
                _ => return None,
            };
            match speech::hear(socket)? {
                Word::Ready => {
                    let importing = |standby: &&mut Standby| standby.stand == Stand::Importing;
                    let imported = match self.waiting.get_mut(&number).filter(importing) {
                        Some(standby) => {
                            standby.stand = Stand::Ready;
                            Some((standby.pid, standby.since))
                        }
                        None => self.handed.get_mut(&number).map(|handed| {
                            handed.ready = true;
                            (handed.pid, handed.since)
                        }),
                    };
                    if let Some((pid, since)) = imported {
                        self.paces.on_imported(stage, now.since(since));
                        let size = memory::resident(pid).unwrap_or(0);
                        let known = self.sizes.entry(stage).or_default();
                        *known = (*known).max(size);
                    }
                }
                Word::Failed(why) => {
                    // If it was handed a job, that one shows the error in its own log.
                    if let Some(standby) = self.waiting.get_mut(&number) {
                        standby.stand = Stand::Leaving;
                    } else if let Some(handed) = self.handed.get_mut(&number) {
                        handed.failed = true;
                    }
                    return Some(Useless { stage, why: Why::Import(why) });
                }
                Word::Begun => {
                    if let Some(handed) = self.handed.remove(&number) {
                        self.paces.on_begun(handed.job, stage, false, now);
                    }
                    self.deaths.remove(&stage);
                }
                // Its end of file would wake us for ever.
                Word::Silence => {
                    self.fall(number, Fall::Silent);
                    if let Some(handed) = self.handed.get_mut(&number) {
                        handed.silent = true;
                    }
                    return None;
                }
            }
        }
        None
    }
}

/// The standbys that are wanted, each kind with how many.
pub(super) fn moulds(
    wishes: Vec<StandbyWish>,
    mut extra: impl FnMut(&StandbyWish) -> Vec<(String, String)>,
) -> Vec<(Mould, u32)> {
    let one = |wish: StandbyWish| {
        let StandbyWish { stage, gpu, cpus, reserve, count } = wish;
        (Mould { stage, gpu, cpus, reserve, extra: extra(&wish) }, count)
    };
    wishes.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
