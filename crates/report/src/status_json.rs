//! `gpulane status RUN --json`: the same as one JSON object. Names and numbers only, never a config or an
//! environment.

use std::time::{Duration, UNIX_EPOCH};

use gpulane_model::{Counts, JobId, JobStatus, MapStage, MapState, Millis, Stage};
use serde_json::{Value, json};

use crate::last_words::log_of;
use crate::map_words::maps_of;
use crate::phase::{Phase, Snapshot, counts_now, took};
use crate::standing::{self, Standing};
use crate::status::{running_jobs, stage_counts};
use crate::waits::waits;

/// The run as one line of JSON.
pub fn status_json(of: &Snapshot<'_>) -> String {
    let state = of.state;
    let stages: Vec<Value> = of
        .plan
        .stages
        .iter()
        .zip(stage_counts(of))
        .zip(&state.measured)
        .map(|((stage, counts), measured)| {
            let memory = measured.map(|found| json!({ "peak": found.peak, "reserve": found.reserve }));
            with_counts(json!({ "stage": stage.name, "memory": memory }), &counts)
        })
        .collect();
    // Where no engine works nothing runs, whatever the journal says.
    let running: Vec<Value> = running_jobs(of)
        .into_iter()
        .filter(|_| of.live)
        .map(|(job, place, since)| {
            json!({
                "job": of.plan.job_name(job),
                "attempt": state.job(job).attempts,
                "place": place,
                "seconds": of.now.since(since).as_seconds(),
            })
        })
        .collect();
    let failed: Vec<Value> = of
        .plan
        .job_ids()
        .filter_map(|job| match &state.job(job).status {
            JobStatus::Failed(failure) => Some(json!({
                "job": of.plan.job_name(job),
                "attempt": state.job(job).attempts,
                "reason": failure.reason.word(),
                "message": failure.describe(),
                "log": log_of(of.dir, of.plan, state, job),
            })),
            _ => None,
        })
        .collect();
    let waiting: Vec<Value> = waits(of, true)
        .into_iter()
        .map(|wait| json!({ "first": of.plan.job_name(wait.first), "jobs": wait.jobs, "because": wait.because }))
        .collect();
    let head = json!({
        "run": of.dir.root(),
        "name": of.plan.name,
        "state": Phase::of(state, of.live).word(),
        "live": of.live,
        "pid": of.live.then_some(state.engine_pid).flatten(),
        "started": state.started.map(time),
        "seconds": took(Phase::of(state, of.live), state.started, state.last, of.now).map(Millis::as_seconds),
        "last_event": state.last.map(time),
        "held": state.held,
        "quarantined": state.quarantined.iter().map(|(gpu, why)| json!({ "gpu": gpu, "why": why })).collect::<Vec<_>>(),
        "vram_held": state.vram_held.iter().map(|(gpu, why)| json!({ "gpu": gpu, "because": why })).collect::<Vec<_>>(),
        "interrupted": state.interrupted,
    });
    let jobs: Vec<Value> = standing::all(of).map(|(job, stands)| job_value(of, job, &stands)).collect();
    let mut whole = with_counts(head, &counts_now(state.counts, of.live));
    if let Value::Object(map) = &mut whole {
        map.insert("stages".to_owned(), stages.into());
        map.insert("maps".to_owned(), maps(of).into());
        map.insert("running_jobs".to_owned(), running.into());
        map.insert("failed_jobs".to_owned(), failed.into());
        map.insert("waiting_jobs".to_owned(), waiting.into());
        map.insert("jobs".to_owned(), jobs.into());
    }
    whole.to_string()
}

/// How far each map has come, as far as that is durable.
fn maps(of: &Snapshot<'_>) -> Vec<Value> {
    let value = |(stage, _, known): (&Stage, &MapStage, &MapState)| {
        json!({
            "stage": stage.name,
            "dir": of.dir.map_dir(stage),
            "items": known.items,
            "rows": known.rows,
            "failed": known.failed,
            "damaged": known.damaged,
            "finished": known.finished,
            "stopped": known.stopped,
        })
    };
    maps_of(of.plan, of.state).map(value).collect()
}

/// One job: `state` is `succeeded`, `failed`, `skipped`, `running`, `waiting` or `cut_off`; `reason` is the class of a
/// failure, else why it is skipped or waits.
pub(crate) fn job_value(of: &Snapshot<'_>, job: JobId, stands: &Standing) -> Value {
    let failure = match &of.state.job(job).status {
        JobStatus::Failed(failure) => Some(failure),
        _ => None,
    };
    let reason = failure.map(|failure| failure.reason.word()).or(stands.why.as_deref());
    let mut value = json!({
        "job": of.plan.job_name(job),
        "state": stands.word.replace(' ', "_"),
        "attempts": stands.attempts,
        "seconds": stands.took.map(Millis::as_seconds),
        "peak_vram": stands.peak,
        "reason": reason,
    });
    if let (Some(failure), Value::Object(map)) = (failure, &mut value) {
        map.insert("message".to_owned(), failure.describe().into());
        map.insert("code".to_owned(), failure.code.into());
        map.insert("signal".to_owned(), failure.signal.into());
    }
    value
}

fn with_counts(mut value: Value, counts: &Counts) -> Value {
    if let Value::Object(map) = &mut value {
        for (word, n) in [
            ("succeeded", counts.succeeded),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
            ("running", counts.running),
            ("waiting", counts.pending),
        ] {
            map.insert(word.to_owned(), n.into());
        }
    }
    value
}

/// RFC 3339 in UTC, as in events.
pub(crate) fn time(at: Millis) -> String {
    // The text form ends with the year 9999.
    let at = Duration::from_millis(at.0.min(253_402_300_799_999));
    humantime::format_rfc3339_millis(UNIX_EPOCH + at).to_string()
}
