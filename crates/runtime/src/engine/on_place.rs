//! A run directory that is not what it was, a journal that cannot be written: one rule for all. It is said at once, whatever else is
//! shown; nothing is started meanwhile; the run ends when it is told to, and at once.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use gpulane_core::{Input, Trouble};
use gpulane_model::{ExitCode, JobId, Millis};

use super::clock::Alarm;
use super::launchpad::Setback;
use super::place::Misplaced;
use super::reactor::Reactor;
use super::room::{Leave, Space};

/// How often the run's directory and lock are looked at: two system calls.
const LOOK: Millis = Millis::seconds(2);
/// How long the last records may take to reach the disk before we say that they did not.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// The same where it is known that the disk refuses, and somebody waits for the end.
const LAST_TRY: Duration = Duration::from_millis(300);

/// How long we wait at the end for what does not end by SIGKILL; the guardian waits on.
const SOON: Duration = Duration::from_secs(1);
/// Between two looks at whether somebody wants an end.
const LISTEN: Duration = Duration::from_millis(100);

impl Reactor<'_> {
    /// Looks whether the run is where it was, and sets the time of the next look.
    pub(super) fn look_at_place(&mut self) {
        self.check_place();
        let next = self.clock.now().after(LOOK);
        self.clock.set(next, Alarm::Place);
    }

    pub(super) fn check_place(&mut self) {
        if self.tell_place()
            && let Some(Misplaced::Removed(because)) = self.misplaced.clone()
        {
            self.interrupted.get_or_insert(ExitCode::Internal);
            self.publisher.hurry();
            self.feed(Input::Interrupted { because, now: true });
        }
    }

    /// Looks, and says what has changed. `true`: something has.
    fn tell_place(&mut self) -> bool {
        let found = self.prepared.place.look();
        let changed = found != self.misplaced;
        if changed {
            self.prepared.link.trouble(match &found {
                None => "the run directory is as it was; going on",
                Some(Misplaced::Held(because) | Misplaced::Removed(because)) => because,
            });
        }
        self.misplaced = found;
        changed
    }

    /// Nothing is started that could not be recorded, or that somebody else might start too.
    pub(super) fn may_start(&mut self, job: JobId) -> Result<(), Setback> {
        // Between two looks, too: a job would be told to write where nobody will look for it.
        if self.misplaced.is_none() && !self.prepared.place.is_here() {
            self.check_place();
        }
        match (&self.misplaced, self.obstacle()) {
            (Some(Misplaced::Held(because) | Misplaced::Removed(because)), _) => {
                Err(Setback::Blocked(because.clone()))
            }
            (None, None) => self.find_room(job),
            (None, Some(because)) if !self.prepared.dir.journal_file().exists() => {
                Err(Setback::Fatal(because))
            }
            (None, Some(because)) => Err(Setback::Blocked(because)),
        }
    }

    /// Nothing is started to fail on a full disk, but for one job now and then that tries.
    fn find_room(&mut self, job: JobId) -> Result<(), Setback> {
        let (now, place) = (self.clock.now(), &self.prepared.place);
        let leave = self.room.leave(job, now, || Space::of(place.directory()));
        let root = self.prepared.dir.root().display();
        match leave {
            Leave::Yes => {}
            Leave::Again => {
                self.prepared.link.trouble(&format!("there is space again on the disk of {root}; going on"));
                self.last_note.clear();
            }
            Leave::Try => self.prepared.link.trouble(&format!(
                "no more space on the disk of {root} than before; starting {} to see whether it can write, others stay held: free some \
                 space, or interrupt the run",
                self.prepared.plan.job_name(job)
            )),
            Leave::No => {
                return Err(Setback::Blocked(format!(
                    "no space left on the disk of {root}, and a job failed there, which does not count as a try; free some space and the \
                     run goes on by itself"
                )));
            }
        }
        Ok(())
    }

    /// A job failed, and there is no other explanation than `words`, if it said that its disk is full. Whether it was.
    pub(super) fn lack_of_room(&mut self, job: JobId, words: Option<String>) -> Option<Trouble> {
        let root = self.prepared.dir.root().display();
        let found = Space::of(self.prepared.place.directory());
        match (found.filter(|it| it.is_full() || words.is_some() && it.is_little()), words) {
            (Some(found), words) => {
                self.room.on_full(job, found, self.clock.now());
                let words = words.map(|words| format!(": {words}")).unwrap_or_default();
                Some(Trouble::NoRoom {
                    because: format!("no space left on the disk of {root}{words}"),
                    held: true,
                })
            }
            (None, Some(words)) => {
                self.room.on_other_end(job);
                let because = format!(
                    "it says that its disk is full, and the disk of {root} has room: look at where else it writes (`df -h`, /tmp, \
                     /dev/shm): {words}"
                );
                Some(Trouble::NoRoom { because, held: false })
            }
            (None, None) => {
                self.room.on_other_end(job);
                None
            }
        }
    }

    /// Why the journal cannot be written now, if it cannot.
    pub(super) fn obstacle(&self) -> Option<String> {
        self.prepared.obstacle.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until everything is on the disk, for as long as that makes sense. Returns the exit code of a signal that came meanwhile: a
    /// disk that does not answer must not keep whoever wants an end.
    fn wait_for_journal(&mut self) -> Option<ExitCode> {
        let begun = Instant::now();
        while begun.elapsed() < LAST_WORDS && !self.journal.flush(LISTEN) {
            if self.asked && self.obstacle().is_some() {
                return None;
            }
            let mut signals = self.prepared.link.signals();
            signals.extend(self.prepared.signals.take());
            if let Some(signal) = signals.first() {
                self.asked = true;
                return Some(if *signal == libc::SIGINT {
                    ExitCode::Interrupted
                } else {
                    ExitCode::Terminated
                });
            }
        }
        None
    }

    /// The last records go to the disk. Returns the exit code: another than `code`, if they do not arrive and nobody asked for this
    /// end.
    pub(super) fn close_journal(mut self, code: ExitCode) -> ExitCode {
        // What was moved since the last look is said before the end.
        self.tell_place();
        let removed = matches!(self.misplaced, Some(Misplaced::Removed(_)));
        // What was deleted will not come back.
        let gone = removed || self.obstacle().is_some() && !self.prepared.dir.journal_file().exists();
        let told = if gone { None } else { self.wait_for_journal() };
        let patience = if gone { Duration::ZERO } else { LAST_TRY };
        let written = self.journal.close(patience);
        self.prepared.wake_guardian();
        // Where the guardian lives, it does the same once more; where it was killed, nobody else would.
        self.roster.end_all_children(if self.prepared.guardian_lives() { SOON } else { LAST_WORDS });
        if written && !removed {
            return code;
        }
        let code = told.unwrap_or(code);
        let text = if removed {
            "the run directory is gone: nothing of this run is kept"
        } else {
            "the last events could not be written to the journal; `resume` sets that right"
        };
        self.prepared.link.trouble(text);
        if self.asked && self.interrupted != Some(ExitCode::Internal) { code } else { ExitCode::Internal }
    }
}
