//! GPUs that are granted, held, clear again or lost.

use gpulane_model::{Bytes, Event, GpuIndex, JobId};

use crate::demand::{Demand, Need};
use crate::devices::Status;
use crate::job::Ending;
use crate::line::QueueId;
use crate::state::Core;

/// What a person can do about a GPU that has failed.
const ADVICE: &str = "See `nvidia-smi` and `dmesg | grep -i xid`; it needs a reset (nvidia-smi --gpu-reset) or the machine a restart";

impl Core {
    pub(crate) fn on_gpu_granted(&mut self, gpu: GpuIndex, usable: Bytes) {
        if self.status_of(gpu) == Some(&Status::Away) {
            self.lanes.devices.set_usable(gpu.0, usable);
            self.lanes.devices.set_status(gpu.0, Status::Usable);
            self.relax_measured();
            self.end_scarcity();
        }
    }

    pub(crate) fn on_give_way(&mut self) {
        if let Some(leases) = &mut self.leases {
            leases.gives_way = true;
        }
    }

    pub(crate) fn on_gpus_awaited(&mut self, because: Option<String>) {
        match because {
            Some(because) => self.scarcity.because = Some(because),
            None => self.end_scarcity(),
        }
    }

    pub(crate) fn on_gpu_held(&mut self, gpu: GpuIndex, pids: Vec<u32>, bytes: Bytes, because: String) {
        let news = match self.status_of(gpu) {
            Some(Status::Usable) => true,
            Some(Status::Held(before)) => *before != because,
            _ => false,
        };
        if news {
            self.lanes.devices.set_status(gpu.0, Status::Held(because.clone()));
            let gpu = self.uuid(gpu);
            self.record(Event::VramHeld { gpu, pids, bytes: bytes.0, because });
        }
    }

    pub(crate) fn on_gpu_clear(&mut self, gpu: GpuIndex) {
        if let Some(Status::Held(_)) = self.status_of(gpu) {
            self.lanes.devices.set_status(gpu.0, Status::Usable);
            let gpu = self.uuid(gpu);
            self.record(Event::VramBack { gpu });
        }
    }

    /// Never again in this run; what is on it is ended and done again elsewhere.
    pub(crate) fn on_gpu_lost(&mut self, gpu: GpuIndex, why: &str) {
        if matches!(self.status_of(gpu), None | Some(Status::Lost(_))) {
            return;
        }
        self.lanes.devices.set_status(gpu.0, Status::Lost(why.to_owned()));
        let uuid = self.uuid(gpu);
        self.record(Event::GpuQuarantined { gpu: uuid, why: format!("{why}. {ADVICE}") });
        let jobs: Vec<JobId> = self.lanes.jobs_on(gpu.0).collect();
        for job in jobs {
            self.restart(job);
        }
    }

    /// Ends the job at once, to be done again: what it needs is gone.
    pub(crate) fn restart(&mut self, job: JobId) {
        self.end_for(job, Ending::Lost);
    }

    /// Why one of the job's GPUs is lost, if one is.
    pub(crate) fn lost_under(&self, job: JobId) -> Option<String> {
        let lane = self.lanes.booking(job)?.lane;
        self.lanes.devices_of(lane).find_map(|device| match &self.lanes.devices.get(device)?.status {
            Status::Lost(why) => Some(format!("GPU {device} {why}")),
            _ => None,
        })
    }

    /// Why no job that is ready can ever run, with what was lost.
    pub(crate) fn out_of_gpus_because(&self) -> String {
        let first = self.line.first_for_devices(|_, _| true);
        let needs = first.map(|queue| self.no_gpu_because(queue)).unwrap_or_default();
        let lost = self.lanes.devices.iter().filter_map(|(at, device)| match &device.status {
            Status::Lost(why) => Some(format!("; GPU {at} {why}")),
            _ => None,
        });
        needs + &lost.collect::<String>()
    }

    /// What jobs of this queue need, and what is left.
    pub(crate) fn no_gpu_because(&self, queue: QueueId) -> String {
        let name = &self.plan.stage(queue.stage).name;
        let Demand::Devices { count, need } = self.demand_of(queue) else { return String::new() };
        let counted = |count: u32| format!("{count} GPU{}", if count == 1 { "" } else { "s" });
        let asked = match need {
            Need::Share(bytes) if self.machine.packing => {
                format!("{} with {}", counted(count), Bytes(bytes))
            }
            _ => counted(count),
        };
        let devices = &self.lanes.devices;
        let left = match devices.left(Need::Share(0)) {
            0 => "none is left".to_owned(),
            left if self.machine.packing => {
                format!("{left} left, at most {} each", Bytes(devices.largest(1)))
            }
            left => format!("{left} left"),
        };
        format!("a job of stage `{name}` needs {asked}, {left}")
    }

    /// The GPU's status; `None` if there is no such GPU.
    fn status_of(&self, gpu: GpuIndex) -> Option<&Status> {
        self.machine.gpus.get(gpu.index())?;
        Some(&self.lanes.devices.get(gpu.0)?.status)
    }

    pub(crate) fn uuid(&self, gpu: GpuIndex) -> String {
        self.machine.gpus.get(gpu.index()).map(|gpu| gpu.uuid.clone()).unwrap_or_default()
    }
}
