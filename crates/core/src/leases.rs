//! GPUs that come and go. What could be used is wanted, what cannot be used is given back, and when nothing can be had that is
//! said.

use gpulane_model::{Event, GpuIndex};

use crate::Effect;
use crate::devices::{Device, Status};
use crate::state::{Core, Hold};

/// That GPUs are leased.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    /// What was said last.
    want: u32,
    /// An older run waits: what is idle is released in this step, come what may.
    pub(crate) gives_way: bool,
}

/// Whether GPUs can be had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scarcity {
    /// Why none can be had now.
    pub(crate) because: Option<String>,
    /// What of that was recorded and still stands.
    said: Option<String>,
}

impl Scarcity {
    /// Whether that was recorded and still stands.
    pub(crate) fn is_said(&self) -> bool {
        self.said.is_some()
    }
}

impl Core {
    /// Whether this GPU, which is not ours, would be put to use. Where GPUs differ, one that is too small for all that is
    /// ready would come back at once: whoever answers [`Effect::Want`] asks this first.
    pub fn could_use(&self, gpu: GpuIndex) -> bool {
        let device = self.lanes.devices.get(gpu.0).filter(|device| device.status == Status::Away);
        device.is_some_and(|device| self.may_start() && self.is_useful(device))
    }

    /// Gives back what no job that is ready can use, and says how much more could be used.
    pub(crate) fn settle_leases(&mut self) {
        let Some(leases) = &mut self.leases else { return };
        let gives_way = std::mem::take(&mut leases.gives_way);
        let idle: Vec<u32> = self.idle(gives_way).collect();
        for device in idle {
            self.lanes.devices.set_status(device, Status::Away);
            self.later.push(Effect::Release { gpu: GpuIndex(device) });
        }
        self.tell_want();
    }

    /// Devices to give back.
    fn idle(&self, gives_way: bool) -> impl Iterator<Item = u32> {
        // While starts are held for a moment, what is ready still needs them.
        let all = gives_way || self.interrupt.is_some();
        let held = !self.may_start();
        let idle = self.lanes.devices.iter();
        let idle = idle.filter(|(_, device)| device.status == Status::Usable && device.jobs == 0);
        idle.filter(move |(_, device)| all || (!held && !self.is_useful(device))).map(|(at, _)| at)
    }

    /// Whether a job that is ready could run on the device, with others like it if it needs several.
    fn is_useful(&self, device: &Device) -> bool {
        let devices = &self.lanes.devices;
        let mut classes = self.line.classes();
        classes.any(|(count, need)| device.suffices(need) && devices.can_ever_fit(count, need))
    }

    fn tell_want(&mut self) {
        if let Hold::Probing { .. } = self.hold
            && self.interrupt.is_none()
        {
            // For a moment nothing else starts; that is no reason to lose our place among those who wait.
            return;
        }
        let away = |(_, device): &(u32, &Device)| device.status == Status::Away && self.is_useful(device);
        let want = if self.may_start() && self.wanted > 0 {
            let away = self.lanes.devices.iter().filter(away).count();
            u32::try_from(self.wanted).unwrap_or(u32::MAX).min(u32::try_from(away).unwrap_or(u32::MAX))
        } else {
            0
        };
        let Some(leases) = self.leases.as_mut().filter(|leases| leases.want != want) else { return };
        leases.want = want;
        self.later.push(Effect::Want { gpus: want });
    }

    /// Says once why nothing starts, if nothing runs and a job is ready that needs a GPU.
    pub(crate) fn tell_scarcity(&mut self) {
        let Some(because) = &self.scarcity.because else { return };
        let waits = self.active == 0 && self.wanted > 0 && self.interrupt.is_none();
        if waits && self.hold == Hold::Free && self.scarcity.said.as_ref() != Some(because) {
            let because = because.clone();
            self.scarcity.said = Some(because.clone());
            self.record(Event::StartsHeld { because });
        }
    }

    /// GPUs can be had again, or this is no longer what holds starts.
    pub(crate) fn end_scarcity(&mut self) {
        self.scarcity.because = None;
        if self.scarcity.said.take().is_some() {
            self.record(Event::StartsReleased {});
        }
    }

    /// Something else holds starts from now on, and is recorded in place of this.
    pub(crate) fn supersede_scarcity(&mut self) {
        self.scarcity.said = None;
    }
}
