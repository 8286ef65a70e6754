//! A run directory that is not what it was, a journal that cannot be written: one rule for all. It is said at once, whatever else is
//! shown; nothing is started meanwhile; the run ends when it is told to, and at once.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use gpulane_core::{Input, Trouble};
use gpulane_model::{ExitCode, FullDisk, JobId, Millis};

use super::clock::Alarm;
use super::disk_space::{self, Found, StartPermit};
use super::launchpad::Setback;
use super::place::Misplaced;
use super::reactor::Reactor;

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
    pub(super) fn may_start(&mut self) -> Result<(), Setback> {
        // Between two looks, too: a job would be told to write where nobody will look for it.
        if self.misplaced.is_none() && !self.prepared.place.is_here() {
            self.check_place();
        }
        match (&self.misplaced, self.obstacle()) {
            (Some(Misplaced::Held(because) | Misplaced::Removed(because)), _) => {
                Err(Setback::Blocked(because.clone()))
            }
            (None, None) => self.find_space(),
            (None, Some(because)) if !self.prepared.dir.journal_file().exists() => {
                Err(Setback::Fatal(because))
            }
            (None, Some(because)) => Err(Setback::Blocked(because)),
        }
    }

    /// Nothing is started to fail on a full disk.
    fn find_space(&mut self) -> Result<(), Setback> {
        let (now, place) = (self.clock.now(), &self.prepared.place);
        let root = self.prepared.dir.root().display().to_string();
        match self.disk_space.permit(now, |wanted| disk_space::look(place.directory(), wanted)) {
            StartPermit::Granted => {}
            StartPermit::GrantedAgain => {
                self.prepared.link.trouble(&format!("there is space again on the disk of {root}; going on"));
                self.last_note.clear();
            }
            StartPermit::GrantedAsItIs(found) => {
                let seen = found.words(&root);
                self.prepared.link.trouble(&format!("still {seen}; starting jobs as it is"));
                self.last_note.clear();
            }
            StartPermit::Refused(found) => {
                let found = found.unwrap_or(Found::Full);
                let (seen, limit) = (found.words(&root), found.limit());
                return Err(Setback::Blocked(format!(
                    "{seen}; a job failed there, which does not count as a try: free some space and the run goes on by itself{limit}"
                )));
            }
        }
        Ok(())
    }

    /// A job failed, and there is no other explanation than `words`, if it said that its disk is full. Whether one was.
    pub(super) fn lack_of_space(&mut self, job: JobId, words: Option<String>) -> Option<Trouble> {
        let (root, place) = (self.prepared.dir.root().display().to_string(), &self.prepared.place);
        let found = match &words {
            Some(_) => disk_space::look(place.directory(), 0),
            None => disk_space::glance(place.directory()),
        };
        let seen = found.words(&root);
        if found.is_full() {
            self.disk_space.on_full(job, found, self.clock.now());
            let words = words.map(|words| format!(": {words}")).unwrap_or_default();
            return Some(Trouble::DiskFull { because: format!("{seen}{words}"), disk: FullDisk::Run });
        }
        words.map(|words| Trouble::DiskFull {
            because: format!(
                "it says that a disk is full, and {seen}: look at where else it writes (`df -h`, /tmp, /dev/shm) and how much: {words}"
            ),
            disk: FullDisk::Other,
        })
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
