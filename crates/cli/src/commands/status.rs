//! `gpulane status`: how runs stand, and why a job waits.

use std::path::Path;
use std::sync::Arc;

use gpulane_core::Core;
use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, Millis};
use gpulane_report::{Look, RunFacts, RunRow, Snapshot};

use super::{RUNS, find_job, fold, open};
use crate::args::Status;
use crate::say;
use crate::view::unix_now;

pub(crate) fn status(args: &Status) -> ExitCode {
    let look = Look::detect(&std::io::stdout());
    let Some(run) = &args.run else { return list(args.json, look) };
    let (dir, plan) = match open(run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    // Asked before the journal is read: a run that ends in between is shown as it ended.
    let live = dir.is_live();
    let state = match fold(&dir, &plan) {
        Ok(state) => state,
        Err(error) => {
            say::explain(&error);
            return ExitCode::BadInput;
        }
    };
    let machine = state.machine.clone().filter(|_| live);
    let core = machine.map(|machine| Core::observe_at(Arc::clone(&plan), machine, &state, unix_now()));
    let snapshot =
        Snapshot { dir: &dir, plan: &plan, state: &state, live, core: core.as_ref(), now: unix_now() };
    if let Some(name) = &args.job {
        let job = match find_job(&plan, name) {
            Ok(job) => job,
            Err(code) => return code,
        };
        if args.json {
            say::json(gpulane_report::job_detail_json(&snapshot, job));
        } else {
            say::shown(&gpulane_report::job_detail(&snapshot, job, look));
        }
    } else if args.json {
        say::json(gpulane_report::status_json(&snapshot));
    } else {
        say::shown(&gpulane_report::status(&snapshot, look, args.all));
    }
    ExitCode::Success
}

fn list(json: bool, look: Look) -> ExitCode {
    let mut rows: Vec<(Option<Millis>, RunRow)> = Vec::new();
    for entry in std::fs::read_dir(RUNS).into_iter().flatten().flatten() {
        if let Ok(dir) = RunDir::open(&entry.path()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let known = facts(&dir);
            let started = known.as_ref().ok().and_then(|(_, started)| *started);
            rows.push((started, RunRow { name, known: known.map(|(facts, _)| facts) }));
        }
    }
    // Newest last, next to the prompt.
    rows.sort_by_key(|(started, _)| *started);
    let rows: Vec<RunRow> = rows.into_iter().map(|(_, row)| row).collect();
    if json {
        say::json(gpulane_report::runs_json(&rows));
    } else if rows.is_empty() {
        say::progress(format!("no runs under {}", Path::new(RUNS).display()));
        say::hint("`gpulane demo` makes one; `gpulane status DIR` looks at a run elsewhere");
    } else {
        say::shown(&gpulane_report::runs_table(&rows, look, unix_now()));
    }
    ExitCode::Success
}

fn facts(dir: &RunDir) -> Result<(RunFacts, Option<Millis>), String> {
    let live = dir.is_live();
    let plan = dir.plan().map_err(|error| error.to_string())?;
    let state = fold(dir, &plan).map_err(|error| error.to_string())?;
    Ok((RunFacts::of(&state, live), state.started))
}
