//! Who holds which lane, how much of its devices, and how many cores. Knows nothing of stages or order: it books and releases.

use std::collections::{BTreeMap, BTreeSet};

use gpulane_model::{GpuKind, JobId, LaneId, Machine};

use crate::demand::{Demand, Need};
use crate::devices::{Device, Devices, Kept, Status};

/// All lanes of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    /// By lane id: devices' lanes first, then the CPU lanes beside GPUs.
    slots: Vec<Slot>,
    /// Lanes of one device.
    per_device: u32,
    pub(crate) devices: Devices,
    /// Free CPU lanes.
    cpu: BTreeSet<LaneId>,
    /// Cores not taken by jobs on CPU lanes.
    cores: u32,
    /// What each job that holds lanes has booked.
    bookings: BTreeMap<JobId, Booking>,
    /// How many bookings there have been; tells who is there longest.
    booked: u64,
}

/// One lane. A gang's lanes are a chain, so that a job needs to remember only the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    holder: Option<JobId>,
    next: Option<LaneId>,
}

/// What a job holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booking {
    /// The first of its lanes.
    pub(crate) lane: LaneId,
    pub(crate) demand: Demand,
    /// Its number among all bookings.
    pub(crate) since: u64,
    /// Another job was on one of its devices at some time since it began.
    pub(crate) shared: bool,
    /// It was said that it holds more than was reserved.
    pub(crate) exceeded: bool,
}

impl Lanes {
    pub(crate) fn new(machine: &Machine) -> Self {
        let main = machine.main_lanes();
        Self {
            slots: vec![Slot::default(); machine.all_lanes() as usize],
            per_device: if machine.kind == GpuKind::None { 1 } else { machine.lanes_per_gpu },
            devices: Devices::new(machine),
            cpu: (main..machine.all_lanes()).map(LaneId).collect(),
            cores: machine.cores,
            bookings: BTreeMap::new(),
            booked: 0,
        }
    }

    /// Cores not taken.
    pub(crate) fn cores(&self) -> u32 {
        self.cores
    }

    /// Lanes on devices.
    pub(crate) fn main(&self) -> u32 {
        self.devices.len().saturating_mul(self.per_device)
    }

    /// Lanes on devices that are usable.
    pub(crate) fn usable(&self) -> u32 {
        let usable = self.devices.iter().filter(|(_, device)| device.status == Status::Usable).count();
        u32::try_from(usable).unwrap_or(u32::MAX).saturating_mul(self.per_device)
    }

    /// Whether a job that takes this could be booked now, beside what is `kept` for another.
    pub(crate) fn fits(&self, demand: Demand, kept: Option<&Kept>) -> bool {
        match demand {
            Demand::Devices { count, need } => self.devices.fits(count, need, kept),
            Demand::Cores(count) => count <= self.cores && !self.cpu.is_empty(),
        }
    }

    /// Where room is kept for a job that takes this and does not fit, and what others may take there. It will have what those
    /// give back that are there longest, and nobody is let in who takes of that: so their number can only shrink, and the job
    /// starts when the last of them is gone, at the latest. What they do not give to it, others may have.
    pub(crate) fn keep(&self, count: u32, need: Need) -> Kept {
        let room = |at| Some((at, self.room_beside(at, self.devices.get(at)?, need)));
        Kept(self.devices.nearest(count, need).into_iter().filter_map(room).collect())
    }

    /// What others may take of a device that is kept for a job which needs this.
    fn room_beside(&self, at: u32, device: &Device, need: Need) -> u64 {
        let Need::Share(amount) = need else { return 0 };
        let mut there: Vec<(u64, u64)> =
            self.jobs_on(at).filter_map(|job| self.since_and_share(job)).collect();
        there.sort_unstable();
        let full = self.devices.is_full(device);
        let mut stays = device.used;
        for (at, (_, share)) in there.into_iter().enumerate() {
            if stays.saturating_add(amount) <= device.capacity && (at > 0 || !full) {
                break;
            }
            stays -= share;
        }
        device.capacity.saturating_sub(stays.saturating_add(amount))
    }

