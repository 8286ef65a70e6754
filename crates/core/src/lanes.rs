//! Who holds which lane and how many cores. Knows nothing of stages or order: it says what fits, books and releases.
//!
//! A *device* is what a gang needs several of: a GPU with its lanes or, where there are no GPUs, a single lane.

use std::collections::BTreeSet;

use gpulane_model::{GpuKind, JobId, LaneId, Machine};

use crate::demand::Demand;

/// All lanes of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    /// By lane id: devices' lanes first, then the CPU lanes beside GPUs.
    slots: Vec<Slot>,
    /// Lanes of one device.
    per_device: u32,
    /// Jobs on each device.
    loads: Vec<u32>,
    /// Devices with a free lane, by (load, device): the order in which they are filled, spread before stacked.
    open: BTreeSet<(u32, u32)>,
    /// Devices with two free lanes or more: where a job may still go while a gang waits for one lane on each.
    spare: u32,
    /// Free CPU lanes.
    cpu: BTreeSet<LaneId>,
    /// Cores not taken by jobs on CPU lanes.
    cores: u32,
}

/// One lane. A gang's lanes are a chain, so that a job needs to remember only the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    holder: Option<JobId>,
    next: Option<LaneId>,
}

impl Lanes {
    pub(crate) fn new(machine: &Machine) -> Self {
        let main = machine.main_lanes();
        let per_device = if machine.kind == GpuKind::None { 1 } else { machine.lanes_per_gpu };
        let devices = main.checked_div(per_device).unwrap_or(0);
        Self {
            slots: vec![Slot::default(); machine.all_lanes() as usize],
            per_device,
            loads: vec![0; devices as usize],
            open: (0..devices).map(|device| (0, device)).collect(),
            spare: if per_device > 1 { devices } else { 0 },
            cpu: (main..machine.all_lanes()).map(LaneId).collect(),
            cores: machine.cores,
        }
    }

    /// Devices with a free lane.
    pub(crate) fn open(&self) -> u32 {
        u32::try_from(self.open.len()).unwrap_or(u32::MAX)
    }

    /// Devices that would still have a free lane if one were kept on each.
    pub(crate) fn spare(&self) -> u32 {
        self.spare
    }

    /// Cores not taken.
    pub(crate) fn cores(&self) -> u32 {
        self.cores
    }

    /// Lanes on devices.
    pub(crate) fn main(&self) -> u32 {
        u32::try_from(self.loads.len()).unwrap_or(u32::MAX).saturating_mul(self.per_device)
    }

    /// Whether a job that takes this could be booked now.
    pub(crate) fn fits(&self, demand: Demand) -> bool {
        match demand {
            Demand::Lanes(count) => count <= self.open(),
            Demand::Cores(count) => count <= self.cores && !self.cpu.is_empty(),
        }
    }

    /// Books what the job takes; the lane is the lowest of its lanes. `None`, and nothing booked, if it does not fit.
    pub(crate) fn take(&mut self, job: JobId, demand: Demand) -> Option<LaneId> {
        if !self.fits(demand) {
            return None;
        }
        match demand {
            Demand::Cores(count) => {
                let lane = self.cpu.pop_first()?;
                self.cores -= count;
                self.slots[lane.index()] = Slot { holder: Some(job), next: None };
                Some(lane)
            }
            Demand::Lanes(count) => {
                let mut devices: Vec<u32> =
                    self.open.iter().take(count as usize).map(|(_, device)| *device).collect();
                devices.sort_unstable();
                // From the last device to the first, so that each lane can point to the one after it.
                devices.into_iter().rev().fold(None, |next, device| {
                    let lane = self.free_lane(device)?;
                    self.slots[lane.index()] = Slot { holder: Some(job), next };
                    self.set_load(device, self.loads[device as usize] + 1);
                    Some(lane)
                })
            }
        }
    }

    /// Books exactly this lane, for a gang the first of several. For jobs a journal says are running; `false` if the lane is
    /// not there or not free.
    pub(crate) fn retake(&mut self, job: JobId, lane: LaneId, demand: Demand) -> bool {
        if self.slots.get(lane.index()).is_none_or(|slot| slot.holder.is_some()) {
            return false;
        }
        match demand {
            Demand::Cores(count) => {
                if !self.cpu.remove(&lane) {
                    return false;
                }
                self.cores = self.cores.saturating_sub(count);
            }
            Demand::Lanes(_) => {
                if lane.0 >= self.main() {
                    return false;
                }
                let device = lane.0 / self.per_device;
                self.set_load(device, self.loads[device as usize] + 1);
            }
        }
        self.slots[lane.index()].holder = Some(job);
        true
    }

