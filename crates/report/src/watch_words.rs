//! Jobs that show no life, will not exit or leave something behind, in sentences.

use std::path::PathBuf;

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Event, JobId, Plan, RunState, Suspicion};

use crate::clean::safe;
use crate::palette::Palette;
use crate::phase::Snapshot;
use crate::suspects;
use crate::text::{ago, seconds, wrap};

/// The lines that tell such an event; none for all other events. `columns`: the terminal's, where there is one.
pub(crate) fn watch_lines(
    event: &Event,
    of: (&Plan, &RunState),
    palette: Palette,
    columns: Option<usize>,
) -> Vec<String> {
    let alert = palette.alert();
    match event {
        Event::HangSuspected { job, frozen, overdue, stuck, .. } => {
            // How long is part of the evidence.
            let how = match (frozen, overdue) {
                (true, _) => "is frozen",
                (false, true) => "has waited for longer than `hang.outside` allows",
                (false, false) => "is quiet",
            };
            let line = format!("{alert} {job} {how}: {}", safe(&stuck.evidence));
            let told = stuck.waits_for.as_deref().filter(|_| !overdue);
            let told = told.map(|what| format!("{}; {}", safe(what), suspects::fate(of.0, of.1.find(job))));
            let advice = advice(stuck.cause.as_deref(), stuck.remedy.as_deref(), palette);
            let proof = stuck.proof.as_deref().map(|proof| safe(proof).into_owned());
            let more = told.into_iter().chain(proof).chain(advice).flat_map(|it| set_in(&it, 4, columns));
            [line].into_iter().chain(more).collect()
        }
        Event::JobRevived { job, quiet, .. } => {
            vec![format!("{} {job} shows life again, after {}", palette.tick(), seconds(*quiet))]
        }
        Event::JobLingered { job, because, .. } => {
            vec![format!("{alert} {job} {}; it counts as succeeded", safe(because))]
        }
        Event::ProcessesLeft { job, count, who } => {
            let them = processes(*count as usize);
            let who = if who.is_empty() { String::new() } else { format!(": {}", safe(&who.join(", "))) };
            vec![format!("{alert} {job} left {them} behind; ended{who}")]
        }
        Event::ProcessesStuck { job, pids, because } => {
            let them = processes(pids.len());
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            let them = format!("{them} of {job} ({})", pids.join(", "));
            vec![format!("{} {them} outlived SIGKILL: {}; the run goes on", palette.cross(), safe(because))]
        }
        _ => Vec::new(),
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{count} processes") }
}

/// `quiet for 10m 00s`
fn silence(frozen: bool, quiet: f64) -> String {
    format!("{} for {}", if frozen { "frozen" } else { "quiet" }, seconds(quiet))
}

/// `a lock held across a fork → start processes with spawn`
pub(crate) fn advice(cause: Option<&str>, remedy: Option<&str>, palette: Palette) -> Option<String> {
    match (cause.map(safe), remedy.map(safe)) {
        (Some(cause), Some(remedy)) => Some(format!("{cause} {} {remedy}", palette.leads_to())),
        (cause, remedy) => cause.or(remedy).map(std::borrow::Cow::into_owned),
    }
}

/// A sentence that stands further in, in as many lines as it takes on a terminal of this width.
pub(crate) fn set_in(text: &str, indent: usize, columns: Option<usize>) -> Vec<String> {
    let space = " ".repeat(indent);
    let lines = match columns {
        Some(columns) => wrap(text, columns.saturating_sub(indent)),
        None => vec![text.to_owned()],
    };
    lines.into_iter().map(|line| format!("{space}{line}")).collect()
}

/// What was last thought of a job that runs now.
pub(crate) fn suspicion<'a>(of: &Snapshot<'a>, job: JobId) -> Option<&'a Suspicion> {
    of.state.suspected.get(&job).filter(|_| of.live)
}

/// `quiet for 10m 00s, seen 12 s ago`: it may have come back to life since.
pub(crate) fn suspicion_text(of: &Snapshot<'_>, it: &Suspicion) -> String {
    format!("{}, seen {}", silence(it.frozen, it.quiet), ago(it.time, of.now))
}

/// What was last seen of such a job: a word each and what it stands for.
pub(crate) fn suspicion_facts(of: &Snapshot<'_>, job: JobId) -> Vec<(&'static str, String)> {
    let Some(it) = suspicion(of, job) else { return Vec::new() };
    if !it.frozen {
        let waits = [(job, it.lasted(of.now))];
        let idle = suspects::idle(of.plan, of.state.machine.as_ref(), &waits);
        let mut facts = vec![("quiet:", left_alone(of, job, it))];
        facts.extend(it.stuck.cause.as_deref().map(|cause| ("perhaps:", safe(cause).into_owned())));
        facts.extend(idle.map(|idle| ("costs:", idle)));
        return facts;
    }
    let mut facts = vec![
        ("life:", format!("none: {}", suspicion_text(of, it))),
        ("stuck:", safe(&it.stuck.evidence).into_owned()),
    ];
    facts.extend(it.stuck.proof.as_deref().map(|proof| ("proof:", safe(proof).into_owned())));
    facts.extend(it.stuck.cause.as_deref().map(|cause| ("cause:", safe(cause).into_owned())));
    facts.extend(it.stuck.remedy.as_deref().map(|remedy| ("remedy:", safe(remedy).into_owned())));
    facts
}

/// `sleeping in job.py:7, quiet for 12 s, seen 3 s ago; it sleeps; it is left alone`: no life was seen, and for a reason.
fn left_alone(of: &Snapshot<'_>, job: JobId, it: &Suspicion) -> String {
    let what = it.stuck.waits_for.as_deref().map_or_else(String::new, |what| format!("; {}", safe(what)));
    let (seen, fate) = (ago(it.time, of.now), suspects::fate(of.plan, Some(job)));
    format!("{}, seen {seen}{what}; {fate}", safe(&it.stuck.evidence))
}

/// Where what a job that was frozen did is written down, if it is.
pub(crate) fn stacks(dir: &RunDir, plan: &Plan, state: &RunState, job: JobId) -> Option<PathBuf> {
    let attempt = Attempt(state.job(job).attempts);
    Some(dir.stacks_file(plan, job, attempt)).filter(|file| file.exists())
}
