//! Why jobs of a live run wait, by reason.

use std::sync::Arc;

use gpulane_core::{Core, Waiting};
use gpulane_model::{JobId, JobStatus, Millis};

use super::groups::{by, named};
use super::story::Story;
use crate::{Finding, Severity};

const TOPIC: &str = "waiting";
/// Jobs of a stage that are asked about; the rest waits behind them. Asking costs a walk over the queue.
const ASKED: usize = 50;

pub(super) fn of(story: &Story, now: Millis) -> Vec<Finding> {
    let Some(machine) = story.state.machine.clone().filter(|_| story.live) else { return Vec::new() };
    let core = Core::observe_at(Arc::clone(&story.plan), machine, &story.state, now);
    let waiting = |job: &JobId| story.state.job(*job).status == JobStatus::Pending;
    let mut found = Vec::new();
    for stage in &story.plan.stages {
        let pending: Vec<JobId> = stage.job_ids().filter(waiting).collect();
        let asked = pending.iter().take(ASKED).filter_map(|job| Some((core.waiting(*job)?, *job)));
        let groups =
            by(asked.map(|(why, job)| ((reason(&why), severity(&why)), (why, story.plan.job_name(job)))));
        let behind = pending.len().saturating_sub(ASKED);
        let behind = if behind == 0 { String::new() } else { format!(" ({behind} more behind them)") };
        found.extend(groups.into_iter().map(|((reason, severity), jobs)| {
            let next = advice(&jobs[0].0);
            let names: Vec<String> = jobs.into_iter().map(|(_, name)| name).collect();
            let finding = Finding::new(severity, TOPIC, format!("{}{behind}: {reason}", named(&names)));
            next.into_iter().fold(finding, Finding::then).of(names)
        }));
    }
    found
}

/// The reason without the job's place in line, which stands behind the semicolon.
fn reason(waiting: &Waiting) -> String {
    waiting.to_string().split(';').next().unwrap_or_default().to_owned()
}

/// Waiting for one's turn is as it should be.
const fn severity(waiting: &Waiting) -> Severity {
    match waiting {
        Waiting::NoGpu { .. } => Severity::Bad,
        Waiting::Held { .. } | Waiting::Gpus { .. } => Severity::Warning,
        _ => Severity::Fine,
    }
}

fn advice(waiting: &Waiting) -> Option<&'static str> {
    match waiting {
        Waiting::NoGpu { .. } => {
            Some("memory = …, or gpus = …    # in the plan of a new run: what the machine has")
        }
        Waiting::Gpus { .. } => Some("gpulane gpus    # who has them"),
        _ => None,
    }
}
