//! How much GPU memory jobs turn out to take: what is learned for a stage, and what a job that takes more than it was given
//! has booked from then on.

use gpulane_model::{Attempt, Bytes, Event, JobId, Measured, Memory, StageId};

use crate::demand::{Demand, Need};
use crate::job::Phase;
use crate::line::{Kind, QueueId};
use crate::memory::{is_more, reserve_for};
use crate::state::Core;

impl Core {
    pub(crate) fn on_peak_seen(&mut self, job: JobId, attempt: Attempt, peak: Bytes, settled: bool) {
        let Some(slot) = self.slot(job).filter(|slot| slot.is_at(attempt)) else { return };
        if let Phase::Running { .. } = slot.phase {
            let peak = self.note_peak(job, Some(peak)).unwrap_or(peak);
            if !settled && self.guess(job, peak) {
                return;
            }
            let exceeds = !self.is_guessed(job) && self.check_reserved(job, peak);
            if settled || exceeds {
                self.learn(job, peak);
            }
        }
    }

    /// The most the job was seen to hold, with what is seen now.
    pub(crate) fn note_peak(&mut self, job: JobId, seen: Option<Bytes>) -> Option<Bytes> {
        let most = seen.max(self.peaks.get(&job).copied())?;
        self.peaks.insert(job, most);
        Some(most)
    }

    /// Whether the job holds more than is reserved for it. If so that is said, once, and it has booked more from now on:
    /// nobody is put on its GPU until that fits.
    pub(crate) fn check_reserved(&mut self, job: JobId, peak: Bytes) -> bool {
        let Some(booking) = self.lanes.booking(job) else { return false };
        let Some(reserved) = booking.demand.reserve(&self.machine).filter(|reserved| peak > *reserved) else {
            return false;
        };
        if !booking.exceeded {
            let name = self.plan.job_name(job);
            self.lanes.note_exceeded(job);
            self.record(Event::MemoryExceeded { job: name, peak: peak.0, reserved: reserved.0 });
        }
        self.lanes.rebook(job, Need::Share(reserve_for(peak).0));
        true
    }

    /// Whether what the job has booked is only a guess.
    pub(crate) fn is_guessed(&self, job: JobId) -> bool {
        self.stages[self.stage_of(job).index()].guess.is_some() && !self.jobs[job.index()].alone
    }

    /// Whether what is reserved for jobs like this one was written by a person, or seen from a job's beginning to its end.
    pub(crate) fn is_sure(&self, job: JobId) -> bool {
        self.is_stage_sure(self.stage_of(job))
    }

    /// The same for all jobs of a stage.
    pub(crate) fn is_stage_sure(&self, stage: StageId) -> bool {
        self.plan.stage(stage).memory != Memory::Auto || self.stages[stage.index()].confirmed
    }

    /// With `memory = "auto"`: what one job took, others of its stage can be expected to take.
    pub(crate) fn learn(&mut self, job: JobId, peak: Bytes) {
        let stage = self.stage_of(job);
        let known = self.stages[stage.index()].measured;
        let learns = self.machine.packing && self.plan.stage(stage).memory == Memory::Auto;
        if learns && known.is_none_or(|known| is_more(peak, known.peak)) {
            let name = self.plan.job_name(job);
            self.set_measured(stage, peak, Some(name));
            self.rebook_stage(stage);
        }
    }

    /// Jobs of the stage take this much from now on, as was seen at `job` or in an earlier run.
    pub(crate) fn set_measured(&mut self, stage: StageId, peak: Bytes, job: Option<String>) {
        let settings = self.plan.stage(stage);
        // Rather all of the largest GPU than more than there is, for which it would wait for ever.
        let most = Bytes(self.lanes.devices.largest(settings.gpus.max(1)));
        let reserve = reserve_for(peak).min(most);
        let name = settings.name.clone();
        self.stages[stage.index()].measured = Some(Measured { peak, reserve });
        self.change_demand(stage, Demand::of(self.plan.stage(stage), &self.machine, Some(reserve)));
        self.record(Event::MemoryMeasured { stage: name, job, peak: peak.0, reserve: reserve.0 });
    }

    /// Jobs of the stage take this from now on; those in line are put where they belong.
    pub(crate) fn change_demand(&mut self, stage: StageId, demand: Demand) {
        let id = QueueId { stage, kind: Kind::Plain };
        let queue = &mut self.stages[stage.index()].plain;
        if queue.ready > 0 {
            self.line.set(id, queue.rank, queue.demand, false);
        }
        queue.demand = demand;
        self.rank(stage);
    }

    /// What was measured but fits on no GPU as they are now is tried on a whole one: that it was more once is no proof.
    pub(crate) fn relax_measured(&mut self) {
        for at in 0..self.stages.len() {
            let (stage, settings) = (StageId::at(at), &self.plan.stages[at]);
            let Demand::Devices { count, need: Need::Share(share) } = self.stages[at].plain.demand else {
                continue;
            };
            if settings.memory == Memory::Auto
                && share > self.lanes.devices.largest(count)
                && self.machine.packing
            {
                self.change_demand(stage, Demand::of(self.plan.stage(stage), &self.machine, None));
            }
        }
    }

    /// Jobs of the stage that run make room for others if they had a GPU to themselves only because nothing was known, or
    /// book more if more is expected of them.
    pub(crate) fn rebook_stage(&mut self, stage: StageId) {
        let slot = &mut self.stages[stage.index()];
        let (reserve, guessed) = match (slot.measured, slot.guess) {
            (Some(measured), _) => (measured.reserve, slot.guess.take().is_some()),
            (None, Some(guess)) => (guess.reserve, true),
            (None, None) => return,
        };
        let whole = matches!(slot.plain.demand, Demand::Devices { need: Need::Whole(_), .. });
        let of_stage = |(job, _): &(JobId, _)| self.stage_of(*job) == stage && !self.jobs[job.index()].alone;
        let bookings = self.lanes.bookings().filter(of_stage);
        let change = |job: JobId, demand: Demand| match demand {
            Demand::Devices { need: Need::Whole(_), .. } if whole => None,
            Demand::Devices { need: Need::Whole(_), .. } => {
                let own = self.peaks.get(&job).map_or(reserve, |peak| reserve.max(reserve_for(*peak)));
                Some((job, Need::Share(own.0)))
            }
            Demand::Devices { need: Need::Share(has), .. } if has < reserve.0 => {
                Some((job, Need::Share(reserve.0)))
            }
            Demand::Devices { need: Need::Share(_), .. } if guessed => {
                let own = self.peaks.get(&job).map_or(reserve, |peak| reserve.max(reserve_for(*peak)));
                Some((job, Need::Share(own.0)))
            }
            _ => None,
        };
        let changes: Vec<(JobId, Need)> =
            bookings.filter_map(|(job, booking)| change(job, booking.demand)).collect();
        for (job, need) in changes {
            self.lanes.rebook(job, need);
        }
        // The limit of a guess may be gone with it.
        self.stand_in_line(stage);
        if guessed {
            self.make_room(stage);
        }
    }
}
