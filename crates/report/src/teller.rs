//! Events told in lines, the same for terminals and files: `✓ train/x 1.2 s (3/13)`.

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Event, Failure, JobId, Millis, Plan, Record, RunState};

use crate::clean::safe;
use crate::frame::extent;
use crate::lanes::machine_text;
use crate::palette::{Palette, Style};
use crate::screen::Screen;
use crate::text::{jobs, number, seconds, shown};
use crate::thin::{Kind, Thin};

/// Tells events.
#[derive(Debug)]
pub(crate) struct Teller {
    palette: Palette,
    thin: Thin,
}

impl Teller {
    pub(crate) fn new(palette: Palette) -> Self {
        Self { palette, thin: Thin::default() }
    }

    /// Tells one event. `state` has taken it in already.
    pub(crate) fn tell(
        &mut self,
        record: &Record,
        state: &RunState,
        plan: &Plan,
        dir: &RunDir,
        screen: &mut Screen,
    ) {
        let palette = self.palette;
        let line = match &record.event {
            Event::RunStarted { machine, .. } => {
                let name = palette.paint(Style::Bold, &plan.name);
                format!("{name}: {} on {}, in {}", extent(plan), machine_text(machine), shown(dir.root()))
            }
            Event::RunResumed { machine, .. } => {
                let name = palette.paint(Style::Bold, &plan.name);
                let left = state.counts.pending + state.counts.running;
                format!("{name}: goes on, {} to do on {}", jobs(left), machine_text(machine))
            }
            Event::JobSucceeded { job, seconds: took, .. } if self.thin.allows(Kind::Succeeded) => {
                format!("{} {job} {} {}", palette.tick(), seconds(*took), self.place(state))
            }
            Event::JobFailed { job, attempt, failure } if self.thin.allows(Kind::Failed) => {
                self.failed(state, plan, job, *attempt, failure)
            }
            Event::JobRetrying { job, delay, .. } if self.thin.allows(Kind::Retrying) => {
                let delay = seconds(*delay);
                let when = if delay.0 == 0 { "now".to_owned() } else { format!("in {delay}") };
                format!("{} {job} is tried again {when}", palette.again())
            }
            Event::JobRequeued { .. } => {
                self.thin.allows(Kind::Requeued);
                return;
            }
            Event::JobSkipped { job, because } if self.thin.allows(Kind::Skipped) => {
                format!("{} {job} skipped: {} {}", palette.skip(), safe(because), self.place(state))
            }
            Event::ProcessesLeft { job, count } if self.thin.allows(Kind::LeftProcesses) => {
                let them = if *count == 1 { "1 process" } else { &format!("{count} processes") };
                format!("{} {job} left {them} behind; ended", palette.alert())
            }
            Event::StartsHeld { because } => format!("{} no new starts: {}", palette.alert(), safe(because)),
            Event::StartsReleased {} => "starts go on".to_owned(),
            Event::RunInterrupted { because } => {
                format!("{} interrupted: {}", palette.alert(), safe(because))
            }
            _ => return,
        };
        screen.line(&line);
    }

    /// Once a tick: tells what was thinned out, when it is time.
    pub(crate) fn tick(&mut self, now: Millis, over: bool, state: &RunState, screen: &mut Screen) {
        if let Some(text) = self.thin.summary(now, over, self.palette) {
            screen.line(&format!("{text} {}", self.place(state)));
        }
    }

    fn failed(
        &self,
        state: &RunState,
        plan: &Plan,
        job: &str,
        attempt: Attempt,
        failure: &Failure,
    ) -> String {
        let mut line = format!("{} {job} {}", self.palette.cross(), safe(&failure.describe()));
        if attempt.0 > 0 && failure.seconds > 0.0 {
            line.push_str(&format!(" after {}", seconds(failure.seconds)));
        }
        let Some(id) = state.find(job) else { return line };
        let (tries, failures) = (plan.stage_of(id).retries + 1, state.job(id).failures);
        if !failure.reason.counts() {
            line.push_str(", does not count as a try");
            return line;
        }
        if tries > 1 {
            line.push_str(&format!(", try {failures} of {tries}"));
        }
        if failures >= tries {
            line.push(' ');
            line.push_str(&self.place(state));
        }
        line
    }

    /// `(3/13)`
    fn place(&self, state: &RunState) -> String {
        let all = u32::try_from(state.jobs.len()).unwrap_or(u32::MAX);
        self.palette.paint(Style::Dim, &format!("({}/{})", number(state.counts.ended()), number(all)))
    }
}

/// `exit code 3 after 0.4 s, 2 tries`: a failure that stands.
pub(crate) fn final_failure(state: &RunState, job: JobId, failure: &Failure) -> String {
    let mut text = safe(&failure.describe()).into_owned();
    let state = state.job(job);
    if state.attempts > 0 && failure.seconds > 0.0 {
        text.push_str(&format!(" after {}", seconds(failure.seconds)));
    }
    if state.failures > 1 {
        text.push_str(&format!(", {} tries", state.failures));
    }
    text
}
