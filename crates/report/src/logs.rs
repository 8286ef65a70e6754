//! `gpulane logs RUN [JOB] [-f]`: what jobs printed, whole, of a finished run or as it comes.

use std::io::{self, Write};
use std::sync::Arc;

use gpulane_journal::{Follower, RunDir};
use gpulane_model::{Attempt, Event, JobId, JobStatus, Plan, Record, RunState};

use crate::clean::safe;
use crate::look::Look;
use crate::output::{Hear, Output, Said};
use crate::palette::Palette;
use crate::prefix::{Prefix, bare};
use crate::screen::Screen;
use crate::tail::{Found, Limits};
use crate::teller::failure_text;
use crate::text::plural;

/// Logs asked for are shown whole: long lines, and nothing jumped over.
const WHOLE: Limits = Limits { line: 1 << 20, behind: u64::MAX };

/// Whose logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those of every job, each line with its job's name; the newest attempt of each.
    All,
    /// Those of one job; `None`: its newest attempt.
    Job(JobId, Option<Attempt>),
}

/// A view of logs.
pub struct Logs {
    follower: Follower,
    shelf: Shelf,
}

/// What is shown, and how.
struct Shelf {
    plan: Arc<Plan>,
    state: RunState,
    which: Which,
    palette: Palette,
    prefix: Prefix,
    output: Output,
    screen: Screen,
    /// Something was shown.
    shown: bool,
    /// Taking in the past: attempts that others followed are not shown.
    silent: bool,
}

impl Logs {
    /// A view of these logs, on `out`.
    pub fn new(dir: &RunDir, plan: Arc<Plan>, which: Which, look: Look, out: Box<dyn Write>) -> Self {
        let palette = Palette::new(&look);
        let shelf = Shelf {
            state: RunState::new(&plan),
            which,
            palette,
            prefix: Prefix::whole(&plan, palette),
            output: Output::new(dir.clone(), Arc::clone(&plan), WHOLE),
            screen: Screen::new(out),
            shown: false,
            silent: true,
            plan,
        };
        Self { follower: Follower::open(dir), shelf }
    }

    /// Shows what there is. Job after job, stdout before stderr: their order among each other is not kept.
    pub fn show(&mut self) -> io::Result<()> {
        self.read()?;
        self.shelf.silent = false;
        for job in self.shelf.plan.job_ids() {
            let newest = Attempt(self.shelf.state.job(job).attempts);
            let attempt = match self.shelf.which {
                Which::Job(one, attempt) if one == job => attempt.unwrap_or(newest),
                Which::All => newest,
                Which::Job(..) => continue,
            };
            if attempt.0 > 0 {
                self.shelf.show(job, attempt);
                self.shelf.screen.flush()?;
            }
        }
        Ok(())
    }

    /// With `-f`, after [`show`](Self::show): shows what is new; true once nothing more will come. Call it until
    /// then, or until no engine works on the run any more; then [`finish`](Self::finish).
    pub fn tick(&mut self) -> io::Result<bool> {
        self.read()?;
        self.shelf.hear(|output, hear| output.poll(hear));
        self.shelf.screen.flush()?;
        Ok(self.shelf.is_over())
    }

    /// Shows the rest, also last lines that never ended.
    pub fn finish(&mut self) -> io::Result<()> {
        self.read()?;
        self.shelf.hear(|output, hear| output.end_all(hear));
        self.shelf.screen.flush()
    }

    /// Why nothing was shown so far, for a person; `None` where something was. Ask after [`show`](Self::show) or
    /// [`finish`](Self::finish).
    pub fn nothing_to_show(&self) -> Option<String> {
        if self.shelf.shown { None } else { Some(self.shelf.nothing()) }
    }

    /// Whether the job has had the attempt that was asked for, if one was.
    pub fn has_attempt(&self) -> bool {
        match self.shelf.which {
            Which::Job(job, Some(Attempt(number))) => {
                (1..=self.shelf.state.job(job).attempts).contains(&number)
            }
            Which::Job(_, None) | Which::All => true,
        }
    }

