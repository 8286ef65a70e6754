//! `gpulane demo`: thirteen tiny models on eight simulated GPUs, evaluated one by one. The programs are put on disk
//! where they can be read and changed.

use std::io;
use std::path::Path;

use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, Plan, RunSettings};
use gpulane_report::Look;

use super::check::read_plan;
use super::run::start;
use crate::args::{Demo, Demonstration, Show};
use crate::say;

const FILES: [(&str, &str); 3] = [
    ("train.py", include_str!("../../demo/train.py")),
    ("evaluate.py", include_str!("../../demo/evaluate.py")),
    ("plan.toml", include_str!("../../demo/plan.toml")),
];

pub(crate) fn demo(args: &Demo) -> ExitCode {
    if args.what == Demonstration::Map {
        say::error("`gpulane demo map` is not there yet; `gpulane demo` shows runs");
        return ExitCode::BadInput;
    }
    if let Err(error) = unpack(&args.dir) {
        say::error(format!("cannot write the demo's files into {}: {error}", args.dir.display()));
        return ExitCode::BadInput;
    }
    let cwd = std::env::current_dir().unwrap_or_default().join(&args.dir).to_string_lossy().into_owned();
    let settings = RunSettings { cwd, gpus: args.gpus.clone(), ..RunSettings::default() };
    let plan = match read_plan(&args.dir.join("plan.toml"), settings) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    say::progress(format!(
        "demo: {} jobs in {} stages on {}; the programs are in {}",
        plan.jobs.len(),
        plan.stages.len(),
        args.gpus,
        args.dir.display()
    ));
    let show = Show { json: false, quiet: false, detach: false };
    let run_dir = fresh(&args.dir);
    let (code, dir) = start(plan.clone(), Some(&run_dir), &show);
    if let Some(dir) = dir.filter(|_| code == ExitCode::Success) {
        results(&plan, &dir);
    }
    code
}

fn unpack(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for (name, text) in FILES {
        let path = dir.join(name);
        match std::fs::read_to_string(&path) {
            Ok(there) if there == text => {}
            Ok(_) => say::note(format!("{} was changed and is used as it is", path.display())),
            Err(_) => std::fs::write(path, text)?,
        }
    }
    Ok(())
}

/// The next free `run-N`.
fn fresh(dir: &Path) -> std::path::PathBuf {
    let mut names = (1..10_000).map(|count| dir.join(format!("run-{count}")));
    names.find(|path| !path.exists()).unwrap_or_else(|| dir.join("run"))
}

/// The table of what was trained and how good it is, best first.
fn results(plan: &Plan, dir: &RunDir) {
    let Some(stage) = plan.stages.iter().find(|stage| stage.name == "evaluate") else { return };
    let mut rows: Vec<(f64, Vec<String>)> = stage
        .job_ids()
        .filter_map(|job| {
            let text = std::fs::read(dir.out_dir(plan, job).join("metrics.json")).ok()?;
            let metrics: serde_json::Value = serde_json::from_slice(&text).ok()?;
            let (accuracy, loss) = (metrics["accuracy"].as_f64()?, metrics["loss"].as_f64()?);
            Some((
                accuracy,
                vec![plan.job(job).name.to_string(), format!("{accuracy:.3}"), format!("{loss:.3}")],
            ))
        })
        .collect();
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(_, row)| row).collect();
    let look = Look::detect(&io::stdout());
    say::data(gpulane_report::results_table(&["model", "accuracy", "loss"], &rows, look));
    say::progress(format!("how it went: gpulane status {}", dir.root().display()));
}
