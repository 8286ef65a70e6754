//! The thread that looks at the GPUs. NVML can be slow, fail or hang, so nothing waits for this thread without a
//! limit: the reactor asks, goes on, and hears of the answer; if none comes, it goes on without.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::io;

use gpulane_gpu::{Glance, NoProbe, Probe, ProbeError, Xid, XidWatch, xid_meaning};
use gpulane_model::{Attempt, JobId, Millis};
use rustix::event::{EventfdFlags, eventfd};

use super::ledger::{Finding, Idle, Ledger, Seen};
use super::owners::Owners;

/// Between two looks: while the memory of a job that has ended is awaited, and otherwise. A young job is looked at
/// more often, every hundredth of its age: what it holds changes most in the beginning.
const LEAVING: Duration = Duration::from_millis(4);
const CALM: Duration = Duration::from_millis(250);
const YOUNG: Duration = Duration::from_millis(25);
const PART: u64 = 100;
/// Failed looks in a row before we say that we see nothing.
const FAILURES: u32 = 8;

/// What the reactor asks.
pub(super) enum Ask {
    /// Follow this job's memory.
    Follow { job: JobId, attempt: Attempt, name: String, main: i32, gpus: Vec<usize> },
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
    Inspected { gpu: usize, idle: Idle },
    /// The GPU is gone.
    Lost { gpu: usize, why: String },
    /// Processes cannot be told apart; said once.
    Namespaced,
    /// NVML fails; nothing more is to be expected. Said once.
    Blind(String),
}

/// The reactor's end.
pub(super) struct Watch {
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
    pub(super) fn start(run: String, uuids: Vec<String>, mind_foreign: bool) -> io::Result<Self> {
        let (asks, receiver) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox { words: Mutex::new(Vec::new()), wake, pulse: AtomicU64::new(0) });
        let begun = Instant::now();
        let watcher = Watcher {
            ledger: Ledger::new(uuids.len(), mind_foreign),
            owners: Owners::new(run),
            lost: vec![false; uuids.len()],
            uuids,
            begun,
            mailbox: Arc::clone(&mailbox),
            failures: 0,
            namespaced: false,
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

    /// Whether the thread was seen to move after this moment.
    pub(super) fn moved_since(&self, moment: Instant) -> bool {
        self.begun + Duration::from_millis(self.mailbox.pulse.load(Ordering::Relaxed)) > moment
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

struct Watcher {
    ledger: Ledger,
    owners: Owners,
    uuids: Vec<String>,
    lost: Vec<bool>,
    begun: Instant,
    mailbox: Arc<Mailbox>,
    /// Failed looks in a row.
    failures: u32,
    namespaced: bool,
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
        loop {
            self.beat();
            let patience = next.map(|at| at.saturating_duration_since(Instant::now()));
            let ask = match patience {
                Some(patience) => asks.recv_timeout(patience),
                None => asks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match ask {
                Ok(ask) => {
                    let look = matches!(ask, Ask::Leave { .. });
                    self.answer(&probe, ask);
                    if !look {
                        next.get_or_insert_with(Instant::now);
                        continue;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look(&probe);
            self.hear_of(&mut xids);
            next = self.interval().map(|interval| Instant::now() + interval);
        }
    }

    fn answer(&mut self, probe: &Probe, ask: Ask) {
        let now = self.now();
        match ask {
            Ask::Follow { job, attempt, name, main, gpus } => {
                self.owners.add(job, attempt, name, main);
                self.ledger.follow(job, attempt, gpus, now);
            }
            Ask::Leave { job } => self.ledger.leave(job, now),
            Ask::Inspect { gpu } => {
                let Some(glance) = self.glance(probe, gpu) else {
                    // Unless it is lost, which was said: what cannot be seen is not refused.
                    if !self.lost[gpu] {
                        self.say(Word::Inspected { gpu, idle: Idle::Free { free: u64::MAX } });
                    }
                    return;
                };
                let owners: Vec<_> =
                    glance.processes.iter().map(|process| self.owners.of(process.pid)).collect();
                let idle = self.ledger.inspect(&Seen { gpu, glance: &glance, owners: &owners });
                self.say(Word::Inspected { gpu, idle });
            }
        }
    }

    fn look(&mut self, probe: &Probe) {
        for gpu in self.ledger.to_look_at() {
            if let Some(glance) = self.glance(probe, gpu) {
                let owners: Vec<_> =
                    glance.processes.iter().map(|process| self.owners.of(process.pid)).collect();
                self.ledger.look(&Seen { gpu, glance: &glance, owners: &owners });
            }
        }
        let blind = self.failures >= FAILURES;
        let findings = if blind { self.ledger.give_up() } else { self.ledger.findings(self.now()) };
        for finding in findings {
            if let Finding::Returned { job, .. } = finding {
                self.owners.remove(job);
            }
            self.say(Word::Found(finding));
        }
        if !self.namespaced && self.ledger.is_namespaced() {
            self.namespaced = true;
            self.say(Word::Namespaced);
        }
    }

    /// `None`: it could not be seen; if it is lost, that was said.
    fn glance(&mut self, probe: &Probe, gpu: usize) -> Option<Glance> {
        if self.lost[gpu] {
            return None;
        }
        match probe.glance(&self.uuids[gpu]) {
            Ok(glance) => {
                self.failures = 0;
                Some(glance)
            }
            Err(ProbeError::Lost(why)) => {
                self.lose(gpu, why);
                None
            }
            Err(ProbeError::Failed(why)) => {
                self.failures += 1;
                if self.failures == FAILURES {
                    self.say(Word::Blind(why));
                }
                None
            }
        }
    }

    fn hear_of(&mut self, xids: &mut XidWatch<'_>) {
        while let Some((uuid, xid)) = xids.next(Duration::ZERO) {
            let gpu = self.uuids.iter().position(|known| *known == uuid);
            if let (Some(gpu), Xid::Device(meaning)) = (gpu, xid_meaning(xid)) {
                self.lose(gpu, format!("Xid {xid}: {meaning}"));
            }
        }
    }

    fn lose(&mut self, gpu: usize, why: String) {
        if !std::mem::replace(&mut self.lost[gpu], true) {
            self.say(Word::Lost { gpu, why });
        }
    }

    /// How long until the next look; `None`: nothing is to be seen.
    fn interval(&self) -> Option<Duration> {
        if self.ledger.to_look_at().is_empty() {
            return None;
        }
        Some(if self.ledger.anyone_leaves() {
            LEAVING
        } else {
            let young = self.ledger.youngest_unsettled(self.now());
            young.map_or(CALM, |age| Duration::from_millis(age.0 / PART).clamp(YOUNG, CALM))
        })
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
