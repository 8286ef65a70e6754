//! `gpulane status RUN`: where a run stands, what runs, what failed, and why the rest waits.

use gpulane_model::{Counts, JobId, JobStatus, Millis};

use crate::clean::safe;
use crate::frame::put_bar;
use crate::lanes::{lane_label, machine_text};
use crate::look::Look;
use crate::pace::slot;
use crate::palette::{Palette, Style, job_style};
use crate::phase::{Phase, Snapshot};
use crate::summary::log_of;
use crate::table::{Cell, Table};
use crate::teller::final_failure;
use crate::text::{Row, jobs, number, shell, shown};
use crate::waits::waits;

/// Lines of a section unless all are wanted.
const SHOWN: usize = 20;
/// Cells of a stage's bar.
const BAR: usize = 16;

/// The run as text. `all`: every job, however many lines that takes.
pub fn status(of: &Snapshot<'_>, look: Look, all: bool) -> String {
    let palette = Palette::new(&look);
    let most = if all { usize::MAX } else { SHOWN };
    let mut text = header(of, palette);
    text.push_str(&stages(of, palette));
    section(&mut text, "Running", running(of), most, palette);
    section(&mut text, "Failed", failed(of), most, palette);
    section(&mut text, "Waiting", waiting(of, all), most, palette);
    text.push_str(&next(of, palette));
    text
}

fn header(of: &Snapshot<'_>, palette: Palette) -> String {
    let phase = Phase::of(of.state, of.live);
    let state = of.state;
    let mut line = format!(
        "{}: {}",
        palette.paint(Style::Bold, &of.plan.name),
        palette.paint(phase.style(), phase.word())
    );
    match (phase, state.engine_started, state.last) {
        (Phase::Running, Some(start), _) => line.push_str(&format!(" for {}", of.now.since(start))),
        (Phase::Succeeded | Phase::Failed, Some(start), Some(last)) => {
            line.push_str(&format!(" after {}, {} ago", last.since(start), of.now.since(last)));
        }
        (Phase::Interrupted | Phase::Stopped, _, Some(last)) => {
            line.push_str(&format!(" {} ago", of.now.since(last)));
        }
        _ => {}
    }
    if let Some(machine) = &state.machine {
        line.push_str(&format!(" on {}", machine_text(machine)));
    }
    line.push('\n');
    line.push_str(&format!("{}\n", palette.paint(Style::Dim, &shown(of.dir.root()))));
    for because in [&state.held, &state.interrupted].into_iter().flatten() {
        line.push_str(&format!("{} {}\n", palette.alert(), safe(because)));
    }
    line
}

/// How many jobs of each stage stand where.
pub(crate) fn stage_counts(of: &Snapshot<'_>) -> Vec<Counts> {
    let count = |stage: &gpulane_model::Stage| {
        let mut counts = Counts::default();
        for job in stage.job_ids() {
            *slot(&mut counts, &of.state.job(job).status) += 1;
        }
        counts
    };
    of.plan.stages.iter().map(count).collect()
}

fn stages(of: &Snapshot<'_>, palette: Palette) -> String {
    let titles = ["stage", "", "done", "succeeded", "failed", "skipped", "running", "waiting"];
    let mut rows: Vec<Vec<Cell>> = of
        .plan
        .stages
        .iter()
        .zip(stage_counts(of))
        .map(|(stage, counts)| count_row(&stage.name, &counts, palette))
        .collect();
    if rows.len() > 1 {
        rows.push(count_row("all", &of.state.counts, palette));
    }
    let table = Table { titles: titles.map(str::to_owned).to_vec(), rows, indent: 2 };
    format!("\n{}", table.render(palette))
}

fn count_row(name: &str, counts: &Counts, palette: Palette) -> Vec<Cell> {
    let total = counts.ended() + counts.running + counts.pending;
    let mut bar = Row::new(palette, BAR);
    put_bar(&mut bar, palette, counts, total, BAR);
    let bar = bar.done();
    let count = |n: u32, style: Style| Cell::number(if n == 0 { Style::Dim } else { style }, number(n));
    vec![
        Cell::text(name),
        Cell::painted(bar.text, bar.width),
        Cell::number(Style::Plain, format!("{}/{}", number(counts.ended()), number(total))),
        count(counts.succeeded, Style::Good),
        count(counts.failed, Style::Bad),
        count(counts.skipped, Style::Warn),
        count(counts.running, Style::Plain),
        count(counts.pending, Style::Plain),
    ]
}

