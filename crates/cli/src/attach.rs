//! From a run directory to its end: start the engine, have the run shown, pass signals on. This thread never writes
//! to a terminal or pipe that could make it wait; the view has a thread of its own.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_journal::{RunDir, RunLock};
use gpulane_model::{ExitCode, Plan, ProcessExit};
use gpulane_report::{End, Mode};
use gpulane_runtime::{EngineEnd, Front, Message, StartRequest, Tick};
use rustix::process::Signal;

use crate::args::Show;
use crate::say;
use crate::view::View;

/// Between two looks at what the engine says.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How long a reader has to take the summary of a run that was told to stop.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Signals after which we no longer wait for the engine to end things in order.
const PATIENCE: u32 = 3;
/// Time within which a signal that comes again is one wish: `timeout` signals its child, and then the whole group with the child in it.
const ECHO: Duration = Duration::from_millis(500);

/// How it ended, and whether the engine ever began.
pub(crate) struct Ended {
    pub(crate) code: ExitCode,
    /// Refused before anything was started.
    pub(crate) refused: bool,
}

/// Runs what is in `dir` and shows it. The lock is held by us, the guardian and the engine.
pub(crate) fn attach(
    dir: &RunDir,
    lock: &RunLock,
    plan: Arc<Plan>,
    request: StartRequest,
    show: &Show,
) -> io::Result<Ended> {
    let detached = request.detached;
    let mut front = match Front::launch(dir, lock, request) {
        // Nothing but its log is written by then.
        Err(error) if gpulane_journal::is_refused_by_disk(&error) => {
            say::error(format!("cannot write {}: {error}", dir.engine_log().display()));
            gpulane_journal::io_hint(&error).into_iter().for_each(say::hint);
            return Ok(Ended { code: ExitCode::BadInput, refused: true });
        }
        Err(error) => {
            say::error(format!("cannot start the guardian: {error}"));
            gpulane_journal::io_hint(&error).into_iter().for_each(say::hint);
            return Ok(Ended { code: Front::code_of(&error), refused: true });
        }
        Ok(front) => front,
    };
    let durable = front.durable()?;
    let mode = Mode::choose(show.json, show.quiet || detached);
    let view = if detached { View::none() } else { View::start(dir, plan, mode, front.durable()?) };
    let mut session =
        Session { dir, view, refused: None, ended: None, signals: 0, first_signal: None, last_signal: None };
    loop {
        session.take_messages(&mut front);
        if detached && durable.bytes() > 0 {
            say_where(dir, show.json);
            return Ok(Ended { code: ExitCode::Success, refused: false });
        }
        match front.wait(LOOK_EVERY)? {
            Tick::Look => {}
            Tick::Signal(signal) => session.on_signal(&mut front, signal),
            Tick::Ended(end) => {
                session.take_messages(&mut front);
                return Ok(session.finish(&mut front, end));
            }
        }
    }
}

fn say_where(dir: &RunDir, json: bool) {
    let path = dir.root().display().to_string();
    if json {
        say::json(serde_json::json!({ "run": path }));
    } else {
        say::data(format!("{path}\n"));
        let run = gpulane_model::shell_word(&path);
        say::hint(format!("gpulane watch {run}, gpulane logs {run} -f, gpulane cancel {run}"));
    }
}

/// What the front knows while the run goes on.
struct Session<'a> {
    dir: &'a RunDir,
    view: View,
    refused: Option<ExitCode>,
    /// How the engine has ended, in its own words.
    ended: Option<ExitCode>,
    /// How often we were told to stop.
    signals: u32,
    first_signal: Option<i32>,
    last_signal: Option<(i32, Instant)>,
}

