//! Whether a map is still the one that began: its model's file as it was, its inputs with the items they had. What is cheap to know is
//! asked before anything is started; the rest by the feeder, before it gives anything to a worker.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use gpulane_items::{Opened, Wanted};
use gpulane_journal::RunDir;
use gpulane_model::{MapStage, Plan, StageId};
use gpulane_parts::PartsError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::placeholders::map_inputs;

/// Where it is kept what the map was made with.
const KEPT: &str = "map.json";

/// What a map was made with, kept beside its items.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Made {
    /// The model, as written.
    model: String,
    /// The size and checksum of its file.
    bytes: u64,
    crc32: u32,
    /// What it is made with.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

impl Made {
    /// As things are now; the error is for a person.
    fn now(map: &MapStage, base: &Path) -> Result<Self, String> {
        let file = map.model.rsplit_once(':').map_or(map.model.as_str(), |(file, _)| file);
        let path = base.join(file);
        let text = std::fs::read(&path)
            .map_err(|error| format!("cannot read the model {}: {error}", path.display()))?;
        let (model, args) = (map.model.clone(), map.args.clone());
        Ok(Self { model, bytes: text.len() as u64, crc32: crc32fast::hash(&text), args })
    }
}

/// What has changed in the maps of a run since they began: a sentence each. Maps that are not `due`, or have not begun, are not asked
/// about. Folders are looked through only for maps that are to be `reopened`: that forgets what failed, so it must not be found out
/// later that they must not go on. For others the feeder does it, while workers load their model.
pub fn changed_maps(
    dir: &RunDir,
    plan: &Plan,
    due: impl Fn(StageId) -> bool,
    reopened: impl Fn(StageId) -> bool,
) -> Vec<String> {
    let mut told = Vec::new();
    let base = Path::new(&plan.run.cwd);
    for (at, stage) in plan.stages.iter().enumerate() {
        let Some(map) = stage.map.as_ref().filter(|_| due(StageId::at(at))) else { continue };
        let folder = dir.map_dir(stage);
        match model_change(map, base, &folder) {
            Ok(change) => told.extend(change),
            Err(error) => told.push(error),
        }
        // What is damaged or cannot be read is the feeder's to say: it knows what to do about it.
        let Ok(Opened::List(list)) = gpulane_items::open(&folder) else { continue };
        let inputs = map_inputs(dir.root(), stage, map);
        let wanted = Wanted { inputs: &inputs, base, decode: map.decode };
        let changes = if reopened(StageId::at(at)) {
            gpulane_items::changes(&list, &wanted)
        } else {
            gpulane_items::changes_at_hand(&list, &wanted)
        };
        told.extend(changes.unwrap_or_default());
    }
    told
}

/// Why a map that is to be reopened cannot be, whatever has changed; the way out is in it.
pub fn unopenable_map(
    dir: &RunDir,
    plan: &Plan,
    reopened: impl Fn(StageId) -> bool,
    accept_changes: bool,
) -> Option<String> {
    let stages = plan.stages.iter().enumerate().filter(|(at, _)| reopened(StageId::at(*at)));
    let mut maps = stages.filter_map(|(_, stage)| Some((dir.map_dir(stage), stage.map.as_ref()?)));
    maps.find_map(|(folder, map)| match gpulane_items::open(&folder) {
        Ok(Opened::Damaged(what)) => Some(damaged_list(&what)),
        Ok(Opened::None) => Some(LIST_GONE.to_owned()),
        Ok(Opened::List(_)) | Err(_) => match gpulane_parts::check(&folder, map.format) {
            Err(PartsError::Lost { .. }) if accept_changes => None,
            Err(error) => Some(with_hint(&error)),
            Ok(()) => None,
        },
    })
}

/// The message that the items are not known any more, and what to do.
pub(super) const LIST_GONE: &str = "the list of items (items.list, items.json) is gone, but there are results of it: listed anew, \
    numbers would mean other items; restore it, or start a new map into another directory";

/// The message that the items are not known for certain, and what to do.
pub(super) fn damaged_list(what: &str) -> String {
    format!("the list of items is damaged: {what}; restore it, or start a new map into another directory")
}

fn with_hint(error: &PartsError) -> String {
    error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

/// What has changed in the model since the map began; nothing while there are no results it could be at odds with.
pub(super) fn model_change(map: &MapStage, base: &Path, dir: &Path) -> Result<Option<String>, String> {
    let Some(before) = kept(dir) else { return Ok(None) };
    let now = Made::now(map, base)?;
    if before == now || !has_results(dir)? {
        return Ok(None);
    }
    if before.args != now.args {
        let text = |args: &Map<String, Value>| serde_json::to_string(args).unwrap_or_default();
        let (before, now) = (text(&before.args), text(&now.args));
        return Ok(Some(format!("the model's arguments were {before}, now {now}")));
    }
    let file = map.model.rsplit_once(':').map_or(map.model.as_str(), |(file, _)| file);
    Ok(Some(format!("the model {} has changed", base.join(file).display())))
}

/// Keeps what the model is now.
pub(super) fn keep_model(map: &MapStage, base: &Path, dir: &Path) -> Result<(), String> {
    let now = Made::now(map, base)?;
    if kept(dir).as_ref() == Some(&now) {
        return Ok(());
    }
    let kept = dir.join(KEPT);
    write_whole(dir, &now).map_err(|error| format!("cannot write {}: {error}", kept.display()))
}

/// Durably: after a power cut, a map whose model has changed must not go on as if it had not.
fn write_whole(dir: &Path, made: &Made) -> io::Result<()> {
    let draft = dir.join(".map.json");
    let mut file = gpulane_files::create(&draft)?;
    file.write_all(&serde_json::to_vec(made)?)?;
    file.sync_all()?;
    std::fs::rename(&draft, dir.join(KEPT))?;
    File::open(dir)?.sync_all()
}

fn kept(dir: &Path) -> Option<Made> {
    gpulane_files::read(&dir.join(KEPT)).ok().and_then(|text| serde_json::from_slice(&text).ok())
}

fn has_results(dir: &Path) -> Result<bool, String> {
    let commits = gpulane_parts::read_commits(dir, 0).map_err(|error| error.to_string())?;
    Ok(commits.iter().any(|known| known.commit.rows > 0))
}

/// That it is another map, and in what.
pub fn not_the_same(changed: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut what: Vec<String> = changed.iter().take(SHOWN).cloned().collect();
    if let more @ 1.. = changed.len().saturating_sub(SHOWN) {
        what.push(format!("and {more} more"));
    }
    format!(
        "this is not the map it was when it began, so no item was given to any worker: {}",
        what.join("; ")
    )
}

/// How to go on all the same. `failed`: with what was asked for, the items that failed once more.
pub fn way_out(run: &Path, failed: bool) -> String {
    format!(
        "`gpulane resume {}{} --accept-changes` goes on with the items as they were listed and the model as it is now, results that \
         are there stay as they are; or start a new map into another --out",
        run.display(),
        if failed { " --failed" } else { "" },
    )
}
