//! Why jobs wait, grouped so that a hundred thousand of them fit on a screen.

use std::collections::HashMap;

use gpulane_core::Core;
use gpulane_model::{JobId, JobStatus, Plan, RunState};

/// Jobs of a stage that are asked about; the rest waits behind them. Asking costs a walk over the queue.
const ASKED: usize = 50;
/// The same when all are wanted.
const ASKED_ALL: usize = 1000;

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

/// Every waiting job, grouped by stage and reason.
pub(crate) fn waits(plan: &Plan, state: &RunState, core: Option<&Core>, all: bool) -> Vec<Wait> {
    let asked = if all { ASKED_ALL } else { ASKED };
    let mut waits = Vec::new();
    for stage in &plan.stages {
        let mut pending = stage.job_ids().filter(|job| state.job(*job).status == JobStatus::Pending);
        let mut groups: HashMap<String, usize> = HashMap::new();
        for job in pending.by_ref().take(asked) {
            let because = core
                .and_then(|core| core.waiting(job))
                .map_or_else(|| "no engine works on this run".to_owned(), |waiting| waiting.to_string());
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
            let because = if core.is_some() { "behind these" } else { "no engine works on this run" };
            waits.push(Wait { first, jobs, because: because.to_owned() });
        }
    }
    waits
}
