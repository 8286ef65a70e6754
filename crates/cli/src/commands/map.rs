//! `gpulane map`: one model over many items, with the results in a directory that is the run's own.

use std::fmt::Write;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpulane_items::{Refused, Wanted};
use gpulane_journal::RunDir;
use gpulane_model::{Bytes, ExitCode, MapStage, Plan};
use gpulane_plan::{MapLine, Override};

use super::check::{accept, cwd};
use super::run::{Made, settings, start};
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
        set: args.settings.set.clone(),
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
        let run = gpulane_model::shell_word(&out.to_string_lossy());
        say::hint(format!("continue it with `gpulane resume {run}`, or choose another --out"));
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
fn keep_stdin(dir: &RunDir, plan: &mut Plan, made: &mut Made) -> io::Result<()> {
    for map in plan.stages.iter_mut().filter_map(|stage| stage.map.as_mut()) {
        spool(map, dir.root(), made)?;
    }
    Ok(())
}

/// Where a list is kept that came by standard input.
const STDIN_LIST: &str = "stdin.list";

fn spool(map: &mut MapStage, dir: &Path, made: &mut Made) -> io::Result<()> {
    if map.input.iter().any(|input| input == STDIN) {
        let list = dir.join(STDIN_LIST);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&list)?;
        made.push(list.clone());
        io::copy(&mut io::stdin().lock(), &mut file)?;
        file.sync_all()?;
        for input in map.input.iter_mut().filter(|input| *input == STDIN) {
            *input = format!("@{}", list.display());
        }
    }
    Ok(())
}

/// How long items are counted for `--dry-run`.
const COUNTING: Duration = Duration::from_secs(5);

/// Lists the items somewhere else, as far as that goes quickly, and says what would be done with them.
fn dry_run(plan: &Plan, args: &Map) -> ExitCode {
    let Some((stage, map)) = plan.stages.iter().find_map(|stage| Some((stage, stage.map.as_ref()?))) else {
        return ExitCode::Internal;
    };
    let counted = match count(map, &PathBuf::from(&plan.run.cwd)) {
        Ok(counted) => counted,
        Err(problems) => {
            for problem in problems {
                say::error(problem);
            }
            return ExitCode::BadInput;
        }
    };
    let workers = u32::try_from(stage.job_ids().len()).unwrap_or(u32::MAX);
    let ring =
        map.decode.map(|decode| gpulane_runtime::ring_bytes(map, workers, counted.items, decode)).transpose();
    let ring = match ring {
        Ok(ring) => ring,
        Err(error) => {
            say::error(error);
            return ExitCode::BadInput;
        }
    };
    let parts = args.out.join(format!("part-*.{}", map.format.extension()));
    if args.show.json {
        let shown = serde_json::json!({
            "items": counted.items,
            "more": counted.more,
            "decode": map.decode,
            "members": map.members,
            "batch": map.batch,
            "ring": ring,
            "workers": workers,
            "lanes": maps::lanes(plan).map(|(lanes, _)| lanes),
            "args": map.args,
            "output": parts,
            "command": stage.command,
        });
        say::json(shown);
    } else {
        say::data(in_lines(plan, map, counted, workers, ring, &parts));
    }
    say::progress("nothing was started");
    ExitCode::Success
}

fn in_lines(
    plan: &Plan,
    map: &MapStage,
    counted: Counted,
    workers: u32,
    ring: Option<u64>,
    parts: &Path,
) -> String {
    const BY_MODEL: &str = "as the model's class says";
    let word = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let more = if counted.more { "more than " } else { "" };
    let mut text = format!("{more}{}, {}\n", word(counted.items, "item"), word(workers.into(), "worker"));
    let mut tell = |what: &str, value: String| {
        // A text takes everything.
        let _ = writeln!(text, "  {what:<8}{value}");
    };
    tell(
        "decode",
        map.decode.map_or_else(|| format!("{BY_MODEL}, otherwise bytes"), |decode| decode.to_string()),
    );
    tell(
        "members",
        map.members.as_ref().map_or_else(|| format!("{BY_MODEL}, otherwise none"), ToString::to_string),
    );
    tell(
        "batch",
        map.batch.map_or_else(|| format!("{BY_MODEL}, otherwise found out"), |batch| batch.to_string()),
    );
    if !map.args.is_empty() {
        tell("args", serde_json::Value::Object(map.args.clone()).to_string());
    }
    tell(
        "ring",
        match (ring, map.ring) {
            (Some(ring), _) => format!("at most {}", Bytes(ring)),
            (None, Some(ring)) => format!("at most {ring}"),
            (None, None) => "decided when the model has said how items are decoded".to_owned(),
        },
    );
    if let Some((_, lanes)) = maps::lanes(plan) {
        tell("lanes", lanes);
    }
    tell("output", parts.display().to_string());
    text
}

/// How many items there are.
#[derive(Clone, Copy)]
struct Counted {
    items: u64,
    /// There are more: counting took too long.
    more: bool,
}

fn count(map: &MapStage, base: &Path) -> Result<Counted, Vec<String>> {
    let said = |error: &dyn std::fmt::Display| vec![error.to_string()];
    let scratch = Scratch::new().map_err(|error| said(&error))?;
    let mut map = map.clone();
    spool(&mut map, scratch.path(), &mut Made::new()).map_err(|error| said(&error))?;
    let wanted = Wanted { inputs: &map.input, base, decode: map.decode };
    let begun = Instant::now();
    match gpulane_items::freeze(&wanted, scratch.path(), &mut |_| begun.elapsed() < COUNTING) {
        Ok(list) => Ok(Counted { items: list.len(), more: false }),
        Err(Refused::Enough { items }) => Ok(Counted { items, more: true }),
        Err(Refused::Problems(problems)) => Err(problems.iter().map(ToString::to_string).collect()),
        Err(other) => Err(said(&other)),
    }
}
