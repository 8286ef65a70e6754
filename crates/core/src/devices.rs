//! How full each device is, and where a job would go. A *device* is what a gang needs several of: a GPU or, where there are no
//! GPUs, a lane. Its *capacity* is bytes where GPUs are shared by memory, otherwise lanes.
//!
//! Everything here is a walk over the devices: there are few, and each look is short.

use std::cmp::Reverse;

use gpulane_model::{Bytes, Gpu, GpuKind, Machine};

use crate::demand::{Need, Prefer};

/// All devices, by index.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    all: Vec<Device>,
    /// Most jobs on one.
    places: u32,
    /// Capacities are bytes.
    by_memory: bool,
    /// Some device is not what it was when the run began: what could run then perhaps never will.
    diminished: bool,
}

/// One device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) capacity: u64,
    /// What its jobs have booked. More than the capacity if one of them turned out to need more than it was given.
    pub(crate) used: u64,
    pub(crate) jobs: u32,
    /// Its job has it for itself.
    pub(crate) whole: bool,
    pub(crate) status: Status,
}

/// Whether jobs may be put on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Usable,
    /// Not ours now.
    Away,
    /// Memory of it is not back; why.
    Held(String),
    /// Never again; why.
    Lost(String),
}

/// Devices where room is kept for a job that waits, each with what others may still take of it.
#[derive(Clone, Debug)]
pub(crate) struct Kept(pub(crate) Vec<(u32, u64)>);

impl Device {
    fn new(capacity: u64) -> Self {
        Self { capacity, used: 0, jobs: 0, whole: false, status: Status::Usable }
    }

    fn amount(&self, need: Need) -> u64 {
        match need {
            Need::Share(amount) => amount,
            Need::Whole(_) => self.capacity,
        }
    }

    pub(crate) fn suffices(&self, need: Need) -> bool {
        self.amount(need) <= self.capacity
    }

    pub(crate) fn free(&self) -> u64 {
        if self.whole { 0 } else { self.capacity.saturating_sub(self.used) }
    }

    /// What must come free before a job that needs this fits. Zero: it fits.
    fn deficit(&self, need: Need, places: u32) -> u64 {
        let full = u64::from(self.whole || self.jobs >= places);
        match need {
            Need::Whole(_) => self.used.max(u64::from(self.jobs > 0)),
            Need::Share(amount) => self.used.saturating_add(amount).saturating_sub(self.capacity).max(full),
        }
    }
}

