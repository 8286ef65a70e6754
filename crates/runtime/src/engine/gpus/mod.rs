//! The run's GPUs, from the reactor's side: leases taken and given back, jobs' memory followed, strangers kept
//! apart. What it all means is the core's decision; here it is found out and passed on.
//!
//! - `watch`: the thread that looks, because NVML can hang.
//! - `ledger`, `plateau`: from looks to findings; pure.
//! - `pulses`: what GPUs do for their jobs, for whoever watches over those.
//! - `owners`, `strangers`: whose process is it, and what is it called.
//! - `standing`: which GPUs are ours, asked for, or somebody else's.

mod ledger;
mod owners;
mod plateau;
mod pulses;
mod standing;
mod strangers;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_core::Input;
use gpulane_gpu::{Leases, Standing as LeaseStanding};
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Bytes, Foreign, GpuIndex, JobId, Machine};

use ledger::{Finding, Idle};
use standing::{Standing, leased_by};
use watch::{Ask, Watch, Word};

pub(super) use pulses::{Pulse, Pulses};
pub(super) use strangers::on as strangers_on;

use super::ending::{Gone, Names};

/// How long an answer may take before we go on without it.
const PATIENCE: Duration = Duration::from_secs(8);

/// Something the reactor has to do.
pub(super) enum News {
    /// Tell the core.
    Tell(Input),
    /// Tell a person.
    Note(String),
    /// A job has ended and its memory is back, or will not be waited for.
    Exited { job: JobId, exit: Exit, ended: Instant, peak: Option<Bytes> },
    /// A process of ours holds a GPU, and may have outlived its job.
    Stray(u32),
    /// A standby's process is on a GPU.
    Standby { gpu: usize, pid: u32, bytes: Option<Bytes> },
}

/// How a job ended, kept until its memory is back.
#[derive(Clone, Debug)]
pub(super) struct Exit {
    pub(super) attempt: Attempt,
    pub(super) gone: Gone,
}

/// A job that just started.
pub(super) struct Newcomer<'a> {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    pub(super) names: Names,
    pub(super) main: i32,
    pub(super) gpus: &'a [GpuIndex],
}

pub(super) struct Gpus {
    watch: Watch,
    pulses: Arc<Pulses>,
    standing: Standing,
    /// Jobs on GPUs that have ended, while their memory is awaited; each with when it ended.
    leaving: HashMap<JobId, (Exit, Instant)>,
    followed: HashMap<JobId, Attempt>,
    /// GPUs that wait for their memory.
    held: BTreeSet<usize>,
    /// GPUs whose lease was removed, and that another run has leased since.
    not_alone: BTreeSet<usize>,
    /// Since when something is expected of the watch.
    expecting: Option<Instant>,
    /// The watch does not answer.
    blind: bool,
}

impl Gpus {
    /// `leases`: the GPUs are shared with other runs of this machine; `None`: they are ours already.
    pub(super) fn new(
        dir: &RunDir,
        machine: &Machine,
        headroom: Bytes,
        foreign: Foreign,
        leases: Option<Leases>,
    ) -> io::Result<Self> {
        let run = dir.root().to_string_lossy().into_owned();
        let uuids: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        // Inside another run's job, that run's processes are no strangers.
        let own = leases.is_none();
        let pulses = Arc::new(Pulses::default());
        let watch = Watch::start(run, uuids, !own && foreign != Foreign::Ignore, Arc::clone(&pulses))?;
        let gpus = Self {
            watch,
            pulses,
            standing: Standing::new(machine, headroom, leases),
            leaving: HashMap::new(),
            followed: HashMap::new(),
            held: BTreeSet::new(),
            not_alone: BTreeSet::new(),
            expecting: None,
            blind: false,
        };
        if own {
            // To know what they are like while nothing of ours is on them.
            (0..machine.gpus.len()).for_each(|gpu| gpus.watch.ask(Ask::Inspect { gpu }));
        }
        Ok(gpus)
    }

    /// What jobs' GPUs are seen to do for them.
    pub(super) fn pulses(&self) -> Arc<Pulses> {
        Arc::clone(&self.pulses)
    }

    /// The core could use so many more GPUs.
    pub(super) fn want(&mut self, count: u32) -> Vec<News> {
        self.standing.want(count);
        self.reach_out()
    }

    /// The core does not need this GPU any more.
    pub(super) fn release(&mut self, gpu: GpuIndex) {
        self.not_alone.remove(&gpu.index());
        self.standing.release(gpu.index());
    }

