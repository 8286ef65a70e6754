//! The reactor's dealings with the feeders of maps: their words become events and inputs, their ends are seen to.

use std::collections::HashSet;

use gpulane_core::Input;
use gpulane_model::{Attempt, Event, FeederWord, StageId};
use rustix::process::Pid;

use super::clock::Alarm;
use super::feeders::Ended;
use super::reactor::{Reactor, watch_feeder};

/// Failures of a map that the journal names one by one.
const MOST_NAMED: u64 = 1000;

/// What the end of a run has to know of its maps.
#[derive(Debug, Default)]
pub(super) struct MapsSeen {
    /// A map has items that failed.
    pub(super) items_failed: bool,
    /// Maps that were refused before any item was given to a worker.
    refused: HashSet<StageId>,
    /// Stages that jobs were started of.
    started: HashSet<StageId>,
}

impl MapsSeen {
    pub(super) fn new(items_failed: bool) -> Self {
        Self { items_failed, ..Self::default() }
    }

    pub(super) fn on_started(&mut self, stage: StageId) {
        self.started.insert(stage);
    }

    /// Whether maps were refused and nothing was started but workers that got nothing to do.
    pub(super) fn were_refused(&self) -> bool {
        !self.refused.is_empty() && self.started.is_subset(&self.refused)
    }
}

