//! Who holds how much of which GPU: from looks at the GPUs to the peaks of jobs, and to whether the memory of a job
//! that has ended is back. Pure: looks go in, findings come out.

use std::collections::HashMap;

use gpulane_gpu::Glance;
use gpulane_model::{Attempt, JobId, Millis};

use super::owners::Owner;
use super::plateau::Plateau;

/// What may stay behind without being anybody's: the driver keeps a little beside each process.
const SLACK: u64 = 64 << 20;
const SLACK_PER_JOB: u64 = 16 << 20;
/// Memory nobody is seen to hold, beyond which somebody else must be using the GPU.
const GHOST: u64 = 512 << 20;

/// How long the memory of a job that has ended may take before the GPU is said to be held.
const PATIENCE: Millis = Millis::seconds(3);

/// Memory that came or went means that something happens.
const MOVED: u64 = 1 << 20;

/// Whether so much that nobody is seen to hold means that the GPU is in use.
pub(super) fn is_haunted(ghost: u64, total: u64) -> bool {
    ghost > GHOST.max(total / 50)
}

/// A look at one GPU, with the owner of each process.
pub(super) struct Seen<'a> {
    pub(super) gpu: usize,
    pub(super) glance: &'a Glance,
    pub(super) owners: &'a [Owner],
    /// Whose work it did lately, where that is known: the driver says whose, and they can be told apart.
    pub(super) workers: Option<&'a [Owner]>,
}

/// What its GPUs did for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    pub(super) job: JobId,
    pub(super) beats: bool,
    pub(super) load: Option<u32>,
}

/// A job whose memory is followed.
struct Followed {
    attempt: Attempt,
    gpus: Vec<usize>,
    peak: u64,
    /// The peak that was last made known.
    told: u64,
    plateau: Plateau,
    settled: bool,
    /// What it held at the last look.
    last: u64,
    /// Its processes have ended; since when we wait for the memory.
    leaving: Option<Millis>,
}

/// One GPU.
#[derive(Default)]
struct Account {
    /// What was used when none of our jobs was on it, and how much of that no process was seen to hold.
    idle_used: u64,
    idle_ghost: u64,
    held: bool,
    /// The newest look.
    latest: Option<Latest>,
}

struct Latest {
    /// Jobs it worked for lately; `None`: not known.
    workers: Option<Vec<JobId>>,
    used: u64,
    ghost: u64,
    load: Option<u32>,
    /// What each job's processes hold.
    jobs: HashMap<JobId, u64>,
    foreign: Vec<u32>,
    /// Processes whose ids mean nothing here.
    unknown: Vec<u32>,
    strays: Vec<u32>,
    /// What the MPS server holds.
    ours: u64,
}

/// Something to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The job's highest memory so far.
    Peak { job: JobId, attempt: Attempt, peak: u64, settled: bool },
    /// Nothing of the job's memory is left.
    Returned { job: JobId, attempt: Attempt, peak: Option<u64> },
    /// It is not back after a while, or somebody else is there; the job is done all the same.
    Held { gpu: usize, pids: Vec<u32>, bytes: u64 },
    /// Such a GPU is free again.
    Cleared { gpu: usize },
    /// Bears our mark, but no job that is followed is its owner.
    Stray(u32),
}

/// What a GPU that none of our jobs uses is like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    Free { free: u64 },
    Occupied { pids: Vec<u32>, bytes: u64 },
}

pub(super) struct Ledger {
    accounts: Vec<Account>,
    jobs: HashMap<JobId, Followed>,
    /// Processes of ours were listed by the driver at least once: what it does not list is then nobody's we know.
    lists_us: bool,
    /// Strays found by the newest looks.
    strays: Vec<u32>,
    /// What GPUs did for jobs, by the newest looks.
    beats: Vec<Beat>,
    /// Other people's processes keep a GPU from being used again.
    mind_foreign: bool,
}

impl Ledger {
    pub(super) fn new(gpus: usize, mind_foreign: bool) -> Self {
        Self {
            accounts: std::iter::repeat_with(Account::default).take(gpus).collect(),
            jobs: HashMap::new(),
            lists_us: false,
            strays: Vec::new(),
            beats: Vec::new(),
            mind_foreign,
        }
    }

