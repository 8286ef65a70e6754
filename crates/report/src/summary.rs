//! The last words of a run: what failed and why, what there is now, and what to type next.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;

use gpulane_journal::RunDir;
use gpulane_model::{Failure, JobId, JobStatus, Millis, Plan, RunState, Stage};

use crate::clean::safe;
use crate::last_words::{alike, last_words, log_of};
use crate::map_words::{self, is_lone, items_failed};
use crate::palette::{Palette, Style};
use crate::standing;
use crate::suspects;
use crate::teller::final_failure;
use crate::text::{fit, jobs, lasted, number, plural, shell, shown};
use crate::watch_words::{advice, set_in, stacks};

/// Different failures told in full.
const FAILURES: usize = 10;
/// Failures whose last lines are compared; of more, the rest is counted.
const COMPARED: usize = 1000;
/// Jobs named that failed in the same way.
const NAMED: usize = 3;
/// Reasons shown why jobs were skipped.
const REASONS: usize = 3;
/// Stages whose memory is told.
const STAGES: usize = 5;

/// How a view ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every job has ended.
    Finished,
    /// The run was interrupted and can be resumed.
    Interrupted,
    /// The engine is gone without a word.
    EngineDied {
        /// What is known of it, for a person.
        message: String,
    },
    /// Only the watching ends; the run goes on.
    Detached,
}

/// What a summary is made from.
pub(crate) struct Summed<'a> {
    pub(crate) dir: &'a RunDir,
    pub(crate) plan: &'a Plan,
    pub(crate) state: &'a RunState,
    pub(crate) palette: Palette,
    /// Only what went wrong.
    pub(crate) brief: bool,
    pub(crate) now: Millis,
    /// The terminal's, where there is one.
    pub(crate) columns: Option<usize>,
}

/// The summary, line by line.
pub(crate) fn lines(of: &Summed<'_>, end: &End) -> Vec<String> {
    let run = shell(&shown(of.dir.root()));
    let mut lines = Vec::new();
    if *end == End::Detached {
        if !of.brief {
            lines.push(format!("The run goes on. Look again: gpulane watch {run}"));
        }
        return lines;
    }
    failures(of, &run, &mut lines);
    skips(of, &mut lines);
    if let Some(waited) = suspects::in_all(of.plan, of.state) {
        lines.push(String::new());
        let line = format!("{} {waited}", of.palette.alert());
        lines.extend(set_in(&line, 0, of.columns));
    }
    let fine = *end == End::Finished && of.state.counts.failed == 0 && items_failed(of.state) == 0;
    if !(of.brief && fine) {
        closing(of, end, &run, &mut lines);
    }
    lines
}

fn failures(of: &Summed<'_>, run: &str, lines: &mut Vec<String>) {
    let failed = of.plan.job_ids().filter_map(|job| match &of.state.job(job).status {
        JobStatus::Failed(failure) => Some((job, &**failure)),
        _ => None,
    });
    let failed =
        failed.filter(|(job, failure)| !map_words::fell_with_its_map(of.plan, of.state, *job, failure));
    let failed: Vec<(JobId, &Failure)> = failed.collect();
    let mut more = failed.len();
    for fall in falls(of, &failed).into_iter().take(FAILURES) {
        more -= 1 + fall.others.len();
        lines.push(String::new());
        tell_fall(of, &fall, lines);
        lines.extend(others(of, &fall));
    }
    if more > 0 {
        lines.push(String::new());
        lines.push(format!("{} and {more} more failed: gpulane status {run} --all", of.palette.dots()));
    }
}

/// A failure, and who failed in the same way.
struct Fall<'a> {
    job: JobId,
    failure: &'a Failure,
    log: Option<PathBuf>,
    /// The last lines of that log.
    said: Vec<String>,
    others: Vec<JobId>,
}