impl Devices {
    pub(crate) fn new(machine: &Machine) -> Self {
        let lanes = machine.lanes_per_gpu;
        let capacity = |gpu: &Gpu| if machine.packing { gpu.usable().0 } else { u64::from(lanes) };
        let (capacities, places): (Vec<u64>, u32) = if machine.kind == GpuKind::None {
            (vec![1; machine.cpu_lanes as usize], 1)
        } else {
            (machine.gpus.iter().map(capacity).collect(), lanes)
        };
        Self {
            all: capacities.into_iter().map(Device::new).collect(),
            places,
            by_memory: machine.packing && machine.kind != GpuKind::None,
            diminished: false,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Most jobs on one device.
    pub(crate) fn places(&self) -> u32 {
        self.places
    }

    /// Whether no place is left on the device, whatever is left of its capacity.
    pub(crate) fn is_full(&self, device: &Device) -> bool {
        device.jobs >= self.places
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Device)> {
        (0..).zip(&self.all)
    }

    pub(crate) fn get(&self, device: u32) -> Option<&Device> {
        self.all.get(device as usize)
    }

    /// The devices a job that takes this would have, in order; `None` if it does not fit. Of those that are `kept` only what
    /// is left beside.
    ///
    /// A share goes where the fewest jobs are, spread before stacked, and there where it leaves the least.
    pub(crate) fn choose(&self, count: u32, need: Need, kept: Option<&Kept>) -> Option<Vec<u32>> {
        let mut fitting: Vec<(u64, u64, u32)> = self
            .iter()
            .filter(|(at, device)| self.fits_on(*at, device, need, kept))
            .map(|(at, device)| match need {
                Need::Share(amount) => (u64::from(device.jobs), device.free() - amount, at),
                Need::Whole(Prefer::Small) => (0, device.capacity, at),
                Need::Whole(Prefer::Large) => (0, u64::MAX - device.capacity, at),
            })
            .collect();
        let count = count as usize;
        if fitting.len() < count || count == 0 {
            return None;
        }
        fitting.select_nth_unstable(count - 1);
        let mut devices: Vec<u32> = fitting[..count].iter().map(|(.., at)| *at).collect();
        devices.sort_unstable();
        Some(devices)
    }

    /// Whether `choose` finds any.
    pub(crate) fn fits(&self, count: u32, need: Need, kept: Option<&Kept>) -> bool {
        let mut fitting = self.iter().filter(|(at, device)| self.fits_on(*at, device, need, kept));
        fitting.nth((count as usize).saturating_sub(1)).is_some()
    }

    fn fits_on(&self, at: u32, device: &Device, need: Need, kept: Option<&Kept>) -> bool {
        device.status == Status::Usable
            && device.suffices(need)
            && device.deficit(need, self.places) == 0
            && kept
                .and_then(|kept| kept.0.iter().find(|(kept, _)| *kept == at))
                .is_none_or(|(_, room)| matches!(need, Need::Share(amount) if amount <= *room))
    }

    /// Of the devices large enough for a job that takes this and does not fit: those where the least must come free.
    pub(crate) fn nearest(&self, count: u32, need: Need) -> Vec<u32> {
        let eligible =
            |(_, device): &(u32, &Device)| device.status == Status::Usable && device.suffices(need);
        let mut devices: Vec<(u64, u32)> = self
            .iter()
            .filter(eligible)
            .map(|(at, device)| (device.deficit(need, self.places), at))
            .collect();
        devices.sort_unstable();
        devices.into_iter().take(count as usize).map(|(_, at)| at).collect()
    }

    /// Whether keeping these keeps anything from anyone.
    pub(crate) fn keeps_anything(&self, kept: &Kept) -> bool {
        kept.0.iter().any(|(at, _)| self.all[*at as usize].free() > 0)
    }

    /// Usable devices on which a job that needs this fits now.
    pub(crate) fn open(&self, need: Need) -> u32 {
        let open = self.iter().filter(|(at, device)| self.fits_on(*at, device, need, None)).count();
        u32::try_from(open).unwrap_or(u32::MAX)
    }

    /// Whether a job that takes this can run at some time, as far as is known now.
    pub(crate) fn can_ever_fit(&self, count: u32, need: Need) -> bool {
        !self.diminished || self.left(need) >= count
    }

    /// Devices that are not lost and large enough.
    pub(crate) fn left(&self, need: Need) -> u32 {
        let left = |device: &&Device| !matches!(device.status, Status::Lost(_)) && device.suffices(need);
        u32::try_from(self.all.iter().filter(left).count()).unwrap_or(u32::MAX)
    }

    /// The most that a job could book of each of so many devices.
    pub(crate) fn largest(&self, count: u32) -> u64 {
        let left = self.all.iter().filter(|device| !matches!(device.status, Status::Lost(_)));
        let mut capacities: Vec<u64> = left.map(|device| device.capacity).collect();
        capacities.sort_unstable_by_key(|capacity| Reverse(*capacity));
        capacities.get((count as usize).saturating_sub(1)).or(capacities.last()).copied().unwrap_or(0)
    }

    /// How many jobs that take this run at once on all devices together.
    pub(crate) fn places_for(&self, count: u32, need: Need) -> u32 {
        let on = |device: &Device| match need {
            Need::Share(amount) => {
                u32::try_from(device.capacity / amount.max(1)).unwrap_or(u32::MAX).min(self.places)
            }
            Need::Whole(_) => 1,
        };
        let left = self.all.iter().filter(|device| !matches!(device.status, Status::Lost(_)));
        left.map(on).fold(0_u32, u32::saturating_add) / count.max(1)
    }

    /// Books a place.
    pub(crate) fn enter(&mut self, at: u32, need: Need) {
        let device = &mut self.all[at as usize];
        device.used = device.used.saturating_add(device.amount(need));
        device.jobs += 1;
        device.whole |= matches!(need, Need::Whole(_));
    }

    /// Gives it back.
    pub(crate) fn leave(&mut self, at: u32, need: Need) {
        let device = &mut self.all[at as usize];
        device.used = device.used.saturating_sub(device.amount(need));
        device.jobs -= 1;
        device.whole &= !matches!(need, Need::Whole(_));
    }

    /// Every device is away at first.
    pub(crate) fn send_away(&mut self) {
        for device in &mut self.all {
            device.status = Status::Away;
        }
    }

    pub(crate) fn set_status(&mut self, at: u32, status: Status) {
        self.diminished |= matches!(status, Status::Lost(_));
        self.all[at as usize].status = status;
    }

    /// What of a device that was away can be had now.
    pub(crate) fn set_usable(&mut self, at: u32, usable: Bytes) {
        let device = &mut self.all[at as usize];
        if self.by_memory && device.jobs == 0 {
            self.diminished |= usable.0 < device.capacity;
            device.capacity = usable.0;
        }
    }
}
