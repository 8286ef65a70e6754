//! Everything a person sees of a run: the live view, its last words, `status` and `logs`. Made from the journal and
//! the jobs' log files alone, so a view can come and go while the engine works on. Prints only through the writers
//! it is given, and decides nothing.

// `text.push_str(&format!(…))` reads better than a `write!` whose result must be thrown away.
#![allow(clippy::format_push_string)]

mod clean;
mod detail;
mod echoes;
mod findings;
mod fit_json;
mod fit_memory;
mod fit_plan;
mod frame;
mod gpu_advice;
mod gpu_kinds;
mod gpu_words;
mod gpus_screen;
mod gpus_seen;
mod gpus_table;
mod labels;
mod lanes;
mod last_words;
mod lines;
mod live;
mod logs;
mod look;
mod map_words;
mod maps;
mod metrics;
mod output;
mod pace;
mod packing;
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
mod suspects;
mod table;
mod tail;
mod teller;
mod text;
mod thin;
mod used;
mod view;
mod waits;
mod watch_words;

pub use clean::{json_text, terminal_text};
pub use detail::{job_detail, job_detail_json};
pub use findings::{Found, Weight, findings_count, findings_text};
pub use fit_json::fit_plan_json;
pub use fit_memory::{FitMemory, fit_memory, fit_memory_json};
pub use fit_plan::{FitPlan, JobTime, fit_plan};
pub use gpu_kinds::GpuKindOf;
pub use gpus_screen::GpusScreen;
pub use gpus_seen::{SeenGpu, SeenGpus, SeenHolder, Whose, gpus_json};
pub use gpus_table::gpus_table;
pub use live::Live;
pub use logs::{Logs, Which};
pub use look::{Look, Mode, Size};
pub use phase::{Phase, Snapshot};
pub use runs::{RunFacts, RunRow, runs_json, runs_table};
pub use status::status;
pub use status_json::status_json;
pub use summary::End;
pub use table::results_table;
