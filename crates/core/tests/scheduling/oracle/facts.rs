//! Facts about a run, each worked out anew from the fold and from who is busy.

use gpulane_model::{Cpus, FailReason, GpuKind, JobId, JobStatus, StageId};

use super::{Busy, Doing, Oracle};

impl Oracle {
    pub(super) fn status(&self, job: JobId) -> &JobStatus {
        &self.folded.job(job).status
    }

    pub(super) fn is_runnable(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        let fed = |source| matches!(self.status(source), JobStatus::Succeeded { .. });
        *self.status(job) == JobStatus::Pending
            && !self.busy.contains_key(&job)
            && !self.delayed.contains(&job)
            && !self.lacks(self.plan.job(job).stage)
            && self.plan.job(job).source.is_none_or(fed)
            && stage.after.iter().all(|after| {
                self.plan.stage(*after).job_ids().all(|other| {
                    is_ended(self.status(other)) && (stage.foreach == Some(*after) || fed(other))
                })
            })
    }

    /// It waits for something that will never come.
    pub(super) fn is_doomed(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        let lost = |job| matches!(self.status(job), JobStatus::Failed(_) | JobStatus::Skipped(_));
        let incomplete = |after: &StageId| {
            let jobs = || self.plan.stage(*after).job_ids();
            jobs().all(|job| is_ended(self.status(job))) && jobs().any(lost)
        };
        self.is_stopped(self.plan.job(job).stage)
            || self.plan.job(job).source.is_some_and(lost)
            || stage.after.iter().any(|after| stage.foreach != Some(*after) && incomplete(after))
    }

    pub(super) fn is_stopped(&self, stage: StageId) -> bool {
        let failed = |job: &JobId| matches!(self.status(*job), JobStatus::Failed(how) if how.reason != FailReason::Cancelled);
        let stage = self.plan.stage(stage);
        stage.max_failures.is_some_and(|most| stage.job_ids().filter(failed).count() >= most as usize)
    }

    pub(super) fn has_try_left(&self, job: JobId) -> bool {
        let failures = self.folded.job(job).failures + 1;
        failures <= self.plan.stage_of(job).retries && !self.is_stopped(self.plan.job(job).stage)
    }

    pub(super) fn on_cores(&self, stage: StageId) -> bool {
        self.machine.kind != GpuKind::None && self.plan.stage(stage).gpus == 0
    }

    pub(super) fn needs(&self, stage: StageId) -> usize {
        self.plan.stage(stage).gpus.max(1) as usize
    }

    pub(super) fn cores(&self, stage: StageId) -> u32 {
        match self.plan.stage(stage).cpus {
            Cpus::Auto => 1,
            Cpus::Count(count) => count.min(self.machine.cores),
        }
    }

    pub(super) fn threads(&self, stage: StageId) -> u32 {
        match self.plan.stage(stage).cpus {
            Cpus::Count(count) => count,
            Cpus::Auto if self.on_cores(stage) => 1,
            Cpus::Auto => self.machine.fair_cpus() * self.plan.stage(stage).gpus.max(1),
        }
    }

    pub(super) fn lacks(&self, stage: StageId) -> bool {
        !self.on_cores(stage) && self.needs(stage) > self.free_when_idle().len()
    }

    pub(super) fn free_when_idle(&self) -> Vec<u32> {
        match self.machine.kind {
            GpuKind::None => vec![1; self.machine.cpu_lanes as usize],
            _ => vec![self.machine.lanes_per_gpu; self.machine.gpus.len()],
        }
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = (StageId, &Busy)> {
        let holding = self.busy.iter().filter(|(_, busy)| busy.doing != Doing::Publishing);
        holding.map(|(job, busy)| (self.plan.job(*job).stage, busy))
    }

    /// Free lanes by GPU. Without GPUs it is not known which lanes a gang has; any will do.
    pub(super) fn free_by_device(&self) -> Vec<u32> {
        let mut free = self.free_when_idle();
        let mut next = 0;
        for (stage, busy) in self.holders().filter(|(stage, _)| !self.on_cores(*stage)) {
            if self.machine.kind == GpuKind::None {
                for _ in 0..self.needs(stage) {
                    free[next] -= 1;
                    next += 1;
                }
            }
            for gpu in &busy.gpus {
                free[gpu.index()] -= 1;
            }
        }
        free
    }

    pub(super) fn cores_taken(&self) -> u32 {
        self.holders().filter(|(stage, _)| self.on_cores(*stage)).map(|(stage, _)| self.cores(stage)).sum()
    }

    pub(super) fn running(&self, stage: StageId) -> usize {
        self.holders().filter(|(of, _)| *of == stage).count()
    }

    /// Stages that could start a job if they had the lanes or cores.
    pub(super) fn in_line(&self, on_cores: bool) -> impl Iterator<Item = StageId> {
        let stages = (0..self.plan.stages.len()).map(StageId::at);
        stages.filter(move |id| {
            let stage = self.plan.stage(*id);
            self.on_cores(*id) == on_cores
                && (stage.parallel == 0 || self.running(*id) < stage.parallel as usize)
                && stage.job_ids().any(|job| self.is_runnable(job))
        })
    }

    pub(super) fn first_in_line(&self, on_cores: bool) -> Option<StageId> {
        self.keepers[usize::from(on_cores)].or_else(|| self.in_line(on_cores).next())
    }
}

pub(super) fn is_ended(status: &JobStatus) -> bool {
    !matches!(status, JobStatus::Pending | JobStatus::Running { .. })
}
