//! Stages with a map: their jobs are workers, alike and replaceable, and what counts is whether the map is complete. A worker that
//! exits before it is, with whatever code, has failed: the feeder sends workers away only after it has said that the map is
//! complete, and its words are heard before an exit is judged. A worker that fails is started again, at once if it had its model loaded; how often in a row without that is what `retries` limits.

use gpulane_model::{Attempt, Event, FailReason, Failure, JobId, MAP_COMPLETE, Millis, StageId};

use crate::job::{Ending, Phase};
use crate::line::Kind;
use crate::map_slot::{Feeder, MapEnd, MapSlot};
use crate::state::Core;
use crate::{Effect, Manner};

/// The shortest pause after a worker that failed before its model was loaded.
const LEAST_PAUSE: Millis = Millis::seconds(1);

impl Core {
    pub(crate) fn on_map_ended(&mut self, stage: StageId, result: Result<(), String>) {
        let Some(map) = self.map_mut(stage).filter(|map| map.end.is_none()) else { return };
        let end = match result {
            Ok(()) => MapEnd::Complete,
            Err(because) => MapEnd::Stopped(because),
        };
        map.end = Some(end.clone());
        match end {
            MapEnd::Complete => {
                for job in self.plan.stage(stage).job_ids() {
                    let attempt = Attempt(self.jobs[job.index()].attempts);
                    self.on_work_done(job, attempt, MAP_COMPLETE.to_owned(), None, false);
                }
            }
            MapEnd::Stopped(because) => {
                let name = self.plan.stage(stage).name.clone();
                self.record(Event::MapStopped { stage: name, because });
                for job in self.plan.stage(stage).job_ids() {
                    self.stop_worker(job);
                }
            }
        }
        self.retire_pending(stage);
        self.pass_on_news();
        self.close(stage);
    }

    pub(crate) fn on_worker_unneeded(&mut self, job: JobId, attempt: Attempt) {
        if self.runs_freely(job, attempt) && self.is_map_complete(job) {
            self.end_as(job, Ending::Stopped, Manner::Gently);
        }
    }

    pub(crate) fn on_worker_unfit(&mut self, job: JobId, attempt: Attempt, because: String, overdue: bool) {
        if self.runs_freely(job, attempt) && self.is_worker(job) {
            self.findings.entry(job).or_default().unfit = Some(because);
            self.end_as(job, Ending::Replaced, if overdue { Manner::Frozen } else { Manner::Gently });
        }
    }

    /// A worker that was unfit has ended, however it did: its place is taken at once.
    pub(crate) fn on_replaced(&mut self, job: JobId, attempt: Attempt, because: String, failure: Failure) {
        let failure = Failure { reason: FailReason::Lost, message: Some(because.clone()), ..failure };
        self.record(Event::JobFailed { job: self.plan.job_name(job), attempt, failure });
        self.tell_restart(job, attempt.next(), because);
        self.put_back(job);
    }

    fn stop_worker(&mut self, job: JobId) {
        match self.phase(job) {
            Phase::Starting { lane, ending: Ending::No } => {
                self.set_phase(job, Phase::Starting { lane, ending: Ending::Stopped });
            }
            Phase::Running { ending: Ending::No, .. } => self.end_as(job, Ending::Stopped, Manner::Gently),
            _ => {}
        }
    }

    /// Workers of a map that is over and were not asked to start never will be.
    pub(crate) fn retire_pending(&mut self, stage: StageId) {
        if self.map(stage).is_none_or(|map| map.end.is_none()) {
            return;
        }
        for job in self.plan.stage(stage).job_ids() {
            if self.phase(job).is_pending() {
                self.leave_map(job);
            }
        }
        for kind in Kind::BOTH {
            self.stages[stage.index()].queue_mut(kind).jobs.clear();
        }
    }

