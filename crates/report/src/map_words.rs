//! What is said of maps: events in lines, and the last words.

use gpulane_journal::RunDir;
use gpulane_model::{Event, FailReason, Failure, JobId, MapStage, MapState, Plan, RunState, Stage};

use crate::clean::safe;
use crate::palette::{Palette, Style};
use crate::text::{fit, number, shell, shown};

/// Columns of the reason why a map stopped, in the line that says so.
const STOPPED: usize = 80;

/// A map's event in a line; `None`: it is no event of a map, or not worth one.
pub(crate) fn map_line(event: &Event, palette: Palette) -> Option<String> {
    Some(match event {
        Event::MapOpened { stage, items, settled, .. } => {
            let before = match settled {
                0 => String::new(),
                settled => format!(", {} of them done before", number(*settled)),
            };
            format!("{stage}: {}{before}", items_text(*items))
        }
        Event::ItemFailed { item, reason, .. } => {
            format!("{} {}: {}", palette.cross(), safe(item), safe(reason))
        }
        Event::MapFinished { stage, rows, failed, damaged, summary } => {
            let (sign, failed) = match failed {
                0 => (palette.tick(), String::new()),
                failed => (palette.cross(), format!(", {} failed", number(*failed))),
            };
            let results =
                if *rows == 1 { "1 result".to_owned() } else { format!("{} results", number(*rows)) };
            let damaged = damaged_text(*damaged).map(|text| format!(", {text}")).unwrap_or_default();
            format!("{sign} {stage}: {results}{damaged}{failed}; {}", safe(summary))
        }
        Event::MapStopped { stage, because } => {
            // The whole of it, with what to do, stands at the end.
            format!("{} {stage} stopped: {}", palette.cross(), fit(&safe(because), STOPPED, palette.dots()))
        }
        Event::MapReopened { stage } => format!("{stage}: items that failed are tried again"),
        Event::WorkerRestarted { job, because, .. } => {
            format!("{} {job} ended and is started again: {}", palette.again(), safe(because))
        }
        _ => return None,
    })
}

/// Whether a line about this job would say what the map's own lines say better: that a worker left when all was done, or ended and is
/// started again. One that is given up is told at the end.
pub(crate) fn is_told_by_map(event: &Event, state: &RunState, plan: &Plan) -> bool {
    let quiet = matches!(
        event,
        Event::JobSucceeded { .. }
            | Event::JobSkipped { .. }
            | Event::JobFailed { .. }
            | Event::JobRetrying { .. }
            | Event::JobRequeued { .. }
    );
    quiet && event.job().and_then(|job| state.find(job)).is_some_and(|job| plan.stage_of(job).map.is_some())
}

/// The maps of a run with what is known of them.
pub(crate) fn maps_of<'a>(
    plan: &'a Plan,
    state: &'a RunState,
) -> impl Iterator<Item = (&'a Stage, &'a MapStage, &'a MapState)> {
    let stages = plan.stages.iter().zip(&state.maps);
    stages.filter_map(|(stage, known)| Some((stage, stage.map.as_ref()?, known.as_ref()?)))
}

/// Whether the whole run is one map.
pub(crate) fn is_lone(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| stage.map.as_ref().is_some_and(|map| map.lone))
}

/// Items of all maps that failed.
pub(crate) fn items_failed(state: &RunState) -> u64 {
    state.maps.iter().flatten().fold(0, |all, map| all.saturating_add(map.failed))
}

/// The command that tries again what failed: what a map that stopped advises, since another may meet the same reason.
pub(crate) fn again(state: &RunState, run: &str) -> String {
    let advised = state.maps.iter().flatten().find_map(|map| map.advised());
    advised.map_or_else(|| format!("gpulane resume {run} --failed"), |command| safe(command).into_owned())
}

/// Whether nothing that failed can succeed with another try: every failure is of a folder, tar or row that the list of items has as
/// bad.
pub(crate) fn fails_for_good(state: &RunState) -> bool {
    let mut failing = state.maps.iter().flatten().filter(|map| map.failed > 0).peekable();
    state.counts.failed == 0 && failing.peek().is_some() && failing.all(MapState::fails_for_good)
}

/// What to do instead of another try.
pub(crate) const ONCE_MENDED: &str =
    "map what is mended, that folder or tar, by itself into another --out; this map keeps its list of items";

/// Whether the job failed for no other reason than that its map stopped, which is told of the map.
pub(crate) fn fell_with_its_map(plan: &Plan, state: &RunState, job: JobId, failure: &Failure) -> bool {
    let map = state.maps[plan.job(job).stage.index()].as_ref();
    failure.reason == FailReason::Stopped
        && map.is_some_and(|map| map.items.is_some() && map.stopped.is_some())
}

/// `1 item`, `40,000 items`.
pub(crate) fn items_text(items: u64) -> String {
    if items == 1 { "1 item".to_owned() } else { format!("{} items", number(items)) }
}

/// How many damaged pictures were used all the same, if any were.
pub(crate) fn damaged_text(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 damaged picture used".to_owned()),
        many => Some(format!("{} damaged pictures used", number(many))),
    }
}

/// How the maps of a run ended: a line each, and where their results are.
pub(crate) fn closing(
    dir: &RunDir,
    plan: &Plan,
    state: &RunState,
    palette: Palette,
    lines: &mut Vec<String>,
) {
    for (stage, map, known) in maps_of(plan, state) {
        let Some(items) = known.items else { continue };
        let place = shown(&dir.map_dir(stage));
        let sign = match (&known.finished, known.failed) {
            (Some(_), 0) => palette.tick(),
            (Some(_), _) => palette.cross(),
            (None, _) => palette.alert(),
        };
        let mut text =
            format!("{sign} {}: {} of {} have results", stage.name, number(known.rows), items_text(items));
        if let Some(damaged) = damaged_text(known.damaged) {
            text.push_str(&format!(", {damaged}"));
        }
        if known.failed > 0 {
            text.push_str(&format!(", {} failed", number(known.failed)));
        }
        let left = items.saturating_sub(known.rows.saturating_add(known.failed));
        if left > 0 {
            text.push_str(&format!(", {} to do", number(left)));
        }
        lines.push(text);
        let mut tell = |what: &str, text: String| {
            lines.push(format!("  {} {text}", palette.paint(Style::Dim, &format!("{what:<9}"))));
        };
        if let Some(summary) = &known.finished {
            tell("pace:", safe(summary).into_owned());
        }
        if known.rows > 0 {
            tell("results:", format!("{place}/part-*.{}", map.format.extension()));
        }
        if known.damaged > 0 {
            tell("damaged:", format!("{place}/damaged.jsonl"));
        }
        if known.failed > 0 {
            tell("failed:", format!("{place}/failed.jsonl"));
        }
        if let Some(because) = &known.stopped {
            tell("stopped:", safe(because).into_owned());
        }
    }
    if fails_for_good(state) {
        lines.push(format!("  {} {ONCE_MENDED}", palette.paint(Style::Dim, "mended:  ")));
    } else if items_failed(state) > 0 && state.counts.failed == 0 {
        let what = palette.paint(Style::Dim, "again:   ");
        lines.push(format!("  {what} {}", again(state, &shell(&shown(dir.root())))));
    }
}
