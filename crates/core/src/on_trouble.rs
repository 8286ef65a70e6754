//! Failures whose cause is known better than the exit tells it: out of memory, a fault under MPS. A job that came
//! to grief because it shared its GPU has used up no try: sharing was our choice. Its next one is alone. Nor has one that
//! failed on the full disk of the run; and one that says so of another is believed a few times.

use gpulane_model::{Attempt, Bytes, Event, FailReason, Failure, FullDisk, GpuIndex, JobId, Millis};

use crate::demand::{Demand, Need};
use crate::job::Phase;
use crate::state::Core;
use crate::{Effect, Timer, Trouble};

/// Before each further try of a job that says that a disk is full while the run's is not. None of its failures counts while there is a
/// pause left; one that says so whatever happens fails in the end.
const PAUSES: [Millis; 3] = [Millis::seconds(10), Millis::seconds(60), Millis::seconds(300)];

/// What a job that has ended had of its GPUs.
pub(crate) struct Footing {
    /// The first of them.
    gpu: Option<GpuIndex>,
    /// All others that were on them at the end.
    neighbours: Vec<JobId>,
    /// Another job was on one of them at some time.
    shared: bool,
    /// It was given less than all of one.
    partly: bool,
    /// What was reserved for it.
    reserved: Option<Bytes>,
}

impl Core {
    pub(crate) fn footing(&self, job: JobId) -> Footing {
        let booking = self.lanes.booking(job);
        let devices = || booking.into_iter().flat_map(|booking| self.lanes.devices_of(booking.lane));
        let part = match booking.map(|booking| booking.demand) {
            Some(Demand::Devices { need: Need::Share(amount), .. }) => Some(amount),
            _ => None,
        };
        let partly = |amount| {
            devices().any(|at| self.lanes.devices.get(at).is_some_and(|device| amount < device.capacity))
        };
        let lane = booking.map(|booking| booking.lane);
        Footing {
            gpu: lane.and_then(|lane| self.machine.gpu_of(lane)),
            neighbours: lane.map(|lane| self.lanes.neighbours(job, lane).collect()).unwrap_or_default(),
            shared: booking.is_some_and(|booking| booking.shared),
            // One that has outgrown its share was given less than all, whatever it has booked since.
            partly: part.is_some_and(partly) || booking.is_some_and(|booking| booking.exceeded),
            reserved: booking.and_then(|booking| booking.demand.reserve(&self.machine)),
        }
    }

    /// A try failed and nobody ended it.
    pub(crate) fn on_job_failed(
        &mut self,
        job: JobId,
        attempt: Attempt,
        mut failure: Failure,
        trouble: Option<Trouble>,
        footing: &Footing,
    ) {
        let by_sharing = match trouble {
            None => false,
            Some(Trouble::NeverBegun(words)) => return self.done_elsewhere(job, attempt, &words, failure),
            Some(Trouble::DiskFull { because, disk }) => {
                failure.message = Some(because);
                return self.on_disk_full(job, attempt, failure, disk);
            }
            Some(Trouble::HostOom(words)) => {
                (failure.reason, failure.message) = (FailReason::HostOom, Some(words));
                false
            }
            Some(Trouble::GpuOom(words)) => {
                let peak = failure.peak_vram.map(Bytes);
                failure.reason = FailReason::Oom;
                failure.message = Some(self.oom_message(peak, &words, footing));
                let by_sharing = footing.shared || footing.partly;
                if let Some(peak) = peak.filter(|_| by_sharing) {
                    self.learn(job, peak);
                }
                by_sharing
            }
            Some(Trouble::MpsFault(words)) => {
                if footing.shared {
                    self.spread_fault(job, words.clone(), footing);
                }
                failure.message = Some(words);
                footing.shared
            }
        };
        if by_sharing {
            self.try_alone(job, attempt, Failure { shared: true, ..failure });
        } else {
            self.on_attempt_failed(job, attempt, failure);
        }
    }

    /// What it held, what it was given and what there is, then its own words.
    fn oom_message(&self, peak: Option<Bytes>, words: &str, footing: &Footing) -> String {
        let held = peak.map(|peak| format!("held {peak}"));
        let reserved = footing.reserved.map(|reserved| format!("{reserved} reserved"));
        let usable = footing.gpu.and_then(|gpu| self.machine.gpus.get(gpu.index()));
        let usable = usable.map(|gpu| format!("the GPU has {}", gpu.usable()));
        let numbers: Vec<String> = [held, reserved, usable].into_iter().flatten().collect();
        match numbers.as_slice() {
            [] => words.to_owned(),
            _ => format!("{}; {words}", numbers.join(", ")),
        }
    }

    /// A fault under MPS takes down whoever shares the GPU through it: they are started again.
    fn spread_fault(&mut self, job: JobId, because: String, footing: &Footing) {
        if let Some(gpu) = footing.gpu {
            let (gpu, job) = (self.uuid(gpu), self.plan.job_name(job));
            self.record(Event::MpsFault { gpu, job, because });
        }
        for neighbour in &footing.neighbours {
            if self.plan.stage_of(*neighbour).mps {
                self.restart(*neighbour);
            }
        }
    }

    /// The try does not count; the next one has its GPUs to itself.
    fn try_alone(&mut self, job: JobId, attempt: Attempt, failure: Failure) {
        let name = self.plan.job_name(job);
        self.jobs[job.index()].alone = true;
        self.record(Event::JobFailed { job: name.clone(), attempt, failure });
        if !self.stages[self.stage_of(job).index()].stopped {
            let attempt = attempt.next();
            self.record(Event::JobRetrying { job: name, attempt, delay: 0.0 });
        }
        self.put_back(job);
    }

    /// A disk was full. For that of the run starts are held by whoever sees it; of another only time can tell whether it still is.
    fn on_disk_full(&mut self, job: JobId, attempt: Attempt, failure: Failure, disk: FullDisk) {
        let slot = &mut self.jobs[job.index()];
        let pause = match disk {
            FullDisk::Run => Millis(0),
            FullDisk::Other => {
                let Some(pause) = PAUSES.get(usize::from(slot.disk_full)) else {
                    return self.on_attempt_failed(job, attempt, failure);
                };
                slot.disk_full += 1;
                (*pause).max(self.plan.stage_of(job).retry_delay)
            }
        };
        let name = self.plan.job_name(job);
        let failure = Failure { disk_full: Some(disk), ..failure };
        self.record(Event::JobFailed { job: name.clone(), attempt, failure });
        let stopped = self.stages[self.stage_of(job).index()].stopped;
        if !stopped {
            let delay = pause.as_seconds();
            self.record(Event::JobRetrying { job: name, attempt: attempt.next(), delay });
        }
        if stopped || disk == FullDisk::Run {
            return self.put_back(job);
        }
        let until = self.now.after(pause);
        self.set_phase(job, Phase::Delayed { until });
        self.later.push(Effect::SetTimer { timer: Timer::Retry { job }, at: until });
    }
}