    pub(super) fn follow(&mut self, job: JobId, attempt: Attempt, gpus: Vec<usize>, now: Millis) {
        let plateau = Plateau::new(now);
        let followed =
            Followed { attempt, gpus, peak: 0, told: 0, plateau, settled: false, last: 0, leaving: None };
        self.jobs.insert(job, followed);
    }

    /// The job's processes have ended.
    pub(super) fn leave(&mut self, job: JobId, now: Millis) {
        if let Some(followed) = self.jobs.get_mut(&job) {
            followed.leaving.get_or_insert(now);
        }
    }

    /// GPUs whose memory is awaited.
    pub(super) fn awaited(&self) -> Vec<usize> {
        let leaving = self.jobs.values().filter(|followed| followed.leaving.is_some());
        distinct(leaving.flat_map(|followed| followed.gpus.iter().copied()).collect())
    }

    /// The GPU cannot be seen any more: nothing is held against it.
    pub(super) fn lose_sight(&mut self, gpu: usize) {
        self.accounts[gpu].latest = None;
    }

    /// How long the youngest job whose memory has not settled has been running.
    pub(super) fn youngest_unsettled(&self, now: Millis) -> Option<Millis> {
        let unsettled = self.jobs.values().filter(|followed| !followed.settled && followed.leaving.is_none());
        unsettled.map(|followed| followed.plateau.age(now)).min()
    }

    /// GPUs that something is to be learned about.
    pub(super) fn to_look_at(&self) -> Vec<usize> {
        let used = self.jobs.values().flat_map(|followed| followed.gpus.iter().copied());
        let held = self.accounts.iter().enumerate().filter(|(_, account)| account.held).map(|(gpu, _)| gpu);
        distinct(used.chain(held).collect())
    }

    /// Whether any job's processes cannot be told apart: the driver names ids that mean nothing here.
    pub(super) fn is_namespaced(&self) -> bool {
        let hidden = |latest: &Latest| !self.lists_us && latest.jobs.is_empty();
        self.jobs.values().any(|followed| {
            followed.leaving.is_none()
                && followed.gpus.iter().any(|gpu| {
                    let account = &self.accounts[*gpu];
                    account
                        .latest
                        .as_ref()
                        .is_some_and(|latest| hidden(latest) && latest.used > account.idle_used + GHOST / 2)
                })
        })
    }

    /// A look at a GPU none of our jobs is on: what it is like before the first.
    pub(super) fn inspect(&mut self, seen: &Seen<'_>) -> Idle {
        let latest = Latest::of(seen);
        let account = &mut self.accounts[seen.gpu];
        let strangers: Vec<u32> = latest.foreign.iter().chain(&latest.unknown).copied().collect();
        let total = seen.glance.memory.total.0;
        let occupied = !strangers.is_empty() || is_haunted(latest.ghost, total);
        let (used, ghost) = (latest.used, latest.ghost);
        account.latest = Some(latest);
        if occupied && self.mind_foreign {
            return Idle::Occupied { pids: strangers, bytes: used };
        }
        (account.idle_used, account.idle_ghost, account.held) = (used, ghost, false);
        Idle::Free { free: seen.glance.memory.free.0 }
    }

    /// Takes in a look.
    pub(super) fn look(&mut self, seen: &Seen<'_>) {
        let latest = Latest::of(seen);
        self.lists_us |= !latest.jobs.is_empty();
        self.strays.extend(&latest.strays);
        self.accounts[seen.gpu].latest = Some(latest);
    }

    /// What GPUs did for their jobs, by the newest looks.
    pub(super) fn beats(&mut self) -> Vec<Beat> {
        std::mem::take(&mut self.beats)
    }

