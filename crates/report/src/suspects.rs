//! Jobs that show no life and are left alone, since nothing proves that they cannot go on: for how long, what they wait for, which
//! GPUs idle meanwhile, and what a person can do about it.

use gpulane_model::{GpuKind, JobId, JobStatus, Machine, Plan, RunState, Suspicion};

use crate::clean::safe;
use crate::phase::Snapshot;
use crate::text::{plural, seconds, shell, shown};
use crate::watch_words::suspicion;

/// How waits that are only told are given an end.
pub(crate) const LIMIT: &str = "`hang = { outside = \"1h\" }`, or `timeout`, in the plan";
/// Jobs named at the end.
const NAMED: usize = 3;

/// Running jobs that are told and left alone, in the plan's order.
pub(crate) fn suspects<'a>(of: &Snapshot<'a>) -> Vec<(JobId, &'a Suspicion)> {
    let left = |job: JobId| Some((job, suspicion(of, job).filter(|it| !it.frozen)?));
    let mut found: Vec<_> = of.state.suspected.keys().copied().filter_map(left).collect();
    found.sort_unstable_by_key(|(job, _)| *job);
    found
}

/// What a job that is left alone waits for, as far as is known.
pub(crate) fn waits_for(it: &Suspicion) -> String {
    safe(it.stuck.waits_for.as_deref().unwrap_or(&it.stuck.evidence)).into_owned()
}

/// `0.4 GPU-hours idle`; nothing where the job has no GPU.
pub(crate) fn idle(plan: &Plan, machine: Option<&Machine>, waits: &[(JobId, f64)]) -> Option<String> {
    if machine.is_none_or(|machine| machine.kind == GpuKind::None) {
        return None;
    }
    let hours: f64 =
        waits.iter().map(|(job, waited)| waited * f64::from(plan.stage_of(*job).gpus) / 3600.0).sum();
    match hours {
        0.1.. => Some(format!("{hours:.1} GPU-hours idle")),
        0.0 => None,
        _ => Some("less than 0.1 GPU-hours idle".to_owned()),
    }
}

/// What becomes of a job that nothing proves to be frozen.
pub(crate) fn fate(plan: &Plan, job: Option<JobId>) -> String {
    match job.and_then(|job| plan.stage_of(job).hang?.outside) {
        Some(outside) => format!("it is left alone until that has lasted for {outside} (`outside`)"),
        None => "it is left alone".to_owned(),
    }
}

/// What to do about such jobs, in the status of a run.
pub(crate) fn advice(of: &Snapshot<'_>, suspects: &[(JobId, &Suspicion)]) -> Vec<String> {
    let Some((job, _)) = suspects.first() else { return Vec::new() };
    let (run, name) = (shell(&shown(of.dir.root())), shell(&of.plan.job_name(*job)));
    let look = match of.state.job(*job).status {
        JobStatus::Running { pid, .. } => format!("gpulane doctor {pid}    # what it does now"),
        _ => return Vec::new(),
    };
    let limited = of.plan.stage_of(*job).hang.and_then(|hang| hang.outside);
    let end = match limited {
        Some(outside) => {
            format!("nothing proves that they cannot go on; `outside` ends them after {outside}")
        }
        None => format!(
            "nothing proves that they cannot go on, so they are left alone; to limit such waits: {LIMIT}"
        ),
    };
    let mut lines = vec![end];
    // Another user's process cannot be looked into, nor their run be ended: only root could, and knows how.
    if of.dir.is_ours() {
        lines.extend([look, format!("gpulane cancel {run} {name}    # end it")]);
    }
    lines
}

/// How long jobs waited in all without a sign of life and without a proof that they cannot go on, at the end of a run.
pub(crate) fn in_all(plan: &Plan, state: &RunState) -> Option<String> {
    let mut waits: Vec<(JobId, f64)> = state.waited.iter().map(|(job, waited)| (*job, *waited)).collect();
    if waits.is_empty() {
        return None;
    }
    waits.sort_unstable_by_key(|(job, _)| *job);
    let mut names: Vec<String> = waits.iter().take(NAMED).map(|(job, _)| plan.job_name(*job)).collect();
    if waits.len() > NAMED {
        names.push("…".to_owned());
    }
    let total = seconds(waits.iter().map(|(_, waited)| waited).sum());
    let idle =
        idle(plan, state.machine.as_ref(), &waits).map_or_else(String::new, |idle| format!(", {idle}"));
    let has_limit = |job: JobId| plan.stage_of(job).hang.as_ref().is_some_and(|hang| hang.outside.is_some());
    let limited = waits.iter().all(|(job, _)| has_limit(*job));
    let advice = if limited { String::new() } else { format!("; to limit such waits: {LIMIT}") };
    Some(format!(
        "{} waited for {total} without a sign of life{idle}, which was told: {}{advice}",
        plural(waits.len(), "job"),
        names.join(", ")
    ))
}
