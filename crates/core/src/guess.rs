//! Before a stage with `memory = "auto"` is measured. Its first job begins to take GPU memory seconds before it has taken all
//! it will, and others like it need about as long to come so far. So from its first sign on, others are started beside it on a
//! generous guess, at most one per core, and reach the GPU when the measure is known. Those for whom there is no room then are
//! ended and wait again, if they have not come to the GPU themselves; that does not count as a try.

use gpulane_model::{Attempt, Bytes, Event, JobId, Memory, StageId};

use crate::Effect;
use crate::demand::{Demand, Need};
use crate::job::{Ending, Phase};
use crate::state::Core;

/// The least that is guessed: a context and a small model.
const LEAST: Bytes = Bytes(4 << 30);
/// A job is guessed to grow to this many times what it holds.
const GROWTH: u64 = 4;

/// What is assumed of a stage's jobs until one of them is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    /// What is reserved for each.
    pub(crate) reserve: Bytes,
    /// Most of them at once: each that starts needs a core.
    pub(crate) most: u32,
}

impl Core {
    /// A job was seen to hold so much, and may grow. `true`: nothing better than a guess is known of its stage.
    pub(crate) fn guess(&mut self, job: JobId, peak: Bytes) -> bool {
        let stage = self.stage_of(job);
        let (settings, slot) = (self.plan.stage(stage), &self.stages[stage.index()]);
        let guesses = self.machine.packing && settings.memory == Memory::Auto && slot.measured.is_none();
        if !guesses || self.jobs[job.index()].alone {
            return guesses;
        }
        let holds = |guess: Guess| guess.reserve.0 / 2 >= peak.0;
        if peak.0 == 0 || slot.guess.is_some_and(holds) {
            return true;
        }
        let largest = self.lanes.devices.largest(settings.gpus.max(1));
        let reserve = Bytes(peak.0.saturating_mul(GROWTH).max(LEAST.0).min(largest.max(peak.0)));
        let most = self.machine.cores.max(u32::try_from(self.machine.gpus.len()).unwrap_or(u32::MAX));
        let name = settings.name.clone();
        self.stages[stage.index()].guess = Some(Guess { reserve, most });
        self.record(Event::MemoryGuessed { stage: name, reserve: reserve.0 });
        self.change_demand(stage, Demand::of(self.plan.stage(stage), &self.machine, Some(reserve)));
        self.rebook_stage(stage);
        true
    }

    /// Ends jobs of the stage that were started on a guess and have no room, the youngest first, unless they have come to their
    /// GPU: what they would lose then is more than what they might.
    pub(crate) fn make_room(&mut self, stage: StageId) {
        let over = self.lanes.devices.iter().filter(|(_, device)| device.used > device.capacity);
        let over: Vec<(u32, u64)> = over.map(|(at, device)| (at, device.used - device.capacity)).collect();
        for (device, mut excess) in over {
            let mut young: Vec<(JobId, u64)> =
                self.lanes.jobs_on(device).filter_map(|job| self.unseen(job, stage)).collect();
            young.sort_by_key(|(job, _)| {
                std::cmp::Reverse((self.lanes.booking(*job).map(|booking| booking.since), *job))
            });
            for (job, share) in young {
                if excess == 0 {
                    break;
                }
                self.end_for(job, Ending::MadeRoom);
                excess = excess.saturating_sub(share);
            }
        }
    }

    /// The job with what it has booked of each GPU, if it is of this stage and has not come to its GPU.
    fn unseen(&self, job: JobId, stage: StageId) -> Option<(JobId, u64)> {
        let waits = self.stage_of(job) == stage && !self.peaks.contains_key(&job);
        match self.lanes.booking(job)?.demand {
            Demand::Devices { need: Need::Share(share), .. } if waits => Some((job, share)),
            _ => None,
        }
    }

    /// Ends the job at once, to be done again; unless it is being ended already.
    pub(crate) fn end_for(&mut self, job: JobId, why: Ending) {
        match self.phase(job) {
            Phase::Starting { lane, ending: Ending::No } => {
                self.set_phase(job, Phase::Starting { lane, ending: why });
            }
            Phase::Running { lane, ending: Ending::No, since } => {
                self.set_phase(job, Phase::Running { lane, ending: why, since });
                let attempt = Attempt(self.jobs[job.index()].attempts);
                self.later.push(Effect::Terminate { job, attempt, manner: crate::Manner::Now });
            }
            _ => {}
        }
    }
}
