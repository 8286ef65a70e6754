//! How a run would go if every job succeeded and took as long as is said: the real core, driven through virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use gpulane_model::{Attempt, JobId, Known, Machine, Millis, Plan, ProcessExit, RunState};

use crate::{Core, Effect, Input};

/// What a forecast tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// From the first start to the last end, in seconds.
    pub makespan: f64,
    /// By GPU: the most jobs on it at once.
    pub most_at_once: Vec<u32>,
    /// By stage: the most of its jobs at once.
    pub per_stage_most: Vec<u32>,
    /// Jobs that would never run.
    pub unfinished: u32,
}

/// Forecasts a fresh run. `seconds` says how long a job takes. An `auto` stage without a known peak is never measured here:
/// each of its jobs has a GPU to itself.
pub fn forecast(
    plan: &Arc<Plan>,
    machine: &Machine,
    known: &[Known],
    seconds: &mut dyn FnMut(JobId) -> f64,
) -> Forecast {
    let core = Core::new(Arc::clone(plan), machine.clone(), &RunState::new(plan));
    let core = core.with_known(known).without_gate();
    run_through(core, seconds)
}

/// Takes a core that has not begun to its end.
pub(crate) fn run_through(core: Core, seconds: &mut dyn FnMut(JobId) -> f64) -> Forecast {
    let mut course = Course::new(core);
    course.step(Input::Begin, seconds);
    while let Some(Reverse((now, job, attempt))) = course.ends.pop() {
        course.now = now;
        course.leave(job);
        course.end_map_of(job, seconds);
        let exit = ProcessExit::Code(0);
        course.step(
            Input::JobExited {
                job,
                attempt,
                exit,
                left: 0,
                who: vec![],
                ago: Millis(0),
                peak: None,
                trouble: None,
                stuck: None,
                fruitful: true,
            },
            seconds,
        );
    }
    let counts = course.core.counts();
    Forecast {
        makespan: course.now.as_seconds(),
        unfinished: counts.pending + counts.running + counts.failed + counts.skipped,
        ..course.seen
    }
}

/// A run under way in virtual time.
struct Course {
    plan: Arc<Plan>,
    core: Core,
    now: Millis,
    ends: BinaryHeap<Reverse<(Millis, JobId, Attempt)>>,
    /// By job: its GPUs, while it runs.
    places: Vec<crate::GpuSet>,
    /// By GPU and by stage: jobs on it now.
    on_gpu: Vec<u32>,
    of_stage: Vec<u32>,
    seen: Forecast,
}

impl Course {
    fn new(core: Core) -> Self {
        let plan = Arc::clone(&core.plan);
        let (gpus, stages) = (vec![0; core.machine.gpus.len()], vec![0; plan.stages.len()]);
        let seen =
            Forecast { most_at_once: gpus.clone(), per_stage_most: stages.clone(), ..Forecast::default() };
        Self {
            core,
            now: Millis(0),
            ends: BinaryHeap::new(),
            places: vec![crate::GpuSet::from_iter([]); plan.jobs.len()],
            plan,
            on_gpu: gpus,
            of_stage: stages,
            seen,
        }
    }

    /// Takes the step and answers all that follows from it at once, but for the ends of jobs.
    fn step(&mut self, input: Input, seconds: &mut dyn FnMut(JobId) -> f64) {
        let (mut inputs, mut effects) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.core.step(self.now, input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    Effect::Spawn { job, attempt, gpus, .. } => {
                        inputs.push(Input::JobSpawned { job, attempt, pid: 1, warm: false });
                        self.enter(job, gpus);
                        self.ends.push(Reverse((self.now.after(length(seconds(job))), job, attempt)));
                    }
                    Effect::Publish { job, attempt } => inputs.push(Input::JobPublished { job, attempt }),
                    _ => {}
                }
            }
        }
    }

    /// Nobody knows how long a map takes: it is over with the first of its workers.
    fn end_map_of(&mut self, job: JobId, seconds: &mut dyn FnMut(JobId) -> f64) {
        let stage = self.plan.job(job).stage;
        if self.plan.stage(stage).map.is_some() {
            self.step(Input::MapEnded { stage, result: Ok(()) }, seconds);
            self.step(Input::FeederGone { stage }, seconds);
        }
    }

    fn enter(&mut self, job: JobId, gpus: crate::GpuSet) {
        for gpu in gpus.iter() {
            let at = gpu.index();
            self.on_gpu[at] += 1;
            self.seen.most_at_once[at] = self.seen.most_at_once[at].max(self.on_gpu[at]);
        }
        let stage = self.plan.job(job).stage.index();
        self.of_stage[stage] += 1;
        self.seen.per_stage_most[stage] = self.seen.per_stage_most[stage].max(self.of_stage[stage]);
        self.places[job.index()] = gpus;
    }

    fn leave(&mut self, job: JobId) {
        for gpu in self.places[job.index()].iter() {
            self.on_gpu[gpu.index()] -= 1;
        }
        self.of_stage[self.plan.job(job).stage.index()] -= 1;
    }
}

/// Seconds on the core's clock; a job takes some time, however short.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn length(seconds: f64) -> Millis {
    // A cast from floating point saturates, and makes 0 of what is not a number.
    Millis(((seconds * 1000.0).round() as u64).max(1))
}
