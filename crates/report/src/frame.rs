//! The picture at the bottom of a terminal: a bar for the run, a line per lane. Pure: data in, lines out.

use gpulane_model::{Counts, Millis};

use crate::map_words::is_lone;
use crate::maps::Progress;
use crate::palette::{Palette, Style};
use crate::text::{Drawn, Row, jobs, number, pad, plausible, plural, shorten, width};

/// Cells of a bar that is still worth drawing.
const SHORTEST_BAR: usize = 10;
/// A longer bar says nothing more.
const LONGEST_BAR: usize = 40;

/// GPUs in trouble that are named.
const TROUBLES: usize = 3;

/// Everything a frame shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// The plan's name.
    pub(crate) name: String,
    pub(crate) counts: Counts,
    /// All jobs.
    pub(crate) total: u32,
    /// Since the engine started.
    pub(crate) elapsed: Millis,
    /// Jobs per second.
    pub(crate) rate: Option<f64>,
    /// Time left.
    pub(crate) left: Option<Millis>,
    /// Why starts are held back.
    pub(crate) held: Option<String>,
    /// GPUs that cannot be used now, each in a sentence.
    pub(crate) troubles: Vec<(Style, String)>,
    /// Maps that have begun.
    pub(crate) maps: Vec<Progress>,
    /// Lanes to show, in order.
    pub(crate) lanes: Vec<LaneRow>,
    /// Columns of job names.
    pub(crate) name_columns: usize,
}

/// One lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneRow {
    /// `gpu 0`.
    pub(crate) label: String,
    /// What runs there now.
    pub(crate) job: Option<LaneJob>,
}

/// A job on a lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneJob {
    /// What it is called here: short enough already.
    pub(crate) name: String,
    pub(crate) style: Style,
    pub(crate) attempt: u32,
    pub(crate) elapsed: Millis,
    /// It shows no life: frozen, or only quiet.
    pub(crate) silence: Option<Silence>,
    /// For how long it has shown none, as far as is known.
    pub(crate) quiet: Millis,
    /// What it says of its progress; no escapes in it.
    pub(crate) text: String,
}

/// How a job without a sign of life is thought of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Left alone.
    Quiet,
    /// Not moving at all.
    Frozen,
}

impl Silence {
    pub(crate) const fn of(frozen: bool) -> Self {
        if frozen { Self::Frozen } else { Self::Quiet }
    }
}

/// The frame's lines for a terminal of this size. One column stays free, so that no line ever wraps.
pub(crate) fn render(frame: &Frame, palette: Palette, columns: usize, rows: usize) -> Vec<Drawn> {
    let columns = columns - 1;
    // A run that is one map has the map's bar for its own.
    let lone = frame.maps.iter().any(|map| map.lone);
    let mut drawn = if lone { Vec::new() } else { vec![run_row(frame, palette, columns)] };
    drawn.extend(frame.maps.iter().map(|map| map.row(palette, columns)));
    if let Some(because) = &frame.held {
        let mut row = Row::new(palette, columns);
        row.put(Style::Warn, "! no new starts: ").put(Style::Plain, because);
        drawn.push(row.done());
    }
    drawn.extend(trouble_rows(&frame.troubles, palette, columns));
    let most = (rows / 2).saturating_sub(1).max(1);
    let (shown, hidden) = choose_lanes(&frame.lanes, most);
    let label = shown.iter().map(|lane| width(&lane.label)).max().unwrap_or(0);
    let name = frame.name_columns;
    drawn.extend(shown.iter().map(|lane| lane_row(lane, palette, columns, label, name)));
    if !hidden.is_empty() {
        let busy = hidden.iter().filter(|lane| lane.job.is_some()).count();
        let lanes = if hidden.len() == 1 { "lane" } else { "lanes" };
        let mut row = Row::new(palette, columns);
        row.put(Style::Dim, &format!("+ {} more {lanes}, {busy} busy", hidden.len()));
        drawn.push(row.done());
    }
    drawn
}

/// The first GPUs in trouble, and how many more there are.
fn trouble_rows(troubles: &[(Style, String)], palette: Palette, columns: usize) -> Vec<Drawn> {
    let line = |style: Style, text: &str| {
        let mut row = Row::new(palette, columns);
        row.put(style, "! ").put(style, text);
        row.done()
    };
    let mut drawn: Vec<Drawn> =
        troubles.iter().take(TROUBLES).map(|(style, text)| line(*style, text)).collect();
    if let more @ 1.. = troubles.len().saturating_sub(TROUBLES) {
        drawn.push(line(Style::Warn, &format!("{} cannot be used now", plural(more, "more GPU"))));
    }
    drawn
}

/// Which lanes to show: all if they fit, else the busy ones first, in the order of lanes.
fn choose_lanes(lanes: &[LaneRow], most: usize) -> (Vec<&LaneRow>, Vec<&LaneRow>) {
    if lanes.len() <= most {
        return (lanes.iter().collect(), Vec::new());
    }
    // One line goes to "+ N more".
    let room = most.saturating_sub(1).max(1);
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by_key(|at| lanes[*at].job.is_none());
    let hidden = order.split_off(room);
    order.sort_unstable();
    (order.into_iter().map(|at| &lanes[at]).collect(), hidden.into_iter().map(|at| &lanes[at]).collect())
}