    /// The end of a worker that holds nothing and whose map is over; whether it is.
    pub(crate) fn leave_map(&mut self, job: JobId) -> bool {
        let stage = self.stage_of(job);
        match self.map(stage).and_then(|map| map.end.clone()) {
            None => false,
            Some(MapEnd::Complete) => {
                self.set_phase(job, Phase::Succeeded);
                let job = self.plan.job_name(job);
                self.record(Event::JobSkipped { job, because: MAP_COMPLETE.to_owned() });
                true
            }
            Some(MapEnd::Stopped(because)) => {
                if self.is_first_to_tell(stage) {
                    let attempt = Attempt(0);
                    let message = Some(because);
                    self.fail(job, attempt, Failure { message, ..Failure::because(FailReason::Stopped) });
                } else {
                    self.skip(job, because);
                }
                true
            }
        }
    }

    /// A worker that ran has ended, and its map has stopped.
    pub(crate) fn on_stopped(&mut self, job: JobId, attempt: Attempt, mut failure: Failure) {
        let stage = self.stage_of(job);
        let because = self.map(stage).and_then(|map| map.end.as_ref()).map(|end| match end {
            MapEnd::Stopped(because) => because.clone(),
            MapEnd::Complete => MAP_COMPLETE.to_owned(),
        });
        if self.is_first_to_tell(stage) {
            (failure.reason, failure.message) = (FailReason::Stopped, because);
            self.jobs[job.index()].failures += 1;
            return self.fail(job, attempt, failure);
        }
        (failure.reason, failure.message) = (FailReason::Interrupted, Some("its map was stopped".to_owned()));
        self.do_again(job, attempt, failure);
    }

    fn is_first_to_tell(&mut self, stage: StageId) -> bool {
        self.map_mut(stage).is_some_and(|map| !std::mem::replace(&mut map.told, true))
    }

    /// A feeder before the first of its workers.
    pub(crate) fn feed_first(&mut self, stage: StageId, effects: &mut Vec<Effect>) {
        if self.map(stage).is_some_and(|map| !map.lives()) {
            self.bring_to_life(stage);
            effects.push(Effect::Feed { stage });
        }
    }

    fn bring_to_life(&mut self, stage: StageId) {
        if let Some(map) = self.map_mut(stage) {
            map.feeder = Feeder::Lives { ending: false };
            self.feeders += 1;
        }
    }

    pub(crate) fn on_feeder_gone(&mut self, stage: StageId) {
        let Some(map) = self.map_mut(stage).filter(|map| map.lives()) else { return };
        map.feeder = Feeder::Absent;
        let over = map.end.is_some();
        self.feeders -= 1;
        if !over && self.stages[stage.index()].busy > 0 && self.interrupt.is_none() {
            // It was asked to end when there was nothing to do for it, and now there is.
            self.bring_to_life(stage);
            self.later.push(Effect::Feed { stage });
            return;
        }
        self.close(stage);
    }

    /// Whether the stage, whose jobs have all ended, has ended, too. If not, its feeder, which nobody works for, is asked to end.
    pub(crate) fn may_close(&mut self, stage: StageId) -> bool {
        let Some(map) = self.map(stage) else { return true };
        if map.end.is_some() || !map.lives() {
            if let Some(map) = self.map_mut(stage) {
                map.closed = true;
            }
            return true;
        }
        self.end_feeder(stage, false);
        false
    }

    /// Passes on that the stage has ended, if it has and nobody knows.
    fn close(&mut self, stage: StageId) {
        let ended = self.stages[stage.index()].unended == 0;
        if ended && self.map(stage).is_some_and(|map| !map.closed) && self.may_close(stage) {
            self.on_stage_ended(stage);
        }
    }

    /// Ends the feeders of all maps that are not over; those of the others go by themselves, unless it must be now.
    pub(crate) fn end_feeders(&mut self, now: bool) {
        if self.feeders > 0 {
            for stage in (0..self.stages.len()).map(StageId::at) {
                if now || self.map(stage).is_some_and(|map| map.end.is_none()) {
                    self.end_feeder(stage, now);
                }
            }
        }
    }

