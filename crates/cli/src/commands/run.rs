//! `gpulane run`: freeze the plan into a fresh run directory, then run what is there.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gpulane_journal::{RunDir, RunDirError, RunLock};
use gpulane_model::{Attempt, Bytes, ExitCode, Plan, RunSettings};
use gpulane_plan::{AdHoc, Override};
use gpulane_runtime::{Placeholders, StartRequest};

use super::check::{accept, cwd, read_plan, size};
use super::{RUNS, check_machine};
use crate::args::{Engine, Run, Sharing, Show};
use crate::attach::{Ended, attach};
use crate::{maps, say};

pub(crate) fn run(args: &Run) -> ExitCode {
    match resolve(args) {
        Err(code) => code,
        Ok(plan) if args.only_show => {
            dry_run(&plan, args);
            ExitCode::Success
        }
        Ok(mut plan) => {
            maps::set_workers(&mut plan, None, None);
            start(plan, args.place.as_deref(), &args.show, |_, _, _| Ok(())).0
        }
    }
}

/// What the command line said of where and how to run.
pub(super) fn settings(gpus: &str, lanes: Option<u32>, headroom: Bytes, sharing: &Sharing) -> RunSettings {
    RunSettings {
        cwd: cwd(),
        gpus: gpus.to_owned(),
        lanes,
        headroom,
        foreign: sharing.foreign.map(Into::into).unwrap_or_default(),
        wait: sharing.wait,
        plan_file: None,
    }
}

/// The plan the arguments mean. What is wrong has been said.
fn resolve(args: &Run) -> Result<Plan, ExitCode> {
    if args.on == Engine::Slurm {
        say::error("--on slurm is not there yet; this version runs on this machine only");
        return Err(ExitCode::BadInput);
    }
    if let Some(name) = args.name.as_ref().filter(|name| !gpulane_model::is_stage_name(name)) {
        say::error(format!("--name {name:?}: the run's directory is called so"));
        say::hint("letters, digits and `._+-` may stand in it, and it begins with a letter or digit");
        return Err(ExitCode::BadInput);
    }
    if let Err(error) = args.gpus.parse::<gpulane_gpu::GpuSpec>() {
        say::error(error);
        return Err(ExitCode::BadInput);
    }
    let settings = settings(&args.gpus, args.lanes, args.headroom, &args.sharing);
    match (&args.plan, args.command.is_empty()) {
        (Some(path), true) => from_file(args, path, settings),
        (None, false) => {
            let (source, outcome) = gpulane_plan::adhoc(&ad_hoc(args), settings);
            accept(&source, outcome)
        }
        (Some(path), false) => {
            let path = path.display();
            say::error(format!(
                "`{path}` is taken for a plan file, and there is a command after `--`: one is too much"
            ));
            say::hint("values have no spaces: --gpus 0,1, --memory 6GiB");
            Err(ExitCode::BadInput)
        }
        (None, true) => {
            say::error("nothing to run: give a plan file, or a command after `--`");
            say::hint("gpulane run -s 'seed=range(5)' -- python train.py --seed {seed}");
            Err(ExitCode::BadInput)
        }
    }
}

fn from_file(args: &Run, path: &Path, settings: RunSettings) -> Result<Plan, ExitCode> {
    let flag = args.job.given().first().map(|(flag, ..)| *flag);
    let flag =
        flag.or((!args.sweep.is_empty()).then_some("-s")).or((!args.zip.is_empty()).then_some("--zip"));
    if let Some(flag) = flag {
        say::error(format!("{flag} goes with a command after `--`, not with a plan file"));
        say::hint("write it into the plan: settings under [[stage]], sweeps under [stage.matrix]");
        return Err(ExitCode::BadInput);
    }
    let mut plan = read_plan(path, settings)?;
    let is_kept = path.is_file() && !path.starts_with("/dev") && !path.starts_with("/proc");
    plan.run.plan_file = path.to_str().filter(|_| is_kept).map(str::to_owned);
    if let Some(name) = &args.name {
        plan.name.clone_from(name);
    }
    Ok(plan)
}

/// Files that this call made in a run directory, in their order.
pub(super) type Made = Vec<PathBuf>;

/// Runs the plan in a directory of its own; also says which. `prepare` puts there what the plan needs, and says what it made.
pub(crate) fn start(
    mut plan: Plan,
    run_dir: Option<&Path>,
    show: &Show,
    prepare: impl FnOnce(&RunDir, &mut Plan, &mut Made) -> io::Result<()>,
) -> (ExitCode, Option<RunDir>) {
    if let Err(code) = check_machine(show) {
        return (code, None);
    }
    let was_there = run_dir.is_some_and(Path::exists);
    let trusted = show.trusted();
    let dir = match create(&plan, run_dir, &trusted) {
        Ok(dir) => dir,
        Err(error) => {
            say::explain(&error);
            return (ExitCode::BadInput, None);
        }
    };
    match dir.examine(&trusted) {
        Ok(exposure) => exposure.note().into_iter().for_each(say::note),
        Err(error) => {
            say::explain(&error);
            return (ExitCode::BadInput, None);
        }
    }
    // First the lock: whoever has it may write here, and remove what it wrote.
    let lock = match dir.lock() {
        Ok(lock) if !dir.plan_file().exists() => lock,
        Ok(_) => {
            say::explain(&RunDirError::NotEmpty { path: dir.root().to_owned(), is_run: true });
            return (ExitCode::BadInput, None);
        }
        Err(error) => {
            say::explain(&error);
            if !was_there {
                let _ = std::fs::remove_dir(dir.root());
            }
            return (ExitCode::BadInput, None);
        }
    };
    let mut made = vec![dir.lock_file()];
    let ended = match prepare(&dir, &mut plan, &mut made) {
        Ok(()) => begin(&dir, &lock, plan, show, &mut made),
        Err(error) => {
            say::error(format!("cannot prepare {}: {error}", dir.root().display()));
            gpulane_journal::io_hint(&error).into_iter().for_each(say::hint);
            Ended { code: ExitCode::BadInput, refused: true }
        }
    };
    // What stands in its place by now, if it was moved away, is not ours.
    if ended.refused && lock.is_of(dir.root(), &dir.lock_file()) {
        take_back(&dir, was_there, &made);
    }
    (ended.code, Some(dir))
}

