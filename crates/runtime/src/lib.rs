//! Performs what the core decides and turns the world into its inputs: processes, signals, the clock, the disk.
//!
//! Three processes make a run. The *front* is the command a person typed: it shows the run and passes signals on.
//! The *guardian* sits between, in a session of its own: whatever dies, it ends everything below it. The *engine*
//! does the work and is mute: it writes the journal, and views read that.
//!
//! ```text
//! front ──► guardian ──► engine ──► jobs …
//! ```

mod cache;
mod ctrl_c;
mod engine;
mod experience;
mod feeder;
mod front;
mod guardian;
mod leash;
mod orders;
mod placeholders;
mod process;

pub mod control;

pub use ctrl_c::CtrlC;
pub use experience::Experience;
pub use feeder::begin::not_whole;
pub use feeder::flow::ring_bytes;
pub use feeder::sameness::{changed_maps, not_the_same, unopenable_map, way_out};
pub use front::{Durable, EngineEnd, Front, Message, Tick};
pub use leash::hold_leash;
pub use orders::StartRequest;
pub use placeholders::Placeholders;
pub use process::proc_mount::{ProcFault, check_proc};

/// Does what `main` is to do, free of what whoever started this process left it with: signals are at their default but those that
/// `nohup` ignores, its own files can be read whatever the umask, and there is stack enough whatever `ulimit -s` says.
pub fn begin_process<T>(work: impl FnOnce() -> T) -> T {
    process::inherited::reset_signals();
    process::inherited::keep_own_rights();
    process::stack::with_enough(work)
}

/// From now on a signal that asks for an end is answered with its documented exit code, also while a run is only prepared. For commands
/// that start one.
pub fn answer_signals() {
    process::signals::end_by_signals();
}

/// Helps a run to its end whose engine has ended and whose lock is still held: the guardian, which ends what is left, may be stopped.
/// `true`: the engine has ended.
pub fn help_to_end(dir: &gpulane_journal::RunDir) -> bool {
    let ended = guardian::engine_has_ended(dir);
    if ended {
        guardian::wake(dir);
    }
    ended
}

/// The guardian's `main`, when this program was started under the name [`GUARDIAN`](gpulane_model::GUARDIAN). Returns the exit code.
pub fn guardian_main() -> u8 {
    guardian::main()
}

/// The engine's `main`, when this program was started under the name [`ENGINE`](gpulane_model::ENGINE). Returns the exit code.
pub fn engine_main() -> u8 {
    engine::main()
}

/// The `main` of a map's feeder, when this program was started under the name [`FEEDER`](gpulane_model::FEEDER). Returns the exit code.
pub fn feeder_main() -> u8 {
    feeder::main()
}

/// Removes what an engine made in a new run directory before it refused to begin, each by its name; anything else stays. A journal
/// with something in it stays, too: then a run has begun.
pub fn take_back(dir: &gpulane_journal::RunDir) {
    engine::take_back(dir);
}

/// Whether this file can be executed.
pub fn is_program(path: &std::path::Path) -> bool {
    process::image::is_executable(path)
}

/// Finds a program as a job's start would: `None` if it is not there.
pub fn find_program(program: &str, path: Option<&str>) -> Option<std::path::PathBuf> {
    process::image::find_program(program, path)
}
