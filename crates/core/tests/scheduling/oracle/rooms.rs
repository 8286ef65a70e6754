//! GPUs that are shared by memory, that come and go and fail: what must be true of them, from the outside.

use std::collections::BTreeSet;

use gpulane_core::{Effect, Input, Trouble, reserve_for};
use gpulane_model::{
    Bytes, Event, FailReason, FullDisk, GpuIndex, JobId, LaneId, Machine, Memory, ProcessExit,
};

use super::{Doing, Expect, Oracle};

/// Which GPUs may be used.
pub(super) struct Rooms {
    /// The run has to ask for them.
    leased: bool,
    /// By GPU.
    ours: Vec<bool>,
    held: BTreeSet<GpuIndex>,
    lost: BTreeSet<GpuIndex>,
    /// What was said last.
    want: u32,
}

impl Rooms {
    pub(super) fn new(machine: &Machine, leased: bool) -> Self {
        let ours = vec![!leased; machine.gpus.len()];
        Self { leased, ours, held: BTreeSet::new(), lost: BTreeSet::new(), want: 0 }
    }

    pub(super) fn any_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    fn is_usable(&self, gpu: GpuIndex) -> bool {
        self.ours[gpu.index()] && !self.held.contains(&gpu) && !self.lost.contains(&gpu)
    }
}

impl Oracle {
    /// News about GPUs.
    pub(super) fn on_gpu_news(&mut self, input: &Input) {
        let Some(rooms) = &mut self.rooms else { return };
        match input {
            Input::GpuGranted { gpu, .. } if !rooms.lost.contains(gpu) => rooms.ours[gpu.index()] = true,
            Input::GpuHeld { gpu, .. } if rooms.ours[gpu.index()] && !rooms.lost.contains(gpu) => {
                rooms.held.insert(*gpu);
            }
            Input::GpuClear { gpu } => {
                rooms.held.remove(gpu);
            }
            Input::GpuLost { gpu, .. } => self.lose(*gpu),
            Input::PeakSeen { job, peak, .. } => {
                let busy = self.busy.get_mut(job).filter(|busy| busy.reserve.is_some_and(|has| *peak > has));
                if let Some(busy) = busy {
                    busy.reserve = Some(reserve_for(*peak));
                }
            }
            _ => {}
        }
    }

    /// What is on the GPU is to be ended and done again.
    fn lose(&mut self, gpu: GpuIndex) {
        let Some(rooms) = &mut self.rooms else { return };
        if rooms.lost.insert(gpu) {
            let on_it = |busy: &&mut super::Busy| busy.doing != Doing::Publishing && busy.gpus.contains(&gpu);
            for busy in self.busy.values_mut().filter(on_it) {
                busy.condemn(FailReason::Lost);
            }
        }
    }

    /// Processes of the job stay on its GPUs: these are not used again, but whoever else is there goes on. Whether it has any.
    pub(super) fn retire(&mut self, job: JobId) -> bool {
        let gpus = self.busy[&job].gpus.clone();
        if let Some(rooms) = &mut self.rooms {
            rooms.lost.extend(&gpus);
        }
        !gpus.is_empty()
    }

    /// What a failure that nobody brought about must lead to.
    pub(super) fn expect_of(&mut self, job: JobId, exit: ProcessExit, trouble: &Trouble) -> Expect {
        let (busy, stopped) = (self.busy[&job].clone(), self.is_stopped(self.plan.job(job).stage));
        let own = |reason| Expect::Failed(reason, self.has_try_left(job));
        let plain = match exit {
            ProcessExit::Code(_) => FailReason::Exit,
            ProcessExit::Signal(_) => FailReason::Signal,
        };
        let largest = busy.gpus.iter().map(|gpu| self.machine.gpus[gpu.index()].usable()).max();
        let partly = busy.exceeded
            || busy.reserve.is_some_and(|reserve| largest.is_some_and(|has| reserve < has))
            || (!self.machine.packing && self.machine.lanes_per_gpu > 1 && !busy.gpus.is_empty());
        match trouble {
            Trouble::NeverBegun(_) => Expect::Failed(FailReason::Lost, false),
            Trouble::HostOom(_) => own(FailReason::HostOom),
            Trouble::DiskFull { disk: FullDisk::Run, .. } => Expect::Failed(plain, !stopped),
            Trouble::DiskFull { .. } if self.folded.job(job).disk_full < 3 => Expect::Failed(plain, !stopped),
            // A job that has been tried alone already is given all of its GPUs.
            Trouble::GpuOom(_) if busy.shared || (partly && !self.folded.job(job).alone) => {
                Expect::Failed(FailReason::Oom, !stopped)
            }
            Trouble::GpuOom(_) => own(FailReason::Oom),
            Trouble::MpsFault(_) if busy.shared => {
                self.spread_fault(job, &busy.gpus);
                Expect::Failed(plain, !stopped)
            }
            Trouble::DiskFull { .. } | Trouble::MpsFault(_) => own(plain),
        }
    }

    fn spread_fault(&mut self, job: JobId, gpus: &[GpuIndex]) {
        for (other, busy) in &mut self.busy {
            let beside = busy.gpus.iter().any(|gpu| gpus.contains(gpu));
            if *other != job && beside && busy.doing != Doing::Publishing && self.plan.stage_of(*other).mps {
                busy.condemn(FailReason::Lost);
            }
        }
    }

    /// Whether the job may be ended to make room: it was started on a guess and has not come to its GPU.
    pub(super) fn may_make_room(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        self.rooms.is_some()
            && stage.memory == Memory::Auto
            && !self.seen.contains_key(&job)
            && !self.folded.job(job).alone
    }

