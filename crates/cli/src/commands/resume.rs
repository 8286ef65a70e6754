//! `gpulane resume`: go on with what is in a run directory.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use gpulane_journal::{RunDir, RunDirError, RunLock};
use gpulane_model::{ExitCode, Plan, RunState, StageId};
use gpulane_runtime::StartRequest;

use super::{check_machine, fold, open, settings};
use crate::args::Resume;
use crate::attach::attach;
use crate::{maps, say};

pub(crate) fn resume(args: &Resume) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    if let Err(code) = check_machine(&args.show) {
        return code;
    }
    let trusted = args.show.trusted();
    match dir.examine(&trusted) {
        Ok(exposure) => exposure.note().into_iter().for_each(say::note),
        Err(error) => {
            say::explain(&error);
            return ExitCode::BadInput;
        }
    }
    let lock = match lock(&dir) {
        Ok(lock) => lock,
        Err(error) => {
            say::explain(&error);
            return ExitCode::BadInput;
        }
    };
    // A journal that cannot be read is the engine's to explain.
    let state = fold(&dir, &plan).ok();
    if !can_go_on(&dir, &plan, state.as_ref(), args) {
        return ExitCode::BadInput;
    }
    let over = state.as_ref().is_some_and(|state| is_over(&plan, state, args.failed));
    if let Some(file) = changed_plan(&plan, state.as_ref()).filter(|_| !over) {
        say::note(format!(
            "{0} was written to after this run began, which goes on with the plan as it was; `gpulane run {0}` begins anew",
            file.display()
        ));
    }
    let plan = match settings::changed(&dir, plan, &args.map, over) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    let plan = match fitted(&dir, plan, args) {
        Ok(plan) => plan,
        Err(error) => {
            say::explain(&error);
            return ExitCode::BadInput;
        }
    };
    let request = StartRequest {
        detached: args.show.detach,
        salvage: args.salvage,
        failed: args.failed,
        accept_changes: args.accept_changes,
        gpus: args.gpus.clone(),
        lanes: args.lanes,
        foreign: args.sharing.foreign.map(Into::into),
        wait: args.sharing.wait,
        trusted,
    };
    // Requests to the engine that is gone were not meant for this one.
    gpulane_runtime::control::clear(&dir);
    match attach(&dir, &lock, plan, request, &args.show) {
        Ok(ended) => ended.code,
        Err(error) => {
            say::error(format!("cannot resume: {error}"));
            ExitCode::Internal
        }
    }
}

/// Whether the maps that are to go on are those that began, and can: all of it where failed items are tried again, because that
/// changes the run; else what can be known quickly. If not, it has been said why.
fn can_go_on(dir: &RunDir, plan: &Plan, state: Option<&RunState>, args: &Resume) -> bool {
    let Some(state) = state.filter(|_| maps::any(plan)) else { return true };
    let has_failed = |stage: StageId| {
        let map = state.maps.get(stage.index()).and_then(Option::as_ref);
        map.is_some_and(|map| map.failed > 0)
    };
    let reopened = |stage: StageId| args.failed && has_failed(stage);
    if let Some(because) = gpulane_runtime::unopenable_map(dir, plan, reopened, args.accept_changes) {
        say::error(because);
        return false;
    }
    if args.accept_changes {
        return true;
    }
    let due = |stage: StageId| state.is_map_due(plan, stage.index(), args.failed);
    let changed = gpulane_runtime::changed_maps(dir, plan, due, reopened);
    if !changed.is_empty() {
        say::error(gpulane_runtime::not_the_same(&changed));
        say::hint(gpulane_runtime::way_out(dir.root(), args.failed));
    }
    changed.is_empty()
}

/// The file the plan came from, if it was written to since the run began.
fn changed_plan(plan: &Plan, state: Option<&RunState>) -> Option<PathBuf> {
    let file = Path::new(&plan.run.cwd).join(plan.run.plan_file.as_ref()?);
    let written = file.metadata().ok().filter(Metadata::is_file)?.modified().ok()?;
    let begun = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(state?.started?.0))?;
    let here = std::env::current_dir().ok()?;
    let shown = file.strip_prefix(here).unwrap_or(&file).to_owned();
    (written > begun).then_some(shown)
}

/// Whether nothing is left to do. The engine says so; nothing must be changed or promised before.
fn is_over(plan: &Plan, state: &RunState, failed_too: bool) -> bool {
    let open_maps = (0..plan.stages.len()).any(|at| state.is_map_due(plan, at, failed_too));
    let counts = state.counts;
    let again = if failed_too { counts.failed + counts.skipped } else { state.kept() };
    !open_maps && counts.pending + counts.running + again == 0
}

/// The plan with as many workers for its maps as there are places for now: this may be another machine. A run that cannot be
/// written to goes on as it is.
fn fitted(dir: &RunDir, plan: Arc<Plan>, args: &Resume) -> Result<Arc<Plan>, RunDirError> {
    if !maps::any(&plan) {
        return Ok(plan);
    }
    let mut fitted = Plan::clone(&plan);
    if !maps::set_workers(&mut fitted, args.gpus.as_deref(), args.lanes) {
        return Ok(plan);
    }
    dir.freeze(&fitted)?;
    Ok(Arc::new(fitted))
}

/// How long a guardian may need to end what a killed engine left.
const PATIENCE: Duration = Duration::from_secs(20);
/// An engine that lives this long after we asked is not one that is just being killed.
const DOUBT: Duration = Duration::from_secs(1);
/// Between two looks whether its engine has ended.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Takes the run. If its last gpulane was just killed, the guardian is about to let go: a moment later it is ours.
fn lock(dir: &RunDir) -> Result<RunLock, RunDirError> {
    let begun = Instant::now();
    let mut asked: Option<(Instant, bool)> = None;
    loop {
        let taken = dir.lock();
        if !matches!(taken, Err(RunDirError::Locked { .. })) {
            return taken;
        }
        let known = asked.filter(|(at, _)| at.elapsed() < ASK_AGAIN).map(|(_, ended)| ended);
        let ended = known.unwrap_or_else(|| gpulane_runtime::help_to_end(dir));
        if known.is_none() {
            asked = Some((Instant::now(), ended));
        }
        if begun.elapsed() > if ended { PATIENCE } else { DOUBT } {
            return taken;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
