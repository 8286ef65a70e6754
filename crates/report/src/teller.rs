//! Events told in lines, the same for terminals and files: `✓ train/x 1.2 s (3/13)`.

use gpulane_journal::RunDir;
use gpulane_model::{
    Attempt, Bytes, Event, FailReason, Failure, FullDisk, HangAction, JobId, Millis, Plan, Record, RunState,
    Stage,
};

use crate::clean::safe;
use crate::frame::extent;
use crate::gpu_words::gpu_line;
use crate::lanes::machine_text;
use crate::look::Look;
use crate::map_words::{is_told_by_map, items_text, map_line};
use crate::palette::{Palette, Style};
use crate::screen::Screen;
use crate::text::{fit, jobs, number, seconds, shown};
use crate::thin::{Kind, Thin};
use crate::watch_words::watch_lines;

/// Columns of a reason in a list.
pub(crate) const REASON: usize = 60;
/// How long the heading of a resumed run waits for what the new engine finds.
const OPENING: Millis = Millis(500);

/// Tells events.
#[derive(Debug)]
pub(crate) struct Teller {
    palette: Palette,
    /// The terminal it tells on, if it is one.
    terminal: Option<Look>,
    thin: Thin,
    /// A resumed run whose heading is not told yet.
    opening: Option<Opening>,
    /// The job that failed last, if it found the disk of the run full: its next try waits for space.
    lacks_space: Option<String>,
}

/// An engine that takes a run up again first tells what it found; only then is known how much is left to do.
#[derive(Debug)]
struct Opening {
    name: String,
    /// What the run may use now, in words.
    machine: String,
    /// Since the first tick.
    since: Option<Millis>,
    /// What was told in the meantime.
    lines: Vec<String>,
}

impl Teller {
    pub(crate) fn new(palette: Palette, terminal: Option<Look>) -> Self {
        Self { palette, terminal, thin: Thin::default(), opening: None, lacks_space: None }
    }

    /// Tells one event. `state` has taken it in already. `before_it`: the job whose last lines were the same as those of
    /// this one, which were not shown.
    pub(crate) fn tell(
        &mut self,
        record: &Record,
        before_it: Option<JobId>,
        state: &RunState,
        plan: &Plan,
        dir: &RunDir,
        screen: &mut Screen,
    ) {
        let palette = self.palette;
        if !belongs_to_opening(&record.event) {
            self.open(state, screen);
        }
        if is_told_by_map(&record.event, state, plan) {
            return;
        }
        if let Event::JobFailed { job, failure, .. } = &record.event {
            self.lacks_space = (failure.disk_full == Some(FullDisk::Run)).then(|| job.clone());
        }
        let line = match &record.event {
            Event::RunStarted { machine, .. } => {
                let name = palette.paint(Style::Bold, &plan.name);
                format!("{name}: {} on {}, in {}", extent(plan), machine_text(machine), shown(dir.root()))
            }
            Event::RunResumed { machine, .. } => {
                let (name, machine) = (plan.name.clone(), machine_text(machine));
                self.opening = Some(Opening { name, machine, since: None, lines: Vec::new() });
                return;
            }
            Event::JobSucceeded { job, seconds: took, peak_vram, .. }
                if self.thin.allows(Kind::Succeeded) =>
            {
                let peak = peak_vram.map(|peak| format!(", {}", Bytes(peak))).unwrap_or_default();
                format!("{} {job} {}{peak} {}", palette.tick(), seconds(*took), self.place(state))
            }
            Event::JobFailed { job, attempt, failure } if self.thin.allows(Kind::Failed) => {
                self.failed(state, plan, job, *attempt, failure, before_it)
            }
            Event::JobRetrying { job, delay, .. } if self.thin.allows(Kind::Retrying) => {
                let delay = seconds(*delay);
                let when = match delay.0 {
                    0 if self.lacks_space.as_ref() == Some(job) => "when there is space".to_owned(),
                    0 => "now".to_owned(),
                    _ => format!("in {delay}"),
                };
                format!("{} {job} is tried again {when}", palette.again())
            }
            Event::JobRequeued { .. } => {
                self.thin.allows(Kind::Requeued);
                return;
            }
            Event::JobSkipped { job, because } if self.thin.allows(Kind::Skipped) => {
                format!("{} {job} skipped: {} {}", palette.skip(), safe(because), self.place(state))
            }
            event if watch_kind(event).is_some_and(|kind| !self.thin.allows(kind)) => return,
            Event::StartsHeld { because } => format!("{} no new starts: {}", palette.alert(), safe(because)),
            Event::StandbysOff { stage, why } => {
                format!("{} standbys of {stage} switched off: {}", palette.alert(), safe(why))
            }
            Event::StartsReleased {} => "starts go on".to_owned(),
            Event::RunInterrupted { because, .. } => {
                format!("{} interrupted: {}", palette.alert(), safe(because))
            }
            Event::ItemFailed { reason, .. } if !self.thin.allows_item(reason) => return,
            Event::MemoryExceeded { .. } if !self.thin.allows(Kind::Exceeded) => return,
            other => {
                let found =
                    gpu_line(other, state.machine.as_ref(), palette).or_else(|| map_line(other, palette));
                let Some(line) = found else {
                    let columns = self.terminal.map(|look| look.size().0);
                    return self.say(watch_lines(other, (plan, state), palette, columns), screen);
                };
                line
            }
        };
        self.say(vec![line], screen);
    }