    /// Books the other lanes of a gang whose first one was retaken, on devices after that one's: as many as are free there.
    pub(crate) fn retake_others(&mut self, job: JobId, lead: LaneId, demand: Demand) {
        let Demand::Lanes(count) = demand else { return };
        let on = lead.0 / self.per_device;
        let after = self.open.iter().map(|(_, device)| *device).filter(|device| *device > on);
        let mut devices: Vec<u32> = after.take(count.saturating_sub(1) as usize).collect();
        devices.sort_unstable();
        let mut last = lead;
        for device in devices {
            let Some(lane) = self.free_lane(device) else { continue };
            self.slots[lane.index()].holder = Some(job);
            self.slots[last.index()].next = Some(lane);
            self.set_load(device, self.loads[device as usize] + 1);
            last = lane;
        }
    }

    /// Gives back what the job holds from this lane on. Nothing happens if the job does not hold it.
    pub(crate) fn release(&mut self, job: JobId, lead: LaneId, demand: Demand) {
        let mut at = Some(lead);
        while let Some(lane) = at {
            let Some(slot) = self.slots.get_mut(lane.index()).filter(|slot| slot.holder == Some(job)) else {
                return;
            };
            at = slot.next;
            *slot = Slot::default();
            match demand {
                Demand::Cores(count) => {
                    self.cpu.insert(lane);
                    self.cores += count;
                }
                Demand::Lanes(_) => {
                    let device = lane.0 / self.per_device;
                    self.set_load(device, self.loads[device as usize] - 1);
                }
            }
        }
    }

    /// The lanes a job holds, given the first of them.
    pub(crate) fn chain(&self, lead: LaneId) -> impl Iterator<Item = LaneId> {
        std::iter::successors(Some(lead), |lane| self.slots.get(lane.index()).and_then(|slot| slot.next))
    }

    /// Every taken lane with its holder, by lane.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (LaneId, JobId)> {
        let holder = |(index, slot): (usize, &Slot)| slot.holder.map(|job| (LaneId::at(index), job));
        self.slots.iter().enumerate().filter_map(holder)
    }

    fn free_lane(&self, device: u32) -> Option<LaneId> {
        let first = device * self.per_device;
        (first..first + self.per_device).map(LaneId).find(|lane| self.slots[lane.index()].holder.is_none())
    }

    fn set_load(&mut self, device: u32, load: u32) {
        let before = std::mem::replace(&mut self.loads[device as usize], load);
        let has_spare = |load: u32| u32::from(load + 1 < self.per_device);
        self.spare = self.spare + has_spare(load) - has_spare(before);
        self.open.remove(&(before, device));
        if load < self.per_device {
            self.open.insert((load, device));
        }
    }

    /// Whether everything kept beside the slots agrees with them. `taken_cores`: by jobs on CPU lanes.
    pub(crate) fn check(&self, machine: &Machine, taken_cores: u32) -> Result<(), String> {
        for (device, load) in self.loads.iter().enumerate() {
            let first = device * self.per_device as usize;
            let lanes = &self.slots[first..first + self.per_device as usize];
            let busy = lanes.iter().filter(|slot| slot.holder.is_some()).count();
            if busy != *load as usize {
                return Err(format!("device {device} has load {load} but {busy} busy lanes"));
            }
            let listed = self.open.contains(&(*load, LaneId::at(device).0));
            if listed != (*load < self.per_device) {
                return Err(format!("device {device} with load {load} is wrongly listed as open: {listed}"));
            }
        }
        let spare = self.loads.iter().filter(|load| **load + 1 < self.per_device).count();
        if spare != self.spare as usize {
            return Err(format!("{} devices are said to be spare, {spare} are", self.spare));
        }
        if self.cores + taken_cores != machine.cores {
            return Err(format!("{} cores free and {taken_cores} taken of {}", self.cores, machine.cores));
        }
        for lane in (self.main()..machine.all_lanes()).map(LaneId) {
            if self.cpu.contains(&lane) == self.slots[lane.index()].holder.is_some() {
                return Err(format!("CPU lane {lane} is both free and held, or neither"));
            }
        }
        Ok(())
    }
}
