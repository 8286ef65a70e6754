//! Before anything is loaded: the list of items frozen or found again, the parts repaired; and if this is no longer the same map, no more
//! than that.

use std::io;
use std::path::{Path, PathBuf};

use gpulane_items::{ItemList, Lacking, Opened, Refused, Wanted};
use gpulane_journal::RunDir;
use gpulane_model::{FeederWord, MapStage, Stage};
use gpulane_parts::{Settled, Writer};

use super::orders::FeederOrders;
use super::sameness;
use super::tell::Telling;
use crate::placeholders::map_inputs;

/// A map: what to do, and with what.
pub(crate) struct Task {
    /// Its stage, with the number of workers in it.
    pub(crate) stage: Stage,
    /// What to do.
    pub(crate) map: MapStage,
    /// The run directory.
    pub(crate) run: PathBuf,
    /// Where gpulane's Python package is.
    pub(crate) package: PathBuf,
    /// Where its parts stand: in the run directory itself for a lone map.
    pub(crate) dir: PathBuf,
    /// Where relative paths begin.
    pub(crate) base: PathBuf,
    /// The items.
    pub(crate) list: ItemList,
}

impl Task {
    /// The Python that runs the model: as in the workers' command.
    pub(crate) fn python(&self) -> String {
        self.stage.command.first().cloned().unwrap_or_else(|| "python3".to_owned())
    }

    /// What a Python process of this map needs in its environment, beyond what is inherited.
    pub(crate) fn python_environment(&self) -> Vec<(String, String)> {
        let mut path = self.package.display().to_string();
        let inherited =
            self.stage.env.get("PYTHONPATH").cloned().or_else(|| std::env::var("PYTHONPATH").ok());
        if let Some(inherited) = inherited.filter(|text| !text.is_empty()) {
            path = format!("{path}:{inherited}");
        }
        let set = self.stage.env.iter().filter(|(_, value)| !value.contains('{'));
        let mut all: Vec<_> = set.map(|(key, value)| (key.clone(), value.clone())).collect();
        all.push(("PYTHONPATH".to_owned(), path));
        all
    }
}

/// A map that can go on.
pub(crate) struct Begun {
    /// What to do.
    pub(crate) task: Task,
    /// The parts.
    pub(crate) writer: Writer,
    /// What is settled already.
    pub(crate) settled: Settled,
}

/// What is to be done, before anything of it is looked at.
#[derive(Clone)]
pub(crate) struct Asked {
    stage: Stage,
    map: MapStage,
    base: PathBuf,
    /// Where its parts stand.
    pub(crate) dir: PathBuf,
}

/// Reads the plan and makes the map's directory.
pub(crate) fn ask(orders: &FeederOrders) -> Result<Asked, String> {
    let run = RunDir::open(&orders.dir).map_err(|error| error.to_string())?;
    let plan = run.plan().map_err(|error| error.to_string())?;
    let stage = plan.stages.get(orders.stage.index()).cloned();
    let (stage, mut map) = stage
        .and_then(|stage| stage.map.clone().map(|map| (stage, map)))
        .ok_or("the plan has no such map; plan.json was changed by hand")?;
    map.input = map_inputs(run.root(), &stage, &map);
    let dir = run.map_dir(&stage);
    run.make_dir(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    Ok(Asked { stage, map, base: PathBuf::from(&plan.run.cwd), dir })
}

/// Opens the map, or says why it must not go on.
pub(crate) fn begin(asked: Asked, orders: &FeederOrders, telling: &Telling) -> Result<Begun, String> {
    let Asked { stage, map, base, dir } = asked;
    let mut changed = Vec::new();
    if !orders.opened && !orders.accept_changes {
        changed.extend(sameness::model_change(&map, &base, &dir)?);
    }
    let wanted = Wanted { inputs: &map.input, base: &base, decode: map.decode };
    let list = match gpulane_items::open(&dir).map_err(|error| reading(&dir, &error))? {
        Opened::None if std::fs::metadata(dir.join("commits.jsonl")).is_ok_and(|ledger| ledger.len() > 0) => {
            return Err(sameness::LIST_GONE.to_owned());
        }
        Opened::None => listed(&wanted, map.strict, &dir)?,
        Opened::Damaged(what) => {
            return Err(sameness::damaged_list(&what));
        }
        Opened::List(list) => {
            if !orders.accept_changes && !orders.opened {
                changed
                    .extend(gpulane_items::changes(&list, &wanted).map_err(|error| reading(&dir, &error))?);
            }
            list
        }
    };
    if !changed.is_empty() {
        return Err(format!(
            "{}. {}",
            sameness::not_the_same(&changed),
            sameness::way_out(&orders.dir, orders.failed_again)
        ));
    }
    if !orders.opened {
        sameness::keep_model(&map, &base, &dir)?;
    }
    if orders.failed_again {
        gpulane_parts::forget_failed(&dir).map_err(|error| error.to_string())?;
    }
    let (writer, settled) =
        Writer::open(&dir, map.format, orders.accept_changes).map_err(|error| error.to_string())?;
    tell_missed(&dir, orders.announced, telling)?;
    let (items, lacking) = (list.len(), list.lacking().len());
    telling.say(&FeederWord::Opened { items, settled: settled.rows + settled.failures, lacking });
    Ok(Begun {
        task: Task { stage, map, run: orders.dir.clone(), package: orders.python.clone(), dir, base, list },
        writer,
        settled,
    })
}

/// The items, listed for the first time.
fn listed(wanted: &Wanted<'_>, strict: bool, dir: &Path) -> Result<ItemList, String> {
    let list = gpulane_items::freeze(wanted, dir, &mut |_| true).map_err(refused)?;
    if strict && !list.lacking().is_empty() {
        // Listed anew at the next try: what is lacking now may be there then.
        gpulane_items::forget(dir).map_err(|error| reading(dir, &error))?;
        return Err(not_whole(list.lacking()));
    }
    Ok(list)
}

/// Why a map that must be whole is not begun, and what to do.
pub fn not_whole(lacking: &Lacking) -> String {
    format!(
        "the inputs are not whole, and `strict` was asked for, so nothing was started: {} ({}); mend that, or leave `--strict` out: \
         then these are failures and the rest goes on",
        lacking.in_words(),
        lacking.named(),
    )
}

fn reading(dir: &Path, error: &io::Error) -> String {
    format!("cannot read the list of items in {}: {error}", dir.display())
}

fn refused(refused: Refused) -> String {
    match refused {
        Refused::Problems(problems) => {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        }
        other @ (Refused::Io { .. } | Refused::Enough { .. }) => other.to_string(),
    }
}

/// What the journal may not have heard of because everything was killed in between.
fn tell_missed(dir: &Path, announced: u64, telling: &Telling) -> Result<(), String> {
    for known in gpulane_parts::read_commits(dir, announced).map_err(|error| error.to_string())? {
        for failure in known.failed {
            telling.say(&FeederWord::ItemFailed { item: failure.item, reason: failure.reason });
        }
        let commit = known.commit;
        telling.say(&FeederWord::Committed {
            commit: commit.commit,
            part: commit.part,
            rows: commit.rows,
            failed: commit.failed,
            damaged: commit.damaged,
        });
    }
    Ok(())
}