    /// Shows lines, behind the heading if that waits.
    fn say(&mut self, lines: Vec<String>, screen: &mut Screen) {
        match &mut self.opening {
            Some(opening) => opening.lines.extend(lines),
            None => screen.lines(&lines),
        }
    }

    /// Tells the heading of a resumed run that waits, and what came behind it.
    fn open(&mut self, state: &RunState, screen: &mut Screen) {
        let Some(Opening { name, machine, lines, .. }) = self.opening.take() else { return };
        let name = self.palette.paint(Style::Bold, &name);
        screen.line(&format!("{name}: goes on, {} to do on {machine}", left_to_do(state)));
        screen.lines(&lines);
    }

    /// Once a tick: tells what was thinned out, when it is time.
    pub(crate) fn tick(&mut self, now: Millis, over: bool, state: &RunState, screen: &mut Screen) {
        if let Some(opening) = &mut self.opening {
            if !over && now.since(*opening.since.get_or_insert(now)) < OPENING {
                return;
            }
            self.open(state, screen);
        }
        if let Some(text) = self.thin.summary(now, over, self.palette) {
            // Jobs that are workers say nothing of how far a map is.
            let place =
                if state.maps.iter().any(Option::is_some) { String::new() } else { self.place(state) };
            screen.line(format!("{text} {place}").trim_end());
        }
    }

    fn failed(
        &self,
        state: &RunState,
        plan: &Plan,
        job: &str,
        attempt: Attempt,
        failure: &Failure,
        before_it: Option<JobId>,
    ) -> String {
        let mut line = format!("{} {job} {}", self.palette.cross(), failure_text(failure, attempt.0 > 0));
        let Some(id) = state.find(job) else { return line };
        match before_it {
            Some(first) if first == id => line.push_str(", the same lines as before"),
            Some(first) => line.push_str(&format!(", the same lines as {}", plan.job_name(first))),
            None => {}
        }
        let (tries, failures) = (allowed(plan.stage_of(id), failure) + 1, state.job(id).failures);
        if failure.shared {
            line.push_str("; it shared its GPU: next try alone, not counted");
            return line;
        }
        if failure.disk_full.is_some() {
            line.push_str("; not counted, since a disk was full");
            return line;
        }
        if !failure.counts() {
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
    let words = safe(&failure.describe()).into_owned();
    finally(state, job, failure, words)
}

/// The same in a list, where a long story makes every line long.
pub(crate) fn brief_failure(state: &RunState, job: JobId, failure: &Failure, palette: Palette) -> String {
    let words = fit(&safe(&failure.describe()), REASON, palette.dots());
    finally(state, job, failure, words)
}

fn finally(state: &RunState, job: JobId, failure: &Failure, words: String) -> String {
    let state = state.job(job);
    let mut text = with_time(failure, words, state.attempts > 0);
    if state.failures > 1 {
        text.push_str(&format!(", {} tries", state.failures));
    }
    text
}

/// `exit code 3 after 0.4 s`, `timeout: took longer than 1.0 s, ended after 11 s`. `timed`: with how long it took.
pub(crate) fn failure_text(failure: &Failure, timed: bool) -> String {
    with_time(failure, safe(&failure.describe()).into_owned(), timed)
}

fn with_time(failure: &Failure, mut text: String, timed: bool) -> String {
    if timed && failure.seconds > 0.0 {
        // A message reads on to its own end.
        let ended = if failure.message.is_some() { ", ended" } else { "" };
        text.push_str(&format!("{ended} after {}", seconds(failure.seconds)));
    }
    text
}

/// How often a job that failed so is tried again. One that froze may do better, even where failures have no other try.
fn allowed(stage: &Stage, failure: &Failure) -> u32 {
    match stage.hang.map(|hang| hang.action).filter(|_| failure.reason == FailReason::Hang) {
        Some(HangAction::Retry) => stage.retries.max(1),
        Some(_) => 0,
        None => stage.retries,
    }
}

/// What is said of jobs that are watched, where there may be much of it.
fn watch_kind(event: &Event) -> Option<Kind> {
    match event {
        Event::ProcessesLeft { .. } => Some(Kind::LeftProcesses),
        Event::HangSuspected { .. } => Some(Kind::Suspected),
        Event::JobLingered { .. } => Some(Kind::Lingered),
        _ => None,
    }
}

/// `4 jobs`; `3 items` where workers of maps are all there is: how many of them there are says nothing.
fn left_to_do(state: &RunState) -> String {
    let left = state.counts.pending + state.counts.running;
    let all_maps = state.maps.iter().all(Option::is_some);
    let mut maps = state.maps.iter().flatten();
    let items = maps.try_fold(0_u64, |all, map| Some(all.saturating_add(map.left()?)));
    match items {
        Some(items) if items > 0 && (all_maps || left == 0) => items_text(items),
        _ => jobs(left),
    }
}

/// What an engine tells of the past before it starts anything.
fn belongs_to_opening(event: &Event) -> bool {
    match event {
        Event::JobSucceeded { .. }
        | Event::JobRetrying { .. }
        | Event::JobRequeued { .. }
        | Event::JobSkipped { .. }
        | Event::MapReopened { .. } => true,
        Event::JobFailed { failure, .. } => failure.reason == FailReason::Lost,
        _ => false,
    }
}
