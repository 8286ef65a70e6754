//! A run as it happens: follows the journal and the logs of running jobs, and shows both. The same for
//! `gpulane run`, which started the engine, and `gpulane watch`, which did not.

use std::io::{self, Write};
use std::sync::Arc;

use gpulane_journal::{Follower, RunDir};
use gpulane_model::{Millis, Plan, RunState};

use crate::look::{Look, Mode};
use crate::summary::{self, End};
use crate::view::View;

/// Events taken in by one tick; the next goes on from there.
const PER_TICK: usize = 10_000;
/// Bytes of ended jobs' logs shown by one tick.
const LOGS_PER_TICK: usize = 8 << 20;
/// What `catch_up` leaves of the logs of jobs that run.
const CATCH_UP_KEEP: u64 = 2 * 1024;

/// A live view of a run.
pub struct Live {
    follower: Follower,
    view: View,
}

impl Live {
    /// A view of this run. Data (JSON lines) goes to `out`, everything for people to `err`.
    pub fn new(
        dir: RunDir,
        plan: Arc<Plan>,
        mode: Mode,
        look: Look,
        out: Box<dyn Write>,
        err: Box<dyn Write>,
    ) -> Self {
        Self { follower: Follower::open(&dir), view: View::new(dir, plan, mode, look, out, err) }
    }

    /// Takes in what has happened so far without showing it, for views that begin in the middle: `watch` and
    /// `resume`. Call it before the first tick. With `durable`, as `resume` has it from the engine it started, all
    /// this was the work of earlier engines, and nothing of what their jobs printed is shown; without it the last
    /// lines of jobs that run now are.
    pub fn catch_up(&mut self, durable: Option<u64>) -> io::Result<()> {
        let Self { follower, view } = self;
        view.silent = true;
        while follower
            .poll(durable, &mut |record, line| view.on_record(record, line))
            .map_err(io::Error::other)?
            > 0
        {}
        view.silent = false;
        view.on_caught_up(CATCH_UP_KEEP, durable.is_some());
        Ok(())
    }

    /// Shows what is new. Call it 20 to 30 times a second. `durable`: how many bytes of the journal are known to
    /// be on disk, `None`: all; `now`: Unix time. Fails only where the journal cannot be read: a writer that takes no
    /// more is left alone from then on, and the view goes on without it.
    pub fn tick(&mut self, durable: Option<u64>, now: Millis) -> io::Result<()> {
        let read = self.read(durable, now, PER_TICK);
        self.view.show(now);
        read
    }

    /// A line from gpulane itself, above the bars.
    pub fn note(&mut self, text: &str) {
        self.view.note(text);
    }

    /// A line from gpulane itself that is shown in every mode: the run is held up.
    pub fn warn(&mut self, text: &str) {
        self.view.warn(text);
    }

    /// Shows all the rest, takes the bars away and sums up.
    pub fn finish(&mut self, end: &End, now: Millis) -> io::Result<()> {
        let read = self.read(None, now, usize::MAX);
        self.view.close(now);
        let lines = summary::lines(&self.view.summed(now), end);
        self.view.print(&lines);
        read
    }

    /// The run's state as shown.
    pub fn state(&self) -> &RunState {
        &self.view.state
    }

    fn read(&mut self, durable: Option<u64>, now: Millis, most: usize) -> io::Result<()> {
        let Self { follower, view } = self;
        view.log_bytes = 0;
        let mut taken = 0;
        loop {
            let count = follower
                .poll(durable, &mut |record, line| view.on_record(record, line))
                .map_err(io::Error::other)?;
            view.write_json();
            taken += count;
            let enough = taken >= most || (view.log_bytes >= LOGS_PER_TICK && most != usize::MAX);
            if count == 0 || enough {
                return Ok(());
            }
            view.spill(now);
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("follower", &self.follower).finish_non_exhaustive()
    }
}
