//! Maps: items that failed, by reason, and maps that stopped. Items are no jobs: a map whose workers all did well may have
//! thousands of items that failed.

use gpulane_model::{MapState, Stage};
use gpulane_parts::Failure;

use super::groups::by;
use super::story::Story;
use super::telling;
use crate::Finding;
use crate::number::counted;

const ITEMS: &str = "items";
const MAP: &str = "map";
/// The most frequent reasons are told; what comes after them is seldom news.
const REASONS: usize = 5;
/// Failures read for them. A map may have millions, and the reasons repeat.
const READ: usize = 10_000;
/// A longer reason is cut.
const LONGEST: usize = 200;

/// Every map with items that failed, and every map that stopped.
pub(super) fn of(story: &Story) -> Vec<Finding> {
    let mut found = Vec::new();
    for (stage, known) in story.plan.stages.iter().zip(&story.state.maps) {
        let Some(known) = known else { continue };
        found.extend(stopped(story, stage, known));
        if known.failed > 0 {
            found.extend(items(story, stage));
        }
    }
    found
}

/// `embed: 3 of 400 items failed`, for every map where some did.
pub(super) fn counts(story: &Story) -> Vec<String> {
    let maps = story.plan.stages.iter().zip(&story.state.maps);
    let failed =
        maps.filter_map(|(stage, known)| Some((stage, known.as_ref().filter(|map| map.failed > 0)?)));
    let told = failed.map(|(stage, known)| {
        let all = known.items.map_or_else(String::new, |items| format!(" of {items}"));
        format!("{}: {}{all} items failed", stage.name, known.failed)
    });
    told.collect()
}

/// Why the map did not go on. The reason says what to do.
fn stopped(story: &Story, stage: &Stage, known: &MapState) -> Option<Finding> {
    let because = known.stopped.as_ref()?;
    let jobs = stage.job_ids().map(|job| story.plan.job_name(job)).collect();
    let finding = Finding::bad(MAP, format!("{} stopped: {because}", stage.name)).of(jobs);
    Some(known.advised().into_iter().fold(finding, Finding::then))
}

/// The items that failed, by reason. What the first of them tells of the file holds for all.
fn items(story: &Story, stage: &Stage) -> Vec<Finding> {
    let folder = story.dir.map_dir(stage);
    let failures = match gpulane_parts::first_failures(&folder, READ) {
        Ok(failures) => failures,
        Err(error) => {
            return vec![
                Finding::bad(ITEMS, format!("{}: {error}", stage.name))
                    .because("so their reasons are not known"),
            ];
        }
    };
    let read_all = failures.len() < READ;
    let groups = by(failures.into_iter().map(|failure| (kind(&failure.reason), failure)));
    let rest: usize = groups.iter().skip(REASONS).map(|(_, alike)| alike.len()).sum();
    let mut found: Vec<Finding> =
        groups.iter().take(REASONS).map(|(_, alike)| told(stage, alike, read_all)).collect();
    if rest > 0 {
        let (items, reasons) =
            (counted(rest, "item", "items"), counted(groups.len() - REASONS, "reason", "reasons"));
        found.push(Finding::bad(ITEMS, format!("{}: {items} for {reasons} more", stage.name)));
    }
    let file = super::shown(&folder.join("failed.jsonl"));
    if let Some(first) = found.first_mut() {
        first.next.push(format!("less {file}    # every item that failed, with its reason"));
    }
    found
}

/// Items that failed alike, with one of them as an example.
fn told(stage: &Stage, alike: &[Failure], read_all: bool) -> Finding {
    let count = counted(alike.len(), "item", "items");
    let among = if read_all { String::new() } else { format!(" of the first {READ} that failed") };
    let reason = gpulane_witness::shortened(&alike[0].reason, LONGEST);
    let finding = Finding::bad(ITEMS, format!("{}: {count}{among}: {reason}", stage.name));
    let item = gpulane_witness::shortened(&alike[0].item, LONGEST);
    finding.because(if alike.len() == 1 { format!("it is {item}") } else { format!("{item}, for example") })
}

/// What reasons of one kind have in common: the exception, or what stands before the first colon. What comes after it mostly
/// speaks of the item.
fn kind(reason: &str) -> String {
    telling::normal(reason.split(": ").next().unwrap_or(reason))
}