impl Session<'_> {
    fn take_messages(&mut self, front: &mut Front) {
        for message in front.messages() {
            match message {
                Message::Ready { bytes } => self.view.begin(bytes),
                Message::Note(text) => self.view.note(text),
                Message::Trouble(text) => self.view.trouble(text),
                Message::Ended { code } => self.ended = Some(code_of(code)),
                Message::Refused { text, hint, code } => {
                    say::error(text);
                    if let Some(hint) = hint {
                        say::hint(hint);
                    }
                    self.refused = Some(code_of(code));
                }
            }
        }
    }

    fn on_signal(&mut self, front: &mut Front, signal: i32) {
        let now = Instant::now();
        let before = self.last_signal.replace((signal, now));
        let is_echo = |(last, at): (i32, Instant)| last == signal && now.duration_since(at) < ECHO;
        if signal != Signal::INT.as_raw() && before.is_some_and(is_echo) {
            return;
        }
        self.signals += 1;
        self.first_signal.get_or_insert(signal);
        front.pass_on(signal);
        let text = match self.signals {
            1 => "stopping: running jobs get TERM and their grace; again to kill them now",
            2 => "killing everything now",
            _ => "the guardian ends everything",
        };
        self.view.note(text.to_owned());
        if self.signals > 1 {
            front.insist();
        }
        if self.signals >= PATIENCE {
            front.cut_lifeline();
        }
    }

    fn finish(self, front: &mut Front, end: EngineEnd) -> Ended {
        if let Some(code) = self.refused {
            return Ended { code, refused: true };
        }
        let (code, end) = match (end, self.first_signal) {
            (EngineEnd::Code(code), _) => (code_of(code), self.manner(code_of(code))),
            // The run has ended in order; what became of its guardian afterwards does not change that.
            (end, _) if let Some(code) = self.ended.filter(|code| !is_cut_short(end, *code)) => {
                if let EngineEnd::GuardianStuck(guardian) = end {
                    self.view.trouble(format!(
                        "the run has ended, but its guardian (pid {guardian}) has not: it is stopped, frozen or stuck in the kernel, and holds \
                         the run's lock until it goes on (`kill -CONT {guardian}`)"
                    ));
                }
                (code, self.manner(code))
            }
            // We were told to stop and insisted: that is how it ended.
            (EngineEnd::Killed(_) | EngineEnd::GuardianKilled { .. }, Some(signal)) if self.signals > 1 => (
                if signal == Signal::INT.as_raw() { ExitCode::Interrupted } else { ExitCode::Terminated },
                End::Interrupted,
            ),
            (EngineEnd::GuardianStuck(guardian), _) => {
                let message = format!(
                    "its guardian (pid {guardian}) cannot say how, because it is stopped, frozen or stuck in the kernel. Processes of \
                     this run may still live; once the guardian goes on (`kill -CONT {guardian}`) it ends them"
                );
                (ExitCode::Internal, End::EngineDied { message })
            }
            (EngineEnd::GuardianKilled { signal, engine_ended }, _) => {
                let then = if engine_ended {
                    "the engine has ended everything"
                } else {
                    "the engine has not ended; processes of this run may still live"
                };
                let message = format!("its guardian was killed ({}); {then}", ProcessExit::Signal(signal));
                (ExitCode::Internal, End::EngineDied { message })
            }
            (EngineEnd::Killed(signal), _) => {
                let message = format!("the engine was killed ({})", ProcessExit::Signal(signal));
                (ExitCode::Internal, End::EngineDied { message })
            }
        };
        if self.view.has_begun() {
            // A reader that does not read must not keep us once we were told to stop.
            self.view.finish(end);
            let (told, begun) = (self.signals > 0, Instant::now());
            while !(self.view.is_done(LOOK_EVERY)
                || front.signal_came()
                || told && begun.elapsed() > LAST_WORDS)
            {}
        } else {
            let log = self.dir.engine_log();
            say::error(format!("the engine ended before it began; see {}", log.display()));
        }
        Ended { code, refused: false }
    }

    fn manner(&self, code: ExitCode) -> End {
        match code {
            // The GPUs it needs did not come, or are gone.
            ExitCode::Interrupted | ExitCode::Terminated | ExitCode::NoResources => End::Interrupted,
            ExitCode::Internal => {
                let log = self.dir.engine_log();
                let said = std::fs::metadata(&log).is_ok_and(|file| file.len() > 0);
                let where_to_look = if said { format!("; see {}", log.display()) } else { String::new() };
                End::EngineDied { message: format!("gpulane could not go on{where_to_look}") }
            }
            _ => End::Finished,
        }
    }
}

/// Whether the engine has ended the run in order, but only because the guardian was killed.
fn is_cut_short(end: EngineEnd, code: ExitCode) -> bool {
    code == ExitCode::Internal && matches!(end, EngineEnd::GuardianKilled { .. })
}

fn code_of(code: u8) -> ExitCode {
    ExitCode::of(code).unwrap_or(ExitCode::Internal)
}