/// Adds a section unless it is empty; rows beyond `most` are counted.
fn section(text: &mut String, title: &str, mut rows: Vec<Vec<Cell>>, most: usize, palette: Palette) {
    if rows.is_empty() {
        return;
    }
    let more = rows.len().saturating_sub(most);
    rows.truncate(most);
    text.push_str(&format!("\n{}\n", palette.paint(Style::Bold, title)));
    text.push_str(&Table { titles: Vec::new(), rows, indent: 2 }.render(palette));
    if more > 0 {
        text.push_str(&format!("  {} and {more} more: add --all\n", palette.dots()));
    }
}

/// Jobs the journal says run: job, place, since when.
pub(crate) fn running_jobs(of: &Snapshot<'_>) -> Vec<(JobId, String, Millis)> {
    let mut found: Vec<(u32, JobId, String, Millis)> = of
        .plan
        .job_ids()
        .filter_map(|job| match of.state.job(job).status {
            JobStatus::Running { lane, since, .. } => {
                let mut label = lane_label(of.state.machine.as_ref(), lane);
                let gpus = of.plan.stage_of(job).gpus;
                if gpus > 1 {
                    label.push_str(&format!(" +{}", gpus - 1));
                }
                Some((lane.0, job, label, since))
            }
            _ => None,
        })
        .collect();
    found.sort_by_key(|(lane, job, ..)| (*lane, *job));
    found.into_iter().map(|(_, job, label, since)| (job, label, since)).collect()
}

fn running(of: &Snapshot<'_>) -> Vec<Vec<Cell>> {
    let row = |(job, label, since): (JobId, String, Millis)| {
        let name = of.plan.job_name(job);
        let attempts = of.state.job(job).attempts;
        let elapsed = if of.live { of.now.since(since).to_string() } else { "cut off".to_owned() };
        vec![
            Cell::styled(Style::Dim, label),
            Cell::styled(job_style(&name), name.as_str()),
            Cell::number(Style::Plain, elapsed),
            Cell::styled(Style::Warn, if attempts > 1 { format!("try {attempts}") } else { String::new() }),
        ]
    };
    running_jobs(of).into_iter().map(row).collect()
}

fn failed(of: &Snapshot<'_>) -> Vec<Vec<Cell>> {
    let row = |job: JobId| match &of.state.job(job).status {
        JobStatus::Failed(failure) => {
            let log = log_of(of.dir, of.plan, of.state, job).map(|log| shown(&log)).unwrap_or_default();
            Some(vec![
                Cell::text(of.plan.job_name(job)),
                Cell::styled(Style::Bad, final_failure(of.state, job, failure)),
                Cell::styled(Style::Dim, log),
            ])
        }
        _ => None,
    };
    of.plan.job_ids().filter_map(row).collect()
}

fn waiting(of: &Snapshot<'_>, all: bool) -> Vec<Vec<Cell>> {
    let row = |wait: crate::waits::Wait| {
        let others =
            if wait.jobs > 1 { format!("and {} more", number(wait.jobs - 1)) } else { String::new() };
        vec![
            Cell::text(of.plan.job_name(wait.first)),
            Cell::styled(Style::Dim, others),
            Cell::text(safe(&wait.because)),
        ]
    };
    waits(of.plan, of.state, of.core, all).into_iter().map(row).collect()
}

fn next(of: &Snapshot<'_>, palette: Palette) -> String {
    let run = shell(&shown(of.dir.root()));
    let phase = Phase::of(of.state, of.live);
    let to_do = of.state.counts.pending + of.state.counts.running;
    let (what, command) = match phase {
        Phase::Starting | Phase::Running => ("watch it", format!("gpulane watch {run}")),
        Phase::Failed => ("try what failed again", format!("gpulane resume {run} --failed")),
        Phase::Succeeded => return String::new(),
        _ if phase.can_resume() => (
            if to_do > 0 { &*format!("go on with the {} left", jobs(to_do)) } else { "go on" },
            format!("gpulane resume {run}"),
        ),
        _ => return String::new(),
    };
    format!("\n{} {command}\n", palette.paint(Style::Dim, &format!("To {what}:")))
}
