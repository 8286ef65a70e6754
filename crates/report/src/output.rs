//! What the jobs of a run print: the tails of all running jobs, each line handed out whole and with its owner.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;
use std::sync::Arc;

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, JobId, Plan};

use crate::lines::LIVE_LINE;
use crate::tail::{Found, Limits, Tail};

/// Limits of live views.
pub(crate) const LIVE: Limits = Limits { line: LIVE_LINE, behind: 1 << 20 };
/// Read of one log in one look.
const PER_LOG: usize = 256 * 1024;
/// Read of all logs in one look.
const PER_LOOK: usize = 4 << 20;

/// Which of a job's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Something a job printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) job: JobId,
    pub(crate) stream: Stream,
    pub(crate) found: Found<'a>,
    /// The log it is in.
    pub(crate) path: &'a Path,
}

/// Hears what jobs print.
pub(crate) type Hear<'a> = &'a mut dyn FnMut(Said<'_>);

/// The logs of the jobs that run now.
#[derive(Debug)]
pub(crate) struct Output {
    dir: RunDir,
    plan: Arc<Plan>,
    limits: Limits,
    tails: BTreeMap<JobId, (Attempt, [Tail; 2])>,
    /// The job looked at last: the next look starts behind it, so that a flood starves nobody.
    last: Option<JobId>,
    /// Read buffer, kept for all.
    chunk: Vec<u8>,
}

impl Output {
    pub(crate) fn new(dir: RunDir, plan: Arc<Plan>, limits: Limits) -> Self {
        Self { dir, plan, limits, tails: BTreeMap::new(), last: None, chunk: Vec::new() }
    }

    /// A job was started: its logs are followed from now on.
    pub(crate) fn start(&mut self, job: JobId, attempt: Attempt) {
        let tails = self.tails_of(job, attempt);
        self.tails.insert(job, (attempt, tails));
    }

    /// Leaves out what running jobs have printed so far, but for the last few lines.
    pub(crate) fn skip_to_end(&mut self, keep: u64) {
        for (_, tails) in self.tails.values_mut() {
            for tail in tails {
                tail.skip_to_end(keep);
            }
        }
    }

    /// Hands out what is new in all logs, within bounds.
    pub(crate) fn poll(&mut self, hear: Hear<'_>) {
        let from = self.last.map_or(Unbounded, Excluded);
        let behind: Vec<JobId> = self.tails.range((from, Unbounded)).map(|(job, _)| *job).collect();
        let order =
            behind.iter().copied().chain(self.tails.keys().copied().take(self.tails.len() - behind.len()));
        let mut budget = PER_LOOK;
        for job in order.collect::<Vec<_>>() {
            if budget == 0 {
                return;
            }
            budget = budget.saturating_sub(self.look(job, PER_LOG, hear));
            self.last = Some(job);
        }
    }

    /// Hands out all that is new of one job that still runs.
    pub(crate) fn poll_job(&mut self, job: JobId, hear: Hear<'_>) {
        while self.look(job, PER_LOG, hear) > 0 {}
    }

    fn look(&mut self, job: JobId, budget: usize, hear: Hear<'_>) -> usize {
        let Self { tails, chunk, .. } = self;
        let Some((_, tails)) = tails.get_mut(&job) else { return 0 };
        let mut read = 0;
        for (tail, stream) in tails.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            read += tail.poll(budget, chunk, &mut |found, path| hear(Said { job, stream, found, path }));
        }
        read
    }

    /// Whether this attempt is followed.
    pub(crate) fn follows(&self, job: JobId, attempt: Attempt) -> bool {
        self.tails.get(&job).is_some_and(|(followed, _)| *followed == attempt)
    }

    /// A job has ended: hands out the rest of what it printed and says how many bytes that was.
    pub(crate) fn end(&mut self, job: JobId, attempt: Attempt, hear: Hear<'_>) -> usize {
        let mut tails = match self.tails.remove(&job) {
            Some((followed, tails)) if followed == attempt => tails,
            _ => self.tails_of(job, attempt),
        };
        let mut read = 0;
        for (tail, stream) in tails.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            read += tail.finish(&mut self.chunk, &mut |found, path| hear(Said { job, stream, found, path }));
        }
        read
    }

    /// A job has ended and nobody needs the rest.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.tails.remove(&job);
    }

    /// Nobody works any more.
    pub(crate) fn forget_all(&mut self) {
        self.tails.clear();
    }

    /// Nothing more will be told of the jobs still running: hands out the rest of theirs.
    pub(crate) fn end_all(&mut self, hear: Hear<'_>) {
        let jobs: Vec<(JobId, Attempt)> =
            self.tails.iter().map(|(job, (attempt, _))| (*job, *attempt)).collect();
        for (job, attempt) in jobs {
            self.end(job, attempt, hear);
        }
    }

    /// The line a job is writing now, and whether it is a progress bar. Bars are usually on stderr.
    pub(crate) fn unfinished(&self, job: JobId) -> Option<(&[u8], bool)> {
        let (_, [stdout, stderr]) = self.tails.get(&job)?;
        stderr.unfinished().or_else(|| stdout.unfinished())
    }

    fn tails_of(&self, job: JobId, attempt: Attempt) -> [Tail; 2] {
        [
            Tail::new(self.dir.stdout_log(&self.plan, job, attempt), self.limits),
            Tail::new(self.dir.stderr_log(&self.plan, job, attempt), self.limits),
        ]
    }
}
