//! Why jobs wait, grouped so that a hundred thousand of them fit on a screen.

use std::collections::HashMap;

use gpulane_core::Waiting;
use gpulane_model::{JobId, JobStatus};

use crate::phase::Snapshot;
use crate::text::{shell, shown};

/// Jobs of a stage that are asked about; the rest waits behind them. Asking costs a walk over the queue.
const ASKED: usize = 50;
/// The same when all are wanted.
pub(crate) const ASKED_ALL: usize = 1000;

/// Jobs that wait for the same thing.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The first of them.
    pub(crate) first: JobId,
    /// How many.
    pub(crate) jobs: u32,
    /// Why the first of them waits.
    pub(crate) because: String,
}

/// Why this job does not run.
pub(crate) fn because(of: &Snapshot<'_>, job: JobId) -> String {
    match of.core.and_then(|core| core.waiting(job)) {
        // One of one needs another word than four of six.
        Some(Waiting::Stage { stage, of: 1, .. }) => {
            format!("waits for stage {stage}: its job is still to end")
        }
        Some(waiting) => waiting.to_string(),
        None => unasked(of),
    }
}

/// The reason where nobody can be asked.
pub(crate) fn unasked(of: &Snapshot<'_>) -> String {
    match (of.live, of.core) {
        (false, _) if !of.dir.is_ours() => "interrupted".to_owned(),
        (false, _) => {
            format!("interrupted; `gpulane resume {}` continues", shell(&shown(of.dir.root())))
        }
        (true, Some(_)) => "behind these".to_owned(),
        (true, None) => "the engine is starting".to_owned(),
    }
}

/// Every waiting job, grouped by stage and reason.
pub(crate) fn waits(of: &Snapshot<'_>, all: bool) -> Vec<Wait> {
    let asked = if all { ASKED_ALL } else { ASKED };
    let mut waits = Vec::new();
    for stage in &of.plan.stages {
        let mut pending = stage.job_ids().filter(|job| of.state.job(*job).status == JobStatus::Pending);
        let mut groups: HashMap<String, usize> = HashMap::new();
        // Without an engine all wait for the same.
        let asked = if of.core.is_some() { asked } else { usize::MAX };
        for job in pending.by_ref().take(asked) {
            let because = because(of, job);
            // Behind the semicolon stands the job's place in line: not a reason of its own.
            let reason = because.split(';').next().unwrap_or_default().to_owned();
            let at = *groups.entry(reason).or_insert_with(|| {
                waits.push(Wait { first: job, jobs: 0, because });
                waits.len() - 1
            });
            waits[at].jobs += 1;
        }
        if let Some(first) = pending.next() {
            let jobs = 1 + u32::try_from(pending.count()).unwrap_or(u32::MAX - 1);
            waits.push(Wait { first, jobs, because: unasked(of) });
        }
    }
    waits
}
