//! What processes that do not move are stuck in: one line for a person, and cause and remedy where they are known ones.
//! Names what is seen; whether it is a hang is for others to say.

mod at_exit;
mod between;
mod doing;
mod inside;
mod machine;
mod scene;
mod trail;

use gpulane_model::{Millis, Stuck};

use crate::Evidence;
use scene::{Finding, Scene};

/// What is known beside the processes themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// For how long they have shown no sign of life; 0: unknown.
    pub quiet: Millis,
    /// The GPU they use, where one was looked at.
    pub gpu: Option<GpuSight>,
    /// The job's main process. Not among the evidence: it is gone, and the rest are what it left.
    pub main: u32,
}

/// A GPU at the time of the look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuSight {
    /// Percent of the time it computes.
    pub load: u32,
    /// Watts it draws; 0: unknown.
    pub power: f64,
    /// Watts it may draw; 0: unknown.
    pub power_limit: f64,
}

/// A cause that is looked for.
type Rule = fn(&Scene) -> Option<Finding>;

/// From the most telling to the most general; the first that fits is the cause.
const RULES: &[Rule] = &[
    machine::stopped,
    machine::uninterruptible,
    machine::descriptors,
    machine::orphaned,
    machine::collective,
    between::full_pipe,
    between::each_other,
    between::fork,
    at_exit::threads,
    at_exit::queue,
    at_exit::callback,
    between::loader,
    between::pool,
    between::prompt,
    inside::interpreter_lock,
    inside::library,
    inside::deadlock,
    inside::circle,
    inside::owned,
    inside::lock,
    inside::semaphore,
    inside::queue_join,
    inside::queue_get,
    inside::queue_put,
    inside::barrier,
    inside::event,
    inside::condition,
    inside::manager,
    inside::event_loop,
    inside::future,
    between::shared_lock,
    between::socket,
    between::file_lock,
    between::fifo,
    inside::primitive,
    inside::native,
    between::other_end,
    at_exit::children,
    between::database,
    inside::polls_for_file,
    inside::by_the_clock,
    between::child,
];

/// What the evidence shows, in one line, with cause and remedy where they are known.
pub fn diagnose(evidence: &Evidence, around: &Surroundings) -> Stuck {
    let scene = Scene::new(evidence, around);
    let finding = RULES.iter().find_map(|rule| rule(&scene));
    let (cause, remedy) = finding.map(|finding| (finding.cause, finding.remedy)).unzip();
    Stuck { evidence: scene.line(), cause, remedy, ..Stuck::default() }
}
