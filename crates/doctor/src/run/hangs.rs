//! Jobs that froze or were ended by `hang.outside`, by what they were stuck in and what became of them, with the remedy and where the
//! stacks are.

use gpulane_model::{Attempt, FailReason, JobId, JobStatus, Stuck};

use super::groups::{by, named};
use super::story::{Hung, Story};
use super::telling::normal;
use crate::number::counted;
use crate::{Finding, Severity};

const TOPIC: &str = "hung";

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
        Some(((alike, is_overdue(story, job), outcome(story, job)), (job, stuck)))
    });
    by(froze).into_iter().map(|((_, _, outcome), jobs)| told(story, outcome, &jobs)).collect()
}

/// Whether a job is told here.
pub(super) fn is_told(story: &Story, job: JobId) -> bool {
    stuck(story, job).is_some()
}

/// What a job that froze or waited for too long was stuck in; `None` for one that did neither.
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
    // Its work was done before it was ended: it was only quiet.
    let was_done = |hung: &&Hung| hung.overdue && outcome(story, job) == Outcome::WentOn;
    story.hangs.get(&job).filter(|hung| !was_done(hung)).map(|hung| hung.stuck.clone()).or(failure)
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

/// Whether it was ended by `hang.outside`, without a proof that it froze.
fn is_overdue(story: &Story, job: JobId) -> bool {
    story.hangs.get(&job).is_some_and(|hung| hung.overdue)
}

/// Tries of a job that were ended for it.
fn hung_tries(story: &Story, job: JobId) -> impl Iterator<Item = Attempt> {
    let tries = story.failed_tries.iter();
    let hung = tries.filter(move |(of, _, failure)| *of == job && failure.reason == FailReason::Hang);
    hung.map(|(_, attempt, _)| *attempt)
}

/// What became of them, before what they were stuck in.
fn fate(story: &Story, outcome: Outcome, jobs: &[(JobId, Stuck)]) -> String {
    let was = if jobs.len() == 1 { "was" } else { "were" };
    let times: usize = jobs.iter().map(|(job, _)| hung_tries(story, *job).count()).sum();
    let again = times > jobs.len();
    let often = if again { format!(" {times} times") } else { String::new() };
    // The evidence says of the others that they waited for too long.
    let ended = if is_overdue(story, jobs[0].0) {
        format!("{was} ended{often}")
    } else {
        format!("froze{often}, {was} ended")
    };
    let later = if again { "a later" } else { "the next" };
    let is_worker = story.plan.stage_of(jobs[0].0).map.is_some();
    match outcome {
        Outcome::Hung => String::new(),
        Outcome::Overcome | Outcome::Again if is_worker => {
            let items = match items(story, jobs) {
                0 => String::new(),
                failed => format!("; {} failed by it", counted(failed, "item", "items")),
            };
            format!("{ended}, and a new worker took over{items}: ")
        }
        Outcome::Overcome => format!("{ended}, and went well at {later} try: "),
        Outcome::Again => format!("{ended}, to be tried again: "),
        Outcome::Otherwise => format!("{ended} before that: "),
        Outcome::WentOn => "froze for a while, and went on: ".to_owned(),
        Outcome::CutOff => format!("{was} stuck when the run stopped: "),
    }
}

/// How many items failed because workers froze over them.
fn items(story: &Story, jobs: &[(JobId, Stuck)]) -> usize {
    let over = |reason: &&String| jobs.iter().any(|(job, _)| names_a_hung_try(story, *job, reason));
    story.brought_down.iter().filter(over).count()
}

/// Whether the reason of an item names a try of the job that hung: "`gpulane logs RUN JOB --attempt 2` shows …".
fn names_a_hung_try(story: &Story, job: JobId, reason: &str) -> bool {
    let name = super::quoted(&story.plan.job_name(job));
    hung_tries(story, job).any(|attempt| reason.contains(&format!(" {name} --attempt {attempt}`")))
}

fn told(story: &Story, outcome: Outcome, jobs: &[(JobId, Stuck)]) -> Finding {
    let severity = if outcome == Outcome::Hung { Severity::Bad } else { Severity::Warning };
    let names: Vec<String> = jobs.iter().map(|(job, _)| story.plan.job_name(*job)).collect();
    let (first, stuck) = &jobs[0];
    let evidence = if stuck.evidence.is_empty() { "no sign of life" } else { &stuck.evidence };
    let seen = format!("{}: {}{evidence}", named(&names), fate(story, outcome, jobs));
    let mut finding = Finding::new(severity, TOPIC, seen);
    if let Some(cause) = &stuck.cause {
        finding = finding.because(cause);
    }
    if let Some(remedy) = &stuck.remedy {
        finding = finding.then(remedy);
    }
    // A journal may have lost what was seen, but not where the try ended.
    let attempt =
        story.hangs.get(first).map(|hung| hung.attempt).or_else(|| hung_tries(story, *first).last());
    let stacks = attempt.map(|attempt| story.dir.stacks_file(&story.plan, *first, attempt));
    if let Some(stacks) = stacks.filter(|path| path.exists()) {
        finding = finding.then(format!("less {}    # every thread's stack", super::shown(&stacks)));
    }
    if items(story, jobs) > 0 {
        let file = story.dir.map_dir(story.plan.stage_of(*first)).join("failed.jsonl");
        finding = finding.then(format!("less {}    # the items that failed", super::shown(&file)));
    }
    if let (Outcome::Hung, true, JobStatus::Running { pid, .. }) =
        (outcome, story.live, &story.state.job(*first).status)
    {
        finding = finding.then(format!("gpulane doctor {pid} --for 10s    # what it does now"));
    }
    finding.of(names)
}
