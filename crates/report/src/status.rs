//! `gpulane status RUN`: where a run stands, what runs, what failed, and why the rest waits.

use gpulane_model::{Bytes, Counts, JobId, JobStatus, Measured, Millis, Stage, Suspicion};

use crate::clean::safe;
use crate::frame::put_bar;
use crate::gpu_words::gpu_troubles;
use crate::lanes::{lane_label, machine_text};
use crate::last_words::log_of;
use crate::look::Look;
use crate::map_words::{ONCE_MENDED, again, closing, fails_for_good, is_lone, maps_of};
use crate::maps::{Progress, maps};
use crate::pace::slot;
use crate::palette::{Palette, Style, job_style};
use crate::phase::{Phase, Snapshot, counts_now, took};
use crate::standing::{self, CUT_OFF, Standing, skips};
use crate::suspects;
use crate::table::{Cell, Table};
use crate::teller::{REASON, brief_failure};
use crate::text::{Row, ago, fit, jobs, lasted, number, plausible, seconds, shell, shown};
use crate::waits::waits;
use crate::watch_words::{suspicion, suspicion_text};

/// Lines of a section.
const SHOWN: usize = 20;
/// Columns of a map's line.
const COLUMNS: usize = 110;
/// Cells of a stage's bar.
const BAR: usize = 16;

/// The run as text. `all`: every job, however many lines that takes.
pub fn status(of: &Snapshot<'_>, look: Look, all: bool) -> String {
    let palette = Palette::new(&look);
    let mut text = header(of, palette);
    if !is_lone(of.plan) {
        text.push_str(&stages(of, palette));
    }
    text.push_str(&maps_text(of, palette));
    section(&mut text, "GPU memory of a job", memory(of), palette);
    if all {
        text.push_str(&every_job(of, palette));
    } else {
        let title = if of.live { "Running".to_owned() } else { format!("Were running: {CUT_OFF}") };
        section(&mut text, &title, running(of), palette);
        let told = suspects::suspects(of);
        section(&mut text, "Quiet", quiet(of, &told), palette);
        for line in suspects::advice(of, &told) {
            text.push_str(&format!("  {line}\n"));
        }
        section(&mut text, "Failed", failed(of, palette), palette);
        section(&mut text, "Skipped", skipped(of), palette);
        section(&mut text, "Waiting", waiting(of), palette);
    }
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
    let whole = took(phase, state.started, state.last, of.now);
    let since = state.last.map(|last| ago(last, of.now));
    match (phase, whole, since) {
        (Phase::Running | Phase::Waiting, Some(whole), _) => {
            line.push_str(&format!(" for {}", lasted(whole)));
        }
        (Phase::Starting, ..) => {}
        (_, Some(whole), Some(since)) => line.push_str(&format!(" after {}, {since},", lasted(whole))),
        _ => {}
    }
    if let (Phase::Running, Some(session)) =
        (phase, state.engine_started.filter(|at| Some(*at) != state.started))
    {
        line.push_str(&format!(" ({} since it was resumed)", lasted(of.now.since(session))));
    }
    if let Some(machine) = &state.machine {
        line.push_str(&format!(" on {}", machine_text(machine)));
    }
    line.push('\n');
    line.push_str(&format!("{}\n", palette.paint(Style::Dim, &shown(of.dir.root()))));
    let held = state.held.as_ref().filter(|_| of.live);
    for because in [held, state.interrupted.as_ref()].into_iter().flatten() {
        line.push_str(&format!("{} {}\n", palette.alert(), safe(because)));
    }
    let maps = if of.live { maps(of.dir, of.plan, state, of.now) } else { vec![] };
    for because in maps.iter().filter_map(Progress::held) {
        line.push_str(&format!("{} {}\n", palette.alert(), safe(because)));
    }
    for (style, trouble) in gpu_troubles(state, of.live) {
        line.push_str(&format!("{}\n", palette.paint(style, &format!("! {trouble}"))));
    }
    line
}

