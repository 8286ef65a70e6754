//! Everything a person sees of a run: the live view, its last words, `status` and `logs`. Made from the journal and
//! the jobs' log files alone, so a view can come and go while the engine works on. Prints only through the writers
//! it is given, and decides nothing.

// `text.push_str(&format!(…))` reads better than a `write!` whose result must be thrown away.
#![allow(clippy::format_push_string)]

mod clean;
mod detail;
mod frame;
mod labels;
mod lanes;
mod lines;
mod live;
mod logs;
mod look;
mod output;
mod pace;
mod palette;
mod phase;
mod plain;
mod prefix;
mod runs;
mod screen;
mod standing;
mod status;
mod status_json;
mod summary;
mod table;
mod tail;
mod teller;
mod text;
mod thin;
mod view;
mod waits;

pub use detail::{job_detail, job_detail_json};
pub use live::Live;
pub use logs::{Logs, Which};
pub use look::{Look, Mode, Size};
pub use phase::{Phase, Snapshot};
pub use runs::{RunFacts, RunRow, runs_json, runs_table};
pub use status::status;
pub use status_json::status_json;
pub use summary::End;
pub use table::results_table;
