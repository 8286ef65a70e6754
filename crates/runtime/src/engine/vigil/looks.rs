//! Evidence: what the processes of a silent job are doing. Taken on a thread of its own each time, because reading about a
//! process that is stuck in the kernel can get stuck there, too; whoever asked goes on without it after a while.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use gpulane_core::Seen;
use gpulane_model::Stuck;
use gpulane_witness::{Change, Evidence, Known, ProcessEvidence, Surroundings};

/// How long evidence may take. Stacks of a process with hundreds of threads take a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(15);
/// At once, over all jobs: each look costs a core for a moment.
const MOST: usize = 2;
/// Looks that have not come back, over all jobs; beyond, none is begun.
const MOST_LOST: usize = 64;
/// What may be kept of all looks at an attempt, beside the newest.
const LONGEST: u64 = 1 << 20;

/// Who looks.
#[derive(Default)]
pub(super) struct Lookers {
    /// All looks that have not come back. One that takes longer than [`PATIENCE`] may never: then its processes are not looked at again
    /// while it is away, and others are as before.
    away: Vec<Away>,
}

/// A look that has not come back.
struct Away {
    begun: Instant,
    looker: Weak<()>,
    pids: Vec<u32>,
}

impl Away {
    fn is_lost(&self) -> bool {
        self.begun.elapsed() >= PATIENCE
    }
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
    /// The look does not come back.
    Never,
}

impl Lookers {
    /// Begins a look at these processes; it is added to `stacks` under `title`. `None`: others are being looked at. One that cannot come
    /// back is not begun, and has no answer.
    pub(super) fn look(&mut self, pids: Vec<u32>, stacks: PathBuf, title: String) -> Option<Look> {
        self.away.retain(|away| away.looker.strong_count() > 0);
        let (send, answer) = sync_channel(1);
        let begun = Instant::now();
        let lost = self.away.iter().filter(|away| away.is_lost());
        if lost.clone().any(|away| away.pids.iter().any(|pid| pids.contains(pid)))
            || lost.clone().count() >= MOST_LOST
        {
            return Some(Look { answer, begun });
        }
        if self.away.len() - lost.count() >= MOST {
            return None;
        }
        let alive = Arc::new(());
        let away = Away { begun, looker: Arc::downgrade(&alive), pids: pids.clone() };
        let look = move || {
            let evidence = gpulane_witness::take(&pids);
            // A full disk costs the file, not the verdict.
            let _ = keep(&stacks, &gpulane_witness::in_full(&evidence, &title));
            let _ = send.send(evidence);
            drop(alive);
        };
        std::thread::Builder::new().name("witness".into()).spawn(look).ok()?;
        self.away.push(away);
        Some(Look { answer, begun })
    }

    /// What came of a look.
    pub(super) fn answer(look: Look) -> Answer {
        match look.answer.try_recv() {
            Ok(evidence) => Answer::Here(evidence),
            Err(TryRecvError::Empty) if look.begun.elapsed() < PATIENCE => Answer::NotYet(look),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Answer::Never,
        }
    }
}

/// What two looks at the same processes tell, and in words what the job waits for: why that cannot come where it is frozen, what it is
/// where it may still come.
pub(super) fn compare(first: &Evidence, second: &Evidence, known: &Known) -> (Seen, Option<String>) {
    match gpulane_witness::compare(first, second, known) {
        Change::Frozen(proof) => (Seen::Frozen, Some(proof)),
        Change::Moved(_) => (Seen::Moved, None),
        Change::Unseen(why) => (Seen::Unreadable, Some(why)),
        Change::Waiting(what) => (Seen::Waiting, Some(what)),
        Change::Sleeping(what) => (Seen::Sleeping, Some(what)),
        Change::Stopped(_) => (Seen::Stopped, None),
    }
}

/// What two looks tell where some threads may turn out to only look.
pub(super) fn compare_in_doubt(
    first: &Evidence,
    second: &Evidence,
    mut known: Known,
    unknown: BTreeSet<u32>,
) -> (Seen, Option<String>) {
    let (seen, words) = compare(first, second, &known);
    known.followers.extend(unknown);
    let in_doubt = seen == Seen::Moved && compare(first, second, &known).0 != Seen::Moved;
    if in_doubt { (Seen::Doubtful, None) } else { (seen, words) }
}

/// Processes one thread of which may talk to somebody, or wake another again and again, while the main one does not go on; and those that
/// somebody may wake before the time limit of a wait is over.
pub(super) fn with_a_rhythm(evidence: &Evidence, seen: Seen) -> BTreeSet<u32> {
    let by_the_clock = |process: &ProcessEvidence| {
        let mut others = process.threads.iter().filter(|thread| thread.tid != process.pid);
        seen == Seen::Moved
            && others.any(|thread| thread.wait.as_ref().is_some_and(|wait| wait.timed == Some(true)))
    };
    let processes = evidence.processes.iter();
    let may = processes.filter(|process| {
        let timed = process
            .threads
            .iter()
            .any(|thread| thread.wait.as_ref().is_some_and(|wait| wait.timed == Some(true)));
        let talks = !process.descriptors.sockets.is_empty();
        if process.threads.len() > 1 { talks || by_the_clock(process) } else { talks && timed }
    });
    may.map(|process| process.pid).collect()
}

/// What they are stuck in, in words.
pub(super) fn words(evidence: &Evidence, around: &Surroundings) -> Stuck {
    gpulane_witness::diagnose(evidence, around)
}

/// Adds to the file; what jobs and their stacks hold is for their user alone.
pub(super) fn keep(stacks: &Path, text: &str) -> std::io::Result<()> {
    let mut file = gpulane_files::append(stacks)?;
    // A job that is quiet again and again, and lives, must not fill the disk.
    if file.metadata()?.len() > LONGEST {
        file.set_len(0)?;
        file.write_all(b"(earlier looks were removed)\n\n")?;
    }
    writeln!(file, "{text}")
}
