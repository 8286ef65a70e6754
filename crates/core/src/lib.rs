//! gpulane's decisions: which job starts where and when, what a failure means, when the run is over. A pure state
//! machine, [`Core::step`]: an [`Input`] and the time go in, [`Effect`]s come out. No clock, no I/O, no threads, no
//! randomness, so that any run can be replayed and tested step by step.
//!
//! The rooms, in the order in which they build on each other:
//!
//! - `input`, `effect`: what goes in and out.
//! - `demand`, `memory`, `devices`, `lanes`: what a job takes, how full each GPU is, and who holds what.
//! - `job`, `stages`, `map_slot`, `line`: where each job stands, what each stage waits for, how each map does, which queues have
//!   something to start.
//! - `state`: [`Core`] itself and `step`; `restore` makes one from a journal.
//! - `starts`, `gate`, `ends`, `leases`: starting what can start, what the end of a job means to others, GPUs that come and
//!   go.
//! - `standbys`: which processes should wait for jobs; a question the runtime asks after each step.
//! - `on_*`: handlers, a room for each kind of news.
//! - `rank`, `order`: who goes first where GPUs are shared by memory; `forecast`: how it would go.
//! - `signs`, `vigil`, `norm`: when a job that shows no life is frozen; used by whoever watches, not by the core.
//! - `waiting`, `misfit`, `invariants`: answers about the state; they change nothing.

pub mod batches;

mod demand;
mod devices;
mod effect;
mod ends;
mod forecast;
mod gate;
mod guess;
mod input;
mod invariants;
mod job;
mod lanes;
mod leases;
mod line;
mod map_slot;
mod memory;
mod misfit;
mod norm;
mod on_done;
mod on_exit;
mod on_gpu;
mod on_map;
mod on_peak;
mod on_remains;
mod on_spawn;
mod on_stop;
mod on_stuck;
mod on_trouble;
mod order;
mod rank;
mod restore;
mod rhythm;
mod signs;
mod stages;
mod standbys;
mod starts;
mod state;
mod timeouts;
mod vigil;
mod waiting;
mod wakes;

pub use effect::{Effect, GpuSet, Manner, Outcome};
pub use forecast::{Forecast, forecast};
pub use gate::YOUTH;
pub use gpulane_model::Counts;
pub use input::{Input, Remains, Timer, Trouble, Verdict};
pub use memory::{HEADROOM, MARGIN, reserve_for};
pub use misfit::{Lack, Misfit, misfits};
pub use norm::Norm;
pub use rhythm::{Place, Rest, Rhythm, ThreadSigns, Work};
pub use signs::{Doubt, ProcessSigns, Signs};
pub use standbys::{Pace, StandbyWish, StandbysThere};
pub use state::Core;
pub use timeouts::Timeout;
pub use vigil::{Judgement, Limits, Seen, Vigil, Wish};
pub use waiting::Waiting;
