//! The thread that looks at the GPUs. NVML can be slow, fail or hang, so nothing waits for this thread without a
//! limit: the reactor asks, goes on, and hears of the answer; if none comes, it goes on without.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpulane_gpu::{Glance, NoProbe, Probe, ProbeError, Xid, XidWatch, xid_meaning};
use gpulane_model::{Attempt, JobId, Millis};
use rustix::event::{EventfdFlags, eventfd};

use super::super::ending::Names;
use super::ledger::{Beat, Finding, Idle, Ledger, Seen};
use super::owners::{Owner, Owners};
use super::pulses::Pulses;

/// Between two looks: while the memory of a job that has ended is awaited, and otherwise. A young job is looked at
/// more often, every hundredth of its age: what it holds changes most in the beginning.
const LEAVING: Duration = Duration::from_millis(4);
const CALM: Duration = Duration::from_millis(250);
const YOUNG: Duration = Duration::from_millis(25);
const PART: u64 = 100;
/// Between two questions whose work a GPU does.
const WORKERS: Duration = Duration::from_secs(2);
/// How long looks at a GPU may fail before it counts as not to be seen.
const FAILING: Duration = Duration::from_secs(3);

/// What the reactor asks.
pub(super) enum Ask {
    /// Follow this job's memory.
    Follow { job: JobId, attempt: Attempt, names: Names, main: i32, gpus: Vec<usize> },
    /// Its processes have ended: say when its memory is back.
    Leave { job: JobId },
    /// None of our jobs is on this GPU: what is it like?
    Inspect { gpu: usize },
}

/// What the thread says.
#[derive(Debug)]
pub(super) enum Word {
    Found(Finding),
    /// The answer to `Inspect`.
    Inspected {
        gpu: usize,
        idle: Idle,
    },
    /// A standby's process is on this GPU.
    Standby {
        gpu: usize,
        pid: u32,
        bytes: Option<u64>,
    },
    /// The GPU is gone; why, so that it follows the GPU's name.
    Lost {
        gpu: usize,
        why: String,
    },
    /// Processes cannot be told apart; said once.
    Namespaced,
    /// This GPU cannot be looked at any more, or can again.
    Sight {
        gpu: usize,
        lost: Option<String>,
    },
    /// NVML cannot be had; nothing more is to be expected.
    Blind(String),
}

/// The reactor's end.
pub(super) struct Watch {
    /// Unbounded, so that asking never waits; there are two asks for each job and one for each GPU wanted.
    asks: Sender<Ask>,
    mailbox: Arc<Mailbox>,
    begun: Instant,
}

struct Mailbox {
    words: Mutex<Vec<Word>>,
    wake: OwnedFd,
    /// When the thread last came round, in milliseconds since the beginning.
    pulse: AtomicU64,
}

