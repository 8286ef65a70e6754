//! How a map ends: everything settled, stopped for a reason, or interrupted. In each case what is done is made durable first.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gpulane_core::batches::Hopeless;
use gpulane_feed::wire::ToWorker;
use gpulane_model::FeederWord;

use super::connection::{Heard, Progress};
use super::hub::Hub;

/// What the last results get to reach the disk when the map was interrupted.
const LAST_WRITE: Duration = Duration::from_secs(5);
/// What workers get to leave before the feeder does.
const FAREWELL: Duration = Duration::from_secs(5);
/// Loaders get so much of the stage's `grace`; after all of it the feeder itself is killed.
const LOADERS_SHARE: f64 = 0.9;

/// Exit codes between feeder and engine.
const STOPPED: u8 = 1;
const INTERRUPTED: u8 = 143;

/// Why it is over.
#[derive(Debug)]
pub(super) enum End {
    /// Every item is settled and durable.
    Finished,
    /// It cannot or must not go on; for a person.
    Stopped(String),
    /// We were told to end.
    Interrupted,
}

impl Hub {
    /// Looks whether there is anything left to do.
    pub(super) fn check_whether_over(&mut self) {
        if self.end.is_some() {
            return;
        }
        let failed = self.tally.failed_before + self.writing.written.failed.load(Ordering::Relaxed);
        let rows = self.tally.rows_before + self.writing.written.rows.load(Ordering::Relaxed);
        if self.task.map.max_failures.is_exceeded(failed, rows + failed) {
            self.end = Some(End::Stopped(format!(
                "{failed} of {} items failed, more than the {} allowed by max_failures; failed.jsonl says which and why. When that is \
                 mended: `gpulane resume {} --failed`",
                rows + failed,
                self.task.map.max_failures,
                self.task.run.display(),
            )));
            return;
        }
        if self.flow.as_ref().is_some_and(|flow| flow.loaders.rates().items > 0) {
            self.prospects().on_loaded();
        }
        let verdict = self.prospects().verdict();
        if let Some(hopeless) = verdict {
            self.end = Some(End::Stopped(self.in_words(hopeless)));
            return;
        }
        let nothing_to_load = self.drained || (self.flow.is_none() && rows + failed >= self.task.list.len());
        if !nothing_to_load || !self.books.is_empty() {
            return;
        }
        match self.writing.finish(true).recv_timeout(LAST_WRITE) {
            Ok(Ok(())) => self.end = Some(self.account()),
            // It has been said why; signals are listened to in between.
            _ => std::thread::sleep(Duration::from_millis(200)),
        }
    }

    /// Why there is no hope, and what to do.
    fn in_words(&self, hopeless: Hopeless) -> String {
        let run = self.task.run.display();
        match hopeless {
            Hopeless::Alike { failed, reason, unloaded: true } => format!(
                "no item so far could be loaded, {failed} of them for the same reason: {reason}. {}; if the files are wrong, mend them, then \
                 `gpulane resume {run} --failed`; `--max-failures 100%` goes on whatever fails",
                self.about_decode()
            ),
            Hopeless::Alike { failed, reason, unloaded: false } => format!(
                "every item so far failed the same way, {failed} of them: {reason}; nothing succeeded. Mend the model, then `gpulane \
                 resume {run} --failed`; `--max-failures 100%` goes on whatever fails"
            ),
            Hopeless::Deaths(deaths) => format!(
                "{deaths} workers died in a row and nothing was done in between; `{}` shows the last words. Mend the model, then \
                 `gpulane resume {run} --failed`",
                self.tally.last_death
            ),
        }
    }

    /// What to do where items are decoded as what they are not: that stays as it was, so it takes a new map.
    fn about_decode(&self) -> String {
        let decode = self.flow.as_ref().map_or_else(String::new, |flow| format!(", `{}`,", flow.decode));
        let again = if self.task.map.lone {
            "start the map into another --out with the right `--decode` or other inputs"
        } else {
            "mend `decode` or `input` in the plan and start it into another --run-dir"
        };
        format!("If how they are decoded{decode} or the inputs are wrong, {again}")
    }

    /// Nothing is left to do: every item must be settled now. If one is not, that is a mistake of ours, and must not pass as success.
    fn account(&self) -> End {
        let written = &self.writing.written;
        let settled = self.tally.rows_before
            + self.tally.failed_before
            + written.rows.load(Ordering::Relaxed)
            + written.failed.load(Ordering::Relaxed);
        let items = self.task.list.len();
        if settled == items {
            return End::Finished;
        }
        End::Stopped(format!(
            "{settled} of {items} items are settled and none is left to do: a bug in gpulane; `gpulane resume` tries the missing ones"
        ))
    }

    /// Says how it ended and takes leave of everyone. Returns the exit code.
    pub(super) fn conclude(mut self) -> u8 {
        let end = self.end.take().unwrap_or(End::Interrupted);
        let now = Instant::now();
        let mut whole = self.summary(now);
        let lacking = self.task.list.lacking();
        if !lacking.is_empty() {
            whole = format!(
                "{whole}; {}: failed.jsonl says which and why; once mended, map each by itself into another --out",
                lacking.in_words()
            );
        }
        let loaders = self.flow.as_ref().and_then(|flow| flow.outside.clone());
        if let Some(loaders) = &loaders {
            loaders.begin_end();
        }
        if !matches!(end, End::Finished) {
            // As much as there is; what is not durable then is done again.
            self.writing.written.leaving.store(true, Ordering::Relaxed);
            let _ = self.writing.finish(false).recv_timeout(LAST_WRITE);
        }
        self.show(now);
        let code = match end {
            End::Finished => {
                self.telling.say(&FeederWord::Finished {
                    rows: self.tally.rows_before + self.writing.written.rows.load(Ordering::Relaxed),
                    failed: self.tally.failed_before + self.writing.written.failed.load(Ordering::Relaxed),
                    damaged: self.damaged(),
                    summary: whole,
                    told: self.present(),
                });
                self.say_bye();
                0
            }
            End::Stopped(because) => {
                self.telling.say(&FeederWord::Stopped { because, refused: false });
                STOPPED
            }
            End::Interrupted => INTERRUPTED,
        };
        if let Some(loaders) = loaders {
            loaders.end_by(now + self.task.stage.grace.duration().mul_f64(LOADERS_SHARE));
        }
        if let Some(flow) = self.flow.take() {
            // Threads may be in the middle of a file that never answers: they are not waited for, they end with this process.
            std::mem::forget(flow.loaders);
        }
        // An end in order: nothing that was in hand is to blame for it.
        for file in ["feed.sock", "in-hand", "in-hand.decode"] {
            let _ = std::fs::remove_file(self.task.dir.join(file));
        }
        if !self.writing.is_behind() {
            self.writing.close();
        }
        code
    }

    /// Workers that have said who they are.
    fn present(&self) -> Vec<(String, u32)> {
        let known = self.workers.values().filter(|worker| worker.progress != Progress::Strange);
        known.map(|worker| (worker.job.clone(), worker.attempt)).collect()
    }

    /// Workers leave by themselves; the socket stays open until they have.
    fn say_bye(&mut self) {
        for id in self.workers.keys().copied().collect::<Vec<_>>() {
            self.send(id, &ToWorker::Bye);
            if let Some(worker) = self.workers.get_mut(&id) {
                worker.progress = Progress::Leaving;
            }
        }
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            self.workers.retain(|_, worker| {
                worker.flush().is_ok() && !matches!(worker.hear(), Heard::Closed | Heard::Nonsense(_))
            });
            if self.workers.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
