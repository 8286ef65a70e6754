//! A run: why jobs failed or wait, grouped by cause. Made from its journal and its jobs' logs; works on live, finished
//! and damaged runs.

mod causes;
mod failures;
mod groups;
mod hangs;
mod holds;
mod incidents;
mod maps;
mod quiet;
mod story;
mod telling;
mod waits;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_journal::RunDir;
use gpulane_model::Millis;

use crate::Finding;
use story::Story;

const TOPIC: &str = "run";

/// What is wrong with a run; one finding at least, which says how it stands.
pub fn run(dir: &RunDir) -> Vec<Finding> {
    let story = match Story::read(dir) {
        Ok(story) => story,
        Err(error) => {
            let finding = Finding::bad(TOPIC, error.to_string())
                .because("without its plan nothing can be said of a run");
            let hint = error.hint().filter(|_| dir.is_ours());
            return vec![hint.into_iter().fold(finding, Finding::then)];
        }
    };
    let now = now();
    let mut found = vec![standing(&story)];
    found.extend(incidents::of_the_run(&story));
    found.extend(holds::of(&story, now));
    found.extend(maps::of(&story));
    found.extend(failures::of(&story));
    found.extend(hangs::of(&story));
    found.extend(quiet::of(&story, |job| hangs::is_told(&story, job), now));
    found.extend(failures::skipped(&story));
    found.extend(failures::tried_again(&story));
    found.extend(incidents::of_jobs(&story));
    found.extend(waits::of(&story, now));
    if !dir.is_ours() {
        without_commands(dir, &mut found);
    }
    found
}

/// Another user's run: what its files say is told, but nothing of it as a command to copy.
fn without_commands(dir: &RunDir, found: &mut [Finding]) {
    for finding in found.iter_mut() {
        finding.next.clear();
    }
    let owner = std::fs::metadata(dir.root()).map(|found| gpulane_files::user_name(found.uid()));
    if let (Some(first), Ok(owner)) = (found.first_mut(), owner) {
        *first = std::mem::replace(first, Finding::fine(TOPIC, ""))
            .because(format!("it is {owner}'s run, and theirs to go on with"));
    }
}

/// How the run stands, in one line.
fn standing(story: &Story) -> Finding {
    let counts = story.state.counts;
    let all = story.plan.jobs.len();
    let mut parts = vec![format!("{} of {all} jobs succeeded", counts.succeeded)];
    let others = [
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (counts.running, "running"),
        (counts.pending, "waiting"),
    ];
    for (count, word) in others.into_iter().filter(|(count, _)| *count > 0) {
        // What an engine that is gone left running does not run.
        let word = if word == "running" && !story.live { "cut off" } else { word };
        parts.push(format!("{count} {word}"));
    }
    parts.extend(maps::counts(story));
    let live = if story.live { "live" } else { "not live" };
    let finding = Finding::fine(TOPIC, format!("{} ({live}): {}", story.shown, parts.join(", ")));
    // What fails by the list of items fails again however often it is tried.
    let items_failed = story.state.maps.iter().flatten().any(|map| map.failed > 0 && !map.fails_for_good());
    // A map that stopped has its own advice; this might meet the same reason again.
    let stopped = story.state.maps.iter().flatten().any(|map| map.advised().is_some());
    // A damaged journal is salvaged first, which is said there.
    let readable = story.damage.is_none();
    if (counts.failed + counts.skipped > 0 || items_failed) && !story.live && !stopped && readable {
        return finding
            .then(format!("gpulane resume {} --failed    # when the causes below are gone", story.shown));
    }
    finding
}

fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The path as a person here would type it.
pub(crate) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let short =
        here.and_then(|here| path.strip_prefix(here).ok()).filter(|short| !short.as_os_str().is_empty());
    quoted(&short.unwrap_or(path).display().to_string())
}

/// The word, quoted for a shell if it needs to be.
pub(crate) fn quoted(word: &str) -> String {
    gpulane_model::shell_word(word)
}