fn run_row(frame: &Frame, palette: Palette, columns: usize) -> Drawn {
    let counts = &frame.counts;
    let mut parts = vec![
        (0, Style::Bold, format!("{}/{}", number(counts.ended()), number(frame.total))),
        (
            2,
            Style::Bad,
            if counts.failed > 0 { format!("{} failed", number(counts.failed)) } else { String::new() },
        ),
        (
            3,
            Style::Warn,
            if counts.skipped > 0 { format!("{} skipped", number(counts.skipped)) } else { String::new() },
        ),
        (4, Style::Dim, frame.rate.map(rate_text).unwrap_or_default()),
        (1, Style::Plain, clock(frame.elapsed)),
        (1, Style::Plain, frame.left.map(|left| format!("about {} left", clock(left))).unwrap_or_default()),
    ];
    parts.retain(|(_, _, text)| !text.is_empty());
    let dot = palette.dot();
    let needed = |parts: &[(u8, Style, String)]| -> usize {
        parts.iter().map(|(_, _, text)| width(text) + width(dot)).sum::<usize>()
    };
    let mut name = shorten(&frame.name, columns / 4, palette.dots());
    // What matters least leaves first until a bar fits.
    while width(&name) + 1 + SHORTEST_BAR + 2 + needed(&parts) > columns {
        let least = parts.iter().map(|(rank, ..)| *rank).max().unwrap_or(0);
        if least == 0 {
            if name.is_empty() {
                break;
            }
            name.clear();
            continue;
        }
        if let Some(at) = parts.iter().rposition(|(rank, ..)| *rank == least) {
            parts.remove(at);
        }
    }
    let mut row = Row::new(palette, columns);
    if !name.is_empty() {
        row.put(Style::Bold, &name).put(Style::Plain, " ");
    }
    // The last dot is not drawn, hence its width back.
    let bar = (row.room() + width(dot)).saturating_sub(needed(&parts) + 2).min(LONGEST_BAR);
    put_bar(&mut row, palette, counts, frame.total, bar);
    row.put(Style::Plain, "  ");
    for (at, (_, style, text)) in parts.iter().enumerate() {
        if at > 0 {
            row.put(Style::Dim, dot);
        }
        row.put(*style, text);
    }
    row.done()
}

/// A bar of this many cells: succeeded, failed, skipped, to come.
pub(crate) fn put_bar(row: &mut Row, palette: Palette, counts: &Counts, total: u32, cells: usize) {
    let cell = |n: u32| -> usize {
        // 64 bits hold any product of a count and a terminal's width.
        let cells = u64::from(n) * cells as u64 / u64::from(total.max(1));
        usize::try_from(cells).unwrap_or(0)
    };
    // One failure in ten thousand must still be seen.
    let seen = |n: u32, room: usize| cell(n).max(usize::from(n > 0)).min(room);
    let mut failed = seen(counts.failed, cells);
    let mut skipped = seen(counts.skipped, cells - failed);
    let mut succeeded = cell(counts.succeeded).min(cells - failed - skipped);
    let mut empty = cells - succeeded - failed - skipped;
    if counts.ended() >= total && total > 0 {
        // What rounding left over goes to the largest part, never to one that is not there.
        let largest = counts.succeeded.max(counts.failed).max(counts.skipped);
        let rest = std::mem::take(&mut empty);
        match largest {
            n if n == counts.succeeded => succeeded += rest,
            n if n == counts.failed => failed += rest,
            _ => skipped += rest,
        }
    }
    row.put(Style::Good, &palette.full().repeat(succeeded))
        .put(Style::Bad, &palette.full_bad().repeat(failed))
        .put(Style::Warn, &palette.full_skipped().repeat(skipped))
        .put(Style::Dim, &palette.empty().repeat(empty));
}

fn lane_row(lane: &LaneRow, palette: Palette, columns: usize, label: usize, name: usize) -> Drawn {
    let mut row = Row::new(palette, columns);
    row.put(Style::Dim, &pad(&lane.label, label)).put(Style::Plain, "  ");
    let Some(job) = &lane.job else {
        row.put(Style::Dim, "idle");
        return row.done();
    };
    row.put(job.style, &pad(&job.name, name));
    row.put(Style::Plain, &format!("  {:>7}", clock(job.elapsed)));
    if job.attempt > 1 {
        row.put(Style::Warn, &format!("  try {}", job.attempt));
    }
    match job.silence {
        Some(Silence::Frozen) => row.put(Style::Bad, "  ! frozen"),
        Some(Silence::Quiet) => row.put(Style::Warn, &format!("  quiet for {}", clock(job.quiet))),
        None => &mut row,
    };
    if !job.text.is_empty() {
        row.put(Style::Plain, "  ").put(Style::Dim, &job.text);
    }
    row.done()
}

/// `210/s`, `4.2/s`, `3.1/min`.
pub(crate) fn rate_text(rate: f64) -> String {
    match rate {
        20.0.. => format!("{rate:.0}/s"),
        1.0.. => format!("{rate:.1}/s"),
        _ => format!("{:.1}/min", rate * 60.0),
    }
}

/// A duration that changes once a second, not at every frame.
pub(crate) fn clock(duration: Millis) -> String {
    match duration.0 / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        // A clock that was changed meanwhile tells nothing.
        _ => plausible(duration).map_or_else(|| "?".to_owned(), |duration| duration.to_string()),
    }
}

/// `13 jobs (train 12, evaluate 1)`: the run in one phrase.
pub(crate) fn extent(plan: &gpulane_model::Plan) -> String {
    if is_lone(plan) {
        return plural(plan.jobs.len(), "worker");
    }
    let total = jobs(u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX));
    if plan.stages.len() < 2 {
        return total;
    }
    let mut stages: Vec<String> = plan
        .stages
        .iter()
        .take(5)
        .map(|stage| format!("{} {}", stage.name, number(stage.jobs.end - stage.jobs.start)))
        .collect();
    if plan.stages.len() > 5 {
        stages.push(format!("and {}", plural(plan.stages.len() - 5, "more stage")));
    }
    format!("{total} ({})", stages.join(", "))
}
