//! `gpulane demo`: thirteen tiny models on eight simulated GPUs, evaluated one by one. The programs are put on disk
//! where they can be read and changed.

use std::io;
use std::path::Path;

use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, Plan, RunSettings};
use gpulane_report::Look;

use super::check::read_plan;
use super::demo_map::demo_map;
use super::run::start;
use crate::args::{Demo, Demonstration, Show};
use crate::say;

/// Simulated, so that it shows the same everywhere.
const GPUS: &str = "sim:8x24GiB";

const FILES: [(&str, &str); 3] = [
    ("train.py", include_str!("../../demo/train.py")),
    ("evaluate.py", include_str!("../../demo/evaluate.py")),
    ("plan.toml", include_str!("../../demo/plan.toml")),
];

pub(crate) fn demo(args: &Demo) -> ExitCode {
    if args.what == Demonstration::Map {
        return demo_map(args);
    }
    let gpus = args.gpus.clone().unwrap_or_else(|| GPUS.to_owned());
    if let Err(error) = unpack(&args.dir, &FILES) {
        say::error(format!("cannot write the demo's files into {}: {error}", args.dir.display()));
        return ExitCode::BadInput;
    }
    let cwd = std::env::current_dir().unwrap_or_default().join(&args.dir).to_string_lossy().into_owned();
    let settings = RunSettings { cwd, gpus: gpus.clone(), ..RunSettings::default() };
    let plan = match read_plan(&args.dir.join("plan.toml"), settings) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    say::progress(format!(
        "demo: {} jobs in {} stages on {}; the programs are in {}",
        plan.jobs.len(),
        plan.stages.len(),
        gpus,
        args.dir.display()
    ));
    let show = Show { json: false, quiet: false, detach: false, trust: Vec::new() };
    let run_dir = fresh(&args.dir);
    let (code, dir) = start(plan.clone(), Some(&run_dir), &show, |_, _, _| Ok(()));
    if let Some(dir) = dir.filter(|_| code == ExitCode::Success) {
        results(&plan, &dir);
    }
    code
}

/// Puts a demonstration's files where they can be read and changed.
pub(super) fn unpack(dir: &Path, files: &[(&str, &str)]) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    for (name, text) in files {
        let path = dir.join(name);
        match std::fs::read_to_string(&path) {
            Ok(there) if there == *text => {}
            Ok(_) => say::note(format!("{} was changed and is used as it is", path.display())),
            Err(_) => std::fs::write(path, text)?,
        }
    }
    Ok(())
}

/// The next free `run-N`.
pub(super) fn fresh(dir: &Path) -> std::path::PathBuf {
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
    say::progress(format!(
        "how it went: gpulane status {}",
        gpulane_model::shell_word(&dir.root().to_string_lossy())
    ));
}