    /// Takes note of a start beside others; whether there are any.
    pub(super) fn join(&mut self, gpus: &[GpuIndex]) -> bool {
        let holding = self.busy.values_mut().filter(|busy| busy.doing != Doing::Publishing);
        let others = holding.filter(|busy| busy.gpus.iter().any(|gpu| gpus.contains(gpu)));
        others.map(|busy| busy.shared = true).count() > 0
    }

    /// It starts on as many GPUs as it needs, all of them ours and in order, and there is room for it on each.
    pub(super) fn check_room(&self, job: JobId, lane: LaneId, gpus: &[GpuIndex], reserve: Option<Bytes>) {
        let rooms = self.rooms.as_ref().unwrap();
        let chosen: BTreeSet<_> = gpus.iter().collect();
        assert_eq!((gpus.len(), chosen.len()), (self.needs(self.plan.job(job).stage), gpus.len()));
        assert!(gpus.is_sorted() && self.machine.gpu_of(lane) == Some(gpus[0]));
        assert!(!self.folded.job(job).alone || reserve.is_none(), "job {job} must be alone");
        for gpu in gpus {
            assert!(rooms.is_usable(*gpu), "GPU {gpu} is not to be used");
            let holding = self.busy.values().filter(|busy| busy.doing != Doing::Publishing);
            let there: Vec<_> = holding.filter(|busy| busy.gpus.contains(gpu)).collect();
            if !self.machine.packing {
                let most = if self.folded.job(job).alone { 1 } else { self.machine.lanes_per_gpu as usize };
                assert!(there.len() < most, "GPU {gpu} is full");
                continue;
            }
            let Some(reserve) = reserve else {
                assert!(there.is_empty(), "job {job} should be alone on GPU {gpu}");
                continue;
            };
            let taken = |busy: &&super::Busy| busy.reserve.expect("nobody joins who is alone").0;
            let taken: u64 = there.iter().map(taken).sum();
            let has = self.machine.gpus[gpu.index()].usable();
            assert!(taken + reserve.0 <= has.0, "GPU {gpu} has {has}, {taken} taken, {reserve} to come");
        }
    }

    /// So much is expected of each job of the stage from now on: what had a GPU to itself only because nothing was known makes
    /// room, what has less gets more, and what was only guessed gives way to what is known.
    fn on_expectation(&mut self, stage: &str, reserve: Bytes, measured: bool) {
        let at = self.plan.stages.iter().position(|of| of.name == stage).unwrap();
        if self.plan.stages[at].memory != Memory::Auto {
            return;
        }
        let (shares, guessed) =
            (self.share(at, reserve).is_some(), self.folded.guessed[at].is_some() || !measured);
        for (job, busy) in &mut self.busy {
            if self.plan.job(*job).stage.index() != at || self.folded.job(*job).alone {
                continue;
            }
            let own = self.seen.get(job).map_or(reserve, |peak| reserve.max(reserve_for(*peak)));
            busy.reserve = match busy.reserve {
                None if shares => Some(own),
                None => None,
                Some(has) if has < reserve => Some(reserve),
                Some(_) if guessed => Some(own),
                has => has,
            };
        }
    }

    /// The part of a GPU that this is; `None`: so much that it is the whole.
    fn share(&self, stage: usize, bytes: Bytes) -> Option<Bytes> {
        let mut sizes: Vec<u64> = self.machine.gpus.iter().map(|gpu| gpu.usable().0).collect();
        sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
        let largest = sizes[(self.plan.stages[stage].gpus.max(1) as usize - 1).min(sizes.len() - 1)];
        (bytes.0 <= largest - largest / 20).then_some(bytes)
    }

    /// What is said about memory changes what jobs have.
    pub(super) fn on_memory_record(&mut self, event: &Event) {
        match event {
            Event::MemoryMeasured { stage, reserve, .. } => self.on_expectation(stage, Bytes(*reserve), true),
            Event::MemoryGuessed { stage, reserve } => {
                assert!(self.folded.measured.iter().zip(&self.plan.stages).all(|(known, of)| {
                    of.name != *stage || (known.is_none() && of.memory == Memory::Auto)
                }));
                self.on_expectation(stage, Bytes(*reserve), false);
            }
            Event::MemoryExceeded { job, peak, reserved } => {
                assert!(peak > reserved);
                let job = self.folded.find(job).unwrap();
                if let Some(busy) = self.busy.get_mut(&job) {
                    busy.exceeded = true;
                }
            }
            Event::GpuQuarantined { .. } => assert!(self.rooms.as_ref().is_some_and(Rooms::any_lost)),
            _ => {}
        }
    }

    /// What is given back was ours and idle; what is wanted is away, and is said when it changes.
    pub(super) fn check_leases(&mut self, effects: &[Effect]) {
        let Some(rooms) = &mut self.rooms else { return };
        for effect in effects {
            match effect {
                Effect::Release { gpu } => {
                    assert!(rooms.leased && rooms.is_usable(*gpu), "GPU {gpu} is not ours to give back");
                    let holding = self.busy.values().filter(|busy| busy.doing != Doing::Publishing);
                    assert_eq!(holding.filter(|busy| busy.gpus.contains(gpu)).count(), 0);
                    rooms.ours[gpu.index()] = false;
                }
                Effect::Want { gpus } => {
                    assert!(rooms.leased && rooms.want != *gpus);
                    let away = rooms.ours.iter().filter(|ours| !**ours).count();
                    assert!(*gpus as usize <= away && (*gpus == 0 || !self.interrupted));
                    rooms.want = *gpus;
                }
                _ => {}
            }
        }
    }
}