    /// What follows from the newest looks.
    pub(super) fn findings(&mut self, now: Millis) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.measure(now, &mut findings);
        self.let_go(now, &mut findings);
        self.clear(&mut findings);
        findings.extend(self.strays.drain(..).map(Finding::Stray));
        findings
    }

    fn measure(&mut self, now: Millis, findings: &mut Vec<Finding>) {
        let on: Vec<u32> = self.jobs_on();
        for (job, followed) in &mut self.jobs {
            if followed.leaving.is_some() {
                continue;
            }
            let held = |gpu: &usize| self.accounts[*gpu].held_by(*job, on[*gpu] == 1);
            let seen = |gpu: &usize| self.accounts[*gpu].sees(*job);
            let most = followed.gpus.iter().filter_map(held).max().unwrap_or(0);
            let loads: Vec<Option<u32>> =
                followed.gpus.iter().map(|gpu| self.accounts[*gpu].latest.as_ref()?.load).collect();
            let load = loads.iter().copied().flatten().max();
            let alone = followed.gpus.iter().all(|gpu| on[*gpu] == 1);
            let settled = followed.plateau.look(now, most, load, alone);
            // One that does not tell may be at work.
            let load = load.filter(|_| loads.iter().all(Option::is_some));
            let busy = |gpu: &usize| {
                let latest = self.accounts[*gpu].latest.as_ref();
                latest.is_some_and(|latest| latest.works_for(*job, on[*gpu] == 1))
            };
            let beats = most.abs_diff(followed.last) > MOVED || followed.gpus.iter().any(busy);
            followed.last = most;
            self.beats.push(Beat { job: *job, beats, load });
            followed.peak = followed.peak.max(most);
            // What only the whole GPU tells is sure when the job is done growing, as long as it is alone.
            let grew = followed.peak > followed.told + followed.told / 100 && followed.gpus.iter().any(seen);
            let news = grew || settled && !followed.settled;
            if news {
                followed.told = followed.peak;
                followed.settled |= settled;
                let (attempt, peak, settled) = (followed.attempt, followed.peak, followed.settled);
                findings.push(Finding::Peak { job: *job, attempt, peak, settled });
            }
        }
    }

    /// Lets go of jobs whose memory is back, or has been waited for long enough.
    fn let_go(&mut self, now: Millis, findings: &mut Vec<Finding>) {
        let on = self.jobs_on();
        let mut gone = Vec::new();
        for (job, followed) in &self.jobs {
            let Some(since) = followed.leaving else { continue };
            let patient = now.since(since) < PATIENCE;
            let obstacles: Vec<(usize, Obstacle)> = followed
                .gpus
                .iter()
                .filter_map(|gpu| {
                    let obstacle = self.obstacle(*gpu, *job, on[*gpu])?;
                    Some((*gpu, obstacle))
                })
                .collect();
            // What is not its own is no reason to wait for it.
            if patient && obstacles.iter().any(|(_, obstacle)| obstacle.own) {
                continue;
            }
            gone.push(*job);
            let peak = Some(followed.peak).filter(|peak| *peak > 0);
            for (gpu, Obstacle { pids, bytes, .. }) in obstacles {
                if !self.accounts[gpu].held {
                    self.accounts[gpu].held = true;
                    findings.push(Finding::Held { gpu, pids, bytes });
                }
            }
            findings.push(Finding::Returned { job: *job, attempt: followed.attempt, peak });
        }
        for job in gone {
            self.jobs.remove(&job);
        }
        let on = self.jobs_on();
        for (account, jobs) in self.accounts.iter_mut().zip(on) {
            if let (0, false, Some(latest)) = (jobs, account.held, &account.latest) {
                (account.idle_used, account.idle_ghost) = (latest.used, latest.ghost);
            }
        }
    }

    fn clear(&mut self, findings: &mut Vec<Finding>) {
        let on = self.jobs_on();
        for (gpu, jobs) in on.into_iter().enumerate() {
            if self.accounts[gpu].held && self.obstacle(gpu, JobId(u32::MAX), jobs + 1).is_none() {
                self.accounts[gpu].held = false;
                findings.push(Finding::Cleared { gpu });
            }
        }
    }

    fn obstacle(&self, gpu: usize, job: JobId, jobs: u32) -> Option<Obstacle> {
        // Where the driver lists none of ours, what others of our jobs hold looks like nobody's.
        let tells_apart = self.lists_us || jobs <= 1;
        self.accounts[gpu].obstacle(job, jobs, tells_apart, self.mind_foreign)
    }

    fn jobs_on(&self) -> Vec<u32> {
        let mut on = vec![0; self.accounts.len()];
        for gpu in self.jobs.values().flat_map(|followed| &followed.gpus) {
            on[*gpu] += 1;
        }
        on
    }
}

