//! From a run directory to its end: start the engine, show the run, pass signals on, sum up.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpulane_journal::{RunDir, RunLock};
use gpulane_model::{ExitCode, Millis, Plan};
use gpulane_report::{End, Live, Look, Mode};
use gpulane_runtime::{EngineEnd, Front, Message, StartRequest, Tick};

use crate::args::Show;
use crate::say;

/// Between two looks at the journal: smooth for the eye, nothing for the machine.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Signals after which we no longer wait for the engine to end things in order.
const PATIENCE: u32 = 3;

/// How it ended, and whether the engine ever began.
pub(crate) struct Ended {
    pub(crate) code: ExitCode,
    /// Refused before anything was started.
    pub(crate) refused: bool,
}

/// Runs what is in `dir` and shows it.
pub(crate) fn attach(
    dir: &RunDir,
    lock: RunLock,
    plan: Arc<Plan>,
    request: StartRequest,
    show: &Show,
) -> io::Result<Ended> {
    let detached = request.detached;
    let mut front = Front::launch(dir, &lock, request)?;
    // The engine and its guardian hold the run now.
    drop(lock);
    let mode = Mode::choose(show.json, show.quiet || detached);
    let mut session = Session { dir, plan, mode, live: None, refused: None, signals: 0 };
    loop {
        for message in front.messages() {
            session.on_message(message)?;
        }
        if detached && front.durable() > 0 {
            say::data(format!("{}\n", dir.root().display()));
            return Ok(Ended { code: ExitCode::Success, refused: false });
        }
        match front.wait(LOOK_EVERY)? {
            Tick::Look => session.tick(front.durable())?,
            Tick::Signal(signal) => {
                front.pass_on(signal);
                if session.on_signal() {
                    return Ok(Ended { code: ExitCode::Interrupted, refused: false });
                }
            }
            Tick::Ended(end) => {
                for message in front.messages() {
                    session.on_message(message)?;
                }
                return session.finish(end);
            }
        }
    }
}

/// What the front knows while the run goes on.
struct Session<'a> {
    dir: &'a RunDir,
    plan: Arc<Plan>,
    mode: Mode,
    /// Once the engine has opened the journal.
    live: Option<Live>,
    refused: Option<ExitCode>,
    /// How often we were told to stop.
    signals: u32,
}

impl Session<'_> {
    fn on_message(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Ready { bytes } => {
                let look = Look::detect(&io::stderr());
                let (out, err) = (Box::new(io::stdout()), Box::new(io::stderr()));
                let mut live = Live::new(self.dir.clone(), Arc::clone(&self.plan), self.mode, look, out, err);
                live.catch_up(Some(bytes))?;
                self.live = Some(live);
            }
            Message::Note(text) => match &mut self.live {
                Some(live) => live.note(&text),
                None => say::note(text),
            },
            Message::Refused { text, hint, code } => {
                say::error(text);
                if let Some(hint) = hint {
                    say::hint(hint);
                }
                self.refused = Some(code_of(code));
            }
        }
        Ok(())
    }

    fn tick(&mut self, durable: u64) -> io::Result<()> {
        match &mut self.live {
            Some(live) => live.tick(Some(durable), unix_now()),
            None => Ok(()),
        }
    }

    /// `true`: a person insists; the guardian ends everything as soon as we are gone.
    fn on_signal(&mut self) -> bool {
        self.signals += 1;
        let text = match self.signals {
            1 => "stopping: running jobs get TERM and their grace; again to kill them now",
            2 => "killing everything now",
            _ => "leaving; the guardian ends what is left",
        };
        match &mut self.live {
            Some(live) => live.note(text),
            None => say::note(text),
        }
        self.signals >= PATIENCE
    }

    fn finish(mut self, end: EngineEnd) -> io::Result<Ended> {
        if let Some(code) = self.refused {
            return Ok(Ended { code, refused: true });
        }
        let (code, end) = match end {
            EngineEnd::Code(code) => (code_of(code), self.manner(code_of(code))),
            EngineEnd::Killed(signal) => {
                let message =
                    format!("the engine was killed ({})", gpulane_model::ProcessExit::Signal(signal));
                (ExitCode::Internal, End::EngineDied { message })
            }
        };
        match &mut self.live {
            Some(live) => live.finish(&end, unix_now())?,
            None => say::error(format!(
                "the engine ended before it began; see {}",
                self.dir.engine_log().display()
            )),
        }
        Ok(Ended { code, refused: false })
    }

    fn manner(&self, code: ExitCode) -> End {
        match code {
            ExitCode::Interrupted | ExitCode::Terminated => End::Interrupted,
            ExitCode::Internal => End::EngineDied {
                message: format!("gpulane could not go on; see {}", self.dir.engine_log().display()),
            },
            _ => End::Finished,
        }
    }
}

fn code_of(code: u8) -> ExitCode {
    [
        ExitCode::Success,
        ExitCode::BadInput,
        ExitCode::SomeFailed,
        ExitCode::NothingToDo,
        ExitCode::NoResources,
        ExitCode::Interrupted,
        ExitCode::Terminated,
    ]
    .into_iter()
    .find(|known| known.code() == code)
    .unwrap_or(ExitCode::Internal)
}

/// The time of day.
pub(crate) fn unix_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