    fn end_feeder(&mut self, stage: StageId, now: bool) {
        let Some(map) = self.map_mut(stage) else { return };
        let Feeder::Lives { ending } = map.feeder else { return };
        if now || !ending {
            map.feeder = Feeder::Lives { ending: true };
            self.later.push(Effect::EndFeeder { stage, now });
        }
    }

    /// What the last try of a worker was worth.
    pub(crate) fn note_fruit(&mut self, job: JobId, fruitful: bool) {
        let is_worker = self.is_worker(job);
        let slot = &mut self.jobs[job.index()];
        slot.fruitful = fruitful && is_worker;
        if slot.fruitful {
            slot.failures = 0;
        }
    }

    pub(crate) fn pause_before_retry(&self, job: JobId) -> Millis {
        let delay = self.plan.stage_of(job).retry_delay;
        match self.map(self.stage_of(job)) {
            None => delay,
            Some(_) if self.jobs[job.index()].fruitful => Millis(0),
            Some(_) => delay.max(LEAST_PAUSE),
        }
    }

    /// A worker of a map is about to be tried again.
    pub(crate) fn tell_restart(&mut self, job: JobId, attempt: Attempt, because: String) {
        if self.is_worker(job) {
            let (fruitful, job) = (self.jobs[job.index()].fruitful, self.plan.job_name(job));
            self.record(Event::WorkerRestarted { job, attempt, because, fruitful });
        }
    }

    /// Whether every map of the run is complete.
    pub fn maps_are_complete(&self) -> bool {
        self.stages.iter().filter_map(|slot| slot.map.as_ref()).all(|map| map.end == Some(MapEnd::Complete))
    }

    /// Whether the job is the worker of a map.
    pub(crate) fn is_worker(&self, job: JobId) -> bool {
        self.map(self.stage_of(job)).is_some()
    }

    pub(crate) fn is_map_complete(&self, job: JobId) -> bool {
        self.map(self.stage_of(job)).is_some_and(|map| map.end == Some(MapEnd::Complete))
    }

    pub(crate) fn is_map_stopped(&self, job: JobId) -> bool {
        let map = self.map(self.stage_of(job));
        map.is_some_and(|map| matches!(map.end, Some(MapEnd::Stopped(_))))
    }

    /// Its workers have ended, but nobody was told yet: it is not known whether it is complete.
    pub(crate) fn is_map_open_after_all(&self, stage: StageId) -> bool {
        self.map(stage).is_some_and(|map| !map.closed)
    }

    fn map(&self, stage: StageId) -> Option<&MapSlot> {
        self.stages.get(stage.index())?.map.as_ref()
    }

    fn map_mut(&mut self, stage: StageId) -> Option<&mut MapSlot> {
        self.stages.get_mut(stage.index())?.map.as_mut()
    }

    /// Every feeder that lives is counted, nobody works for a map that is over but those on their way out, and nobody works
    /// without a feeder.
    pub(crate) fn check_maps(&self) -> Result<(), String> {
        let maps = self.stages.iter().filter_map(|slot| slot.map.as_ref());
        let living = maps.filter(|map| map.lives()).count();
        if living != self.feeders as usize {
            return Err(format!("{} feeders are counted, {living} live", self.feeders));
        }
        for (at, slot) in self.stages.iter().enumerate() {
            let Some(map) = &slot.map else { continue };
            let jobs = || self.plan.stage(StageId::at(at)).job_ids();
            if map.end.is_some() && jobs().any(|job| self.phase(job).is_pending()) {
                return Err(format!("the map of stage {at} is over but has workers waiting"));
            }
            if slot.busy > 0 && map.end.is_none() && !map.lives() && self.interrupt.is_none() {
                return Err(format!("the workers of stage {at} have no feeder"));
            }
            if map.closed && slot.unended > 0 {
                return Err(format!("stage {at} was closed with workers left"));
            }
        }
        Ok(())
    }
}
