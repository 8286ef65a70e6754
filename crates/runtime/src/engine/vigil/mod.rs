//! Watching over running jobs: do they live, are they done, are the CPUs full? From the reactor's side; what a silence
//! means is judged by the core's `Vigil`, what follows from a judgement is decided by the core.
//!
//! - `watchman`: the thread that goes round. It looks at `/proc` and at files, which may block, so nobody waits for it.
//! - `charge`: one job that is watched over.
//! - `job_tree`: which processes belong to a job, also those that left its tree.
//! - `signs`: the signs of life of a job's processes.
//! - `threads`: which threads of a process work, and which only look.
//! - `looks`: evidence, taken on threads of their own, and kept in `stacks.txt`.
//! - `last_words`: what Python adds to that when it is aborted.
//! - `marks`: what a job leaves to say that its work is done.
//! - `pressure`: whether the CPUs are saturated.

mod charge;
mod job_tree;
mod last_words;
mod looks;
mod marks;
mod naps;
mod pressure;
mod signs;
mod threads;
mod watchman;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::Instant;

use gpulane_core::Input;
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, GpuKind, JobId, Machine, Millis, Plan, StartGate};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Pid;

use super::gpus::Pulses;
use watchman::Watchman;

pub(super) use last_words::keep as keep_last_words;
pub(super) use pressure::Pressure;

/// What the reactor tells the thread.
enum Ask {
    /// A job that runs.
    Follow { job: JobId, attempt: Attempt, main: i32 },
    /// Its processes have ended; whether well, for what a stage's jobs normally show.
    Leave { job: JobId, well: bool },
}

/// The reactor's end of the watch.
pub(super) struct Vigils {
    mailbox: Arc<Mailbox>,
    thread: Thread,
    /// The thread does not come round any more, and that was said.
    given_up: bool,
}

/// How long the thread may take to come round. It looks at files, and a disk may hang.
const PATIENCE: Millis = Millis::seconds(60);

/// Whether starts are held while the CPUs are full.
pub(super) fn is_gated(plan: &Plan, machine: &Machine) -> bool {
    machine.kind != GpuKind::None
        && plan.stages.iter().any(|stage| stage.gpus > 0 && stage.start_gate == StartGate::Auto)
}

/// Between reactor and thread. Asking takes a lock that is never held for long, and wakes nobody: there may be thousands of
/// short jobs a second, and none of them is old enough to be looked at.
struct Mailbox {
    /// Unbounded, but emptied every second; nothing is put in once the thread is given up.
    asks: Mutex<Vec<Ask>>,
    /// A few for each job that is looked at.
    inputs: Mutex<Vec<Input>>,
    wake: OwnedFd,
    begun: Instant,
    /// When the thread last came round, in milliseconds since the beginning.
    pulse: AtomicU64,
}

impl Vigils {
    pub(super) fn start(
        dir: &RunDir,
        plan: &Arc<Plan>,
        machine: &Machine,
        pulses: Option<Arc<Pulses>>,
    ) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let mailbox = Arc::new(Mailbox {
            asks: Mutex::new(Vec::new()),
            inputs: Mutex::new(Vec::new()),
            wake,
            begun: Instant::now(),
            pulse: AtomicU64::new(0),
        });
        let watchman = Watchman::new(dir.clone(), Arc::clone(plan), machine, pulses, Arc::clone(&mailbox));
        let thread = std::thread::Builder::new().name("watchman".into()).spawn(move || watchman.run())?;
        Ok(Self { mailbox, thread: thread.thread().clone(), given_up: false })
    }

    /// Whether the thread has stopped coming round; said once.
    pub(super) fn has_fallen_silent(&mut self) -> bool {
        let pulse = Millis(self.mailbox.pulse.load(Ordering::Relaxed));
        let silent = self.mailbox.now().since(pulse) > PATIENCE;
        !std::mem::replace(&mut self.given_up, silent) && silent
    }

    /// A job started.
    pub(super) fn follow(&self, job: JobId, attempt: Attempt, main: Pid) {
        if self.given_up {
            return;
        }
        self.mailbox.ask(Ask::Follow { job, attempt, main: main.as_raw_nonzero().get() });
    }

    /// Its processes are gone.
    pub(super) fn leave(&self, job: JobId, well: bool) {
        if self.given_up {
            return;
        }
        self.mailbox.ask(Ask::Leave { job, well });
    }

    /// A job may have said that its work is done.
    pub(super) fn hurry(&self) {
        self.thread.unpark();
    }

    /// What was found, for the core.
    pub(super) fn take(&self) -> Vec<Input> {
        let _ = rustix::io::read(&self.mailbox.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.mailbox.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Vigils {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

impl Mailbox {
    fn now(&self) -> Millis {
        Millis(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn beat(&self) {
        self.pulse.store(self.now().0, Ordering::Relaxed);
    }

    fn ask(&self, ask: Ask) {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
    }

    fn asked(&self) -> Vec<Ask> {
        std::mem::take(&mut *self.asks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, input: Input) {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}