fn distinct(mut gpus: Vec<usize>) -> Vec<usize> {
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

/// Why a GPU cannot be given to the next job.
struct Obstacle {
    /// Memory of the job itself, as far as can be told; otherwise only strangers are in the way.
    own: bool,
    pids: Vec<u32>,
    bytes: u64,
}

impl Account {
    /// Whether a process of the job is seen on it.
    fn sees(&self, job: JobId) -> bool {
        self.latest.as_ref().is_some_and(|latest| latest.jobs.contains_key(&job))
    }

    /// What the job holds, as its processes say or, where it is alone, as the whole GPU does.
    fn held_by(&self, job: JobId, alone: bool) -> Option<u64> {
        let latest = self.latest.as_ref()?;
        let own = latest.jobs.get(&job).copied().unwrap_or(0);
        let whole = latest.used.saturating_sub(self.idle_used).saturating_sub(latest.ours);
        let alone = alone && latest.foreign.is_empty() && latest.strays.is_empty();
        Some(if alone { own.max(whole) } else { own })
    }

    /// What stands in the way after `job` has left; `jobs`: how many are on this GPU, that one included.
    fn obstacle(&self, job: JobId, jobs: u32, tells_apart: bool, mind_foreign: bool) -> Option<Obstacle> {
        let latest = self.latest.as_ref()?;
        let slack = SLACK + SLACK_PER_JOB * u64::from(jobs);
        let still = latest.jobs.get(&job).copied();
        let ghost = latest.ghost.saturating_sub(self.idle_ghost);
        let used = latest.used.saturating_sub(self.idle_used);
        let bytes = match still {
            Some(still) => still,
            // Ids that mean nothing here: only of a GPU without other jobs of ours can anything be said.
            None if !latest.unknown.is_empty() && jobs <= 1 && used > slack => used,
            None if !latest.unknown.is_empty() => 0,
            None if ghost > slack && tells_apart => ghost,
            None => 0,
        };
        let own = bytes > 0 || still.is_some() || !latest.strays.is_empty();
        let mut pids: Vec<u32> = if mind_foreign { latest.foreign.clone() } else { Vec::new() };
        if bytes > 0 {
            pids.extend(&latest.unknown);
        }
        pids.extend(&latest.strays);
        let bytes = if bytes == 0 && !pids.is_empty() { used } else { bytes };
        (own || !pids.is_empty()).then_some(Obstacle { own, pids, bytes })
    }
}

impl Latest {
    fn of(seen: &Seen<'_>) -> Self {
        let glance = seen.glance;
        let mut latest = Self {
            workers: seen.workers.and_then(jobs_among),
            used: glance.memory.used.0,
            ghost: glance.memory.used.0,
            load: glance.load,
            jobs: HashMap::new(),
            foreign: Vec::new(),
            unknown: Vec::new(),
            strays: Vec::new(),
            ours: 0,
        };
        for (process, owner) in glance.processes.iter().zip(seen.owners) {
            let memory = process.memory.map_or(0, |memory| memory.0);
            latest.ghost = latest.ghost.saturating_sub(memory);
            match owner {
                Owner::Job(job) => *latest.jobs.entry(*job).or_default() += memory,
                Owner::Ours | Owner::Standby => latest.ours += memory,
                Owner::Stray => latest.strays.push(process.pid),
                Owner::Foreign => latest.foreign.push(process.pid),
                Owner::Unknown => latest.unknown.push(process.pid),
            }
        }
        latest
    }

    /// Whether it did something for this job; `alone`: no other job of ours is on it.
    fn works_for(&self, job: JobId, alone: bool) -> bool {
        let works = self.load.is_some_and(|load| load > 0);
        works
            && (alone && self.foreign.is_empty()
                || self.workers.as_ref().is_none_or(|jobs| jobs.contains(&job)))
    }
}

/// The jobs among these owners; `None` if one of them may stand for any job: an MPS server, or an id that means nothing here.
fn jobs_among(owners: &[Owner]) -> Option<Vec<JobId>> {
    let jobs = owners.iter().map(|owner| match owner {
        Owner::Job(job) => Some(Some(*job)),
        Owner::Foreign | Owner::Standby => Some(None),
        Owner::Ours | Owner::Stray | Owner::Unknown => None,
    });
    Some(jobs.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