    fn since_and_share(&self, job: JobId) -> Option<(u64, u64)> {
        let booking = self.bookings.get(&job)?;
        match booking.demand {
            Demand::Devices { need: Need::Share(share), .. } => Some((booking.since, share)),
            _ => None,
        }
    }

    /// Books what the job takes; the lane is the lowest of its lanes. `None`, and nothing booked, if it does not fit.
    pub(crate) fn take(&mut self, job: JobId, demand: Demand, kept: Option<&Kept>) -> Option<LaneId> {
        if !self.fits(demand, kept) {
            return None;
        }
        let lane = match demand {
            Demand::Cores(count) => {
                let lane = self.cpu.pop_first()?;
                self.cores -= count;
                self.slots[lane.index()] = Slot { holder: Some(job), next: None };
                lane
            }
            Demand::Devices { count, need } => {
                let devices = self.devices.choose(count, need, kept)?;
                // From the last device to the first, so that each lane can point to the one after it.
                devices.into_iter().rev().fold(None, |next, device| self.occupy(job, device, need, next))?
            }
        };
        self.book(job, lane, demand);
        Some(lane)
    }

    fn occupy(&mut self, job: JobId, device: u32, need: Need, next: Option<LaneId>) -> Option<LaneId> {
        let lane = self.free_lane(device)?;
        self.slots[lane.index()] = Slot { holder: Some(job), next };
        self.devices.enter(device, need);
        Some(lane)
    }

