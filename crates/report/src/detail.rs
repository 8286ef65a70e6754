//! `gpulane status RUN JOB`: one job, as text or JSON. What happened to it, what it said last, what to type next.

use gpulane_model::{JobId, JobStatus, Stuck};
use serde_json::{Value, json};

use crate::clean::safe;
use crate::lanes::lane_label;
use crate::last_words::{last_lines, last_words, log_of};
use crate::look::Look;
use crate::map_words::again;
use crate::palette::{Palette, Style};
use crate::phase::Snapshot;
use crate::standing::{Standing, standing};
use crate::status_json::{job_value, time};
use crate::text::{ago, fit, shell, shown};
use crate::watch_words::{set_in, stacks, suspicion, suspicion_facts};

/// Columns before what is said of a job.
const FACTS: usize = 12;

/// One job as text.
pub fn job_detail(of: &Snapshot<'_>, job: JobId, look: Look) -> String {
    let palette = Palette::new(&look);
    let name = of.plan.job_name(job);
    let stands = standing(of, job, true);
    let mut text =
        format!("{}: {}", palette.paint(Style::Bold, &name), palette.paint(stands.style, stands.word));
    match (&of.state.job(job).status, stands.took) {
        (JobStatus::Running { .. }, Some(took)) => text.push_str(&format!(" for {took}")),
        (JobStatus::Succeeded { .. }, Some(took)) => text.push_str(&format!(" in {took}")),
        (JobStatus::Failed(_), Some(took)) => text.push_str(&format!(" after {took}")),
        _ => {}
    }
    text.push('\n');
    for (what, fact) in facts(of, job, &stands) {
        let lines = set_in(&fact, FACTS, look.sentence().filter(|_| is_sentence(what)));
        let fact = lines.join("\n");
        text.push_str(&format!(
            "  {} {}\n",
            palette.paint(Style::Dim, &format!("{what:<9}")),
            fact.trim_start()
        ));
    }
    if stands.attempts > 0 {
        text.push_str(&said(of, job, palette));
    }
    for (what, command) in doctor(of, job).into_iter().chain(next(of, job, &name)) {
        text.push_str(&format!("\n{} {command}\n", palette.paint(Style::Dim, &format!("To {what}:"))));
    }
    text
}

/// Whether what stands behind this word may be broken between lines; paths and commands are there to be copied.
fn is_sentence(what: &str) -> bool {
    matches!(what, "why:" | "stuck:" | "quiet:" | "perhaps:" | "cause:" | "remedy:")
}

fn facts(of: &Snapshot<'_>, job: JobId, stands: &Standing) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    facts.extend(stands.why.as_ref().map(|why| ("why:", safe(why).into_owned())));
    if let JobStatus::Running { lane, pid, since } = &of.state.job(job).status {
        let since = ago(*since, of.now);
        facts.push(("where:", format!("{}, started {since}", lane_label(of.state.machine.as_ref(), *lane))));
        if of.live {
            facts.push(("process:", pid.to_string()));
        }
    }
    facts.extend(suspicion_facts(of, job));
    if let JobStatus::Failed(failure) = &of.state.job(job).status {
        facts.extend(failure.cause.as_deref().map(|cause| ("cause:", safe(cause).into_owned())));
        facts.extend(failure.remedy.as_deref().map(|remedy| ("remedy:", safe(remedy).into_owned())));
    }
    if stands.attempts > 0 {
        let allowed = of.plan.stage_of(job).retries;
        let retries = match allowed {
            0 => String::new(),
            1 => " (1 retry allowed)".to_owned(),
            _ => format!(" ({allowed} retries allowed)"),
        };
        facts.push(("tries:", format!("{}{retries}", stands.attempts)));
    }
    facts.extend(stands.peak.map(|peak| ("memory:", format!("{peak} of a GPU at most"))));
    if of.state.job(job).alone && of.state.job(job).status == JobStatus::Pending {
        facts.push(("next try:", "alone on its GPU".to_owned()));
    }
    let stuck = of.state.suspected.contains_key(&job) || stands.word == "failed";
    if let Some(stacks) = stacks(of.dir, of.plan, of.state, job).filter(|_| stuck) {
        facts.push(("stacks:", shown(&stacks)));
    }
    if matches!(of.state.job(job).status, JobStatus::Succeeded { .. }) {
        facts.push(("output:", shown(&of.dir.out_dir(of.plan, job))));
    }
    facts
}

