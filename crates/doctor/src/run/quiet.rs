//! Jobs that show no life though nothing proves that they cannot go on: those that are quiet now, as `status` tells them, and
//! those that were quiet for a while.

use gpulane_model::{GpuKind, HangAction, JobId, JobStatus, Millis, Suspicion};

use super::groups::{by, named};
use super::story::Story;
use super::telling::normal;
use crate::Finding;

const TOPIC: &str = "quiet";
/// How waits are limited that nothing proves to be a freeze.
const LIMIT: &str =
    "hang = { outside = \"1h\" } in the plan, or timeout    # ends such waits; by default they are only told";
/// Jobs that are told one by one.
const TOLD: usize = 10;

/// A job that is quiet now.
struct Quiet<'a> {
    job: JobId,
    pid: u32,
    suspicion: &'a Suspicion,
}

/// Quiet jobs but for those that are told as frozen.
pub(super) fn of(story: &Story, is_frozen: impl Fn(JobId) -> bool, now: Millis) -> Vec<Finding> {
    let quiet: Vec<Quiet<'_>> = story.plan.job_ids().filter_map(|job| quiet_now(story, job)).collect();
    let mut found: Vec<Finding> = quiet.iter().take(TOLD).map(|it| told(story, it, now)).collect();
    // Once is enough.
    let unlimited = quiet.iter().take(TOLD).position(|it| limit(story, it.job).is_none());
    if let Some(first) = unlimited {
        found[first].next.push(LIMIT.to_owned());
    }
    if quiet.len() > TOLD {
        let names: Vec<String> = quiet[TOLD..].iter().map(|it| story.plan.job_name(it.job)).collect();
        let finding = Finding::warning(TOPIC, format!("{} more are quiet now", named(&names)));
        found.push(finding.then(format!("gpulane status {}    # all of them", story.shown)).of(names));
    }
    found.extend(before(story, |job| is_frozen(job) || quiet.iter().any(|it| it.job == job)));
    found
}

fn quiet_now(story: &Story, job: JobId) -> Option<Quiet<'_>> {
    let suspicion = story.state.suspected.get(&job).filter(|it| story.live && !it.frozen)?;
    let state = story.state.job(job);
    let is_being_ended = story.hangs.get(&job).is_some_and(|hung| hung.attempt.0 == state.attempts);
    match state.status {
        JobStatus::Running { pid, .. } if !is_being_ended => Some(Quiet { job, pid, suspicion }),
        _ => None,
    }
}

/// `hang.outside` of its stage.
fn limit(story: &Story, job: JobId) -> Option<Millis> {
    story.plan.stage_of(job).hang.and_then(|hang| hang.outside)
}

fn told(story: &Story, quiet: &Quiet<'_>, now: Millis) -> Finding {
    let (name, stage) = (story.plan.job_name(quiet.job), story.plan.stage_of(quiet.job));
    let (lasted, stuck) = (quiet.suspicion.lasted(now), &quiet.suspicion.stuck);
    // Negative and absurd values come to rest at the ends.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let shown = Millis((lasted * 1000.0) as u64);
    let hours = lasted * f64::from(stage.gpus) / 3600.0;
    let has_gpus = story.state.machine.as_ref().is_some_and(|machine| machine.kind != GpuKind::None);
    let idle = if has_gpus && hours >= 0.1 { format!(" ({hours:.1} GPU-hours idle)") } else { String::new() };
    let waits_for = stuck.waits_for.as_ref().unwrap_or(&stuck.evidence);
    let warns = stage.hang.is_some_and(|hang| hang.action == HangAction::Warn);
    let fate = match limit(story, quiet.job) {
        Some(outside) if warns => {
            format!("nothing proves that it cannot go on; after {outside} (`outside`) it is told again")
        }
        Some(outside) => format!("nothing proves that it cannot go on; `outside` ends it after {outside}"),
        None => "nothing proves that it cannot go on, so it is left alone".to_owned(),
    };
    Finding::warning(TOPIC, format!("{name} has been quiet for {shown}{idle}: {waits_for}"))
        .because(fate)
        .then(format!("gpulane doctor {}    # what it does now", quiet.pid))
        .then(format!("gpulane cancel {} {}    # end it", story.shown, super::quoted(&name)))
        .of(vec![name])
}

/// Jobs that were quiet and are no longer, by what they waited for.
fn before(story: &Story, is_told: impl Fn(JobId) -> bool) -> Vec<Finding> {
    let jobs = story.plan.job_ids().filter(|job| !is_told(*job));
    let quiet = jobs.filter_map(|job| {
        let stuck = story.quiet.get(&job)?;
        Some((normal(stuck.waits_for.as_ref().unwrap_or(&stuck.evidence)), (job, stuck)))
    });
    let told = by(quiet).into_iter().map(|(_, jobs)| {
        let names: Vec<String> = jobs.iter().map(|(job, _)| story.plan.job_name(*job)).collect();
        let were = if names.len() == 1 { "was" } else { "were" };
        let first = jobs[0].1;
        let seen = format!("{} {were} quiet for a while: {}", named(&names), first.evidence);
        let finding = Finding::fine(TOPIC, seen);
        match &first.waits_for {
            Some(what) => finding.because(what),
            None => finding,
        }
        .of(names)
    });
    told.collect()
}
