//! For tests: a gpulane to run in a temporary directory, and eyes for what it leaves behind. Waits on conditions
//! with a deadline, never on bare sleeps.

#![allow(clippy::missing_panics_doc)] // a test kit panics where a test fails

mod machine;
mod run;
mod workspace;

pub use machine::{Seen, processes, tagged};
pub use run::{Finished, Gpulane, Live};
pub use workspace::Workspace;

use std::time::{Duration, Instant};

/// How long anything may take on a machine that does much else.
pub const DEADLINE: Duration = Duration::from_secs(60);

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
