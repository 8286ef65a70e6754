//! Processes that outlive KILL. Nothing waits for them; the GPUs they may hold are not used again.

use gpulane_model::{Event, GpuIndex, JobId};

use crate::Remains;
use crate::devices::Status;
use crate::state::Core;

/// What a person can do about such a process.
const ADVICE: &str = "See `dmesg` and the process's state in /proc; as long as it is there nothing but a restart of the machine frees the GPU";

impl Core {
    /// Tells of what is left of a job and takes its GPUs out of use; whether it had any. Those beside it go on.
    pub(crate) fn on_remains(&mut self, job: JobId, remains: &Remains) -> bool {
        let name = self.plan.job_name(job);
        let (pids, because) = (remains.pids.clone(), remains.because.clone());
        self.record(Event::ProcessesStuck { job: name.clone(), pids, because });
        let lane = self.lanes.booking(job).map(|booking| booking.lane);
        let lanes = lane.into_iter().flat_map(|lane| self.lanes.chain(lane));
        let gpus: Vec<GpuIndex> = lanes.filter_map(|lane| self.machine.gpu_of(lane)).collect();
        let why = format!(
            "holds {} of {name}, which outlived SIGKILL ({})",
            processes(&remains.pids),
            remains.because
        );
        for gpu in &gpus {
            self.retire(*gpu, &why);
        }
        !gpus.is_empty()
    }

    fn retire(&mut self, gpu: GpuIndex, why: &str) {
        let status = self.lanes.devices.get(gpu.0).map(|device| &device.status);
        if status.is_some_and(|status| !matches!(status, Status::Lost(_))) {
            self.lanes.devices.set_status(gpu.0, Status::Lost(why.to_owned()));
            let gpu = self.uuid(gpu);
            self.record(Event::GpuQuarantined { gpu, why: format!("{why}. {ADVICE}") });
        }
    }
}

fn processes(pids: &[u32]) -> String {
    match pids {
        [] => "a process".to_owned(),
        [pid] => format!("process {pid}"),
        pids => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("processes {}", pids.join(", "))
        }
    }
}
