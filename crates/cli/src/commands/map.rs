//! `gpulane map`: one model over many items, with the results in a directory that is the run's own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gpulane_items::{Refused, Wanted};
use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, MapStage, Plan};
use gpulane_plan::{MapLine, Override};

use super::check::{accept, cwd};
use super::run::{settings, start};
use crate::args::Map;
use crate::maps::{self, STDIN, Scratch};
use crate::say;

pub(crate) fn map(args: &Map) -> ExitCode {
    let mut plan = match resolve(args) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    maps::set_workers(&mut plan, None, None);
    if args.only_show {
        return dry_run(&plan, args);
    }
    start(plan, Some(&args.out), &args.show, keep_stdin).0
}

/// The plan the arguments mean. Everything that is wrong has been said.
pub(crate) fn resolve(args: &Map) -> Result<Plan, ExitCode> {
    let mut good = is_free(&args.out);
    if let Err(error) = args.gpus.parse::<gpulane_gpu::GpuSpec>() {
        say::error(error);
        good = false;
    }
    let settings = settings(&args.gpus, args.lanes, args.headroom, &args.sharing);
    let flags = |given: Vec<(&str, &str, &str)>| -> Vec<Override> {
        let flag = |(flag, key, value): (&str, &str, &str)| Override {
            flag: flag.into(),
            key: key.into(),
            value: value.into(),
        };
        given.into_iter().map(flag).collect()
    };
    let line = MapLine {
        model: args.model.clone(),
        inputs: args.inputs.clone(),
        map: flags(args.settings.of_map()),
        stage: flags(args.settings.of_stage()),
    };
    let (source, outcome) = gpulane_plan::map_line(&line, settings);
    if outcome.plan.is_none() {
        // What else is wrong is better known now than after the next try.
        let map = MapStage { model: args.model.clone(), input: args.inputs.clone(), ..MapStage::default() };
        for problem in maps::problems_of(&map, Path::new(&cwd()), true) {
            say::error(problem);
        }
    }
    let plan = accept(&source, outcome)?;
    if good { Ok(plan) } else { Err(ExitCode::BadInput) }
}

/// Whether results can go there. If not, it has been said why.
fn is_free(out: &Path) -> bool {
    if out.join("plan.json").exists() {
        say::error(format!("{} holds a run already", out.display()));
        say::hint(format!("continue it with `gpulane resume {}`, or choose another --out", out.display()));
        return false;
    }
    match std::fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
        Ok(false) => {
            say::error(format!("{} is not empty", out.display()));
            say::hint("choose another --out, or empty this one");
            false
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            say::error(format!("cannot use {}: {error}", out.display()));
            false
        }
        _ => true,
    }
}

/// A list that comes by standard input is kept, so that `resume` has it, too.
fn keep_stdin(dir: &RunDir, plan: &mut Plan) -> io::Result<()> {
    for map in plan.stages.iter_mut().filter_map(|stage| stage.map.as_mut()) {
        spool(map, dir.root())?;
    }
    Ok(())
}

fn spool(map: &mut MapStage, dir: &Path) -> io::Result<()> {
    if map.input.iter().any(|input| input == STDIN) {
        let list = dir.join("stdin.list");
        let mut file = File::create(&list)?;
        io::copy(&mut io::stdin().lock(), &mut file)?;
        file.sync_all()?;
        for input in map.input.iter_mut().filter(|input| *input == STDIN) {
            *input = format!("@{}", list.display());
        }
    }
    Ok(())
}

/// Lists the items somewhere else and counts them.
fn dry_run(plan: &Plan, args: &Map) -> ExitCode {
    let Some((stage, map)) = plan.stages.iter().find_map(|stage| Some((stage, stage.map.as_ref()?))) else {
        return ExitCode::Internal;
    };
    let items = match count(map, &PathBuf::from(&plan.run.cwd)) {
        Ok(items) => items,
        Err(problems) => {
            for problem in problems {
                say::error(problem);
            }
            return ExitCode::BadInput;
        }
    };
    let workers = stage.job_ids().len();
    if args.show.json {
        let shown = serde_json::json!({ "items": items, "workers": workers, "command": stage.command });
        say::data(format!("{shown}\n"));
    } else {
        let word = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        say::data(format!("{}, {}\n", word(items, "item"), word(workers as u64, "worker")));
    }
    say::progress("nothing was started");
    ExitCode::Success
}

fn count(map: &MapStage, base: &Path) -> Result<u64, Vec<String>> {
    let said = |error: &dyn std::fmt::Display| vec![error.to_string()];
    let scratch = Scratch::new().map_err(|error| said(&error))?;
    let mut map = map.clone();
    spool(&mut map, scratch.path()).map_err(|error| said(&error))?;
    let wanted = Wanted { inputs: &map.input, base, decode: map.decode };
    match gpulane_items::freeze(&wanted, scratch.path(), &mut |_| {}) {
        Ok(list) => Ok(list.len()),
        Err(Refused::Problems(problems)) => Err(problems.iter().map(ToString::to_string).collect()),
        Err(other) => Err(said(&other)),
    }
}
