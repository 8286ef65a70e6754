//! What a person who looks for trouble wants to know of the driver itself.

use nvml_wrapper::{cuda_driver_version_major, cuda_driver_version_minor};

use crate::probe::Probe;

/// Versions of the driver; `None`: it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverVersions {
    /// Such as `570.86.15`.
    pub driver: Option<String>,
    /// The newest CUDA it can run: major, minor.
    pub cuda: Option<(u32, u32)>,
}

impl Probe {
    /// Versions of the driver.
    pub fn versions(&self) -> DriverVersions {
        let cuda = self.nvml().sys_cuda_driver_version().ok();
        let part = |number: i32| u32::try_from(number).unwrap_or(0);
        DriverVersions {
            driver: self.nvml().sys_driver_version().ok(),
            cuda: cuda.map(|it| (part(cuda_driver_version_major(it)), part(cuda_driver_version_minor(it)))),
        }
    }

    /// GPUs that no job can be given, each with the reason: `GPU 1 is lost: …`.
    pub fn unusable(&self) -> Vec<String> {
        match self.numbered() {
            Ok(census) => census.missing,
            // Where none can be used, that is said in one.
            Err(why) => vec![why],
        }
    }
}
