//! What must be true of every start: its order, its place, and that none was left out.

use std::collections::BTreeSet;

use gpulane_core::Effect;
use gpulane_model::{GpuIndex, GpuKind, JobId, LaneId, StageId};

use super::{Busy, Doing, Hold, Oracle, Work};

impl Oracle {
    pub(super) fn on_spawn(&mut self, spawn: &Effect) {
        let Effect::Spawn { job, attempt, lane, gpus, cpus, reserve, .. } = spawn else { return };
        let stage = self.plan.job(*job).stage;
        assert!(!self.interrupted, "nothing starts in an interrupted run");
        assert!(self.is_runnable(*job), "{spawn:?} is not runnable");
        assert_eq!(attempt.0, self.used[job.index()] + 1, "attempt numbers have no gaps");
        assert!(matches!(self.hold, Hold::Free | Hold::Trial(false)), "{spawn:?} while {:?}", self.hold);
        assert!(!self.busy.values().any(|busy| busy.doing != Doing::Publishing && busy.lane == *lane));
        assert!(!self.is_shut(stage), "{spawn:?} while the gate is shut");
        let gpus = gpus.to_vec();
        if self.rooms.is_none() {
            assert_eq!(*cpus, self.threads(stage));
            self.check_order(*job, stage);
        }
        if self.on_cores(stage) {
            assert!(self.cores(stage) <= self.machine.cores - self.cores_taken());
            assert!(
                gpus.is_empty() && (self.machine.main_lanes()..self.machine.all_lanes()).contains(&lane.0)
            );
            assert_eq!(self.first_in_line(true), Some(stage), "cores are given in order");
        } else if self.rooms.is_some() {
            self.check_room(*job, *lane, &gpus, *reserve);
        } else {
            self.check_placement(stage, *lane, &gpus);
        }
        for keeper in &mut self.keepers {
            keeper.take_if(|keeper| *keeper == stage);
        }
        if self.hold == Hold::Trial(false) {
            self.hold = Hold::Trial(true);
        }
        self.take_core(stage);
        self.used[job.index()] += 1;
        let shared = self.join(&gpus);
        let (attempt, lane, reserve) = (*attempt, *lane, *reserve);
        self.seen.remove(job);
        let (doing, doom, told) = (Doing::Asked, None, None);
        let (exceeded, work, since) = (false, Work::Unknown, self.now);
        let busy = Busy { attempt, doing, lane, gpus, doom, told, reserve, shared, exceeded, since, work };
        assert!(self.busy.insert(*job, busy).is_none());
    }

    /// Jobs that become ready together start in the plan's order.
    pub(super) fn check_order(&mut self, job: JobId, stage: StageId) {
        if self.plan.stage(stage).foreach.is_none()
            && self.newest.get(&stage).is_none_or(|newest| *newest < job)
        {
            let passed_over = self.plan.stage(stage).job_ids().filter(|other| *other < job).find(|other| {
                self.is_runnable(*other) && self.newest.get(&stage).is_none_or(|newest| newest < other)
            });
            assert_eq!(passed_over, None, "{job} overtook");
            self.newest.insert(stage, job);
        }
    }

    pub(super) fn check_placement(&self, stage: StageId, lane: LaneId, gpus: &[GpuIndex]) {
        let needs = self.needs(stage);
        let free = self.free_by_device();
        let head = self.head_for_gpus().unwrap();
        let open = free.iter().filter(|free| **free > 0).count();
        let overtakes = head != stage;
        assert!(!overtakes || open < self.needs(head), "stage {stage} went before stage {head}");
        if self.machine.kind == GpuKind::None {
            assert!(gpus.is_empty() && needs <= open && lane.0 < self.machine.cpu_lanes);
            assert!(!overtakes, "stage {stage} took a lane kept for stage {head}");
            return;
        }
        let chosen: BTreeSet<usize> = gpus.iter().map(|gpu| gpu.index()).collect();
        assert_eq!((gpus.len(), chosen.len()), (needs, needs), "a gang has all its GPUs, each once");
        assert!(gpus.is_sorted() && self.machine.gpu_of(lane) == Some(gpus[0]));
        let least = if overtakes { 2 } else { 1 };
        for gpu in &chosen {
            assert!(free[*gpu] >= least, "GPU {gpu} has {} free lanes, needed {least}", free[*gpu]);
        }
        let fullest = chosen.iter().map(|gpu| free[*gpu]).min().unwrap();
        let emptiest = (0..free.len()).filter(|gpu| !chosen.contains(gpu)).map(|gpu| free[gpu]).max();
        assert!(emptiest.is_none_or(|free| free <= fullest), "stacked before spread");
    }

    /// Who could not start a job any more keeps nothing.
    pub(super) fn drop_keepers(&mut self) {
        for on_cores in [false, true] {
            let keeper = self.keepers[usize::from(on_cores)];
            self.keepers[usize::from(on_cores)] =
                keeper.filter(|keeper| self.in_line(on_cores).any(|stage| stage == *keeper));
        }
    }

    /// Who is first and does not fit keeps what is free, from now until it starts: that it is overtaken on none of it is
    /// checked with every start.
    pub(super) fn find_keepers(&mut self) {
        if !self.may_start() {
            return;
        }
        let open = self.free_by_device().iter().filter(|free| **free > 0).count();
        let lanes = self.head_for_gpus().filter(|head| open > 0 && self.needs(*head) > open);
        let free = self.machine.cores - self.cores_taken();
        let cores = self.first_in_line(true).filter(|head| free > 0 && self.cores(*head) > free);
        self.keepers = [lanes.or(self.keepers[0]), cores.or(self.keepers[1])];
    }

    fn may_start(&self) -> bool {
        !self.interrupted && matches!(self.hold, Hold::Free | Hold::Trial(false))
    }

    pub(super) fn check_work_conserving(&self) {
        if !self.may_start() {
            return;
        }
        let free = self.free_by_device();
        if let Some(head) = self.head_for_gpus().filter(|_| self.rooms.is_none()) {
            let open = free.iter().filter(|free| **free > 0).count();
            assert!(self.needs(head) > open, "stage {head} fits and was not started");
            let spare = free.iter().filter(|free| **free > 1).count();
            let mut open = self.in_line(false).filter(|stage| !self.is_shut(*stage));
            let fits = open.find(|stage| self.needs(*stage) <= spare);
            assert_eq!(fits, None, "fits beside the waiting stage {head}");
        }
        if let Some(head) = self.first_in_line(true) {
            assert!(self.cores(head) > self.machine.cores - self.cores_taken(), "cores are idle");
        }
    }
}