/// The failures by what was their reason and what was said last, in the plan's order.
fn falls<'a>(of: &Summed<'_>, failed: &[(JobId, &'a Failure)]) -> Vec<Fall<'a>> {
    let mut falls: Vec<Fall<'a>> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    for (job, failure) in failed.iter().take(COMPARED) {
        let log = log_of(of.dir, of.plan, of.state, *job);
        let said = log.as_deref().map(last_words).unwrap_or_default();
        let same: Vec<String> = said.iter().map(|line| alike(line)).collect();
        match places.entry((failure.describe(), failure.cause.as_deref(), same)) {
            Entry::Occupied(place) => falls[*place.get()].others.push(*job),
            Entry::Vacant(place) => {
                place.insert(falls.len());
                falls.push(Fall { job: *job, failure, log, said, others: Vec::new() });
            }
        }
    }
    falls
}

fn tell_fall(of: &Summed<'_>, fall: &Fall<'_>, lines: &mut Vec<String>) {
    let Fall { job, failure, .. } = *fall;
    let name = of.palette.paint(Style::Bold, &of.plan.job_name(job));
    lines.push(format!("{} {name} {}", of.palette.cross(), final_failure(of.state, job, failure)));
    if of.state.job(job).attempts == 0 {
        return;
    }
    let advice = advice(failure.cause.as_deref(), failure.remedy.as_deref(), of.palette);
    lines.extend(advice.into_iter().flat_map(|advice| set_in(&advice, 2, of.columns)));
    if let Some(stacks) = stacks(of.dir, of.plan, of.state, job) {
        let what = of.palette.paint(Style::Dim, "where it was stuck:");
        lines.push(format!("  {what} {}", shown(&stacks)));
    }
    let Some(log) = &fall.log else {
        lines.push(format!("  {}", of.palette.paint(Style::Dim, "it printed nothing")));
        return;
    };
    for text in &fall.said {
        let wall = of.palette.paint(Style::Dim, of.palette.wall());
        lines.push(format!("  {wall} {}", fit(text, 200, of.palette.dots())));
    }
    lines.push(format!("  {}", of.palette.paint(Style::Dim, &shown(log))));
}

/// `and 29 others in the same way: train/seed=2, train/seed=3, train/seed=4, …`
fn others(of: &Summed<'_>, fall: &Fall<'_>) -> Option<String> {
    let count = fall.others.len();
    let mut names: Vec<String> = fall.others.iter().take(NAMED).map(|job| of.plan.job_name(*job)).collect();
    if count > NAMED {
        names.push(of.palette.dots().to_owned());
    }
    (count > 0).then(|| format!("  and {} in the same way: {}", plural(count, "other"), names.join(", ")))
}

fn skips(of: &Summed<'_>, lines: &mut Vec<String>) {
    if of.brief || of.state.counts.skipped == 0 {
        return;
    }
    let mut reasons = standing::skips(of.plan, of.state);
    // Workers that were not started any more: that is told of their map.
    let stopped =
        |because: &str| of.state.maps.iter().flatten().any(|map| map.stopped.as_deref() == Some(because));
    reasons.retain(|(because, ..)| !stopped(because));
    if reasons.is_empty() {
        return;
    }
    lines.push(String::new());
    for (because, n, first) in reasons.iter().take(REASONS) {
        let who = if *n == 1 { of.plan.job_name(*first) } else { jobs(*n) };
        lines.push(format!("{} {who} skipped: {}", of.palette.skip(), safe(because)));
    }
    if reasons.len() > REASONS {
        lines.push(format!("{} and {}", of.palette.dots(), plural(reasons.len() - REASONS, "more reason")));
    }
}

fn closing(of: &Summed<'_>, end: &End, run: &str, lines: &mut Vec<String>) {
    lines.push(String::new());
    map_words::closing(of.dir, of.plan, of.state, of.palette, lines);
    if is_lone(of.plan) && *end == End::Finished && of.state.counts.failed == 0 {
        return;
    }
    let counts = of.state.counts;
    let total = u32::try_from(of.plan.jobs.len()).unwrap_or(u32::MAX);
    let took = session(of);
    let to_do = counts.pending + counts.running;
    match end {
        End::Interrupted if is_lone(of.plan) => {
            lines.push(format!("{} Interrupted after {took}.", of.palette.alert()));
        }
        End::Interrupted => lines.push(format!(
            "{} Interrupted after {took}: {} of {} done, {} to go.",
            of.palette.alert(),
            number(counts.ended()),
            jobs(total),
            number(to_do)
        )),
        End::EngineDied { message } => {
            lines.push(format!("{} the run broke off: {}", of.palette.cross(), safe(message)));
            lines.push(format!(
                "  {} of {} done, {} to go.",
                number(counts.ended()),
                jobs(total),
                number(to_do)
            ));
        }
        // The engine came to an end that it could not record.
        End::Finished if to_do > 0 => lines.push(format!(
            "{} The run has ended, but not all of it could be recorded: {} of {} are known to have ended.",
            of.palette.alert(),
            number(counts.ended()),
            jobs(total)
        )),
        End::Finished | End::Detached => {
            let (sign, text) = if counts.ended() == counts.succeeded {
                (of.palette.tick(), format!("{} succeeded in {took}", jobs(counts.succeeded)))
            } else {
                let mut parts = vec![format!("{} succeeded", number(counts.succeeded))];
                for (n, word) in [(counts.failed, "failed"), (counts.skipped, "skipped")] {
                    if n > 0 {
                        parts.push(format!("{} {word}", number(n)));
                    }
                }
                let sign = if counts.failed > 0 { of.palette.cross() } else { of.palette.skip() };
                (sign, format!("{} of {} in {took}", parts.join(", "), jobs(total)))
            };
            lines.push(format!("{sign} {text}{}{}", warm(of), lingered(of)));
        }
    }
    next(of, end, run, lines);
}

/// `, 12 from a standby`
fn warm(of: &Summed<'_>) -> String {
    match of.state.warm {
        0 => String::new(),
        n => format!(", {} from a standby", number(n)),
    }
}

/// ` (2 did their work but did not exit as they should)`
fn lingered(of: &Summed<'_>) -> String {
    match of.state.lingered {
        0 => String::new(),
        1 => " (1 did its work but did not exit as it should)".to_owned(),
        n => format!(" ({} did their work but did not exit as they should)", number(n)),
    }
}

/// `12 s`; after a resume `12 s (1h 03m since the run began)`.
fn session(of: &Summed<'_>) -> String {
    let until = of.state.last.unwrap_or(of.now);
    let took = |since: Option<Millis>| since.map_or(Millis(0), |start| until.since(start));
    let (session, whole) = (of.state.engine_started.or(of.state.started), of.state.started);
    if session == whole {
        lasted(took(whole))
    } else {
        format!("{} ({} since the run began)", lasted(took(session)), lasted(took(whole)))
    }
}

fn next(of: &Summed<'_>, end: &End, run: &str, lines: &mut Vec<String>) {
    let mut tell = |what: &str, text: String| {
        lines.push(format!("  {} {text}", of.palette.paint(Style::Dim, &format!("{what:<9}"))));
    };
    if of.state.counts.succeeded > 0 && !of.brief && !is_lone(of.plan) {
        tell("outputs:", format!("{}/jobs/STAGE/NAME/out", shown(of.dir.root())));
    }
    let peaks = peaks(of);
    if !peaks.is_empty() && !of.brief {
        tell("memory:", format!("a job held at most: {}", peaks.join(", ")));
    }
    let failed = of.state.counts.failed > 0;
    if !of.dir.is_ours() {
        return;
    }
    match end {
        End::Finished if failed => tell("again:", map_words::again(of.state, run)),
        End::Finished | End::Detached => {}
        End::Interrupted | End::EngineDied { .. } => {
            tell("go on:", format!("gpulane resume {run}"));
            if failed {
                tell("", format!("gpulane resume {run} --failed   (also what failed)"));
            }
        }
    }
}

/// `train 0.9 GiB`: the most GPU memory a job of each stage held, where that was measured.
fn peaks(of: &Summed<'_>) -> Vec<String> {
    let most = |stage: &Stage| {
        let peak = stage.job_ids().filter_map(|job| standing::peak(&of.state.job(job).status)).max()?;
        Some(format!("{} {peak}", stage.name))
    };
    of.plan.stages.iter().filter_map(most).take(STAGES).collect()
}
