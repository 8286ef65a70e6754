//! What several looks go by: the driver's answer, asked for once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpulane_gpu::{DriverVersions, GpuReading, NoProbe, Probe, with_deadline};

use super::MachineOptions;

/// A healthy driver answers in well under a second, a cold one in a few.
const DEADLINE: Duration = Duration::from_secs(15);

/// What the driver said.
#[derive(Clone, Debug, Default)]
pub(super) struct Driver {
    pub(super) versions: DriverVersions,
    pub(super) readings: Vec<GpuReading>,
    /// GPUs that no job can be given, each with the reason: `GPU 1 is lost: …`.
    pub(super) unusable: Vec<String>,
    /// How long it took to answer.
    pub(super) took: Duration,
}

/// The machine as the looks see it.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) driver: Result<Driver, NoProbe>,
    pub(super) runs: PathBuf,
}

impl Sight {
    pub(super) fn take(options: &MachineOptions) -> Self {
        let begun = Instant::now();
        let ask = |probe: &Probe| (probe.versions(), probe.readings(), probe.unusable());
        let driver = with_deadline(DEADLINE, ask).map(|(versions, readings, unusable)| Driver {
            versions,
            readings,
            unusable,
            took: begun.elapsed(),
        });
        Self { driver, runs: options.runs.clone() }
    }

    /// The GPUs and slices that were seen; none without a driver.
    pub(super) fn readings(&self) -> &[GpuReading] {
        self.driver.as_ref().map_or(&[], |driver| &driver.readings)
    }

    /// Whole GPUs, slices left out.
    pub(super) fn gpus(&self) -> impl Iterator<Item = &GpuReading> {
        self.readings().iter().filter(|reading| reading.slice_of.is_none())
    }
}