impl Watch {
    /// `uuids`: the run's GPUs, by index.
    pub(super) fn start(
        run: String,
        uuids: Vec<String>,
        mind_foreign: bool,
        pulses: Arc<Pulses>,
    ) -> io::Result<Self> {
        let (asks, receiver) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox { words: Mutex::new(Vec::new()), wake, pulse: AtomicU64::new(0) });
        let begun = Instant::now();
        let watcher = Watcher {
            ledger: Ledger::new(uuids.len(), mind_foreign),
            owners: Owners::new(run),
            sights: uuids.iter().map(|_| Sight::Clear).collect(),
            work: vec![(None, 0, None); uuids.len()],
            uuids,
            begun,
            mailbox: Arc::clone(&mailbox),
            namespaced: false,
            pulses,
            named: HashSet::new(),
        };
        std::thread::Builder::new().name("gpu-watch".into()).spawn(move || watcher.run(&receiver))?;
        Ok(Self { asks, mailbox, begun })
    }

    pub(super) fn ask(&self, ask: Ask) {
        // If the thread is gone it has said why.
        let _ = self.asks.send(ask);
    }

    pub(super) fn take(&self) -> Vec<Word> {
        let _ = rustix::io::read(&self.mailbox.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.mailbox.words.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long the thread has not been seen to move. It rests when nothing is to be looked at.
    pub(super) fn silence(&self) -> Duration {
        let pulse = Duration::from_millis(self.mailbox.pulse.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(pulse)
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

/// How well a GPU can be seen.
enum Sight {
    Clear,
    /// Looks fail since then.
    Failing(Instant),
    /// They have failed for so long that this was said.
    Dark,
    /// It is gone.
    Lost,
}

struct Watcher {
    ledger: Ledger,
    owners: Owners,
    uuids: Vec<String>,
    sights: Vec<Sight>,
    begun: Instant,
    mailbox: Arc<Mailbox>,
    namespaced: bool,
    pulses: Arc<Pulses>,
    /// By GPU: when it was asked whose work it does, up to which moment of its history, and what it said.
    work: Vec<(Option<Instant>, u64, Option<Vec<u32>>)>,
    /// Processes the driver has named since all GPUs were looked at.
    named: HashSet<u32>,
}

impl Watcher {
    fn run(mut self, asks: &Receiver<Ask>) {
        let probe = match Probe::open() {
            Ok(probe) => probe,
            Err(NoProbe::Absent(why) | NoProbe::Broken(why)) => return self.say(Word::Blind(why)),
        };
        // Where Xids cannot be had, a lost GPU is found by looking.
        let mut xids = probe.watch_xids(&self.uuids);
        let mut next: Option<Instant> = None;
        let mut all_at = Instant::now();
        loop {
            self.beat();
            let patience = next.map(|at| at.saturating_duration_since(Instant::now()));
            let ask = match patience {
                Some(patience) => asks.recv_timeout(patience),
                None => asks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match ask {
                Ok(ask) => {
                    self.answer(&probe, ask);
                    // Whatever else was asked meanwhile: one look serves all.
                    while let Ok(ask) = asks.try_recv() {
                        self.beat();
                        self.answer(&probe, ask);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let awaited = self.ledger.awaited();
            if all_at <= Instant::now() {
                self.look(&probe, &self.ledger.to_look_at());
                self.forget_the_gone();
                self.hear_of(&mut xids);
                all_at = Instant::now() + self.pace();
            } else if !awaited.is_empty() {
                self.look(&probe, &awaited);
            }
            next = match (self.ledger.to_look_at().is_empty(), self.ledger.awaited().is_empty()) {
                (true, _) => None,
                (false, true) => Some(all_at),
                (false, false) => Some(all_at.min(Instant::now() + LEAVING)),
            };
        }
    }

    fn answer(&mut self, probe: &Probe, ask: Ask) {
        let now = self.now();
        match ask {
            Ask::Follow { job, attempt, names, main, gpus } => {
                self.owners.add(job, attempt, names, main);
                self.ledger.follow(job, attempt, gpus, now);
            }
            Ask::Leave { job } => self.ledger.leave(job, now),
            Ask::Inspect { gpu } => {
                let Some(glance) = self.glance(probe, gpu) else {
                    // Unless it is lost, which was said: what cannot be seen is not refused.
                    if !matches!(self.sights[gpu], Sight::Lost) {
                        self.say(Word::Inspected { gpu, idle: Idle::Free { free: u64::MAX } });
                    }
                    return;
                };
                let owners = self.owners_of(&glance);
                let seen = Seen { gpu, glance: &glance, owners: &owners, workers: None };
                let idle = self.ledger.inspect(&seen);
                self.say(Word::Inspected { gpu, idle });
            }
        }
    }

    fn look(&mut self, probe: &Probe, gpus: &[usize]) {
        for gpu in gpus.iter().copied() {
            self.beat();
            if let Some(glance) = self.glance(probe, gpu) {
                let owners = self.owners_of(&glance);
                self.named.extend(glance.processes.iter().map(|process| process.pid));
                self.tell_standbys(gpu, &glance, &owners);
                let workers = self.workers(probe, gpu, &glance);
                let workers = workers.as_deref();
                self.ledger.look(&Seen { gpu, glance: &glance, owners: &owners, workers });
            }
        }
        let findings = self.ledger.findings(self.now());
        for Beat { job, beats, load } in self.ledger.beats() {
            self.pulses.look(job, beats, load);
        }
        for finding in findings {
            if let Finding::Returned { job, .. } = finding {
                self.owners.remove(job);
                self.pulses.forget(job);
            }
            self.say(Word::Found(finding));
        }
        if !self.namespaced && self.ledger.is_namespaced() {
            self.namespaced = true;
            self.say(Word::Namespaced);
        }
    }

    /// Standbys have no business on a GPU; said at each look, until there are none.
    fn tell_standbys(&self, gpu: usize, glance: &Glance, owners: &[Owner]) {
        let seen = glance.processes.iter().zip(owners).filter(|(_, owner)| **owner == Owner::Standby);
        for (process, _) in seen {
            let bytes = process.memory.map(|memory| memory.0);
            self.say(Word::Standby { gpu, pid: process.pid, bytes });
        }
    }

    /// Who made a busy GPU busy, where several are on it. Asked for now and then: the driver keeps a history.
    fn workers(&mut self, probe: &Probe, gpu: usize, glance: &Glance) -> Option<Vec<Owner>> {
        if glance.load == Some(0) || glance.processes.len() < 2 {
            return None;
        }
        let (asked, since, known) = &mut self.work[gpu];
        if asked.is_none_or(|at| at.elapsed() >= WORKERS) {
            *asked = Some(Instant::now());
            *known = probe.workers(&self.uuids[gpu], *since).map(|(pids, until)| {
                *since = until;
                pids
            });
        }
        // Busy, and with nobody's work: its history says nothing new.
        let pids = known.clone().filter(|pids| !pids.is_empty())?;
        Some(pids.into_iter().map(|pid| self.owners.of(pid)).collect())
    }

    fn owners_of(&mut self, glance: &Glance) -> Vec<Owner> {
        glance.processes.iter().map(|process| self.owners.of(process.pid)).collect()
    }

    /// `None`: it could not be seen; if it is lost, that was said.
    fn glance(&mut self, probe: &Probe, gpu: usize) -> Option<Glance> {
        if matches!(self.sights[gpu], Sight::Lost) {
            return None;
        }
        match probe.glance(&self.uuids[gpu]) {
            Ok(glance) => {
                if matches!(std::mem::replace(&mut self.sights[gpu], Sight::Clear), Sight::Dark) {
                    self.say(Word::Sight { gpu, lost: None });
                }
                Some(glance)
            }
            Err(ProbeError::Lost(why)) => {
                self.lose(gpu, why);
                None
            }
            Err(ProbeError::Failed(why)) => {
                self.fail_to_see(gpu, why);
                None
            }
        }
    }

    fn hear_of(&mut self, xids: &mut XidWatch<'_>) {
        while let Some((uuid, xid)) = xids.next(Duration::ZERO) {
            let gpu = self.uuids.iter().position(|known| *known == uuid);
            if let (Some(gpu), Xid::Device(meaning)) = (gpu, xid_meaning(xid)) {
                self.lose(gpu, format!("reported Xid {xid}: {meaning}"));
            }
        }
    }

    fn lose(&mut self, gpu: usize, why: String) {
        if !matches!(std::mem::replace(&mut self.sights[gpu], Sight::Lost), Sight::Lost) {
            self.ledger.lose_sight(gpu);
            self.say(Word::Lost { gpu, why });
        }
    }

    /// One failed look means nothing; several seconds of them do.
    fn fail_to_see(&mut self, gpu: usize, why: String) {
        match self.sights[gpu] {
            Sight::Clear => self.sights[gpu] = Sight::Failing(Instant::now()),
            Sight::Failing(since) if since.elapsed() > FAILING => {
                self.sights[gpu] = Sight::Dark;
                self.ledger.lose_sight(gpu);
                self.say(Word::Sight { gpu, lost: Some(why) });
            }
            _ => {}
        }
    }

    /// Processes the driver names no more need no owner.
    fn forget_the_gone(&mut self) {
        let named = std::mem::take(&mut self.named);
        self.owners.keep_only(&named);
    }

    /// How long until all GPUs of interest are looked at again.
    fn pace(&self) -> Duration {
        let young = self.ledger.youngest_unsettled(self.now());
        young.map_or(CALM, |age| Duration::from_millis(age.0 / PART).clamp(YOUNG, CALM))
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn beat(&self) {
        self.mailbox.pulse.store(self.now().0, Ordering::Relaxed);
    }

    fn say(&self, word: Word) {
        self.mailbox.words.lock().unwrap_or_else(PoisonError::into_inner).push(word);
        let _ = rustix::io::write(&self.mailbox.wake, &1u64.to_ne_bytes());
    }
}
