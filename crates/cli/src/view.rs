//! The view of a run that was started here, in a thread of its own: whoever reads our output may stop reading, and
//! neither the run nor our ears for signals may suffer from that. If the view breaks, the run goes on without it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpulane_journal::RunDir;
use gpulane_model::{Millis, Plan};
use gpulane_report::{End, Live, Look, Mode};
use gpulane_runtime::Durable;

use crate::say;

/// Smooth for the eye, nothing for the machine.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// What the view is told.
enum Word {
    /// Events of this engine begin after this many bytes of the journal.
    Begin(u64),
    Note(String),
    /// Shown whatever else is not.
    Trouble(String),
    Finish(End),
}

/// The view, from outside.
pub(crate) struct View {
    /// Unbounded, for a few notes. `None`: nothing is shown.
    words: Option<Sender<Word>>,
    done: Receiver<()>,
    begun: bool,
}

impl View {
    /// Shows nothing but notes.
    pub(crate) fn none() -> Self {
        Self { words: None, done: sync_channel(1).1, begun: false }
    }

    pub(crate) fn start(dir: &RunDir, plan: Arc<Plan>, mode: Mode, durable: Durable) -> Self {
        let (words, heard) = channel();
        let (done_here, done) = sync_channel(1);
        let dir = dir.clone();
        let thread = std::thread::Builder::new().name("view".into()).spawn(move || {
            let mut ended = None;
            if let Err(error) = show(&dir, &plan, mode, &durable, &heard, &mut ended) {
                say::note(match ended {
                    None => format!("the view ends ({error}); the run goes on, see `gpulane status`"),
                    Some(end) => format!("{}, which cannot be shown ({error})", in_words(&end)),
                });
            }
            // Whoever waited may be gone.
            let _ = done_here.send(());
        });
        Self { words: thread.is_ok().then_some(words), done, begun: false }
    }

    fn tell(&self, word: Word) {
        if let Some(words) = &self.words {
            // A view that broke hears nothing any more.
            let _ = words.send(word);
        }
    }

    pub(crate) fn begin(&mut self, bytes: u64) {
        self.begun = true;
        self.tell(Word::Begin(bytes));
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(crate) fn note(&self, text: String) {
        if self.begun && self.words.is_some() {
            self.tell(Word::Note(text));
        } else {
            say::note(text);
        }
    }

    /// What holds the run up. Said also where nothing else is shown, or the view is gone.
    pub(crate) fn trouble(&self, text: String) {
        match &self.words {
            Some(words) if self.begun => {
                if let Err(SendError(Word::Trouble(text))) = words.send(Word::Trouble(text)) {
                    say::note(text);
                }
            }
            _ => say::note(text),
        }
    }

    /// How it ended. Said also where the view is gone.
    pub(crate) fn finish(&self, end: End) {
        if let Some(words) = &self.words
            && let Err(SendError(Word::Finish(end))) = words.send(Word::Finish(end))
        {
            say::note(in_words(&end));
        }
    }

    /// Whether all is shown, or will never be.
    pub(crate) fn is_done(&self, wait: Duration) -> bool {
        !matches!(self.done.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
    }
}

/// For where the journal cannot be read.
fn in_words(end: &End) -> String {
    match end {
        End::Finished => "the run has ended: every job is over".to_owned(),
        End::Interrupted => "the run was interrupted; `gpulane resume` continues it".to_owned(),
        End::EngineDied { message } => format!("the run has ended: {message}"),
        End::Detached => "the run goes on".to_owned(),
    }
}

/// `ended` tells how far it came, should it fail.
fn show(
    dir: &RunDir,
    plan: &Arc<Plan>,
    mode: Mode,
    durable: &Durable,
    words: &Receiver<Word>,
    ended: &mut Option<End>,
) -> io::Result<()> {
    let look = Look::detect(&io::stderr());
    let (out, err) = (Box::new(io::stdout()), Box::new(io::stderr()));
    let mut live = Live::new(dir.clone(), Arc::clone(plan), mode, look, out, err);
    let mut begun = false;
    loop {
        match words.recv_timeout(LOOK_EVERY) {
            Ok(Word::Begin(bytes)) => {
                begun = true;
                live.catch_up(Some(bytes))?;
            }
            Ok(Word::Note(text)) => live.note(&text),
            Ok(Word::Trouble(text)) => live.warn(&text),
            Ok(Word::Finish(end)) => return live.finish(ended.insert(end), unix_now()),
            // Before that, what is in the journal is of earlier engines.
            Err(RecvTimeoutError::Timeout) if !begun => {}
            Err(RecvTimeoutError::Timeout) => live.tick(Some(durable.bytes()), unix_now())?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// The time of day.
pub(crate) fn unix_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