/// Nothing was started, so nothing is kept of what gpulane made: its files by their names, then the directory, if it is ours and
/// empty. Whatever else is there by now is somebody's.
fn take_back(dir: &RunDir, was_there: bool, made: &[PathBuf]) {
    gpulane_runtime::take_back(dir);
    // The lock goes last: whoever has it may write here.
    for file in made.iter().rev() {
        let _ = std::fs::remove_file(file);
    }
    if !was_there {
        let _ = std::fs::remove_dir(dir.root());
    }
}

fn begin(dir: &RunDir, lock: &RunLock, plan: Plan, show: &Show, made: &mut Made) -> Ended {
    made.extend([dir.plan_draft(), dir.plan_file()]);
    if let Err(error) = dir.freeze(&plan) {
        say::explain(&error);
        return Ended { code: ExitCode::BadInput, refused: true };
    }
    let request = StartRequest { detached: show.detach, trusted: show.trusted(), ..StartRequest::default() };
    attach(dir, lock, Arc::new(plan), request, show).unwrap_or_else(|error| {
        say::error(format!("cannot run: {error}"));
        Ended { code: ExitCode::Internal, refused: false }
    })
}

/// `--run-dir`, or a new directory under `runs/`. Two runs started in the same second get different ones.
fn create(plan: &Plan, run_dir: Option<&Path>, trusted: &[PathBuf]) -> Result<RunDir, RunDirError> {
    if let Some(path) = run_dir {
        return RunDir::create_trusting(path, trusted);
    }
    let base = default_dir(plan);
    let mut path = base.clone();
    for count in 2..1000 {
        match RunDir::create_new(&path, trusted) {
            // mkdir decides who is first; a directory that exists is somebody else's.
            Err(RunDirError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            answer => return answer,
        }
        path = PathBuf::from(format!("{}-{count}", base.display()));
    }
    RunDir::create_new(&path, trusted)
}

fn default_dir(plan: &Plan) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stamp: String = now.chars().filter(char::is_ascii_digit).collect();
    let (day, time) = stamp.split_at(stamp.len().min(8));
    Path::new(RUNS).join(format!("{}-{day}-{time}", plan.name))
}

fn ad_hoc(args: &Run) -> AdHoc {
    AdHoc {
        sweeps: args.sweep.clone(),
        zips: args.zip.clone(),
        command: args.command.clone(),
        name: args.name.clone(),
        overrides: args
            .job
            .given()
            .into_iter()
            .map(|(flag, key, value)| Override { flag: flag.into(), key: key.into(), value: value.into() })
            .collect(),
    }
}

fn dry_run(plan: &Plan, args: &Run) {
    let place = args.place.clone().unwrap_or_else(|| default_dir(plan));
    let Ok(dir) = RunDir::planned(&place) else { return };
    let mut text = String::new();
    for job in plan.job_ids() {
        let placeholders = Placeholders { dir: &dir, plan, job, attempt: Attempt(1), lane: None };
        let _ = if args.show.json {
            let argv = placeholders.argv();
            let line = serde_json::json!({ "job": plan.job_name(job), "argv": argv });
            writeln!(text, "{}", gpulane_report::json_text(&line.to_string()))
        } else {
            let argv: Vec<String> = placeholders.argv().iter().map(|word| quoted(word)).collect();
            writeln!(text, "{}\t{}", plan.job_name(job), argv.join(" "))
        };
        if text.len() > 1 << 16 {
            say::data(&text);
            text.clear();
        }
    }
    say::data(text);
    say::progress(format!("{}; nothing was started", size(plan)));
}

/// As a shell would need it, for reading and copying; gpulane itself never uses a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use gpulane_testkit::Workspace;

    use super::*;

    #[test]
    fn only_what_this_call_made_is_taken_back() {
        let workspace = Workspace::new();
        let dir = RunDir::planned(&workspace.path()).unwrap();
        for name in ["lock", "stdin.list", "plan.json"] {
            workspace.file(name, "");
        }
        take_back(&dir, true, &[dir.lock_file()]);
        let left = |name: &str| workspace.path().join(name).exists();
        assert_eq!(["lock", "stdin.list", "plan.json"].map(left), [false, true, true]);
    }
}