/// The end of its log, and where that is.
fn said(of: &Snapshot<'_>, job: JobId, palette: Palette) -> String {
    let Some(log) = log_of(of.dir, of.plan, of.state, job) else {
        return format!("  {} it printed nothing\n", palette.paint(Style::Dim, &format!("{:<9}", "log:")));
    };
    let mut text = format!("  {} {}\n", palette.paint(Style::Dim, &format!("{:<9}", "log:")), shown(&log));
    let wall = palette.paint(Style::Dim, palette.wall());
    for line in last_words(&log) {
        text.push_str(&format!("  {wall} {}\n", fit(&line, 200, palette.dots())));
    }
    text
}

/// What to ask about a job that shows no life.
fn doctor(of: &Snapshot<'_>, job: JobId) -> Option<(&'static str, String)> {
    match (suspicion(of, job), &of.state.job(job).status) {
        (Some(_), JobStatus::Running { pid, .. }) => {
            Some(("see what it does now", format!("gpulane doctor {pid}")))
        }
        _ => None,
    }
}

fn next(of: &Snapshot<'_>, job: JobId, name: &str) -> Option<(&'static str, String)> {
    let (run, name) = (shell(&shown(of.dir.root())), shell(name));
    match &of.state.job(job).status {
        JobStatus::Running { .. } if of.live => Some(("follow it", format!("gpulane logs {run} {name} -f"))),
        JobStatus::Pending | JobStatus::Running { .. } if !of.live && of.dir.is_ours() => {
            Some(("go on", format!("gpulane resume {run}")))
        }
        JobStatus::Failed(_) | JobStatus::Skipped(_) if !of.live && of.dir.is_ours() => {
            Some(("try it again", again(of.state, &run)))
        }
        JobStatus::Succeeded { .. } | JobStatus::Failed(_)
            if log_of(of.dir, of.plan, of.state, job).is_some() =>
        {
            Some(("read all it printed", format!("gpulane logs {run} {name}")))
        }
        _ => None,
    }
}

/// One job as one line of JSON: what `status_json` tells of it, and its places on disk.
pub fn job_detail_json(of: &Snapshot<'_>, job: JobId) -> String {
    let mut value = job_value(of, job, &standing(of, job, true));
    let Value::Object(map) = &mut value else { return value.to_string() };
    if let JobStatus::Running { lane, pid, since } = &of.state.job(job).status {
        map.insert("place".to_owned(), lane_label(of.state.machine.as_ref(), *lane).into());
        map.insert("pid".to_owned(), of.live.then_some(*pid).into());
        map.insert("started".to_owned(), time(*since).into());
    }
    let suspected = suspicion(of, job).map(|it| {
        let Stuck { evidence, waits_for, proof, cause, remedy } = &it.stuck;
        let seen = time(it.time);
        json!({ "seen": seen, "quiet": it.quiet, "frozen": it.frozen, "evidence": evidence, "waits_for": waits_for, "proof": proof, "cause": cause, "remedy": remedy })
    });
    map.insert("suspected".to_owned(), suspected.into());
    map.insert("stacks".to_owned(), json!(stacks(of.dir, of.plan, of.state, job)));
    if let JobStatus::Succeeded { .. } = &of.state.job(job).status {
        map.insert("out".to_owned(), json!(of.dir.out_dir(of.plan, job)));
    }
    let log = log_of(of.dir, of.plan, of.state, job);
    map.insert("last_lines".to_owned(), log.as_deref().map(last_lines).into());
    map.insert("log".to_owned(), json!(log));
    value.to_string()
}
