//! Evidence: what the processes of a silent job are doing. Taken on a thread of its own each time, because reading about a
//! process that is stuck in the kernel can get stuck there, too; whoever asked goes on without it after a while.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use gpulane_core::Seen;
use gpulane_model::Stuck;
use gpulane_witness::{Change, Evidence, Surroundings};

/// How long evidence may take. Stacks of a process with hundreds of threads take a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(15);
/// At once, over all jobs: each look costs a core for a moment.
const MOST: usize = 2;

/// Who looks.
#[derive(Clone, Default)]
pub(super) struct Lookers {
    busy: Arc<AtomicUsize>,
    /// Threads that were given up on; they may never come back.
    lost: usize,
}

/// A look under way.
pub(super) struct Look {
    answer: Receiver<Evidence>,
    begun: Instant,
}

/// What came of it.
pub(super) enum Answer {
    NotYet(Look),
    Here(Evidence),
    /// It does not come back.
    Never,
}

impl Lookers {
    /// Begins a look at these processes; it is added to `stacks` under `title`. `None`: others are being looked at.
    pub(super) fn look(&mut self, pids: Vec<u32>, stacks: PathBuf, title: String) -> Option<Look> {
        if self.busy.load(Ordering::Relaxed).saturating_sub(self.lost) >= MOST {
            return None;
        }
        let (send, answer) = sync_channel(1);
        let busy = Arc::clone(&self.busy);
        busy.fetch_add(1, Ordering::Relaxed);
        let looker = move || {
            let evidence = gpulane_witness::take(&pids);
            // A full disk costs the file, not the verdict.
            let _ = keep(&stacks, &gpulane_witness::in_full(&evidence, &title));
            let _ = send.send(evidence);
            busy.fetch_sub(1, Ordering::Relaxed);
        };
        let begun = Instant::now();
        if std::thread::Builder::new().name("witness".into()).spawn(looker).is_err() {
            self.busy.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Look { answer, begun })
    }

    /// What came of a look.
    pub(super) fn answer(&mut self, look: Look) -> Answer {
        match look.answer.try_recv() {
            Ok(evidence) => Answer::Here(evidence),
            Err(TryRecvError::Empty) if look.begun.elapsed() < PATIENCE => Answer::NotYet(look),
            Err(TryRecvError::Empty) => {
                self.lost += 1;
                Answer::Never
            }
            // It panicked, and was never counted down.
            Err(TryRecvError::Disconnected) => {
                self.busy.fetch_sub(1, Ordering::Relaxed);
                Answer::Never
            }
        }
    }
}

/// What two looks at the same processes tell.
pub(super) fn compare(first: &Evidence, second: &Evidence) -> Seen {
    match gpulane_witness::compare(first, second) {
        Change::Frozen => Seen::Frozen,
        Change::Moved(_) => Seen::Moved,
        Change::Sleeping(_) => Seen::Sleeping,
        Change::Stopped(_) => Seen::Stopped,
    }
}

/// What they are stuck in, in words.
pub(super) fn words(evidence: &Evidence, around: &Surroundings) -> Stuck {
    gpulane_witness::diagnose(evidence, around)
}

/// Adds to the file; what jobs and their stacks hold is for their user alone.
pub(super) fn keep(stacks: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(stacks)?;
    file.write_all(text.as_bytes())
}
