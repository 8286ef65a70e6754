//! Settings of a map that a resume may change: those its results do not depend on.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, MapStage, Plan, Stage};
use gpulane_plan::Override;

use crate::args::MapChanges;
use crate::{maps, say};

/// The plan with what was asked for changed in all its maps, frozen anew. What is wrong, and what has changed, has been said. If all is
/// `over`, nothing changes.
pub(super) fn changed(
    dir: &RunDir,
    plan: Arc<Plan>,
    asked: &MapChanges,
    over: bool,
) -> Result<Arc<Plan>, ExitCode> {
    let (given, fixed) = (asked.given(), asked.fixed());
    if given.is_empty() && fixed.is_empty() {
        return Ok(plan);
    }
    for (flag, why) in &fixed {
        say::error(format!("{flag} cannot change when a map goes on: {why}"));
    }
    if !fixed.is_empty() {
        say::hint("start a new map into another --out for it");
    }
    if !maps::any(&plan) {
        let flags: Vec<&str> = given.iter().map(|(flag, ..)| *flag).collect();
        say::error(format!("{} is for maps, and this run has none", flags.join(", ")));
        return Err(ExitCode::BadInput);
    }
    let flags: Vec<Override> = given
        .into_iter()
        .map(|(flag, key, value)| Override { flag: flag.into(), key: key.into(), value: value.into() })
        .collect();
    let mut changed = Plan::clone(&plan);
    let mut told: Vec<String> = Vec::new();
    let mut sound = fixed.is_empty();
    let cwd = changed.run.cwd.clone();
    for stage in changed.stages.iter_mut().filter(|stage| stage.map.is_some()) {
        // What is wrong with a flag is wrong for every map, and said once.
        let Some(more) = change(stage, &flags, Path::new(&cwd)) else {
            sound = false;
            break;
        };
        for line in more {
            if !told.contains(&line) {
                told.push(line);
            }
        }
    }
    if !sound {
        return Err(ExitCode::BadInput);
    }
    if told.is_empty() || over {
        return Ok(plan);
    }
    if let Err(error) = dir.freeze(&changed) {
        say::explain(&error);
        return Err(ExitCode::BadInput);
    }
    say::note(format!("from now on: {}", told.join(", ")));
    Ok(Arc::new(changed))
}

/// Changes one map; what is different now. `None`: something is wrong, and that was said.
fn change(stage: &mut Stage, flags: &[Override], cwd: &Path) -> Option<Vec<String>> {
    let map = stage.map.as_ref()?;
    let (source, read) = gpulane_plan::change_map(map, flags);
    let now = match read {
        Ok(now) => now,
        Err(found) => {
            let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            say::progress(gpulane_plan::render(&source, &found, color).trim_end());
            return None;
        }
    };
    let python = now.python.as_ref().filter(|python| map.python.as_ref() != Some(python));
    if let Some(python) = python {
        if !is_program(python, cwd) {
            say::error(format!("--python {python}: there is no such program"));
            say::hint("name a Python by its path, or by a name that PATH leads to");
            return None;
        }
        if let Some(first) = stage.command.first_mut() {
            *first = python.replace('{', "{{").replace('}', "}}");
        }
    }
    let told = knobs(map).into_iter().zip(knobs(&now)).filter(|(before, now)| before != now);
    let told = told.map(|((name, before), (_, now))| format!("{name} {now} (was {before})")).collect();
    stage.map = Some(now);
    Some(told)
}

fn is_program(python: &str, cwd: &Path) -> bool {
    if python.contains('/') {
        return gpulane_runtime::is_program(&cwd.join(python));
    }
    gpulane_runtime::find_program(python, std::env::var("PATH").ok().as_deref()).is_some()
}

/// What may change, in words.
fn knobs(map: &MapStage) -> [(&'static str, String); 7] {
    let auto = |value: Option<String>| value.unwrap_or_else(|| "auto".to_owned());
    let number = |value: Option<u32>| auto(value.map(|value| value.to_string()));
    [
        ("batch", number(map.batch)),
        ("threads", number(map.threads)),
        ("workers", number(map.workers)),
        ("max-failures", map.max_failures.to_string()),
        ("ring", auto(map.ring.map(|ring| ring.to_string()))),
        ("item-timeout", map.item_timeout.map_or_else(|| "off".to_owned(), |time| time.to_string())),
        ("python", auto(map.python.clone())),
    ]
}
