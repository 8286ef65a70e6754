//! Jobs that hung or are suspected to, by what they were stuck in, with the remedy and where the stacks are.

use gpulane_model::{FailReason, JobId, JobStatus, Stuck};

use super::groups::{by, named};
use super::story::Story;
use super::telling::normal;
use crate::{Finding, Severity};

const TOPIC: &str = "hung";

pub(super) fn of(story: &Story) -> Vec<Finding> {
    let mut jobs: Vec<JobId> = story.hangs.keys().copied().collect();
    let unexplained = story.plan.job_ids().filter(|job| failed_by_hang(story, *job));
    jobs.extend(unexplained.filter(|job| !story.hangs.contains_key(job)).collect::<Vec<_>>());
    jobs.sort_unstable();
    let known = jobs.into_iter().map(|job| {
        let stuck = story.hangs.get(&job).map(|hung| hung.stuck.clone()).unwrap_or_default();
        let alike = stuck.cause.clone().unwrap_or_else(|| normal(&stuck.evidence));
        ((alike, severity(story, job)), (job, stuck))
    });
    by(known).into_iter().map(|((_, severity), jobs)| told(story, severity, &jobs)).collect()
}

/// Failed for good, or frozen now: bad. Tried again and well, or only suspected: worth knowing.
fn severity(story: &Story, job: JobId) -> Severity {
    let frozen = story.hangs.get(&job).is_some_and(|hung| hung.frozen);
    let running = story.live && matches!(story.state.job(job).status, JobStatus::Running { .. });
    if failed_by_hang(story, job) || frozen && running { Severity::Bad } else { Severity::Warning }
}

fn failed_by_hang(story: &Story, job: JobId) -> bool {
    matches!(&story.state.job(job).status, JobStatus::Failed(failure) if failure.reason == FailReason::Hang)
}

fn told(story: &Story, severity: Severity, jobs: &[(JobId, Stuck)]) -> Finding {
    let names: Vec<String> = jobs.iter().map(|(job, _)| story.plan.job_name(*job)).collect();
    let (first, stuck) = &jobs[0];
    let evidence = if stuck.evidence.is_empty() { "no sign of life" } else { &stuck.evidence };
    let mut finding = Finding::new(severity, TOPIC, format!("{}: {evidence}", named(&names)));
    if let Some(cause) = &stuck.cause {
        finding = finding.because(cause);
    }
    if let Some(remedy) = &stuck.remedy {
        finding = finding.then(remedy);
    }
    let stacks = story.hangs.get(first).map(|hung| story.dir.stacks_file(&story.plan, *first, hung.attempt));
    if let Some(stacks) = stacks.filter(|path| path.exists()) {
        finding = finding.then(format!("less {}    # every thread's stack", super::shown(&stacks)));
    }
    if let (true, JobStatus::Running { pid, .. }) = (story.live, &story.state.job(*first).status) {
        finding = finding.then(format!("gpulane doctor {pid} --for 10s    # what it does now"));
    }
    finding.of(names)
}