impl Reactor<'_> {
    /// Starts the feeder of a map, before the first of its workers and whenever the last one crashed.
    pub(super) fn start_feeder(&mut self, stage: StageId) {
        match self.feeders.start(stage) {
            Ok(pid) => {
                self.roster.spare(pid);
                if let Some((ended, words)) = self.feeders.ears(stage)
                    && let Err(error) = watch_feeder(&self.epoll, stage, ended, words)
                {
                    // Only out of kernel memory. Unheard it is of no use.
                    let because = format!("cannot listen to the feeder: {error}");
                    self.feed(Input::MapEnded { stage, result: Err(because) });
                    self.end_feeder(stage, true);
                }
            }
            // As the starts of its workers, it is held until the run directory is back. Where workers run, they would wait in vain.
            Err(_) if !self.prepared.place.is_here() && !self.has_workers(stage) => {
                self.check_place();
                self.feed(Input::FeederGone { stage });
            }
            Err(error) => {
                let hint =
                    gpulane_journal::io_hint(&error).map(|hint| format!("; {hint}")).unwrap_or_default();
                let because = format!("cannot start the feeder: {error}{hint}");
                self.feed(Input::MapEnded { stage, result: Err(because) });
                self.feed(Input::FeederGone { stage });
            }
        }
    }

    fn has_workers(&self, stage: StageId) -> bool {
        self.prepared.plan.stage(stage).job_ids().any(|job| self.roster.get(job).is_some())
    }

    pub(super) fn end_feeder(&mut self, stage: StageId, at_once: bool) {
        let now = self.clock.now();
        if let Some(at) = self.feeders.end(stage, at_once, now) {
            self.clock.set(at, Alarm::Feeder(stage));
        }
    }

    /// The feeder has said something.
    pub(super) fn hear_feeder(&mut self, stage: StageId) {
        let before = self.feeders.named(stage);
        let words = self.feeders.hear(stage);
        if let Some(words) = self.feeders.silenced(stage) {
            // Otherwise its end of file would wake us for ever.
            let _ = rustix::event::epoll::delete(&self.epoll, words);
        }
        let mut named = before;
        for word in words {
            named += u64::from(matches!(word, FeederWord::ItemFailed { .. }));
            self.on_feeder_word(stage, word, named);
        }
    }

    fn on_feeder_word(&mut self, at: StageId, word: FeederWord, named: u64) {
        let stage = self.prepared.plan.stage(at).name.clone();
        match word {
            FeederWord::Opened { items, settled, lacking } => {
                self.record(Event::MapOpened { stage, items, settled, lacking });
            }
            FeederWord::ItemFailed { item, reason } => {
                if named <= MOST_NAMED {
                    self.record(Event::ItemFailed { stage, item, reason });
                }
            }
            FeederWord::Committed { commit, part, rows, failed, damaged } => {
                self.record(Event::BatchCommitted { stage, commit, part, rows, failed, damaged });
            }
            FeederWord::Finished { rows, failed, damaged, summary, told } => {
                self.maps.items_failed |= failed > 0;
                self.record(Event::MapFinished { stage, rows, failed, damaged, summary });
                self.let_leave(at);
                self.feed(Input::MapEnded { stage: at, result: Ok(()) });
                self.dismiss_workers(at, &told);
            }
            FeederWord::Stopped { because, refused } => {
                if refused {
                    self.maps.refused.insert(at);
                }
                self.let_leave(at);
                self.feed(Input::MapEnded { stage: at, result: Err(because) });
            }
            FeederWord::Unfit { job, attempt, because, overdue } => {
                let plan = std::sync::Arc::clone(&self.prepared.plan);
                if let Some(job) = plan.stage(at).job_ids().find(|known| plan.job_name(*known) == job) {
                    self.feed(Input::WorkerUnfit { job, attempt: Attempt(attempt), because, overdue });
                }
            }
            FeederWord::Trouble { text } => self.prepared.link.trouble(&text),
            FeederWord::Note { text } => self.prepared.link.note(&text),
        }
    }

    /// Workers that were not connected when their map was complete, because they were still starting or had lost a feeder that was killed.
    fn dismiss_workers(&mut self, stage: StageId, told: &[(String, u32)]) {
        let plan = std::sync::Arc::clone(&self.prepared.plan);
        for job in plan.stage(stage).job_ids() {
            let Some(attempt) = self.roster.get(job).map(|running| running.attempt) else { continue };
            let name = plan.job_name(job);
            if !told.iter().any(|(known, number)| *known == name && *number == attempt.0) {
                self.feed(Input::WorkerUnneeded { job, attempt });
            }
        }
    }

    /// It has said its last word and exits by itself, or is ended.
    fn let_leave(&mut self, stage: StageId) {
        let at = self.feeders.leave_by(stage, self.clock.now());
        self.clock.set(at, Alarm::Feeder(stage));
    }

    /// The feeder's process has ended: first what it still said, then what that means.
    pub(super) fn on_feeder_ended(&mut self, stage: StageId) {
        self.hear_feeder(stage);
        let (pid, ended) = self.feeders.on_ended(stage);
        if let Some(pid) = pid {
            self.clean_up_after_feeder(pid);
        }
        match ended {
            Ended::Not => {}
            Ended::Again(because) => {
                if let Some(because) = because {
                    self.prepared.link.note(&because);
                }
                self.start_feeder(stage);
            }
            Ended::Gone(because) => {
                if let Some(because) = because {
                    self.feed(Input::MapEnded { stage, result: Err(because) });
                }
                self.feed(Input::FeederGone { stage });
            }
        }
    }

    /// A map waits for its feeder and for its loaders, whatever has stopped them.
    pub(super) fn let_feeders_go_on(&mut self) {
        for pid in self.feeders.let_go_on() {
            let pid = pid.as_raw_nonzero();
            self.prepared.link.note(&format!("process {pid}, which feeds a map, was stopped; it goes on"));
        }
    }

    /// Its alarm: whoever was to be gone by now is ended.
    pub(super) fn press_feeder(&mut self, stage: StageId) {
        match self.feeders.press(stage, self.clock.now()) {
            Ok(Some(at)) => self.clock.set(at, Alarm::Feeder(stage)),
            Ok(None) => {}
            Err(pid) => {
                let pid = pid.as_raw_nonzero();
                self.prepared
                    .link
                    .note(&format!("the feeder (pid {pid}) outlived SIGKILL; going on without it"));
                self.feed(Input::FeederGone { stage });
            }
        }
    }

    /// What it has started must not outlive it.
    fn clean_up_after_feeder(&mut self, pid: Pid) {
        self.roster.spare_no_more(pid);
        self.roster.sweep();
    }
}