    /// Tries to get what is wanted, and says if nothing can be had.
    pub(super) fn reach_out(&mut self) -> Vec<News> {
        let blind = self.blind;
        let mut news = Vec::new();
        for gpu in self.standing.reach_out() {
            if blind {
                news.push(self.grant(gpu, u64::MAX));
            } else {
                self.watch.ask(Ask::Inspect { gpu });
            }
        }
        if self.standing.gives_way() {
            news.push(News::Tell(Input::GiveWay));
        }
        news.extend(self.standing.complaint().map(|because| News::Tell(Input::GpusAwaited { because })));
        news
    }

    /// Which GPUs any of the jobs could run on; others are not asked for.
    pub(super) fn set_useful(&mut self, useful: Vec<bool>) {
        self.standing.set_useful(useful);
    }

    /// Whether something was asked or wanted that has not come.
    pub(super) fn is_expecting(&self) -> bool {
        self.standing.is_waiting() || self.expects_words()
    }

    fn expects_words(&self) -> bool {
        !self.leaving.is_empty() || !self.held.is_empty() || self.standing.is_asking()
    }

    /// More GPUs are wanted than could be had.
    pub(super) fn is_waiting(&self) -> bool {
        self.standing.is_waiting()
    }

    /// A GPU is being looked at before it is used.
    pub(super) fn is_asking(&self) -> bool {
        self.standing.is_asking()
    }

    /// The job's processes have ended; only its memory is awaited.
    pub(super) fn is_leaving(&self, job: JobId) -> bool {
        self.leaving.contains_key(&job)
    }

    /// Leases held for long must not look forgotten to whoever tidies up their directory; and whoever removes their locks is answered.
    pub(super) fn look_after_leases(&mut self) -> Vec<News> {
        self.standing.keep_fresh();
        let mut news = Vec::new();
        for (gpu, standing) in self.standing.look_after_leases() {
            if let LeaseStanding::Taken { holder } = standing {
                if self.not_alone.insert(gpu) {
                    let who = holder.as_ref().map_or_else(|| "leased by another run".to_owned(), leased_by);
                    let because =
                        format!("somebody removed its lease, and it is {who} now; no more jobs start there");
                    news.push(News::Note(format!("GPU {gpu}: {because}")));
                    let (gpu, bytes) = (GpuIndex::at(gpu), Bytes(0));
                    news.push(News::Tell(Input::GpuHeld { gpu, pids: Vec::new(), bytes, because }));
                }
                continue;
            }
            if let LeaseStanding::Renewed { owner } = standing {
                let text =
                    format!("GPU {gpu}: somebody removed its lease, a file of {owner}; it is leased anew");
                news.push(News::Note(text));
            }
            if self.not_alone.remove(&gpu) {
                news.push(News::Tell(Input::GpuClear { gpu: GpuIndex::at(gpu) }));
            }
        }
        news
    }

