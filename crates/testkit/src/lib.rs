//! For tests: a gpulane to run in a temporary directory, and eyes for what it leaves behind. Waits on conditions
//! with a deadline, never on bare sleeps.

// A test kit panics where a test fails, and prints for who runs it.
#![allow(clippy::missing_panics_doc, clippy::expect_used, clippy::print_stdout)]

mod fake_mps;
mod fake_nvml;
mod machine;
mod maps;
mod run;
mod workspace;

pub use fake_mps::MPS_DAEMON;
pub use fake_nvml::FakeNvml;
pub use machine::{Seen, processes, tagged};
pub use maps::rows;
pub use run::{Finished, Gpulane, Live};
pub use workspace::Workspace;

use std::time::{Duration, Instant};

/// How long anything may take on a machine that does much else.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until `condition` gives something, at most [`DEADLINE`].
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "waited {DEADLINE:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Says that a test cannot run here, and why; `./x test` lists what was skipped at its end.
pub fn skip(test: &str, why: &str) {
    use std::io::Write;
    println!("skipped: {test}: {why}");
    let Some(list) = std::env::var_os("GPULANE_TEST_SKIPS") else { return };
    let list = std::fs::OpenOptions::new().append(true).create(true).open(list);
    // The list is a convenience; the line above was printed.
    let _ = list.and_then(|mut list| writeln!(list, "{test}: {why}"));
}
