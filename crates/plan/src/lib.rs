//! TOML or a command line to a checked plan, or every mistake with its place.
//!
//! The rooms form a line: `document` parses and reads the keys of each stage (`settings`), `resolve` finds
//! what stages mean by each other (`references`), makes the points (`expand`) and checks placeholders. `programs` shows
//! where a plan names a program that somebody else could not find. Nothing here reads files, starts anything or prints.
//!
//! # What a plan means where CONTRACT leaves it open
//!
//! - A stage without `matrix`, `job` and `foreach` is one job, `main`, with an empty config.
//! - The first key of a matrix turns slowest; paired keys turn at the place of their first. A config keeps the keys in the
//!   plan's order either way. The product comes first, then `include`, then explicit jobs.
//! - `include` adds a point with exactly its keys. `exclude` removes the points that have all its values.
//! - `[defaults]` takes every key but `name`. What runs (`command`, `entry`, `map`) and the points (`matrix`, `job`,
//!   `foreach`) are inherited as a whole or not at all; `env` key by key. In the defaults, `after` and `foreach` do not
//!   apply to the stage they name. `timeout`, `max_failures` and `hang` take `"off"` to undo a default.
//! - `hang` without a time of its own follows what the stage's jobs normally show. `result` names files below `{out}`: `*` and
//!   `?` stand for any characters or one within a name, `**` for any number of directories; all of its globs must match.
//! - The jobs of a stage with `map` are its workers, `worker-0` and on; how many is decided where the machine is known. `timeout` and
//!   `max_failures` of the defaults do not apply to it.
//! - A stage with `entry` runs the runner of the Python package in the run directory, with `python` or, where that is not written, the
//!   active Python. It has no standbys where `env` has placeholders that differ from job to job.
//! - A placeholder must be known to every job of its stage. A config key may not hide a placeholder all jobs have.
//! - A text with syntax errors is read as far as possible, and what only follows from such an error is not reported.

mod adhoc;
mod bulk;
mod command;
mod diagnostic;
mod document;
mod entries;
mod entry;
mod expand;
mod keys;
mod map;
mod map_line;
mod matrix;
mod names;
mod nearest;
mod parse;
mod placeholders;
mod problems;
mod programs;
mod reader;
mod references;
mod render;
mod resolve;
mod settings;
mod sharing;
mod source;
mod sweep;
mod value;
mod watch;
mod words;

use gpulane_model::RunSettings;

pub use adhoc::{AdHoc, HANG_OUTSIDE, Override, adhoc};
pub use diagnostic::{Diagnostic, Outcome, Severity};
pub use map_line::{MapLine, change_map, map_line};
pub use programs::{chooses_gpu, missing_file, missing_name, missing_program, not_executable, not_there_yet};
pub use render::render;
pub use source::Source;

use problems::Problems;

/// Checks a plan written in TOML. A plan without a name is named after its file.
pub fn check(source: &Source, settings: RunSettings) -> Outcome {
    let mut problems = Problems::new(&source.text);
    let raw = document::read(&source.text, &mut problems);
    let plan = resolve::resolve(raw, names::from_path(&source.name), settings, &mut problems);
    finish(plan, problems)
}

fn finish(plan: Option<gpulane_model::Plan>, problems: Problems<'_>) -> Outcome {
    let diagnostics = problems.finish();
    let plan = plan.filter(|_| diagnostics.iter().all(|found| found.severity != Severity::Error));
    Outcome { plan, diagnostics }
}