    /// Readable when another run may have given something back.
    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.standing.changes()
    }

    pub(super) fn clear_changes(&self) {
        self.standing.clear_changes();
    }

    /// Descriptors a job on these GPUs must keep open: the leases end with the last process that uses them.
    pub(super) fn leases_of(&self, gpus: &[GpuIndex]) -> Vec<RawFd> {
        gpus.iter().filter_map(|gpu| self.standing.lease_fd(gpu.index())).collect()
    }

    /// A job started.
    pub(super) fn follow(&mut self, newcomer: Newcomer<'_>) {
        let Newcomer { job, attempt, names, main, gpus } = newcomer;
        if gpus.is_empty() || self.blind {
            return;
        }
        self.followed.insert(job, attempt);
        let gpus = gpus.iter().map(|gpu| gpu.index()).collect();
        self.watch.ask(Ask::Follow { job, attempt, names, main, gpus });
    }

    /// A job's processes are gone. Its exit is given back if it had no GPU of ours, and has ended for good; otherwise that
    /// is said when its memory is back.
    pub(super) fn leave(&mut self, job: JobId, exit: Exit) -> Option<Exit> {
        if self.followed.remove(&job) != Some(exit.attempt) {
            return Some(exit);
        }
        self.watch.ask(Ask::Leave { job });
        if self.blind {
            return Some(exit);
        }
        self.leaving.insert(job, (exit, Instant::now()));
        None
    }

    /// What the thread has found.
    pub(super) fn take(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for word in self.watch.take() {
            self.hear(word, &mut news);
        }
        news
    }

    /// Goes on without answers that do not come.
    pub(super) fn check_pulse(&mut self) -> Vec<News> {
        if !self.expects_words() {
            self.expecting = None;
            return Vec::new();
        }
        // It rests while nothing is asked of it, so only silence since then tells.
        let since = *self.expecting.get_or_insert_with(Instant::now);
        if self.blind || since.elapsed().min(self.watch.silence()) < PATIENCE {
            return Vec::new();
        }
        let mut news = Vec::new();
        let why = format!("NVML has not answered for {} s (does nvidia-smi work?)", PATIENCE.as_secs());
        self.go_blind(&why, &mut news);
        news
    }

    fn hear(&mut self, word: Word, news: &mut Vec<News>) {
        if self.blind && !matches!(word, Word::Blind(_)) {
            self.blind = false;
            news.push(News::Note("NVML answers again".to_owned()));
        }
        match word {
            Word::Found(finding) => self.on_finding(finding, news),
            Word::Inspected { gpu, idle: Idle::Free { free } } => {
                if self.standing.is_asked(gpu) {
                    news.push(self.grant(gpu, free));
                }
            }
            Word::Sight { gpu, lost: Some(why) } => {
                let text = format!("GPU {gpu} {why}; going on without looking at it");
                news.push(News::Note(text));
            }
            Word::Sight { gpu, lost: None } => news.push(News::Note(format!("GPU {gpu} can be read again"))),
            Word::Inspected { gpu, idle: Idle::Occupied { pids, bytes } } => {
                let who = strangers::name_or_ghost(&pids, Bytes(bytes));
                if self.standing.occupied(gpu, &who) {
                    news.push(News::Note(format!("GPU {gpu} is left alone while others use it: {who}")));
                }
                news.extend(self.reach_out());
            }
            Word::Standby { gpu, pid, bytes } => {
                news.push(News::Standby { gpu, pid, bytes: bytes.map(Bytes) });
            }
            Word::Lost { gpu, why } => {
                self.held.remove(&gpu);
                self.standing.lost(gpu);
                news.push(News::Tell(Input::GpuLost { gpu: GpuIndex::at(gpu), why }));
            }
            Word::Namespaced => news.push(News::Note(
                "the driver's process ids mean nothing here (another PID namespace): memory is read from the whole GPU, \
                 and only for jobs that are alone on one"
                    .to_owned(),
            )),
            Word::Blind(why) => self.go_blind(&why, news),
        }
    }

    fn on_finding(&mut self, finding: Finding, news: &mut Vec<News>) {
        match finding {
            Finding::Peak { job, attempt, peak, settled } => {
                news.push(News::Tell(Input::PeakSeen { job, attempt, peak: Bytes(peak), settled }));
            }
            Finding::Returned { job, attempt, peak } => {
                if self.leaving.get(&job).is_some_and(|(exit, _)| exit.attempt == attempt)
                    && let Some((exit, ended)) = self.leaving.remove(&job)
                {
                    news.push(News::Exited { job, exit, ended, peak: peak.map(Bytes) });
                }
            }
            Finding::Held { gpu, pids, bytes } => {
                self.held.insert(gpu);
                let bytes = Bytes(bytes);
                let who = strangers::name_or_ghost(&pids, bytes);
                let because = if pids.is_empty() {
                    format!("{who}; `gpulane gpus` shows more")
                } else {
                    format!("{bytes} held by {who}")
                };
                news.push(News::Tell(Input::GpuHeld { gpu: GpuIndex::at(gpu), pids, bytes, because }));
            }
            Finding::Cleared { gpu } => {
                self.held.remove(&gpu);
                news.push(News::Tell(Input::GpuClear { gpu: GpuIndex::at(gpu) }));
            }
            Finding::Stray(pid) => news.push(News::Stray(pid)),
        }
    }

    fn grant(&mut self, gpu: usize, free: u64) -> News {
        let usable = self.standing.granted(gpu, Bytes(free));
        News::Tell(Input::GpuGranted { gpu: GpuIndex::at(gpu), usable })
    }

    /// Nothing can be seen any more: GPUs are handed out and taken back without a look.
    fn go_blind(&mut self, why: &str, news: &mut Vec<News>) {
        if std::mem::replace(&mut self.blind, true) {
            return;
        }
        news.push(News::Note(format!(
            "{why}. Going on without looking at the GPUs: no peaks, no wait for memory to come back"
        )));
        for gpu in std::mem::take(&mut self.held) {
            news.push(News::Tell(Input::GpuClear { gpu: GpuIndex::at(gpu) }));
        }
        for (job, (exit, ended)) in std::mem::take(&mut self.leaving) {
            news.push(News::Exited { job, exit, ended, peak: None });
        }
        for gpu in self.standing.asked() {
            news.push(self.grant(gpu, u64::MAX));
        }
        news.extend(self.reach_out());
    }
}

impl AsFd for Gpus {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
