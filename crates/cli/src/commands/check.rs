//! `gpulane check`: every mistake, nothing started. Also how the other commands read a plan file.

use std::io::IsTerminal;
use std::path::Path;

use gpulane_model::{ExitCode, Plan, RunSettings};
use gpulane_plan::{Outcome, Severity, Source};

use crate::args::Check;
use crate::{maps, preflight, say};

pub(crate) fn check(args: &Check) -> ExitCode {
    let settings = RunSettings { cwd: cwd(), gpus: "all".to_owned(), ..RunSettings::default() };
    match read_plan(&args.plan, settings) {
        Ok(plan) => {
            say::progress(format!("{}: ok, {}", args.plan.display(), size(&plan)));
            ExitCode::Success
        }
        Err(code) => code,
    }
}

/// Reads and checks a plan file. Every mistake has been said.
pub(crate) fn read_plan(path: &Path, settings: RunSettings) -> Result<Plan, ExitCode> {
    let text = std::fs::read(path).map_err(|error| {
        say::error(format!("cannot read {}: {error}", path.display()));
        if error.kind() == std::io::ErrorKind::NotFound {
            say::hint("`gpulane init` writes a starter plan");
        }
        ExitCode::BadInput
    })?;
    let text = String::from_utf8(text).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        say::error(format!("{}:{line}: not UTF-8 text; a plan is a TOML file", path.display()));
        ExitCode::BadInput
    })?;
    let source = Source { name: path.display().to_string(), text };
    accept(&source, gpulane_plan::check(&source, settings))
}

/// Says what was found; the plan, if nothing was wrong.
pub(crate) fn accept(source: &Source, mut outcome: Outcome) -> Result<Plan, ExitCode> {
    let mut wrong_maps = Vec::new();
    if let Some(plan) = &mut outcome.plan {
        maps::set_python(plan);
        outcome.diagnostics.extend(preflight::programs(source, plan));
        outcome.diagnostics.extend(preflight::entries(source, plan));
        outcome.diagnostics.extend(preflight::chosen_gpus(source, plan));
        wrong_maps = maps::problems(plan);
    }
    if !outcome.diagnostics.is_empty() {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        say::progress(gpulane_plan::render(source, &outcome.diagnostics, color).trim_end());
    }
    for problem in &wrong_maps {
        say::error(problem);
    }
    let wrong =
        outcome.diagnostics.iter().any(|found| found.severity == Severity::Error) || !wrong_maps.is_empty();
    outcome.plan.filter(|_| !wrong).ok_or(ExitCode::BadInput)
}

/// `13 jobs in 1 stage`.
pub(crate) fn size(plan: &Plan) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    format!("{} in {}", count(plan.jobs.len(), "job"), count(plan.stages.len(), "stage"))
}

/// The directory jobs run in.
pub(crate) fn cwd() -> String {
    std::env::current_dir().map_or_else(|_| ".".to_owned(), |path| path.to_string_lossy().into_owned())
}
