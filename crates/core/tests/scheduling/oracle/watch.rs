//! What must follow from what a watch over running jobs sees, and from how the CPUs do.

use gpulane_core::{Input, Verdict};
use gpulane_model::{FailReason, GpuKind, HangAction, JobId, Millis, StageId, StartGate};

use super::{Doing, Oracle, Work};

/// How the CPUs do.
#[derive(Default)]
pub(super) struct Cpus {
    /// Idle ones not yet given to a start; `None`: not known.
    pub(super) idle: Option<u32>,
}

impl Oracle {
    /// It was seen to be frozen, or to be done.
    pub(super) fn on_watch(&mut self, input: &Input) {
        let (Input::Stuck { job, attempt, .. } | Input::WorkDone { job, attempt, .. }) = input else {
            return;
        };
        let action = self.plan.stage_of(*job).hang.map(|hang| hang.action);
        let Some(busy) = self.busy.get_mut(job) else { return };
        let free = busy.doing == Doing::Live && busy.doom.is_none() && busy.work != Work::Lingers;
        if !free || busy.attempt != *attempt {
            return;
        }
        match input {
            Input::WorkDone { frozen: false, .. } => busy.work = Work::Done,
            Input::WorkDone { frozen: true, .. } => busy.work = Work::Lingers,
            Input::Stuck { verdict: Verdict::Told, .. } => {}
            Input::Stuck { .. } if busy.work == Work::Done => busy.linger(),
            Input::Stuck { .. } if action.is_some_and(|it| it != HangAction::Warn) => {
                busy.doom = Some(FailReason::Hang);
            }
            _ => {}
        }
    }

    /// Whether a job that was frozen is tried again: once at least, if its stage says so.
    pub(super) fn is_thawed(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        let failures = self.folded.job(job).failures + 1;
        stage.hang.is_some_and(|hang| hang.action == HangAction::Retry)
            && failures <= stage.retries.max(1)
            && !self.is_stopped(self.plan.job(job).stage)
    }

    /// Whether a job of this stage may not start because others on GPUs have begun less than 30 s ago.
    pub(super) fn is_shut(&self, stage: StageId) -> bool {
        if self.on_cores(stage) {
            return false;
        }
        match self.plan.stage(stage).start_gate {
            StartGate::Auto => {
                let full = self.cpus.idle == Some(0) && self.machine.kind != GpuKind::None;
                full && self.young(|_| true) >= self.machine.cores.max(1) as usize
            }
            StartGate::AtOnce(most) => self.young(|of| of == stage) >= most as usize,
            StartGate::Off => false,
        }
    }

    /// A job of this stage is about to start.
    pub(super) fn take_core(&mut self, stage: StageId) {
        let beyond = self.young(|_| true) >= self.machine.cores as usize;
        if !self.on_cores(stage) && beyond {
            self.cpus.idle = self.cpus.idle.map(|idle| idle.saturating_sub(1));
        }
    }

    fn young(&self, of: impl Fn(StageId) -> bool) -> usize {
        let on_gpus = self.holders().filter(|(stage, _)| !self.on_cores(*stage));
        let young = on_gpus.filter(|(_, busy)| self.now.since(busy.since) < Millis::seconds(30));
        young.filter(|(stage, _)| of(*stage)).count()
    }

    /// Who is to start next on GPUs, or has room kept: the first in line, but one that fits and is shut gives its turn away.
    pub(super) fn head_for_gpus(&self) -> Option<StageId> {
        let open = self.free_by_device().iter().filter(|free| **free > 0).count();
        let head = self.first_in_line(false)?;
        if !self.is_shut(head) || self.needs(head) > open {
            return Some(head);
        }
        let keeper = self.keepers[0].filter(|keeper| !self.is_shut(*keeper));
        keeper.or_else(|| self.in_line(false).find(|stage| !self.is_shut(*stage)))
    }
}
