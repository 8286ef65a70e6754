//! Jobs that froze, by what they were stuck in and what became of them, with the remedy and where the stacks are; and
//! those that were only quiet.

use gpulane_model::{FailReason, JobId, JobStatus, Stuck};

use super::groups::{by, named};
use super::story::{Hung, Story};
use super::telling::normal;
use crate::{Finding, Severity};

const TOPIC: &str = "hung";
const QUIET: &str = "quiet";
/// How waits are limited that nothing proves to be a freeze.
const LIMIT: &str =
    "hang = { outside = \"1h\" } in the plan, or timeout    # ends such waits; by default they are only told";

/// What became of a job that froze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    /// Frozen now, or failed for good by it.
    Hung,
    /// Ended, and went well when it was tried again.
    Overcome,
    /// Ended, and will be tried again or is being tried.
    Again,
    /// Came to grief in another way, which is told there.
    Otherwise,
    /// Left alone, and went on to its end.
    WentOn,
    /// The run stopped before anything came of it.
    CutOff,
}

pub(super) fn of(story: &Story) -> Vec<Finding> {
    let froze = story.plan.job_ids().filter_map(|job| {
        let stuck = stuck(story, job)?;
        let alike = stuck.cause.clone().unwrap_or_else(|| normal(&stuck.evidence));
        Some(((alike, outcome(story, job)), (job, stuck)))
    });
    let told = by(froze).into_iter().map(|((_, outcome), jobs)| told(story, outcome, &jobs));
    told.chain(quiet(story)).collect()
}

/// What a job that froze was stuck in; `None` for one that did not.
fn stuck(story: &Story, job: JobId) -> Option<Stuck> {
    let failure = failed_by_hang(story, job).then(|| match &story.state.job(job).status {
        // A journal may have lost what was seen before.
        JobStatus::Failed(failure) => Stuck {
            evidence: failure.message.clone().unwrap_or_default(),
            cause: failure.cause.clone(),
            remedy: failure.remedy.clone(),
            ..Stuck::default()
        },
        _ => Stuck::default(),
    });
    story.hangs.get(&job).map(|hung| hung.stuck.clone()).or(failure)
}

fn outcome(story: &Story, job: JobId) -> Outcome {
    let Some(hung) = story.hangs.get(&job) else { return Outcome::Hung };
    let ended = was_ended(story, job, hung);
    match &story.state.job(job).status {
        JobStatus::Failed(failure) if failure.reason == FailReason::Hang => Outcome::Hung,
        JobStatus::Running { .. } if !ended && story.live => Outcome::Hung,
        JobStatus::Running { .. } if !ended => Outcome::CutOff,
        JobStatus::Running { .. } | JobStatus::Pending => Outcome::Again,
        JobStatus::Succeeded { .. } if ended => Outcome::Overcome,
        JobStatus::Succeeded { .. } => Outcome::WentOn,
        JobStatus::Failed(_) | JobStatus::Skipped(_) => Outcome::Otherwise,
    }
}

/// Whether the try that froze is over: it was ended, or a later one has begun.
fn was_ended(story: &Story, job: JobId, hung: &Hung) -> bool {
    let mut tries = story.failed_tries.iter();
    tries.any(|(other, attempt, _)| *other == job && *attempt == hung.attempt)
        || story.state.job(job).attempts > hung.attempt.0
}

fn failed_by_hang(story: &Story, job: JobId) -> bool {
    matches!(&story.state.job(job).status, JobStatus::Failed(failure) if failure.reason == FailReason::Hang)
}

/// What became of them, before what they were stuck in.
fn fate(outcome: Outcome, jobs: usize) -> String {
    let was = if jobs == 1 { "was" } else { "were" };
    match outcome {
        Outcome::Hung => String::new(),
        Outcome::Overcome => format!("froze, {was} ended, and went well at the next try: "),
        Outcome::Again => format!("froze, {was} ended, to be tried again: "),
        Outcome::Otherwise => "froze before that: ".to_owned(),
        Outcome::WentOn => "froze for a while, and went on: ".to_owned(),
        Outcome::CutOff => format!("{was} frozen when the run stopped: "),
    }
}

fn told(story: &Story, outcome: Outcome, jobs: &[(JobId, Stuck)]) -> Finding {
    let severity = if outcome == Outcome::Hung { Severity::Bad } else { Severity::Warning };
    let names: Vec<String> = jobs.iter().map(|(job, _)| story.plan.job_name(*job)).collect();
    let (first, stuck) = &jobs[0];
    let evidence = if stuck.evidence.is_empty() { "no sign of life" } else { &stuck.evidence };
    let seen = format!("{}: {}{evidence}", named(&names), fate(outcome, names.len()));
    let mut finding = Finding::new(severity, TOPIC, seen);
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
    if let (Outcome::Hung, true, JobStatus::Running { pid, .. }) =
        (outcome, story.live, &story.state.job(*first).status)
    {
        finding = finding.then(format!("gpulane doctor {pid} --for 10s    # what it does now"));
    }
    finding.of(names)
}

/// Jobs that showed no life for a while and were left alone, since nothing proved that they could not go on.
fn quiet(story: &Story) -> Option<Finding> {
    let quiet = |job: &JobId| stuck(story, *job).is_none() && story.quiet.contains_key(job);
    let jobs: Vec<JobId> = story.plan.job_ids().filter(quiet).collect();
    let first = &story.quiet[jobs.first()?];
    let names: Vec<String> = jobs.iter().map(|job| story.plan.job_name(*job)).collect();
    let were = if names.len() == 1 { "was" } else { "were" };
    let seen = format!("{} {were} quiet for a while: {}", named(&names), first.evidence);
    let finding = Finding::fine(QUIET, seen);
    let finding = match &first.waits_for {
        Some(what) => finding.because(format!("{what}; it is left alone")),
        None => finding,
    };
    let waits = story.live && jobs.iter().any(|job| story.state.suspected.contains_key(job));
    let finding = if waits { finding.then(LIMIT) } else { finding };
    Some(finding.of(names))
}