    /// Takes note of the job's booking, and of whom it shares devices with.
    fn book(&mut self, job: JobId, lane: LaneId, demand: Demand) {
        let mut shared = false;
        if let Demand::Devices { .. } = demand {
            let others: Vec<JobId> = self.neighbours(job, lane).collect();
            shared = !others.is_empty();
            for other in others {
                if let Some(booking) = self.bookings.get_mut(&other) {
                    booking.shared = true;
                }
            }
        }
        self.booked += 1;
        let since = self.booked;
        self.bookings.insert(job, Booking { lane, demand, since, shared, exceeded: false });
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
            Demand::Devices { need, .. } => {
                if lane.0 >= self.main() {
                    return false;
                }
                self.devices.enter(lane.0 / self.per_device, need);
            }
        }
        self.slots[lane.index()].holder = Some(job);
        self.book(job, lane, demand);
        true
    }

    /// Books the other lanes of a gang whose first one was retaken, on devices after that one's: as many as are free there.
    pub(crate) fn retake_others(&mut self, job: JobId, lead: LaneId, demand: Demand) {
        let Demand::Devices { count, need } = demand else { return };
        let on = lead.0 / self.per_device;
        let mut devices: Vec<(u32, u32)> = self
            .devices
            .iter()
            .filter(|(at, device)| *at > on && device.jobs < self.devices.places())
            .map(|(at, device)| (device.jobs, at))
            .collect();
        devices.sort_unstable();
        devices.truncate(count.saturating_sub(1) as usize);
        devices.sort_unstable_by_key(|(_, at)| *at);
        let mut last = lead;
        for (_, device) in devices {
            let Some(lane) = self.occupy(job, device, need, None) else { continue };
            self.slots[last.index()].next = Some(lane);
            last = lane;
        }
        self.book(job, lead, demand);
    }

    /// Gives back all the job holds. Nothing happens if it holds nothing.
    pub(crate) fn release(&mut self, job: JobId) {
        let Some(booking) = self.bookings.remove(&job) else { return };
        let mut at = Some(booking.lane);
        while let Some(lane) = at {
            at = std::mem::take(&mut self.slots[lane.index()]).next;
            match booking.demand {
                Demand::Cores(count) => {
                    self.cpu.insert(lane);
                    self.cores += count;
                }
                Demand::Devices { need, .. } => self.devices.leave(lane.0 / self.per_device, need),
            }
        }
    }

    /// Changes what a job has booked of each of its devices. It is there already, so it may take more than fits.
    pub(crate) fn rebook(&mut self, job: JobId, to: Need) {
        let Some(booking) = self.bookings.get_mut(&job) else { return };
        let Demand::Devices { count, need } = booking.demand else { return };
        booking.demand = Demand::Devices { count, need: to };
        let lane = booking.lane;
        for device in self.devices_of(lane).collect::<Vec<_>>() {
            self.devices.leave(device, need);
            self.devices.enter(device, to);
        }
    }

    /// Takes note that it was said how much more than reserved the job holds.
    pub(crate) fn note_exceeded(&mut self, job: JobId) {
        if let Some(booking) = self.bookings.get_mut(&job) {
            booking.exceeded = true;
        }
    }

    /// What the job has booked.
    pub(crate) fn booking(&self, job: JobId) -> Option<&Booking> {
        self.bookings.get(&job)
    }

    /// Every job that holds lanes.
    pub(crate) fn bookings(&self) -> impl Iterator<Item = (JobId, &Booking)> {
        self.bookings.iter().map(|(job, booking)| (*job, booking))
    }

    /// The lanes a job holds, given the first of them.
    pub(crate) fn chain(&self, lead: LaneId) -> impl Iterator<Item = LaneId> {
        std::iter::successors(Some(lead), |lane| self.slots.get(lane.index()).and_then(|slot| slot.next))
    }

    /// The devices a job is on, given the first of its lanes.
    pub(crate) fn devices_of(&self, lead: LaneId) -> impl Iterator<Item = u32> {
        let main = self.main();
        self.chain(lead).filter(move |lane| lane.0 < main).map(|lane| lane.0 / self.per_device)
    }

    /// The jobs on a device.
    pub(crate) fn jobs_on(&self, device: u32) -> impl Iterator<Item = JobId> {
        let first = (device * self.per_device) as usize;
        self.slots[first..first + self.per_device as usize].iter().filter_map(|slot| slot.holder)
    }

    /// Others on the job's devices; one that is on several of them comes several times.
    pub(crate) fn neighbours(&self, job: JobId, lead: LaneId) -> impl Iterator<Item = JobId> {
        self.devices_of(lead).flat_map(|device| self.jobs_on(device)).filter(move |other| *other != job)
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

    /// Whether everything kept beside the slots and bookings agrees with them.
    pub(crate) fn check(&self, machine: &Machine) -> Result<(), String> {
        for (at, device) in self.devices.iter() {
            let booked = |job| match self.bookings.get(&job).map(|booking| booking.demand) {
                Some(Demand::Devices { need: Need::Share(amount), .. }) => amount,
                Some(Demand::Devices { need: Need::Whole(_), .. }) => device.capacity,
                _ => 0,
            };
            let jobs: Vec<JobId> = self.jobs_on(at).collect();
            let used: u64 = jobs.iter().map(|job| booked(*job)).sum();
            if (used, jobs.len()) != (device.used, device.jobs as usize) {
                return Err(format!("device {at} is {device:?} but {jobs:?} have booked {used}"));
            }
            let whole = |job: &&JobId| {
                let demand = self.bookings.get(job).map(|booking| booking.demand);
                matches!(demand, Some(Demand::Devices { need: Need::Whole(_), .. }))
            };
            if device.whole != jobs.iter().any(|job| whole(&job)) || (device.whole && jobs.len() > 1) {
                return Err(format!("device {at} is {device:?}, shared by {jobs:?}"));
            }
        }
        let taken: u32 = self.bookings.values().fold(0, |sum, booking| match booking.demand {
            Demand::Cores(count) => sum + count,
            Demand::Devices { .. } => sum,
        });
        if self.cores + taken != machine.cores {
            return Err(format!("{} cores free and {taken} taken of {}", self.cores, machine.cores));
        }
        for lane in (self.main()..machine.all_lanes()).map(LaneId) {
            if self.cpu.contains(&lane) == self.slots[lane.index()].holder.is_some() {
                return Err(format!("CPU lane {lane} is both free and held, or neither"));
            }
        }
        Ok(())
    }
}