    /// The run's state as read so far.
    pub fn state(&self) -> &RunState {
        &self.shelf.state
    }

    fn read(&mut self) -> io::Result<()> {
        let Self { follower, shelf } = self;
        while follower.poll(None, &mut |record, _| shelf.on_record(record)).map_err(io::Error::other)? > 0 {
            shelf.screen.flush()?;
        }
        Ok(())
    }
}

impl Shelf {
    fn on_record(&mut self, record: &Record) {
        self.state.apply(record);
        let Some(job) = record.event.job().and_then(|name| self.state.find(name)) else { return };
        match &record.event {
            Event::JobStarted { attempt, .. } if self.wants(job, *attempt) => {
                self.output.start(job, *attempt);
            }
            Event::JobSucceeded { attempt, .. } | Event::JobFailed { attempt, .. } => {
                if self.silent {
                    self.output.forget(job);
                } else if self.wants(job, *attempt) && attempt.0 > 0 {
                    self.end(job, *attempt);
                }
            }
            _ => {}
        }
    }

    fn wants(&self, job: JobId, attempt: Attempt) -> bool {
        match self.which {
            Which::All => true,
            Which::Job(one, which) => one == job && which.is_none_or(|which| which == attempt),
        }
    }

    /// What there is of one attempt now. One that still runs stays followed from where this ends.
    fn show(&mut self, job: JobId, attempt: Attempt) {
        if self.output.follows(job, attempt) {
            self.hear(|output, hear| output.poll_job(job, hear));
        } else {
            self.end(job, attempt);
        }
    }

    fn end(&mut self, job: JobId, attempt: Attempt) {
        self.hear(|output, hear| {
            output.end(job, attempt, hear);
        });
    }

    /// Shows what `look` finds in the logs.
    fn hear(&mut self, look: impl FnOnce(&mut Output, Hear<'_>)) {
        let Self { output, plan, which, palette, prefix, screen, shown, .. } = self;
        look(output, &mut |said| {
            *shown = true;
            screen.line(&line(plan, *which, *palette, prefix, &said));
        });
    }

    /// Why there is nothing.
    fn nothing(&self) -> String {
        let Which::Job(job, wanted) = self.which else {
            let any = self.state.jobs.iter().any(|job| job.attempts > 0);
            return if any { "no job has printed anything" } else { "no job has started yet" }.to_owned();
        };
        let (name, state) = (self.plan.job_name(job), self.state.job(job));
        if state.attempts == 0 {
            return match &state.status {
                JobStatus::Skipped(because) => format!("{name} was skipped: {}", safe(because)),
                JobStatus::Failed(failure) => format!("{name} never ran: {}", failure_text(failure, false)),
                _ => format!("{name} has not started yet"),
            };
        }
        match wanted {
            Some(Attempt(number)) if number == 0 || number > state.attempts => {
                format!("{name} has {}, not {number}", plural(state.attempts as usize, "attempt"))
            }
            Some(attempt) if attempt.0 < state.attempts => {
                format!("attempt {attempt} of {name} printed nothing")
            }
            _ if matches!(state.status, JobStatus::Running { .. }) => {
                format!("{name} has printed nothing so far")
            }
            _ => format!("{name} printed nothing"),
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.state.finished || self.state.interrupted.is_some();
        let job_ended = match self.which {
            Which::Job(job, _) => {
                !matches!(self.state.job(job).status, JobStatus::Pending | JobStatus::Running { .. })
            }
            Which::All => false,
        };
        ended || job_ended
    }
}

/// The line as shown: with the job's name where there are several.
fn line(plan: &Plan, which: Which, palette: Palette, prefix: &Prefix, said: &Said<'_>) -> String {
    match (which, said.found) {
        (Which::Job(..), Found::Line(line)) => bare(line, palette),
        _ => prefix.said(plan, said),
    }
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logs").field("follower", &self.follower).finish_non_exhaustive()
    }
}