/// How many jobs of each stage stand where.
pub(crate) fn stage_counts(of: &Snapshot<'_>) -> Vec<Counts> {
    let count = |stage: &Stage| {
        let mut counts = Counts::default();
        for job in stage.job_ids() {
            *slot(&mut counts, &of.state.job(job).status) += 1;
        }
        counts_now(counts, of.live)
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
        rows.push(count_row("all", &counts_now(of.state.counts, of.live), palette));
    }
    let table = Table { titles: titles.map(str::to_owned).to_vec(), rows, indent: 2 };
    format!("\n{}", table.render(palette))
}

/// Maps: while they go on by their bar, afterwards by what they left.
fn maps_text(of: &Snapshot<'_>, palette: Palette) -> String {
    if maps_of(of.plan, of.state).next().is_none() {
        return String::new();
    }
    let lines: Vec<String> = if of.live {
        maps(of.dir, of.plan, of.state, of.now).iter().map(|map| map.row(palette, COLUMNS).text).collect()
    } else {
        let mut lines = Vec::new();
        closing(of.dir, of.plan, of.state, palette, &mut lines);
        lines
    };
    lines.iter().fold(String::from("\n"), |text, line| text + "  " + line + "\n")
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

/// What the jobs of each stage take, where it was measured.
fn memory(of: &Snapshot<'_>) -> Vec<Vec<Cell>> {
    let row = |(stage, measured): (&Stage, &Option<Measured>)| {
        let Measured { peak, reserve } = (*measured)?;
        let reserved = format!("{reserve} reserved for each");
        Some(vec![Cell::text(&*stage.name), Cell::text(format!("{peak} at most")), Cell::text(reserved)])
    };
    of.plan.stages.iter().zip(&of.state.measured).filter_map(row).collect()
}

/// Adds a section unless it is empty; rows beyond the first are counted.
fn section(text: &mut String, title: &str, mut rows: Vec<Vec<Cell>>, palette: Palette) {
    if rows.is_empty() {
        return;
    }
    let more = rows.len().saturating_sub(SHOWN);
    rows.truncate(SHOWN);
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
    let row = |(at, (job, label, since)): (usize, (JobId, String, Millis))| {
        let attempts = of.state.job(job).attempts;
        let elapsed = plausible(of.now.since(since)).filter(|_| of.live);
        let elapsed = elapsed.map(|elapsed| elapsed.to_string()).unwrap_or_default();
        vec![
            Cell::styled(Style::Dim, label),
            Cell::styled(job_style(at), of.plan.job_name(job)),
            Cell::number(Style::Plain, elapsed),
            Cell::styled(Style::Warn, if attempts > 1 { format!("try {attempts}") } else { String::new() }),
            Cell::styled(Style::Warn, suspected(of, job)),
        ]
    };
    running_jobs(of).into_iter().enumerate().map(row).collect()
}

/// Jobs that are told and left alone: for how long, what they wait for, what that costs.
fn quiet(of: &Snapshot<'_>, suspects: &[(JobId, &Suspicion)]) -> Vec<Vec<Cell>> {
    let row = |(job, it): &(JobId, &Suspicion)| {
        let lasted = it.lasted(of.now);
        let idle = suspects::idle(of.plan, of.state.machine.as_ref(), &[(*job, lasted)]);
        vec![
            Cell::text(of.plan.job_name(*job)),
            Cell::number(Style::Warn, seconds(lasted).to_string()),
            Cell::styled(Style::Warn, idle.unwrap_or_default()),
            Cell::text(suspects::waits_for(it)),
        ]
    };
    suspects.iter().map(row).collect()
}

/// Whether the job shows no life, as far as was last seen.
fn suspected(of: &Snapshot<'_>, job: JobId) -> String {
    suspicion(of, job).filter(|it| it.frozen).map(|it| suspicion_text(of, it)).unwrap_or_default()
}

/// Reasons are cut: the page of the job has them in full.
fn failed(of: &Snapshot<'_>, palette: Palette) -> Vec<Vec<Cell>> {
    let row = |job: JobId| match &of.state.job(job).status {
        JobStatus::Failed(failure) => Some(vec![
            Cell::text(of.plan.job_name(job)),
            Cell::styled(Style::Bad, brief_failure(of.state, job, failure, palette)),
            Cell::styled(Style::Dim, log_text(of, job)),
        ]),
        _ => None,
    };
    of.plan.job_ids().filter_map(row).collect()
}

/// Where a failed job's last words are.
fn log_text(of: &Snapshot<'_>, job: JobId) -> String {
    match log_of(of.dir, of.plan, of.state, job) {
        Some(log) => shown(&log),
        None if of.state.job(job).attempts > 0 => "it printed nothing".to_owned(),
        None => String::new(),
    }
}

fn skipped(of: &Snapshot<'_>) -> Vec<Vec<Cell>> {
    skips(of.plan, of.state).into_iter().map(|(why, jobs, first)| group(of, first, jobs, why)).collect()
}

fn waiting(of: &Snapshot<'_>) -> Vec<Vec<Cell>> {
    waits(of, false).into_iter().map(|wait| group(of, wait.first, wait.jobs, &wait.because)).collect()
}

/// `train/a  and 3 more  why`
fn group(of: &Snapshot<'_>, first: JobId, jobs: u32, why: &str) -> Vec<Cell> {
    let others = if jobs > 1 { format!("and {} more", number(jobs - 1)) } else { String::new() };
    vec![Cell::text(of.plan.job_name(first)), Cell::styled(Style::Dim, others), Cell::text(safe(why))]
}

/// Every job of the run, in the order of the plan. Memory has a column where any of it was measured.
fn every_job(of: &Snapshot<'_>, palette: Palette) -> String {
    let measured = of.plan.job_ids().any(|job| standing::peak(&of.state.job(job).status).is_some());
    let memory = |peak: Option<Bytes>| {
        let text = peak.map(|peak| peak.to_string()).unwrap_or_default();
        measured.then(|| Cell::number(Style::Plain, text))
    };
    let row = |(job, stands): (JobId, Standing)| {
        let tries = if stands.attempts > 0 { number(stands.attempts) } else { String::new() };
        let has_failed = stands.word == "failed";
        let log = if has_failed { log_text(of, job) } else { String::new() };
        let why = stands.why.unwrap_or_default();
        let why = if has_failed { fit(&safe(&why), REASON, palette.dots()) } else { safe(&why).into_owned() };
        let mut row = vec![
            Cell::text(of.plan.job_name(job)),
            Cell::styled(stands.style, stands.word),
            Cell::number(Style::Plain, stands.took.map(|took| took.to_string()).unwrap_or_default()),
            Cell::number(Style::Plain, tries),
        ];
        row.extend(memory(stands.peak));
        row.push(Cell::text(why));
        row.push(Cell::styled(Style::Dim, log));
        row
    };
    let mut titles = vec!["job", "state", "took", "tries"];
    titles.extend(measured.then_some("memory"));
    titles.extend(["why", ""]);
    let titles = titles.into_iter().map(str::to_owned).collect();
    let table = Table { titles, rows: standing::all(of).map(row).collect(), indent: 2 };
    format!("\n{}", table.render(palette))
}

fn next(of: &Snapshot<'_>, palette: Palette) -> String {
    let run = shell(&shown(of.dir.root()));
    let phase = Phase::of(of.state, of.live);
    let to_do = of.state.counts.pending + of.state.counts.running;
    let (what, command) = match phase {
        Phase::Starting | Phase::Running | Phase::Waiting => ("watch it", format!("gpulane watch {run}")),
        // What another user's journal advises is not for us to type.
        _ if !of.dir.is_ours() => return String::new(),
        Phase::Failed if fails_for_good(of.state) => ("have the rest", ONCE_MENDED.to_owned()),
        Phase::Failed => ("try what failed again", again(of.state, &run)),
        Phase::Succeeded => return String::new(),
        _ if phase.can_resume() => (
            // What a map has left is told in items, above.
            if to_do > 0 && !is_lone(of.plan) {
                &*format!("go on with the {} left", jobs(to_do))
            } else {
                "go on"
            },
            format!("gpulane resume {run}"),
        ),
        _ => return String::new(),
    };
    format!("\n{} {command}\n", palette.paint(Style::Dim, &format!("To {what}:")))
}
